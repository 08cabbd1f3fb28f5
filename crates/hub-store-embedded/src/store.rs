//! The port, and the threads behind it.

use crate::catalog::Topic;
use crate::clean;
use crate::disk::{Disk, RealDisk, Wait};
use crate::keeper::{Desk, Job};
use crate::lookup::{self, Answer, Failed, told};
use crate::options::{LARGEST_COMMIT, Options, Threads};
use crate::pins;
use crate::pipeline::{Help, Pipeline};
use crate::plan::{Batch, LARGEST_SET, MAX_PAYLOAD};
use crate::recover::{self, OpenError, Recovered};
use crate::reserve::{self, is_disk_full};
use crate::shared::Shared;
use crate::slice;
use crate::writer::Writer;
use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::store::{
    Bounds, CleanPolicy, Cleaned, Commit, CommitHere, Committed, Deleted, DiskUsage, EventStore, Health,
    Image, PinnedFiles, ReadLimit, StoreError, StoreResult, delete_by_cleaning,
};
use hub_proto::{Event, EventId, Key, TopicName};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes of the largest segment.
const LARGEST_SEGMENT: u64 = 1 << 30;

/// After a failed sync, the next try comes after this.
const RETRY: Duration = Duration::from_millis(100);

/// A store in a directory. See the crate's documentation.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    pipeline: Arc<Pipeline>,
    desk: Desk,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// One cleaning at a time.
    cleaning: Arc<Mutex<()>>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// If the directory is in use, of a later format, damaged beyond what can be passed over, or not writable.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let directory = directory.as_ref();
        let disk = RealDisk::new(directory)
            .map_err(|error| OpenError::Io { what: format!("making {}", directory.display()), error })?;
        Self::open_on(Arc::new(disk), options)
    }

    /// Opens the store on any disk.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_on(disk: Arc<dyn Disk>, mut options: Options) -> Result<Self, OpenError> {
        let place = disk.place();
        // Places in a segment are 32 bits wide, and a batch may go beyond its end.
        options.segment_bytes = options.segment_bytes.min(LARGEST_SEGMENT);
        options.commit_bytes = options.commit_bytes.min(LARGEST_COMMIT);
        let own = options.threads == Threads::Own;
        let opened = match recover::open(disk.clone(), options.clone()) {
            // What was begun is begun again, as after a crash.
            Err(OpenError::Io { error, what }) if is_disk_full(&error) => match reserve::give_up(&*disk) {
                Ok(true) => recover::open(disk, options),
                _ => Err(OpenError::Io { error, what }),
            },
            opened => opened,
        };
        let Recovered { shared, sealed, named, jumps, generation, upto } = opened?;
        let (desk, keeper) = Desk::new(&shared, generation, upto);
        let writer = Writer::new(shared.clone(), desk.clone(), named);
        let pipeline = Arc::new(Pipeline::new(shared.clone(), writer));
        let opened = Batch { jumps, opened: true, ..Batch::default() };
        pipeline.commit(opened, Help::All).map_err(|error| OpenError::Io {
            what: format!("writing to {place}"),
            error: io::Error::other(error.to_string()),
        })?;
        let mut threads = Vec::new();
        if let Some((keeper, jobs)) = keeper {
            threads.push(spawn("hub-keeper", move || keeper.run(&jobs))?);
        }
        match sealed {
            Some((segments, image)) => desk.hand_over(Job::Sealed(segments, Box::new(image))),
            None => desk.hand_over(Job::Tidy),
        }
        if own {
            let run = pipeline.clone();
            threads.push(spawn("hub-commit", move || {
                slice::shorten();
                run.run();
            })?);
            let (shared, pipeline) = (shared.clone(), pipeline.clone());
            threads.push(spawn("hub-sync", move || {
                slice::shorten();
                keep_synced(&shared, &pipeline);
            })?);
        }
        Ok(Self { shared, pipeline, desk, threads: Mutex::new(threads), cleaning: Arc::default() })
    }

    /// Where it is.
    pub fn place(&self) -> String {
        self.shared.disk.place()
    }

    /// What the calling thread may do for a commit.
    fn help(&self) -> Help {
        if self.shared.options.threads == Threads::None {
            return Help::All;
        }
        // A worker that waits for the disk is missed by nobody as long as there is another one.
        match Handle::try_current() {
            Ok(runtime)
                if runtime.runtime_flavor() == RuntimeFlavor::MultiThread
                    && runtime.metrics().num_workers() > 1 =>
            {
                Help::Some
            }
            _ => Help::None,
        }
    }

    /// The same for a thread that may wait.
    fn waiting_help(&self) -> Help {
        if self.shared.options.threads == Threads::None { Help::All } else { Help::None }
    }

    /// Asks without waiting for the disk, and on another thread if that is not enough, or if the answer takes more than a few
    /// lookups even where everything is in memory.
    async fn ask<T: Send + 'static>(
        &self,
        name: &TopicName,
        effort: Effort,
        ask: impl Fn(&Shared, &Topic, Wait) -> Answer<T> + Send + 'static,
    ) -> StoreResult<Option<T>> {
        let Some(topic) = self.shared.catalog.named(name) else { return Ok(None) };
        if self.shared.options.threads == Threads::None {
            return told(ask(&self.shared, &topic, Wait::Yes)).map(Some);
        }
        if effort == Effort::Small {
            match ask(&self.shared, &topic, Wait::No) {
                Err(Failed::WouldBlock) => {}
                answer => return told(answer).map(Some),
            }
        }
        let shared = self.shared.clone();
        let waited = tokio::task::spawn_blocking(move || told(ask(&shared, &topic, Wait::Yes))).await;
        waited
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("a read broke off: {error}"))))
            .map(Some)
    }

    /// Ends the threads; what they have been given is done first.
    fn stop(&self) {
        {
            // Under the lock: who has looked and is about to sleep would miss it.
            let _tail = self.shared.tail();
            self.shared.closed.store(true, Relaxed);
            self.shared.unsynced.notify_all();
        }
        self.pipeline.stop();
        self.desk.hand_over(Job::Stop);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        drop(self.shared.lock.lock().take());
    }
}

/// What an answer costs that needs no disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// A few lookups.
    Small,
    /// More than a thread of the runtime should be kept busy with.
    Large,
}

/// Lookups in segments that a thread of the runtime does at once.
const MAX_LOOKUPS: usize = 256;
/// Bytes of events that a thread of the runtime reads at once.
const MAX_READ_BYTES: usize = 2 << 20;

impl Effort {
    fn of(is_small: bool) -> Self {
        if is_small { Self::Small } else { Self::Large }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| OpenError::Io { what: format!("starting the thread {name}"), error })
}

/// Syncs what relaxed topics have written, a little later; and after a failure begins a segment that can be trusted.
fn keep_synced(shared: &Shared, pipeline: &Pipeline) {
    loop {
        let due = {
            let mut tail = shared.tail();
            while tail.synced >= tail.number && tail.failed.is_none() {
                if shared.closed.load(Relaxed) {
                    return;
                }
                shared.unsynced.wait(&mut tail);
            }
            tail.number
        };
        std::thread::sleep(shared.options.sync_interval);
        {
            let tail = shared.tail();
            if tail.synced >= due && tail.failed.is_none() {
                // A durable commit has taken it along. A sync of our own would be in the way of the next one.
                continue;
            }
        }
        let (segment, spare, number, end, failed) = {
            let tail = shared.tail();
            (tail.segment.clone(), tail.spare.clone(), tail.number, tail.end, tail.failed.is_some())
        };
        if !failed {
            match spare.sync() {
                Ok(()) => {
                    let mut tail = shared.tail();
                    if Arc::ptr_eq(&tail.segment, &segment) && tail.failed.is_none() {
                        tail.synced(number, end);
                    }
                    continue;
                }
                Err(error) => {
                    let current = {
                        let mut tail = shared.tail();
                        let current = Arc::ptr_eq(&tail.segment, &segment);
                        if current {
                            // Before anything else: a commit that is under way is not to count on its own sync.
                            tail.failed = Some(error.to_string());
                        }
                        current
                    };
                    shared.health.failing(&format!("a sync failed: {error}"), false);
                    if !current {
                        shared
                            .health
                            .found(format!("{}: a sync failed after it was sealed: {error}", segment.id), 0);
                    }
                }
            }
        }
        if shared.closed.load(Relaxed) {
            return;
        }
        // An empty commit begins another segment, if that can be done.
        if pipeline.commit(Batch::default(), Help::None).is_err() {
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl EventStore for EmbeddedStore {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        #[cfg(all(debug_assertions, feature = "testkit"))]
        crate::panic_point::before_commit(&commit);
        let (events, records) = (commit.events.len(), commit.records.len());
        let answer = self.pipeline.submit(Batch { commit, ..Batch::default() }, self.help());
        Box::pin(async move {
            let closed = || StoreError::Unavailable(format!("{} is closed", self.place()));
            let committed = answer.await.unwrap_or_else(|_| Err(closed()));
            committed.unwrap_or_else(|error| failed(events, records, &error))
        })
    }

    fn here(&self) -> Option<&dyn CommitHere> {
        (self.shared.options.threads == Threads::Own).then_some(self)
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        let topics = self.shared.catalog.topics().into_iter();
        let topics = topics.map(|topic| (topic.name.clone(), topic.state.lock().bounds())).collect();
        let groups = self.shared.catalog.groups.lock();
        let subscriptions = groups.subscriptions.values().cloned().collect();
        let groups = groups.groups.values().cloned().collect();
        Box::pin(std::future::ready(Ok(Image { topics, groups, subscriptions })))
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let read =
            move |shared: &Shared, topic: &Topic, wait| lookup::read(shared, topic, after, limit, wait);
        let effort = Effort::of(limit.bytes <= MAX_READ_BYTES);
        Box::pin(async move { Ok(self.ask(topic, effort, read).await?.unwrap_or_default()) })
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        let bounds = self.shared.catalog.named(topic).map(|topic| topic.state.lock().bounds());
        Box::pin(std::future::ready(Ok(bounds.unwrap_or_default())))
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        let ask = move |shared: &Shared, topic: &Topic, wait| lookup::seq_of(shared, topic, id, wait);
        let effort = Effort::of(self.shared.segments().len() <= MAX_LOOKUPS);
        Box::pin(async move { Ok(self.ask(topic, effort, ask).await?.flatten()) })
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        let ask = move |shared: &Shared, topic: &Topic, wait| lookup::seq_before(shared, topic, time, wait);
        Box::pin(async move { Ok(self.ask(topic, Effort::Small, ask).await?.unwrap_or_default()) })
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        let wanted: Vec<Key> = keys.to_vec();
        let ask = move |shared: &Shared, topic: &Topic, wait| {
            wanted.iter().map(|key| lookup::newest(shared, topic, key, wait)).collect::<Answer<Vec<_>>>()
        };
        let effort = Effort::of(keys.len() * self.shared.segments().len() <= MAX_LOOKUPS);
        Box::pin(
            async move { Ok(self.ask(topic, effort, ask).await?.unwrap_or_else(|| vec![None; keys.len()])) },
        )
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let after = after.map(str::to_owned);
        let ask = move |shared: &Shared, topic: &Topic, wait| {
            lookup::newest_page(shared, topic, after.as_deref(), limit, wait)
        };
        // Keys that were deleted are passed over, however many there are.
        Box::pin(async move { Ok(self.ask(topic, Effort::Large, ask).await?.unwrap_or_default()) })
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        Box::pin(async move {
            let Some(topic) = self.shared.catalog.named(topic) else { return Ok(Cleaned::default()) };
            let (shared, pipeline, desk) = (self.shared.clone(), self.pipeline.clone(), self.desk.clone());
            let (turn, help) = (self.cleaning.clone(), self.waiting_help());
            let work = move || clean_now(&shared, &pipeline, help, &desk, &topic, &policy, &turn);
            if self.shared.options.threads == Threads::None {
                return work();
            }
            let cleaned = tokio::task::spawn_blocking(work).await;
            cleaned
                .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("cleaning broke off: {error}"))))
        })
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        Box::pin(delete_by_cleaning(self, topic, upto, ids_since))
    }

    // There is no other hub.
    fn learn_deleted(&self, _topic: &TopicName, _upto: u64) {}

    fn max_payload(&self) -> Option<usize> {
        Some(MAX_PAYLOAD)
    }

    fn health(&self) -> Health {
        let mut health = self.shared.health.read();
        if self.shared.closed.load(Relaxed) {
            health.unavailable = Some(format!("{} is closed", self.place()));
        }
        health
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        let segments = self.shared.segments();
        let topics = self.shared.catalog.topics();
        Some(DiskUsage {
            bytes: segments.iter().map(|segment| segment.len().max(segment.capacity)).sum(),
            live_bytes: topics.iter().map(|topic| topic.state.lock().bounds().bytes).sum(),
            free_bytes: self.shared.disk.free(),
            segments: segments.len() as u64,
        })
    }

    fn pin_files(&self) -> BoxFuture<'_, StoreResult<Option<PinnedFiles>>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let pin = move || pins::pin(&shared).map(Some);
            if self.shared.options.threads == Threads::None {
                return pin();
            }
            let pinned = tokio::task::spawn_blocking(pin).await;
            pinned.unwrap_or_else(|error| Err(StoreError::Unavailable(format!("pinning broke off: {error}"))))
        })
    }

    fn close(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            let batch = Batch { closed: true, ..Batch::default() };
            let (pipeline, help) = (self.pipeline.clone(), self.waiting_help());
            let finish = move || pipeline.commit(batch, help);
            let closed = match self.shared.options.threads {
                Threads::None => finish(),
                Threads::Own => match tokio::task::spawn_blocking(finish).await {
                    Ok(closed) => closed,
                    Err(error) => Err(StoreError::Unavailable(format!("closing broke off: {error}"))),
                },
            };
            self.stop();
            closed.map(drop)
        })
    }
}

impl CommitHere for EmbeddedStore {
    fn commit_here(&self, commit: Commit, meanwhile: &mut dyn FnMut()) -> Committed {
        #[cfg(all(debug_assertions, feature = "testkit"))]
        crate::panic_point::before_commit(&commit);
        slice::shorten_once();
        let (events, records) = (commit.events.len(), commit.records.len());
        let committed = self.pipeline.commit_meanwhile(Batch { commit, ..Batch::default() }, meanwhile);
        committed.unwrap_or_else(|error| failed(events, records, &error))
    }
}

fn failed(events: usize, records: usize, error: &StoreError) -> Committed {
    Committed { events: vec![Err(error.clone()); events], records: vec![Err(error.clone()); records] }
}

fn clean_now(
    shared: &Shared,
    pipeline: &Pipeline,
    help: Help,
    desk: &Desk,
    topic: &Arc<Topic>,
    policy: &CleanPolicy,
    turn: &Mutex<()>,
) -> StoreResult<Cleaned> {
    let _turn = turn.lock();
    let mut removed = 0;
    if let Some(cleaned) = told(clean::plan(shared, topic, policy))? {
        removed = cleaned.events;
        let parts = cleaned.into_parts(LARGEST_SET).into_iter();
        let cleaned = parts.map(|part| (topic.clone(), part)).collect();
        let batch = Batch { cleaned, ..Batch::default() };
        pipeline.commit(batch, help)?;
        desk.hand_over(Job::Tidy);
    }
    Ok(Cleaned { removed, bounds: topic.state.lock().bounds(), is_partial: false })
}

#[cfg(all(test, feature = "testkit"))]
mod tests;
