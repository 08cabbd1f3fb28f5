//! A waker that remembers. What seldom happens is asked about when it has rung, not in every round.

use futures_util::task::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::task::{Context, Wake, Waker};

/// See the module. It rings at first, so that everything is asked about once.
pub(super) struct Alarm {
    bell: Arc<Bell>,
}

struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { bell: Arc::new(Bell { rung: AtomicBool::new(true), listener: AtomicWaker::new() }) }
    }
}

impl Alarm {
    /// Whether it has rung since it was asked last; else whoever asks is woken when it does.
    pub fn is_ringing(&self, context: &Context<'_>) -> bool {
        self.bell.listener.register(context.waker());
        self.bell.rung.swap(false, AcqRel)
    }

    /// Rings.
    pub fn ring(&self) {
        self.bell.wake_by_ref();
    }

    /// What rings it.
    pub fn waker(&self) -> Waker {
        self.bell.clone().into()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, AcqRel) {
            self.listener.wake();
        }
    }
}
