//! Bytes of a stranger on a connection, from the head of its first request to frames before AUTH: nothing panics, nothing is answered
//! with OK, the connection ends, and the hub holds no more memory for it than it should.
#![no_main]

use hub_server::net::fuzzing::Strangers;
use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// What one connection may hold at any time: a head of 48 KiB, or a frame of 32 KiB with what is read of it as JSON, and answers; and
/// what this target itself needs.
const CONNECTION_BYTES: isize = 192 << 10;
/// What may be left when a connection has ended: caches and buffers that are used again.
const LEFT_BYTES: isize = 64 << 10;

thread_local! {
    static STRANGERS: Strangers = Strangers::new();
}

fuzz_target!(|data: &[u8]| {
    STRANGERS.with(|strangers| {
        let before = HELD.load(Relaxed);
        MOST.store(before, Relaxed);
        strangers.serve(data);
        let (most, after) = (MOST.load(Relaxed) - before, HELD.load(Relaxed) - before);
        assert!(most <= CONNECTION_BYTES, "{most} bytes were held for one connection");
        assert!(after <= LEFT_BYTES, "{after} bytes are held after the connection has ended");
    });
});

/// Bytes that are allocated, and the most that there were.
static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

impl Counting {
    fn add(bytes: usize) {
        let held = HELD.fetch_add(bytes as isize, Relaxed) + bytes as isize;
        MOST.fetch_max(held, Relaxed);
    }
}

// SAFETY: every call is passed on as it is to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
