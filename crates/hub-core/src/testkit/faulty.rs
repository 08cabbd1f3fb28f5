//! A store that fails on demand: a decorator around any other.

use super::faulty_shared::FaultyShared;
use crate::Millis;
use crate::store::{
    Appended, Bounds, CleanPolicy, Cleaned, Commit, Committed, Deleted, DiskUsage, EventStore, Health, Image,
    PinnedFiles, ReadLimit, Record, SharedStore, StoreError, StoreResult,
};
use futures_core::future::BoxFuture;
use hub_proto::{Event, EventId, Key, TopicName};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused and has no effect.
    Refuse,
    /// It takes effect, and the answer is lost.
    LoseAnswer,
    /// It takes effect and is answered late, by so many milliseconds.
    Delay(Millis),
    /// It takes effect after so many milliseconds: a crash meanwhile finds nothing done.
    Stall(Millis),
}

type Script = Box<dyn FnMut(&str) -> Option<Fault> + Send>;
type Witness = Box<dyn FnMut(&Arc<Event>) + Send>;
type Refuse = Box<dyn FnMut(&Record) -> bool + Send>;
type Say = Box<dyn FnMut() -> Health + Send>;

/// A store in which a script decides, call by call, what goes wrong. Clones share the script.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn EventStore>,
    script: Arc<Mutex<Script>>,
    witness: Arc<Mutex<Witness>>,
    /// Of the next batch the answer of one event is lost: which, from 1; 0: none.
    lost: Arc<AtomicUsize>,
    /// What it says about itself instead of what `inner` says.
    health: Arc<Mutex<Option<Say>>>,
    /// How many commits it takes at once, whatever `inner` says.
    lanes: Option<Option<usize>>,
    held: Arc<HeldTopics>,
    refuse: Arc<Mutex<Option<Refuse>>>,
}

/// Topics whose commits wait.
#[derive(Default)]
struct HeldTopics {
    topics: Mutex<BTreeSet<TopicName>>,
    /// Commits that wait.
    waiting: AtomicUsize,
    changed: Notify,
}

impl FaultyStore {
    /// A store that does what `inner` does, for now.
    pub fn new(inner: Arc<dyn EventStore>) -> Self {
        let (script, witness): (Script, Witness) = (Box::new(|_| None), Box::new(|_| ()));
        Self {
            inner,
            script: Arc::new(Mutex::new(script)),
            witness: Arc::new(Mutex::new(witness)),
            lost: Arc::default(),
            health: Arc::default(),
            lanes: None,
            held: Arc::default(),
            refuse: Arc::default(),
        }
    }

    /// The same, with so many [lanes](EventStore::lanes), whatever the one inside has.
    #[must_use]
    pub fn with_lanes(self, at_once: Option<usize>) -> Self {
        Self { lanes: Some(at_once), ..self }
    }

    /// From now on commits with events of this topic wait for [`FaultyStore::release`], and take effect then.
    pub fn hold(&self, topic: &TopicName) {
        self.held.topics.lock().insert(topic.clone());
    }

    /// Commits of this topic wait no more.
    pub fn release(&self, topic: &TopicName) {
        self.held.topics.lock().remove(topic);
        self.held.changed.notify_waiters();
    }

    /// Waits until so many commits wait for topics to be released.
    pub async fn holds(&self, commits: usize) {
        loop {
            let changed = self.held.changed.notified();
            if self.held.waiting.load(SeqCst) >= commits {
                return;
            }
            changed.await;
        }
    }

    async fn wait_for_release(&self, commit: &Commit) {
        let is_held = || {
            let held = self.held.topics.lock();
            commit.events.iter().any(|draft| held.contains(draft.topic()))
        };
        if !is_held() {
            return;
        }
        self.held.waiting.fetch_add(1, SeqCst);
        self.held.changed.notify_waiters();
        loop {
            let changed = self.held.changed.notified();
            if !is_held() {
                break;
            }
            changed.await;
        }
        self.held.waiting.fetch_sub(1, SeqCst);
    }

    /// From now on `script` is asked about every call, by its name: `commit`, `load`, `read`, `bounds`, `seq_of`,
    /// `seq_before`, `newest`, `newest_page`, `clean`, `delete`, and those of [`Shared`](crate::store::Shared) and of its news (`next`).
    pub fn script(&self, script: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        *self.script.lock() = Box::new(script);
    }

    /// From now on `witness` sees every event that is committed, whether or not the answer is lost.
    pub fn witness(&self, witness: impl FnMut(&Arc<Event>) + Send + 'static) {
        *self.witness.lock() = Box::new(witness);
    }

    /// Of the next batch with so many events, the answer of the `nth` is lost; the others are answered.
    pub fn lose_answer_of(&self, nth: usize) {
        self.lost.store(nth, SeqCst);
    }

    /// From now on `say` is asked how the store is doing; calls go as the script has it all the same.
    pub fn set_health(&self, say: impl FnMut() -> Health + Send + 'static) {
        *self.health.lock() = Some(Box::new(say));
    }

    /// From now on records for which `refuse` answers true are refused; the others of the same commit are not.
    pub fn refuse_records(&self, refuse: impl FnMut(&Record) -> bool + Send + 'static) {
        *self.refuse.lock() = Some(Box::new(refuse));
    }

    /// Takes out the records that are refused. Answers which ones.
    fn refuse(&self, commit: &mut Commit) -> Vec<usize> {
        let mut refused = Vec::new();
        if let Some(refuse) = &mut *self.refuse.lock() {
            refused = (0..commit.records.len()).filter(|&at| refuse(&commit.records[at])).collect();
        }
        for &at in refused.iter().rev() {
            commit.records.remove(at);
            if at < commit.epochs.len() {
                commit.epochs.remove(at);
            }
        }
        refused
    }

    async fn commit_inner(&self, mut commit: Commit) -> Committed {
        self.wait_for_release(&commit).await;
        let refused = self.refuse(&mut commit);
        let mut committed = self.inner.commit(commit).await;
        for at in refused {
            committed.records.insert(at, Err(failure("commit")));
        }
        let mut witness = self.witness.lock();
        for appended in &committed.events {
            if let Ok(Appended::New { event, .. }) = appended {
                witness(event);
            }
        }
        let lost = self.lost.load(SeqCst);
        if lost > 0 && lost <= committed.events.len() {
            committed.events[lost - 1] = Err(failure("commit"));
            self.lost.store(0, SeqCst);
        }
        committed
    }

    /// Nothing goes wrong any more, and the store is as well as the one inside.
    pub fn heal(&self) {
        self.script(|_| None);
        *self.health.lock() = None;
        *self.refuse.lock() = None;
    }

    pub(super) fn fault(&self, call: &str) -> Option<Fault> {
        (self.script.lock())(call)
    }

    /// A call that only reads: a lost answer is as good as a refusal.
    fn reading<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        answer: impl FnOnce(&'a dyn EventStore) -> BoxFuture<'a, StoreResult<T>>,
    ) -> BoxFuture<'a, StoreResult<T>> {
        match self.fault(call) {
            Some(Fault::Refuse | Fault::LoseAnswer) => Box::pin(std::future::ready(Err(failure(call)))),
            Some(Fault::Delay(millis) | Fault::Stall(millis)) => {
                let answer = answer(&*self.inner);
                Box::pin(async move {
                    let answer = answer.await;
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    answer
                })
            }
            None => answer(&*self.inner),
        }
    }
}

pub(super) fn failure(call: &str) -> StoreError {
    StoreError::Unavailable(format!("a fault was put into {call}"))
}

impl EventStore for FaultyStore {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        let fault = self.fault("commit");
        let failed = Committed::failed(&commit, &failure("commit"));
        match fault {
            None => Box::pin(self.commit_inner(commit)),
            Some(Fault::Refuse) => Box::pin(std::future::ready(failed)),
            Some(Fault::LoseAnswer) => Box::pin(async move {
                self.commit_inner(commit).await;
                failed
            }),
            Some(Fault::Delay(millis)) => Box::pin(async move {
                let committed = self.commit_inner(commit).await;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                committed
            }),
            Some(Fault::Stall(millis)) => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.commit_inner(commit).await
            }),
        }
    }

    fn lanes(&self) -> Option<usize> {
        self.lanes.unwrap_or_else(|| self.inner.lanes())
    }

    fn give_way<'a>(&'a self, topic: &'a TopicName) -> Option<BoxFuture<'a, ()>> {
        self.inner.give_way(topic)
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        self.reading("load", |store| store.load())
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        self.reading("read", move |store| store.read(topic, after, limit))
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        self.reading("bounds", move |store| store.bounds(topic))
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        self.reading("seq_of", move |store| store.seq_of(topic, id))
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        self.reading("seq_before", move |store| store.seq_before(topic, time))
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        self.reading("newest", move |store| store.newest(topic, keys))
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        self.reading("newest_page", move |store| store.newest_page(topic, after, limit))
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        match self.fault("delete") {
            Some(Fault::Refuse) => Box::pin(std::future::ready(Err(failure("delete")))),
            Some(Fault::LoseAnswer) => Box::pin(async move {
                self.inner.delete(topic, upto, ids_since).await?;
                Err(failure("delete"))
            }),
            Some(Fault::Delay(_) | Fault::Stall(_)) | None => self.inner.delete(topic, upto, ids_since),
        }
    }

    fn learn_deleted(&self, topic: &TopicName, upto: u64) {
        self.inner.learn_deleted(topic, upto);
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        match self.fault("clean") {
            Some(Fault::Refuse) => Box::pin(std::future::ready(Err(failure("clean")))),
            Some(Fault::LoseAnswer) => Box::pin(async move {
                self.inner.clean(topic, policy).await?;
                Err(failure("clean"))
            }),
            Some(Fault::Delay(_) | Fault::Stall(_)) | None => self.inner.clean(topic, policy),
        }
    }

    fn time(&self) -> BoxFuture<'_, StoreResult<Option<Millis>>> {
        self.inner.time()
    }

    fn max_payload(&self) -> Option<usize> {
        self.inner.max_payload()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        self.inner.disk_usage()
    }

    fn pin_files(&self) -> BoxFuture<'_, StoreResult<Option<PinnedFiles>>> {
        self.inner.pin_files()
    }

    fn health(&self) -> Health {
        match &mut *self.health.lock() {
            Some(say) => say(),
            None => self.inner.health(),
        }
    }

    fn shared(&self) -> Option<SharedStore> {
        let shared = FaultyShared { inner: self.inner.shared()?, store: self.clone() };
        Some(Arc::new(shared))
    }

    fn close(&self) -> BoxFuture<'_, StoreResult<()>> {
        self.inner.close()
    }
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner.name()).finish()
    }
}
