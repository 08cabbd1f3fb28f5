//! The way of a batch to the disk.
//!
//! A batch is planned on the thread that brings it, also while another one is being synced. Everything that was planned
//! meanwhile goes to the disk together: one write, one sync. Nothing is answered, and no reader sees it, before
//! the sync has come back; relaxed events are answered after the write.
//!
//! What needs more than memory to be planned (a full segment, a disk that failed, an id that has to be looked up on disk)
//! is put in line, and so is everything behind it, until a thread that may wait for the disk has planned it.

use crate::disk::Wait;
use crate::format::entry::Mark;
use crate::index::Item;
use crate::plan::{Batch, Chunk, LARGEST, New, Open, Refused, Reply, Touched};
use crate::reserve::is_disk_full;
use crate::segment::{Index, Segment};
use crate::shared::Shared;
use crate::writer::Writer;
use hub_core::store::{Committed, StoreError, StoreResult};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tokio::sync::oneshot;

/// At most so many bytes may be written by the thread that brings them, if nobody waits for a sync.
const HERE_BYTES: usize = 16 << 10;
/// A single event may be synced there, too, if the last sync took no longer than this. In microseconds.
const HERE_SYNC: u64 = 400;

/// See the module.
pub struct Pipeline {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Told when there is something to do.
    work: Condvar,
    /// Told when somebody has done something.
    done: Condvar,
    /// Microseconds that the last sync took that nothing was done before.
    pace: AtomicU64,
}

struct State {
    /// Away while something is planned that needs the disk.
    writer: Option<Box<Writer>>,
    /// What could not be planned at once.
    line: VecDeque<(Batch, Reply)>,
    /// Somebody writes, or plans with the disk.
    busy: bool,
    /// Nothing more is taken.
    stopped: bool,
}

impl State {
    fn has_work(&self) -> bool {
        !self.busy
            && (!self.line.is_empty()
                || self.writer.as_ref().is_some_and(|writer| !writer.open.chunks.is_empty()))
    }
}

/// What the thread that writes does while the disk is at it, until it is done.
type Meanwhile<'a> = Option<&'a mut dyn FnMut()>;

/// What the thread that brings a batch may do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// Nothing but to plan it.
    None,
    /// Write it and wait for the sync, if it is small and the disk is quick.
    Some,
    /// Whatever it takes.
    All,
}

impl Pipeline {
    /// A pipeline to the end of the log.
    pub fn new(shared: Arc<Shared>, writer: Writer) -> Self {
        let state =
            State { writer: Some(Box::new(writer)), line: VecDeque::new(), busy: false, stopped: false };
        let (work, done) = (Condvar::new(), Condvar::new());
        Self { shared, state: Mutex::new(state), work, done, pace: AtomicU64::new(u64::MAX) }
    }

    /// Takes a batch. Batches take effect in the order of these calls.
    pub fn submit(&self, batch: Batch, help: Help) -> oneshot::Receiver<StoreResult<Committed>> {
        self.submit_meanwhile(batch, help, &mut None)
    }

    fn submit_meanwhile(
        &self,
        batch: Batch,
        help: Help,
        meanwhile: &mut Meanwhile<'_>,
    ) -> oneshot::Receiver<StoreResult<Committed>> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state.lock();
        if state.stopped {
            let _ = reply.send(Err(self.closed()));
            return answer;
        }
        let in_line = !state.line.is_empty();
        let refused = match state.writer.as_mut() {
            Some(writer) if !in_line => match unbroken(|| writer.plan(batch, reply, Wait::No)) {
                Some(planned) => planned.err(),
                None => {
                    self.give_up(&mut state);
                    return answer;
                }
            },
            _ => Some(Refused::NotNow(Box::new(batch), reply)),
        };
        match refused {
            None => {}
            Some(Refused::NotNow(batch, reply)) => state.line.push_back((*batch, reply)),
            Some(Refused::Failed(error, reply)) => drop(reply.send(Err(self.failed(&error)))),
        }
        match help {
            Help::All => self.work_off(state, meanwhile, &answer),
            Help::Some if self.may_write(&state) => {
                state = self.step(state, meanwhile);
                if state.has_work() || state.stopped {
                    self.work.notify_one();
                }
            }
            Help::None | Help::Some => drop(self.work.notify_one()),
        }
        answer
    }

    /// As [`Pipeline::submit`], for a thread that may wait.
    pub fn commit(&self, batch: Batch, help: Help) -> StoreResult<Committed> {
        self.answered(self.submit(batch, help), help)
    }

    /// The same, with something to do while the disk is at it.
    pub fn commit_meanwhile(&self, batch: Batch, meanwhile: &mut dyn FnMut()) -> StoreResult<Committed> {
        let mut meanwhile: Meanwhile<'_> = Some(meanwhile);
        let answer = self.submit_meanwhile(batch, Help::All, &mut meanwhile);
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.answered(answer, Help::All)
    }

    fn answered(
        &self,
        mut answer: oneshot::Receiver<StoreResult<Committed>>,
        help: Help,
    ) -> StoreResult<Committed> {
        let answered = match help {
            Help::All => answer.try_recv().ok(),
            Help::None | Help::Some => answer.blocking_recv().ok(),
        };
        answered.unwrap_or_else(|| Err(self.closed()))
    }

    /// Does whatever it takes until there is an answer.
    fn work_off<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        meanwhile: &mut Meanwhile<'_>,
        answer: &oneshot::Receiver<StoreResult<Committed>>,
    ) {
        while answer.is_empty() {
            let at_once = state.has_work() && state.line.is_empty();
            if !at_once && let Some(meanwhile) = meanwhile.take() {
                // Another thread is at it, or another segment has to be begun: that may take a while.
                drop(state);
                meanwhile();
                state = self.state.lock();
            } else if state.has_work() {
                state = self.step(state, meanwhile);
            } else if state.busy {
                // Another thread is at it, and takes this one along.
                self.done.wait(&mut state);
            } else {
                // Given up.
                return;
            }
        }
        if state.has_work() {
            // Somebody else's: who waits for this one does not wait for that.
            self.work.notify_one();
            self.done.notify_all();
        }
    }

    /// Whether the thread that brought a batch may write it.
    fn may_write(&self, state: &State) -> bool {
        let Some(open) = state.writer.as_ref().map(|writer| &writer.open) else { return false };
        let [chunk] = &open.chunks[..] else { return false };
        let single = chunk.news.len() + chunk.recorded == 1;
        let quick = if chunk.sync {
            single && self.pace.load(Relaxed) <= HERE_SYNC
        } else {
            self.shared.tail().unsynced_bytes <= self.shared.options.unsynced_bytes
        };
        !state.busy && state.line.is_empty() && open.frames.len() <= HERE_BYTES && quick
    }

    /// The store's own thread.
    pub fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if state.has_work() {
                state = self.step(state, &mut None);
            } else if state.stopped && !state.busy {
                return;
            } else {
                self.work.wait(&mut state);
            }
        }
    }

    /// Takes nothing more. What was taken is done first, by [`Pipeline::run`].
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.work.notify_all();
    }

    /// Writes what is planned, or plans what is in line.
    fn step<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        meanwhile: &mut Meanwhile<'_>,
    ) -> MutexGuard<'a, State> {
        state.busy = true;
        let open = state.writer.as_mut().and_then(|writer| writer.take_open());
        if let Some(mut open) = open {
            drop(state);
            let Some(written) = unbroken(|| self.write(&mut open, meanwhile)) else {
                return self.broken();
            };
            let failed = written.as_ref().err().map(|error| self.failed(error));
            state = self.state.lock();
            let Some(writer) = state.writer.as_mut() else {
                // Given up meanwhile.
                return self.is_done(state);
            };
            match failed {
                None => writer.seen(&mut open),
                Some(_) => open.chunks.append(&mut writer.forget()),
            }
            drop(state);
            open.chunks.into_iter().for_each(|chunk| chunk.answer(failed.as_ref()));
            state = self.state.lock();
        } else if let Some((batch, reply)) = state.line.pop_front() {
            let mut writer = state.writer.take().expect("nobody else is busy");
            drop(state);
            let trial = batch.is_empty();
            let planned = unbroken(|| writer.plan(batch, reply, Wait::Yes));
            let Some(planned) = planned else {
                return self.broken();
            };
            state = self.state.lock();
            state.writer = Some(writer);
            match planned {
                Ok(()) => {}
                // Nobody's commit has failed.
                Err(Refused::Failed(error, reply)) if trial => {
                    drop(reply.send(Err(self.shared.unavailable(&error))));
                }
                Err(Refused::Failed(error, reply)) => drop(reply.send(Err(self.failed(&error)))),
                Err(Refused::NotNow(_, reply)) => drop(reply.send(Err(self.closed()))),
            }
        }
        self.is_done(state)
    }

    /// Somebody who was busy is so no longer.
    fn is_done<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.busy = false;
        self.done.notify_all();
        if state.stopped {
            self.work.notify_all();
        }
        state
    }

    /// The thread that was busy has panicked.
    fn broken(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        self.give_up(&mut state);
        self.is_done(state)
    }

    /// Nobody knows what is planned and what is written: nothing more is taken, and whoever waits hears of it. What is
    /// on disk is as after a crash.
    fn give_up(&self, state: &mut State) {
        tracing::error!("the store broke off in mid-commit and is closed");
        self.shared.closed.store(true, Relaxed);
        (state.stopped, state.writer) = (true, None);
        state.line.clear();
        self.work.notify_all();
        self.done.notify_all();
    }

    /// One write, one sync; then readers see it.
    fn write(&self, open: &mut Open, meanwhile: &mut Meanwhile<'_>) -> io::Result<()> {
        let shared = &self.shared;
        let has_frames = open.has_frames();
        let Open { segment, start, frames, chunks } = open;
        if has_frames {
            let (number, synced, crowded) = {
                let tail = shared.tail();
                // It has become known since this was planned.
                tail.trusted()?;
                (tail.number + 1, tail.synced, tail.unsynced_bytes > shared.options.unsynced_bytes)
            };
            let closed = chunks.iter().any(|chunk| chunk.closed);
            segment.seal.mark(frames, Mark { number, synced, start: *start as u32, closed });
            let end = *start + frames.len() as u64;
            let sync = crowded || chunks.iter().any(|chunk| chunk.sync);
            let written = segment.file.write_at(frames, *start);
            let begun = meanwhile.is_some();
            if let Some(meanwhile) = meanwhile.take() {
                if sync && written.is_ok() {
                    segment.file.begin_sync(*start, frames.len());
                }
                meanwhile();
            }
            let written = written.and_then(|()| if sync { self.sync(segment, begun) } else { Ok(()) });
            let mut tail = shared.tail();
            tail.number = number;
            // A sync that failed meanwhile, on the thread beside, may have cost what this one was to cover.
            if let Err(error) = written.and_then(|()| tail.trusted()) {
                // The number is used up: what may be there of it can never be taken for the next one.
                tail.failed = Some(error.to_string());
                shared.unsynced.notify_all();
                return Err(error);
            }
            tail.end = end;
            if sync {
                tail.synced(number, end);
            } else {
                tail.unsynced_bytes += frames.len();
                tail.unsynced.push_back((number, end, std::mem::take(frames)));
                shared.unsynced.notify_all();
            }
            drop(tail);
            segment.end.store(end, Relaxed);
        }
        chunks.iter_mut().for_each(|chunk| chunk.show(shared, segment));
        shared.health.working(chunks.iter().any(|chunk| !chunk.news.is_empty()));
        for chunk in chunks.iter() {
            if let Some(StoreError::Unavailable(why)) = &chunk.refused {
                shared.health.failing(why, true);
            }
        }
        Ok(())
    }

    fn sync(&self, segment: &Segment, begun: bool) -> io::Result<()> {
        let started = Instant::now();
        segment.file.sync()?;
        if !begun {
            self.pace.store(started.elapsed().as_micros() as u64, Relaxed);
        }
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        let is_full = is_disk_full(error);
        let error = self.shared.unavailable(error);
        if let StoreError::Unavailable(why) = &error
            && !self.shared.closed.load(Relaxed)
        {
            self.shared.health.failing(why, is_full);
        }
        error
    }

    fn closed(&self) -> StoreError {
        StoreError::Unavailable(format!("{} is closed", self.shared.disk.place()))
    }
}

/// What came of it; `None` if it has panicked.
fn unbroken<T>(act: impl FnOnce() -> T) -> Option<T> {
    // Nothing is done any more with what it leaves behind.
    catch_unwind(AssertUnwindSafe(act)).ok()
}

impl Chunk {
    /// Shows readers what was written.
    fn show(&mut self, shared: &Shared, segment: &Arc<Segment>) {
        if !self.news.is_empty() {
            // Held until the topics know: a reader that finds a record in the index is to find it served, too. Who took
            // it for one that is not there would go on behind it.
            let mut index = segment.index.write();
            if let Index::Open(index) = &mut *index {
                index.extend(self.news.iter().map(|new| {
                    let Touched { topic, committed, .. } = &self.touched[new.touched];
                    let New { entry, id, hash, ref key, .. } = *new;
                    Item { topic: topic.number, entry, id, hash, key: key.as_ref(), committed: *committed }
                }));
            }
            for touched in self.touched.iter().filter(|touched| touched.events > 0) {
                {
                    let mut state = touched.topic.state.lock();
                    state.meta.last = touched.last;
                    state.meta.last_committed = touched.committed;
                    state.meta.events += touched.events;
                    state.meta.bytes += touched.bytes;
                    state.meta.reserved = touched.reserved;
                    state.extend(segment, touched.first, touched.last);
                }
                if touched.is_new {
                    shared.catalog.adopt(&touched.topic);
                }
            }
        }
        for (topic, cleaned) in &self.cleaned {
            topic.state.lock().clean(cleaned);
        }
        for (topic, last) in &self.jumps {
            topic.state.lock().jump(*last);
        }
        if !self.records.is_empty() {
            let mut groups = shared.catalog.groups.lock();
            self.records.drain(..).for_each(|record| groups.apply(record));
        }
    }

    /// Tells who waits. Whoever went away does not want its answer.
    fn answer(self, failed: Option<&StoreError>) {
        let committed = match failed {
            Some(error) => Err(error.clone()),
            None => Ok(Committed { records: self.recorded(), events: self.results }),
        };
        let _ = self.reply.send(committed);
    }

    /// What its records are answered.
    fn recorded(&self) -> Vec<StoreResult<()>> {
        let mut results = vec![Ok(()); self.recorded];
        for &at in &self.oversized {
            let what = format!(
                "a record of a group is too large, or its commit: this store takes records of at most {LARGEST} bytes"
            );
            results[at] = Err(StoreError::Unavailable(what));
        }
        results
    }
}
