//! The database as the store uses it: five collections, and what every call to them says about concerns and time.

use crate::calls::Calls;
use crate::clock::SteadyClock;
use crate::error::Trouble;
use crate::options::{Names, Options};
use hub_proto::TopicName;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{
    ClientOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
    WriteConcern,
};
use mongodb::{Client, ClientSession, Collection, Database, Namespace, SessionCursor};
use std::time::Duration;

/// The database if the address names none.
pub const DATABASE: &str = "prom";
/// A server that cannot be found in this time is tried again, as often as the deadline of the call allows.
const SELECTION: Duration = Duration::from_secs(5);
const CONNECTING: Duration = Duration::from_secs(5);
/// Within a server's own patience the outcome of a write is known better than after a broken connection.
const WRITE_CONCERN: Duration = Duration::from_secs(10);
/// How often servers are asked how they are, unless the address says. A primary that hangs is given up after this and
/// [`CONNECTING`]; a driver's usual 10 s would leave no time for the next one before a publish has to be answered.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Topics that are written at once and groups that read at once each take a connection; so do up to 64 topics whose shard does not
/// answer.
const POOL: u32 = 160;

/// The collections. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Db {
    pub client: Client,
    pub database: Database,
    /// Documents are written and read as bytes: there are many of them.
    pub events: Collection<RawDocumentBuf>,
    pub groups: Collection<Document>,
    pub topics: Collection<Document>,
    pub dedupe: Collection<Document>,
    pub hubs: Collection<Document>,
    pub calls: Calls,
    pub clock: SteadyClock,
    pub call_limit: Duration,
    pub commit_limit: Duration,
}

/// On a majority of the set, in its journals.
pub fn durable() -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern.w_timeout = Some(WRITE_CONCERN);
    concern
}

/// What every client of ours does, whatever the address says.
pub fn harden(options: &mut ClientOptions) {
    options.write_concern = Some(durable());
    options.read_concern = Some(ReadConcern::majority());
    options.selection_criteria = Some(primary());
    options.retry_writes = Some(true);
    options.retry_reads = Some(true);
    options.server_selection_timeout = Some(SELECTION);
    options.connect_timeout = Some(CONNECTING);
    options.heartbeat_freq = options.heartbeat_freq.or(Some(HEARTBEAT));
    options.max_pool_size = options.max_pool_size.or(Some(POOL));
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

impl Db {
    pub fn new(client: Client, options: &Options) -> Self {
        let name =
            client.default_database().map_or_else(|| DATABASE.into(), |database| database.name().to_owned());
        let concerns = DatabaseOptions::builder()
            .read_concern(ReadConcern::majority())
            .write_concern(durable())
            .selection_criteria(primary())
            .build();
        let database = client.database_with_options(&name, concerns);
        let Names { events, groups, topics, dedupe, hubs } = &options.names;
        Self {
            events: database.collection(events),
            groups: database.collection(groups),
            topics: database.collection(topics),
            dedupe: database.collection(dedupe),
            hubs: database.collection(hubs),
            client,
            database,
            calls: Calls::default(),
            clock: options.clock.clone(),
            call_limit: options.call_limit,
            commit_limit: options.commit_limit,
        }
    }

    /// Where groups are.
    pub fn groups_namespace(&self) -> Namespace {
        self.groups.namespace()
    }

    /// Waits for a call as long as any call may take.
    pub fn call<T>(
        &self,
        call: impl IntoFuture<Output = mongodb::error::Result<T>>,
    ) -> impl Future<Output = Result<T, Trouble>> {
        self.calls.within(self.call_limit, call)
    }

    /// Gives the database up: nothing is under way when this is done.
    pub async fn close(&self) {
        self.calls.close(&self.client).await;
    }

    /// Waits for several calls as long as any one may take.
    pub async fn calls<T>(&self, calls: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        match tokio::time::timeout(self.call_limit, calls).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::Late(self.call_limit)),
        }
    }

    /// The next document of a cursor in a session, if there is one.
    pub async fn advance<T>(
        &self,
        cursor: &mut SessionCursor<T>,
        session: &mut ClientSession,
    ) -> Result<Option<Document>, Trouble> {
        if !self.call(cursor.advance(session)).await? {
            return Ok(None);
        }
        let found = Document::try_from(cursor.current()).map_err(mongodb::error::Error::from)?;
        Ok(Some(found))
    }

    /// A session whose reads of everything but events see all that it has written, and all that anybody had been told was
    /// written when it began.
    ///
    /// After an election the new primary may not know yet how far the old one had come, and answers a majority read
    /// with less than it has. A write in the session, even one that changes nothing, comes behind all that was there. That
    /// holds for the shard that takes the write, so events have [`Db::fresh_session_of`] and [`Db::fresh_session_of_all`].
    pub async fn fresh_session(&self) -> Result<ClientSession, Trouble> {
        let mut session = self.call(self.client.start_session().causal_consistency(true)).await?;
        let schema = doc! { "_id": crate::schema::SCHEMA };
        let nothing = doc! { "$setOnInsert": { "version": crate::schema::VERSION } };
        self.call(async { self.topics.update_one(schema, nothing).session(&mut session).await }).await?;
        Ok(session)
    }

    /// The same for the events of one topic: the write goes to the shard that has them.
    pub async fn fresh_session_of(&self, topic: &TopicName) -> Result<ClientSession, Trouble> {
        let mut session = self.call(self.client.start_session().causal_consistency(true)).await?;
        // No document has this `_id`, and nothing is inserted without an upsert.
        let none = doc! { "topic": topic.as_str(), "_id": ObjectId::new() };
        let nothing = doc! { "$setOnInsert": { "topic": topic.as_str() } };
        self.call(async { self.events.update_one(none, nothing).session(&mut session).await }).await?;
        Ok(session)
    }

    /// The same for everything: the write goes to every shard that has events.
    pub async fn fresh_session_of_all(&self) -> Result<ClientSession, Trouble> {
        let mut session = self.fresh_session().await?;
        let (none, nothing) = (doc! { "_id": ObjectId::new() }, doc! { "$setOnInsert": { "none": true } });
        self.call(async { self.events.update_many(none, nothing).session(&mut session).await }).await?;
        Ok(session)
    }

    /// What the few transactions there are say about concerns.
    pub fn transaction(&self) -> TransactionOptions {
        TransactionOptions::builder()
            .read_concern(ReadConcern::snapshot())
            .write_concern(durable())
            .selection_criteria(primary())
            .build()
    }
}

/// Waits for a call, but not for ever.
pub async fn within<T>(
    limit: Duration,
    call: impl IntoFuture<Output = mongodb::error::Result<T>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, call.into_future()).await {
        Ok(answer) => answer.map_err(Trouble::from),
        Err(_) => Err(Trouble::Late(limit)),
    }
}
