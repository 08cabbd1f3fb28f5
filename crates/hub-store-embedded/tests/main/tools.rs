//! Chance, and futures that are ready.

use hub_core::store::ReadLimit;
use std::future::Future;
use std::ops::{AddAssign, Range};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

/// The answer of a store that does everything within the call.
pub fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store without threads has nothing to wait for"),
    }
}

/// A read of so many events.
pub fn page(events: usize) -> ReadLimit {
    ReadLimit { events, bytes: usize::MAX }
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}; it must be a number"))
    })
}

/// splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Runs numbered cases on all cores and adds up what they answer; the first that fails is told.
pub fn in_parallel<T: Default + AddAssign + Send>(
    cases: Range<u64>,
    run: impl Fn(u64) -> Result<T, String> + Sync,
) -> T {
    let (next, failed) = (AtomicU64::new(cases.start), AtomicBool::new(false));
    let (total, broken) = (Mutex::new(T::default()), Mutex::new(None));
    let work = || {
        while !failed.load(Relaxed) {
            let case = next.fetch_add(1, Relaxed);
            if case >= cases.end {
                return;
            }
            match run(case) {
                Ok(tally) => *total.lock().unwrap() += tally,
                Err(what) => {
                    failed.store(true, Relaxed);
                    broken.lock().unwrap().get_or_insert(format!("case {case}: {what}"));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    if let Some(what) = broken.into_inner().unwrap() {
        panic!("{what}");
    }
    total.into_inner().unwrap()
}
