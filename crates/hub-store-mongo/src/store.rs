//! The port.

use crate::append::{self, Appender};
use crate::clean::{Cleaner, Purpose};
use crate::connect;
use crate::db::Db;
use crate::deleted::{self, DeletedTopics};
use crate::error::{ConnectError, Trouble};
use crate::groups::GroupWriter;
use crate::health::HealthBoard;
use crate::options::Options;
use crate::probe::Probe;
use crate::read::{self, FoundGroups, Reader};
use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::store::{
    Bounds, CleanPolicy, Cleaned, Commit, Committed, Deleted, EventStore, Health, Image, ReadLimit,
    SharedStore, StoreError, StoreResult, StoredGroup, SubscriptionRecord,
};
use hub_proto::{Event, EventId, Key, TopicName};
use mongodb::bson::doc;
use std::sync::Arc;
use std::time::Instant;

/// The largest payload of an event: a document of MongoDB has 16 MiB, and a payload may be in it twice, as BSON and as the
/// text that was sent.
pub const MAX_PAYLOAD: usize = 8 << 20;

/// A store in a database that other hubs may use at the same time. See the crate's documentation.
///
/// Cloning gives another handle.
#[derive(Clone)]
pub struct MongoStore {
    pub(crate) inner: Arc<Inner>,
}

/// What handles share.
pub(crate) struct Inner {
    pub db: Db,
    appender: Appender,
    pub groups: GroupWriter,
    reader: Reader,
    cleaner: Cleaner,
    deleted: DeletedTopics,
    health: Arc<HealthBoard>,
    probe: Probe,
}

impl MongoStore {
    /// Connects to a database, checks that it will do, and makes the indexes that are missing.
    ///
    /// # Errors
    /// If the address is wrong, nobody answers ([`ConnectError::is_unreachable`]: waiting may help), or what answers
    /// cannot be used.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let db = connect::connect(&options).await?;
        let inner = Inner {
            appender: Appender::new(db.clone()),
            groups: GroupWriter::new(db.clone()),
            reader: Reader::new(db.clone()),
            cleaner: Cleaner::new(db.clone(), options.clean_delay),
            deleted: DeletedTopics::default(),
            health: Arc::default(),
            probe: Probe::default(),
            db,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        self.inner.db.database.name()
    }
}

impl std::fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MongoStore").field("database", &self.database()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Notes how a read went, and answers as the port does.
    pub fn noted<T>(&self, answer: Result<T, Trouble>) -> StoreResult<T> {
        let answer = answer.map_err(StoreError::from);
        match &answer {
            Ok(_) => self.health.answers(),
            Err(error) => self.health.failed(error),
        }
        answer
    }

    /// The same for what a majority has written.
    pub fn noted_write<T>(&self, answer: Result<T, Trouble>) -> StoreResult<T> {
        if answer.is_ok() {
            self.health.takes_writes();
        }
        self.noted(answer)
    }

    /// Takes over groups that were read.
    pub fn learn(&self, found: FoundGroups) -> (Vec<StoredGroup>, Vec<SubscriptionRecord>) {
        self.note_damage(&found.damaged);
        self.groups.learn(found.saved);
        (found.groups, found.subscriptions)
    }

    /// Notes documents that cannot be read. The others are served all the same.
    pub fn note_damage(&self, damaged: &[StoreError]) {
        damaged.iter().for_each(|error| self.health.failed(error));
    }

    async fn delete(&self, topic: &TopicName, upto: u64, ids_since: Millis) -> Result<Deleted, Trouble> {
        let removed = deleted::mark(&self.db, topic, upto).await?;
        self.deleted.learn(topic, upto);
        let everything = CleanPolicy::everything(upto, ids_since);
        self.cleaner.clean(topic, Purpose::Deletion, &everything, &self.appender).await?;
        Ok(Deleted { removed, is_complete: deleted::is_removed(&self.db, topic, upto).await? })
    }

    async fn commit(&self, commit: Commit) -> Committed {
        let began = Instant::now();
        let Commit { now, events, records, epochs } = commit;
        // A group cannot have seen what is not committed, so neither part waits for the other.
        let (events, records) =
            tokio::join!(self.appender.append(events, now), self.groups.write(records, &epochs));
        let failed = events.iter().filter_map(|event| event.as_ref().err());
        let failed = failed.chain(records.iter().filter_map(|record| record.as_ref().err()));
        let mut failed = failed.filter(|error| !matches!(error, StoreError::Fenced(_)));
        match failed.next() {
            Some(error) => {
                self.health.commit_failed(error, began);
                if self.health.is_failing() {
                    self.probe.start(&self.db, &self.health);
                }
            }
            None if events.is_empty() && records.is_empty() => {}
            None => self.health.takes_writes(),
        }
        drop(failed);
        Committed { events, records }
    }
}

impl EventStore for MongoStore {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        Box::pin(self.inner.commit(commit))
    }

    fn lanes(&self) -> Option<usize> {
        Some(append::AT_ONCE)
    }

    fn give_way<'a>(&'a self, topic: &'a TopicName) -> Option<BoxFuture<'a, ()>> {
        self.inner.appender.give_way(topic)
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        Box::pin(async move {
            let read = read::image(&self.inner.db, &self.inner.deleted).await;
            let (mut image, found) = self.inner.noted(read)?;
            (image.groups, image.subscriptions) = self.inner.learn(found);
            Ok(image)
        })
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let after = after.max(self.inner.deleted.upto(topic));
        Box::pin(async move { self.inner.noted(self.inner.reader.read(topic, after, limit).await) })
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        Box::pin(async move {
            let bounds = self.inner.noted(read::bounds(&self.inner.db, topic).await)?;
            Ok(self.inner.deleted.visible(topic, bounds))
        })
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        Box::pin(async move { self.inner.noted(read::seq_of(&self.inner.db, topic, id).await) })
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            let seq = self.inner.noted(read::seq_before(&self.inner.db, topic, time).await)?;
            Ok(seq.max(self.inner.deleted.upto(topic)))
        })
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        Box::pin(async move {
            let newest = self.inner.noted(read::newest(&self.inner.db, topic, keys).await)?;
            let deleted = self.inner.deleted.upto(topic);
            Ok(newest.into_iter().map(|event| event.filter(|event| event.seq() > deleted)).collect())
        })
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let inner = &self.inner;
        let deleted = inner.deleted.upto(topic);
        Box::pin(async move {
            inner.noted(inner.db.calls(read::page(&inner.db, topic, after, deleted, limit)).await)
        })
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        let Inner { cleaner, appender, deleted, .. } = &*self.inner;
        Box::pin(async move {
            let cleaned = self.inner.noted(cleaner.clean(topic, Purpose::Upkeep, &policy, appender).await)?;
            Ok(Cleaned { bounds: deleted.visible(topic, cleaned.bounds), ..cleaned })
        })
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        Box::pin(async move { self.inner.noted(self.inner.delete(topic, upto, ids_since).await) })
    }

    fn learn_deleted(&self, topic: &TopicName, upto: u64) {
        self.inner.deleted.learn(topic, upto);
    }

    fn time(&self) -> BoxFuture<'_, StoreResult<Option<Millis>>> {
        Box::pin(async move {
            let admin = self.inner.db.client.database("admin");
            let answer = self.inner.db.call(admin.run_command(doc! { "hello": 1 })).await;
            let answer = self.inner.noted(answer)?;
            let time = answer.get_datetime("localTime").ok().map(|time| time.timestamp_millis());
            Ok(time.and_then(|millis| Millis::try_from(millis).ok()))
        })
    }

    fn max_payload(&self) -> Option<usize> {
        Some(MAX_PAYLOAD)
    }

    fn health(&self) -> Health {
        self.inner.health.read()
    }

    fn shared(&self) -> Option<SharedStore> {
        Some(Arc::new(self.clone()))
    }

    fn close(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            self.inner.probe.stop();
            self.inner.db.close().await;
            Ok(())
        })
    }
}
