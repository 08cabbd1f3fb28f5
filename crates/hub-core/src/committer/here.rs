//! The committer as a thread that waits for each commit, while events keep coming.
//!
//! What was published meanwhile is the next commit. Those who wait for one hear of it when the disk has begun with the next:
//! to tell them takes about as long as the disk takes to write. So nobody has to be woken on the way but those who
//! publish, and the disk does not wait for them.

use super::{Aboard, Committer, Crowd, Left, Target};
use crate::store::{CommitHere, Committed};
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the thread waits for something to commit before the task has its turn again.
const PATIENCE: Duration = Duration::from_millis(1);

/// The thread. It ends with this.
pub(crate) struct Thread(mpsc::Sender<oneshot::Sender<Left>>);

impl Thread {
    /// Starts it; `run` is called for each of its turns.
    pub fn start(mut run: impl FnMut() -> Left + Send + 'static) -> io::Result<Self> {
        let (turns, its) = mpsc::channel::<oneshot::Sender<Left>>();
        let turns = Self(turns);
        let run = move || {
            for tell in its {
                // Who gave it the turn may be gone, with the runtime.
                let _ = tell.send(run());
            }
        };
        std::thread::Builder::new().name("hub-committer".into()).spawn(run)?;
        Ok(turns)
    }

    /// Gives it the turn, until it comes back; `None` if it has panicked.
    pub async fn turn(&self) -> Option<Left> {
        let (tell, left) = oneshot::channel();
        self.0.send(tell).ok()?;
        left.await.ok()
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
        let (mut crowd, mut waits) = (Crowd(Crowd::ALWAYS), true);
        let mut before: Option<(Aboard, Committed)> = None;
        let tell = |before: &mut Option<(Aboard, Committed)>| {
            if let Some((aboard, committed)) = before.take() {
                self.land(aboard, committed, target);
            }
        };
        while !crowd.is_gone() {
            let (batch, closed) = self.gather(target.clock.wall());
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
            let waiting = if std::mem::replace(&mut waits, true) { batch.answers.len() } else { 0 };
            crowd.add(waiting, before.is_some());
            let (commit, aboard) = self.board(batch, target);
            if self.idle.swap(false, SeqCst) {
                self.began.notify_one();
            }
            let committed = store.commit_here(commit, &mut || tell(&mut before));
            // If the store had no time for it.
            tell(&mut before);
            if committed.is_on_disk() {
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
        let waits = queue.items.is_empty() && !queue.closed;
        waits && self.ready.wait_for(&mut queue, PATIENCE).timed_out() && queue.items.is_empty()
    }
}
