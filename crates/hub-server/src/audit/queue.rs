//! Lines that wait to be written: how many there may be, and of what is dropped.

use super::entry::write_suppressed;
use crate::limits::gcra::{self, FullAt};
use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use std::io::Write;
use std::time::{Duration, Instant};

/// Lines of each class that wait. A line has about 2 KiB at most, more only if it is full of characters that JSON escapes.
pub(super) const QUEUED_LINES: usize = 1024;
/// So long dropped lines are counted before a line tells of them.
const SUPPRESSED_INTERVAL: Duration = Duration::from_secs(1);

/// Where lines go.
pub(super) type Sink = Box<dyn Write + Send>;

/// What has limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// What strangers can cause.
    Refusal,
    /// What only administrators can.
    Admin,
}

/// See the module.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    started: Instant,
    /// Lines that were written.
    pub written: Counter,
    /// Lines that were not, for whatever reason.
    pub dropped: Counter,
}

struct State {
    /// Lines per second of each class.
    rate: u32,
    /// The buckets of the classes.
    full_at: [FullAt; 2],
    /// Lines, one behind the other.
    text: Vec<u8>,
    /// How many of each class.
    queued: [usize; 2],
    /// Lines that were dropped and not told of.
    suppressed: u64,
    /// When they are told of.
    tell_at: Option<Instant>,
    /// The sink to go on with.
    next_sink: Option<Sink>,
    /// Nothing more is taken.
    closing: bool,
    /// The writer has ended.
    ended: bool,
}

/// What the writer does next.
pub(super) struct Work {
    pub sink: Option<Sink>,
    pub text: Vec<u8>,
    /// It is the last.
    pub is_last: bool,
}

impl Queue {
    pub fn new(rate: u32) -> Self {
        let state = State {
            rate,
            full_at: [0; 2],
            text: Vec::new(),
            queued: [0; 2],
            suppressed: 0,
            tell_at: None,
            next_sink: None,
            closing: false,
            ended: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            started: Instant::now(),
            written: Counter::default(),
            dropped: Counter::default(),
        }
    }

    pub fn set_rate(&self, rate: u32) {
        self.state.lock().rate = rate;
    }

    pub fn replace_sink(&self, sink: Sink) {
        self.state.lock().next_sink = Some(sink);
        self.changed.notify_all();
    }

    /// Takes a line, which `write` appends, or drops and counts it. A line that is dropped is not even put together.
    pub fn offer(&self, class: Class, write: impl FnOnce(&mut Vec<u8>)) {
        self.offer_at(self.started.elapsed().as_nanos() as u64, class, write);
    }

    pub(super) fn offer_at(&self, now: u64, class: Class, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        let (rate, at) = (state.rate, class as usize);
        let taken = gcra::after(state.full_at[at], now, rate, 1).ok();
        let taken = taken.filter(|_| state.queued[at] < QUEUED_LINES && !state.closing);
        match taken {
            Some(full_at) => {
                state.full_at[at] = full_at;
                state.queued[at] += 1;
                write(&mut state.text);
                self.changed.notify_all();
            }
            None => {
                self.dropped.inc();
                state.suppressed += 1;
                if state.tell_at.is_none() {
                    state.tell_at = Some(Instant::now() + SUPPRESSED_INTERVAL);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Waits until there is something to do.
    pub fn next(&self) -> Work {
        let mut state = self.state.lock();
        loop {
            let is_due = state.closing || state.tell_at.is_some_and(|at| Instant::now() >= at);
            if is_due && state.suppressed > 0 {
                let count = std::mem::take(&mut state.suppressed);
                state.tell_at = None;
                write_suppressed(count, &mut state.text);
            }
            if !state.text.is_empty() || state.next_sink.is_some() || state.closing {
                state.queued = [0; 2];
                let (text, sink) = (std::mem::take(&mut state.text), state.next_sink.take());
                return Work { sink, text, is_last: state.closing };
            }
            match state.tell_at {
                Some(at) => drop(self.changed.wait_until(&mut state, at)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// The writer has written its last.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Takes nothing more, and waits until the writer has ended; answers whether it has.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        state.closing = true;
        self.changed.notify_all();
        while !state.ended {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.ended
    }
}
