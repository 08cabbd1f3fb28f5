//! What the task sends when it comes to it: acks that nobody waits for, and the goodbyes of subscriptions that were dropped.
//!
//! Both are said from where nobody can wait, so they do not go through the queue of commands. Acks that come together go
//! in one frame: one ACK for each subscription and attempt, however many there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use futures_util::task::AtomicWaker;
use hub_proto::EventId;
use parking_lot::Mutex;

use super::queue::Queue;
use crate::{Error, ErrorKind, Name, Result};

/// Acks that wait to be sent. A hub delivers no more than a window without acks, so this is only reached by who acks what
/// was not delivered, or has windows beyond all measure.
const ACKS: usize = 100_000;

#[derive(Default)]
pub(super) struct Later {
    waiting: Mutex<Waiting>,
    /// Whether there is anything: the task looks before every command.
    any: AtomicBool,
    /// Of the task.
    pub waker: AtomicWaker,
}

#[derive(Default)]
struct Waiting {
    acks: Acks,
    count: usize,
    goodbyes: Vec<Goodbye>,
}

/// A subscription that nobody reads any more.
pub(super) struct Goodbye {
    pub queue: Arc<Queue>,
    /// Whether the hub has to be told.
    pub aloud: bool,
}

/// Ids by subscription and attempt.
pub(super) type Acks = HashMap<(Arc<Name>, Option<u32>), Vec<EventId>>;

impl Later {
    /// Acks an event in a moment.
    pub fn ack(&self, name: &Arc<Name>, ids: &[EventId], attempt: Option<u32>) -> Result<()> {
        let mut waiting = self.waiting.lock();
        if waiting.count + ids.len() > ACKS {
            let text = format!("{ACKS} acks wait to be sent; the hub does not take them");
            return Err(Error::new(ErrorKind::Busy, text));
        }
        waiting.count += ids.len();
        waiting.acks.entry((name.clone(), attempt)).or_default().extend_from_slice(ids);
        self.any.store(true, Release);
        drop(waiting);
        self.waker.wake();
        Ok(())
    }

    /// Says goodbye to a subscription.
    pub fn leave(&self, goodbye: Goodbye) {
        let mut waiting = self.waiting.lock();
        waiting.goodbyes.push(goodbye);
        self.any.store(true, Release);
        drop(waiting);
        self.waker.wake();
    }

    /// Everything that has come together.
    pub fn take(&self) -> (Acks, Vec<Goodbye>) {
        if !self.any.load(Acquire) {
            return Default::default();
        }
        let mut waiting = self.waiting.lock();
        waiting.count = 0;
        self.any.store(false, Release);
        (std::mem::take(&mut waiting.acks), std::mem::take(&mut waiting.goodbyes))
    }
}
