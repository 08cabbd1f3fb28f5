//! The committer as a thread that waits for each commit, while events keep coming.
//!
//! What was published meanwhile is the next commit. If most of those who wait for one wait for one event each, in this
//! process, they hear of it when the disk has begun with the next: to tell them takes about as long as the disk takes to
//! write, and what they publish then is there long before it is done. So nobody has to be woken on the way but those who
//! publish, and the disk does not wait for them.
//!
//! Who sends several together is a connection, as a rule: its answers are still to be written, read at the other end and
//! followed by what that sends next. That takes longer than the disk, and what it takes longer makes the next commits smaller.
//! So if most are such, they are told at once.

use super::{Aboard, Committer, Crowd, Left, Target};
use crate::store::{CommitHere, Committed};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the thread waits for something to commit before the task has its turn again.
const PATIENCE: Duration = Duration::from_millis(1);

/// Those who wait for a batch this large hear of the last one before it is written: that takes a while.
const LARGE_BYTES: usize = 256 << 10;

/// The thread. Dropping it waits for the end of its turn, and of the thread.
pub(crate) struct Thread {
    /// `None` when there are no more turns.
    turns: Option<mpsc::Sender<oneshot::Sender<Left>>>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts it; `run` is called for each of its turns.
    pub fn start(mut run: impl FnMut() -> Left + Send + 'static) -> io::Result<Self> {
        let (turns, its) = mpsc::channel::<oneshot::Sender<Left>>();
        let run = move || {
            for tell in its {
                // Who gave it the turn may be gone, with the runtime.
                let _ = tell.send(run());
            }
        };
        let handle = std::thread::Builder::new().name("hub-committer".into()).spawn(run)?;
        Ok(Self { turns: Some(turns), handle: Some(handle) })
    }

    /// Waits for the end of the thread; the panic that ended it, if one did.
    pub fn join(mut self) -> Option<Box<dyn Any + Send>> {
        self.turns = None;
        self.handle.take()?.join().err()
    }

    /// Gives it the turn, until it comes back; `None` if it has panicked.
    pub async fn turn(&self) -> Option<Left> {
        let (tell, left) = oneshot::channel();
        self.turns.as_ref()?.send(tell).ok()?;
        left.await.ok()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.turns = None;
        if let Some(handle) = self.handle.take() {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}

impl Committer {
    /// Commits until the queue is closed and empty, or until a task should go on: see [`Committer::run`].
    pub fn run_here(&self, target: &Target) -> Left {
        let Some(store) = target.store.here() else { return Left::Crowd };
        self.is_here.store(true, SeqCst);
        let left = self.commit_here(target, store);
        // Whoever wakes this thread in vain has put something in line before, and that is where the task looks first.
        self.is_here.store(false, SeqCst);
        left
    }

    fn commit_here(&self, target: &Target, store: &dyn CommitHere) -> Left {
        let (mut crowd, mut waits, mut on_disk) = (Crowd(Crowd::ALWAYS), true, true);
        let mut before: Option<(Aboard, Committed)> = None;
        let tell = |before: &mut Option<(Aboard, Committed)>| {
            if let Some((aboard, committed)) = before.take() {
                self.land(aboard, committed, target);
            }
        };
        while !crowd.is_gone() {
            let (batch, closed) = self.next(target);
            let Some(batch) = batch else {
                waits = false;
                if before.is_some() {
                    tell(&mut before);
                } else if closed {
                    return Left::Closed;
                } else if self.is_idle() {
                    break;
                }
                continue;
            };
            let waiting = if std::mem::replace(&mut waits, true) { batch.len() } else { 0 };
            crowd.add(waiting, on_disk);
            let later = batch.is_of_singles();
            let large = batch.bytes() >= LARGE_BYTES;
            let (commit, mut aboard) = self.board(batch, target);
            if self.idle.swap(false, SeqCst) {
                self.began.notify_one();
            }
            let mut told = Ok(());
            if large {
                tell(&mut before);
            }
            let committed = store.commit_here(commit, &mut || {
                // The store is not to break off because of something that is none of its business.
                told = catch_unwind(AssertUnwindSafe(|| tell(&mut before)));
            });
            aboard.complete(target);
            if let Err(panic) = told {
                resume_unwind(panic);
            }
            // If the store had no time for it.
            tell(&mut before);
            on_disk = committed.is_on_disk();
            if on_disk && later {
                before = Some((aboard, committed));
            } else {
                self.land(aboard, committed, target);
            }
        }
        tell(&mut before);
        Left::Crowd
    }

    /// Waits for something to commit; whether there was nothing.
    fn is_idle(&self) -> bool {
        let mut queue = self.queue.lock();
        let waits = queue.is_empty() && !queue.closed;
        waits && self.ready.wait_for(&mut queue, PATIENCE).timed_out() && queue.is_empty()
    }
}
