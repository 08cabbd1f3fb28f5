//! Which topics have which schema.
//!
//! A schema is one of the configuration of this hub, or stored on the system topic `_hub.schemas`, which all hubs on a store read.
//! There, `version/TARGET/N` has a version and `deleted/TARGET` up to which version all are deleted: versions are counted on when a
//! target gets a schema again, so the id of a version's entry, which is derived from both, is never used twice. That is how two hubs
//! that store the same version at the same moment find out: one of them is refused.
//!
//! A payload has to match every schema whose target matches its topic.

mod stored;
mod target;

pub use target::SchemaTarget;

use crate::bounds::{SCHEMAS, SCHEMAS_OF_SUBJECT};
use crate::check::read;
use crate::{Budget, Schema, check_compatible};
use hub_core::{Bus, Millis, PayloadCheck, PayloadChecks, SystemEntry, SystemTopic};
use hub_proto::{Code, Error, EventId, Payload, Result, TopicName};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use stored::Stored;

/// Where a schema comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOrigin {
    /// The configuration of this hub.
    File,
    /// A PUT.
    Stored,
}

impl SchemaOrigin {
    /// `file` or `api`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Stored => "api",
        }
    }
}

/// A version of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaVersion {
    /// From 1; 0 for one of the configuration.
    pub version: u64,
    /// When it was stored.
    pub at: Millis,
    /// The subject that stored it.
    pub by: Option<Arc<str>>,
    /// Whether it was stored without a look at what the version before it accepted.
    pub forced: bool,
    /// The schema, as JSON in one line.
    pub text: Arc<str>,
}

/// The schema of a topic or of a pattern, as it stands.
#[derive(Clone, Debug)]
pub struct TopicSchema {
    /// What it is for.
    pub target: SchemaTarget,
    /// Where it comes from.
    pub origin: SchemaOrigin,
    /// Its newest version.
    pub current: SchemaVersion,
    compiled: Result<Arc<Schema>>,
}

impl TopicSchema {
    fn schema(&self) -> Result<&Schema> {
        // Another hub has stored it, a newer one. Publishers come again.
        self.compiled.as_deref().map_err(|error| {
            Error::unavailable(format!(
                "this hub cannot read version {} of the schema of {}: {}; update it",
                self.current.version, self.target, error.msg
            ))
        })
    }
}

/// What a PUT did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The newest version, which holds from now on.
    pub version: u64,
    /// Whether it is a new one: the schema was another one before.
    pub is_new: bool,
}

/// The schemas of a hub. Clones are handles to the same.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
/// use hub_core::{Bus, Code, MemoryStore};
/// use hub_schema::{Schemas, SchemaTarget};
/// use serde_json::json;
/// use std::sync::Arc;
///
/// let schemas = Schemas::default();
/// let bus = Bus::builder(MemoryStore::new()).payload_checks(Arc::new(schemas.clone())).open().await?;
/// let target = SchemaTarget::parse("orders.*")?;
/// schemas.put(&bus, &target, br#"{"properties": {"price": {"type": "integer"}}}"#, false, None).await?;
///
/// let refused = bus.publish("orders.created", json!({"price": "12"})).await.expect_err("it is a string");
/// assert_eq!(refused.code, Code::SchemaViolation);
/// assert_eq!(refused.msg, r#"/price: "12" is not of type "integer" (schema of orders.*)"#);
/// # bus.stop().await }
/// ```
#[derive(Clone, Default)]
pub struct Schemas {
    shared: Arc<Shared>,
}

struct Shared {
    known: RwLock<Known>,
    /// Rises with every change.
    changes: AtomicU64,
    /// One PUT or DELETE of this hub at a time.
    writing: tokio::sync::Mutex<()>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { known: RwLock::default(), changes: AtomicU64::new(1), writing: tokio::sync::Mutex::default() }
    }
}

#[derive(Default)]
struct Known {
    file: BTreeMap<String, Arc<TopicSchema>>,
    stored: Stored,
}

impl Known {
    /// Those that count, by target: what the configuration says comes before what is stored.
    fn effective(&self) -> BTreeMap<&str, &Arc<TopicSchema>> {
        let stored = self.stored.current();
        stored.chain(self.file.iter().map(|(target, schema)| (target.as_str(), schema))).collect()
    }
}

impl Schemas {
    /// Sets the schemas of the configuration, in place of those that it had. Of two for one target the last counts.
    pub fn set_configured(&self, schemas: Vec<(SchemaTarget, Arc<Schema>)>) {
        let entry = |(target, schema): (SchemaTarget, Arc<Schema>)| {
            let current =
                SchemaVersion { version: 0, at: 0, by: None, forced: false, text: schema.text().into() };
            let key = target.to_string();
            (key, Arc::new(TopicSchema { target, origin: SchemaOrigin::File, current, compiled: Ok(schema) }))
        };
        self.shared.known.write().file = schemas.into_iter().map(entry).collect();
        self.changed();
    }

    /// All schemas behind a target, by target; at most `limit`.
    pub fn after(&self, after: Option<&str>, limit: usize) -> Vec<Arc<TopicSchema>> {
        let known = self.shared.known.read();
        let behind = |target: &str| after.is_none_or(|after| target > after);
        let effective = known.effective().into_iter().filter(|(target, _)| behind(target));
        effective.map(|(_, schema)| schema.clone()).take(limit).collect()
    }

    /// One schema.
    pub fn get(&self, target: &str) -> Option<Arc<TopicSchema>> {
        self.shared.known.read().effective().remove(target).cloned()
    }

    /// The versions of a schema that are kept, the newest first.
    pub fn versions(&self, target: &str) -> Vec<SchemaVersion> {
        let known = self.shared.known.read();
        match known.file.get(target) {
            Some(schema) => vec![schema.current.clone()],
            None => known.stored.versions(target),
        }
    }

    /// Stores a new version, for all hubs. One that is the same JSON as the newest changes nothing.
    ///
    /// # Errors
    /// Those of [`Schema::compile`]; `bad_request` if the version before accepts something that this one may refuse, unless it is
    /// forced; `forbidden` if the configuration has a schema for the target; `quota_exceeded` if there are too many;
    /// `id_conflict` if another hub stored a version in the same moment; `unavailable` if it could not be stored.
    pub async fn put(
        &self,
        bus: &Bus,
        target: &SchemaTarget,
        text: &[u8],
        forced: bool,
        by: Option<&str>,
    ) -> Result<Put> {
        let schema = Schema::compile(text)?;
        let _turn = self.shared.writing.lock().await;
        self.refresh(bus).await?;
        let (before, next) = {
            let known = self.shared.known.read();
            let key = target.as_str();
            if known.file.contains_key(key) {
                return Err(of_configuration(target));
            }
            let before = known.stored.get(key).cloned();
            if before.is_none() && known.effective().len() >= SCHEMAS {
                return Err(Error::quota_exceeded(format!(
                    "there are {SCHEMAS} schemas, which is the limit; delete one"
                )));
            }
            let is_own = |schema: &TopicSchema| schema.current.by.as_deref() == by;
            // Nobody takes the places of all others.
            if by.is_some()
                && !before.as_deref().is_some_and(is_own)
                && known.effective().values().filter(|schema| is_own(schema)).count() >= SCHEMAS_OF_SUBJECT
            {
                return Err(Error::quota_exceeded(format!(
                    "{} has stored {SCHEMAS_OF_SUBJECT} schemas, which is the limit of a subject; delete one, or use a pattern",
                    by.unwrap_or_default()
                )));
            }
            (before, known.stored.next_version(key))
        };
        if let Some(before) = &before {
            check_version(before, &schema, forced)?;
            if before.compiled.as_ref().is_ok_and(|before| before.is_same_text(&schema)) {
                return Ok(Put { version: before.current.version, is_new: false });
            }
        }
        let version = SchemaVersion {
            version: next,
            at: bus.now(),
            by: by.map(Arc::from),
            forced,
            text: schema.text().into(),
        };
        let entry = stored::to_entry(target, &version);
        let id = EventId::derived(&[b"schema", target.as_str().as_bytes(), &next.to_be_bytes()]);
        bus.system_write_once(SystemTopic::Schemas, &entry, id).await.map_err(|error| match error.code {
            Code::IdConflict => Error::id_conflict(format!(
                "version {next} of the schema of {target} was stored in the same moment by somebody else; look at it first"
            )),
            _ => Error { id: None, ..error },
        })?;
        self.learn(&entry);
        let old = self.shared.known.read().stored.overdue(target.as_str());
        self.forget(bus, &old).await;
        Ok(Put { version: next, is_new: true })
    }

    /// Deletes a stored schema with all its versions, for all hubs. Answers how many versions there were.
    ///
    /// # Errors
    /// `forbidden` if it is one of the configuration; `unavailable` if that could not be stored.
    pub async fn delete(&self, bus: &Bus, target: &SchemaTarget) -> Result<usize> {
        let _turn = self.shared.writing.lock().await;
        self.refresh(bus).await?;
        let (versions, upto) = {
            let known = self.shared.known.read();
            if known.file.contains_key(target.as_str()) {
                return Err(of_configuration(target));
            }
            (known.stored.versions(target.as_str()), known.stored.next_version(target.as_str()) - 1)
        };
        if versions.is_empty() {
            return Ok(0);
        }
        let entry = stored::to_deletion(target, upto);
        bus.system_write(SystemTopic::Schemas, &entry).await?;
        self.learn(&entry);
        let keys: Vec<String> =
            versions.iter().map(|version| stored::version_key(target.as_str(), version.version)).collect();
        self.forget(bus, &keys).await;
        Ok(versions.len())
    }

    /// Hears of what other hubs have stored, before it is decided on.
    async fn refresh(&self, bus: &Bus) -> Result<()> {
        let entries = bus.system_entries(SystemTopic::Schemas).await?;
        self.relearn(&entries);
        Ok(())
    }

    /// Removes what does not count any more; what is left is left out by everybody who reads it.
    async fn forget(&self, bus: &Bus, keys: &[String]) {
        for key in keys {
            let entry = SystemEntry { key: key.as_str().into(), value: None };
            match bus.system_write(SystemTopic::Schemas, &entry).await {
                Ok(()) => self.learn(&entry),
                Err(error) => {
                    tracing::warn!(%key, %error, "an old version of a schema stays stored");
                    return;
                }
            }
        }
    }

    fn changed(&self) {
        self.shared.changes.fetch_add(1, Relaxed);
    }
}

/// Refuses a version that may not accept what the one before it accepted.
fn check_version(before: &TopicSchema, schema: &Schema, forced: bool) -> Result<()> {
    if forced {
        return Ok(());
    }
    let number = before.current.version;
    let old = before.compiled.as_ref().map_err(|error| {
        Error::bad_request(format!(
            "version {number} cannot be read by this hub, so nothing is known of it: {}",
            error.msg
        ))
    })?;
    check_compatible(old, schema).map_err(|why| {
        Error::bad_request(format!(
            "the schema may refuse what version {number} accepted: {why}; change that, or force it"
        ))
    })
}

fn of_configuration(target: &SchemaTarget) -> Error {
    Error::forbidden(format!(
        "the schema of {target} is one of the configuration file; change it there and send SIGHUP"
    ))
}

impl PayloadChecks for Schemas {
    fn version(&self) -> u64 {
        self.shared.changes.load(Relaxed)
    }

    fn of_topic(&self, topic: &TopicName) -> Option<Arc<dyn PayloadCheck>> {
        if topic.is_system() || topic.derived().is_some() {
            return None;
        }
        let known = self.shared.known.read();
        let all: Vec<Arc<TopicSchema>> =
            known.effective().into_values().filter(|schema| schema.target.matches(topic)).cloned().collect();
        (!all.is_empty()).then(|| Arc::new(All(all)) as Arc<dyn PayloadCheck>)
    }

    fn learn(&self, entry: &SystemEntry) {
        if self.shared.known.write().stored.learn(entry) {
            self.changed();
        }
    }

    fn relearn(&self, entries: &[SystemEntry]) {
        if self.shared.known.write().stored.relearn(entries) {
            self.changed();
        }
    }
}

/// All schemas of a topic.
struct All(Vec<Arc<TopicSchema>>);

impl PayloadCheck for All {
    /// Reads the payload once and checks it against all schemas within one budget.
    fn check(&self, payload: &Payload) -> Result<()> {
        let budget = &mut Budget::default();
        let mut value = None;
        for of_target in &self.0 {
            let schema = of_target.schema()?;
            let checked = match &value {
                Some(value) => schema.check_value(value, budget),
                None => read(payload.as_bytes(), budget)
                    .and_then(|read| schema.check_value(value.insert(read), budget)),
            };
            checked.map_err(|violation| violation.to_error(of_target.target.as_str()))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.shared.known.read();
        f.debug_tuple("Schemas").field(&known.effective().keys().collect::<Vec<_>>()).finish()
    }
}
