//! A short time slice, for threads that others wait for and for those that are in the way of others.
//!
//! A thread that asks for less time at once is given it sooner when it wakes up, and gives it back sooner: Linux from 6.12
//! on.

use std::cell::Cell;

/// Asks for a short slice for the calling thread. Its policy and its nice value stay as they are.
#[cfg(target_os = "linux")]
pub fn shorten() {
    if let Some(mut attributes) = linux::get()
        && attributes.sched_policy == libc::SCHED_OTHER as u32
    {
        attributes.sched_runtime = linux::SLICE_NANOS;
        linux::set(&attributes);
    }
}

/// Asks for a short slice for the calling thread, where there is a way to.
#[cfg(not(target_os = "linux"))]
pub fn shorten() {}

/// The same, for a thread that may have asked before.
pub fn shorten_once() {
    thread_local!(static ASKED: Cell<bool> = const { Cell::new(false) });
    if !ASKED.replace(true) {
        shorten();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use libc::{SYS_sched_getattr, SYS_sched_setattr, sched_attr, syscall};

    /// The least that Linux gives.
    pub const SLICE_NANOS: u64 = 100_000;

    /// How the calling thread is scheduled.
    #[allow(unsafe_code)]
    pub fn get() -> Option<sched_attr> {
        let size = size_of::<sched_attr>() as u32;
        let mut attributes = sched_attr {
            size,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the kernel writes at most `size` bytes to a struct that is ours, has that size, and is made of
        // numbers only. The thread 0 is the calling one.
        let done = unsafe { syscall(SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        (done == 0).then_some(attributes)
    }

    /// Changes how the calling thread is scheduled.
    #[allow(unsafe_code)]
    pub fn set(attributes: &sched_attr) {
        // SAFETY: the kernel reads as many bytes as the struct's `size` says, which it has. The thread 0 is the
        // calling one.
        //
        // Older kernels ignore the slice, and a sandbox may refuse the call. Then answers come a little later when the
        // processors are busy, which is no reason not to go on.
        let _ = unsafe { syscall(SYS_sched_setattr, 0, &raw const *attributes, 0) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::process::{getpriority_process, setpriority_process};

    #[test]
    fn a_thread_stays_as_nice_as_it_was() {
        // In a thread of its own, as becoming nicer cannot be undone by everybody.
        let thread = std::thread::spawn(|| {
            setpriority_process(None, 7).expect("anybody may be nicer");
            let before = linux::get().expect("it can be asked for");
            shorten();
            let after = linux::get().expect("it can be asked for");
            assert_eq!(getpriority_process(None), Ok(7));
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, 7));
            // Not asked for, ignored or refused, else granted.
            assert!([0, before.sched_runtime, linux::SLICE_NANOS].contains(&after.sched_runtime));
        });
        thread.join().expect("no panic");
    }
}
