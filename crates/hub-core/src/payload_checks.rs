//! Checks of payloads that are not the engine's own: JSON Schemas, in practice.
//!
//! They run where an event is put together, before it is in line, on the side of whoever publishes it. What a topic is checked
//! against is found once and kept with the topic, until the version of the checks rises: a topic without a check costs two loads.

use crate::engine::Engine;
use crate::supervise;
use crate::system::{self, SystemEntry, SystemTopic, SystemWatch};
use crate::topic::Topic;
use hub_proto::{Payload, Position, Result, TopicName};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What payloads of a topic are checked against.
pub trait PayloadCheck: Send + Sync {
    /// Checks a payload. It runs on the thread of a session, so its time has to be bounded.
    ///
    /// # Errors
    /// What the publisher gets.
    fn check(&self, payload: &Payload) -> Result<()>;
}

/// Which topics have checks: see [`BusBuilder::payload_checks`](crate::BusBuilder::payload_checks).
///
/// The bus keeps the entries of [`SystemTopic::Schemas`] and brings them to the checks: all of them before it is open, and each
/// that any hub on the store writes later.
pub trait PayloadChecks: Any + Send + Sync {
    /// Rises with every change, and is never 0. It is asked for with every publish.
    fn version(&self) -> u64;

    /// What the payloads of a topic are checked against, if they are.
    fn of_topic(&self, topic: &TopicName) -> Option<Arc<dyn PayloadCheck>>;

    /// An entry was written.
    fn learn(&self, entry: &SystemEntry);

    /// These entries hold, and no others do.
    fn relearn(&self, entries: &[SystemEntry]);
}

/// What a topic was last found to be checked against.
#[derive(Default)]
pub(crate) struct FoundCheck {
    /// The version at which there was no check; 0 if there was one.
    none_at: AtomicU64,
    found: Mutex<(u64, Option<Arc<dyn PayloadCheck>>)>,
}

impl FoundCheck {
    fn get(&self, checks: &dyn PayloadChecks, topic: &TopicName) -> Option<Arc<dyn PayloadCheck>> {
        // Before it is looked for: a change meanwhile is found the next time.
        let version = checks.version();
        if self.none_at.load(Relaxed) == version {
            return None;
        }
        let mut found = self.found.lock();
        if found.0 != version {
            *found = (version, checks.of_topic(topic));
            self.none_at.store(if found.1.is_none() { version } else { 0 }, Relaxed);
        }
        found.1.clone()
    }
}

impl Engine {
    /// Checks a payload that is to be published to a topic, which may not be there yet.
    pub fn check_payload(&self, name: &TopicName, topic: Option<&Topic>, payload: &Payload) -> Result<()> {
        let Some(checks) = &self.payload_checks else { return Ok(()) };
        // Tombstones delete a key, whatever its values look like.
        if payload.is_null() {
            return Ok(());
        }
        let check = match topic {
            Some(topic) => topic.payload_check.get(&**checks, name),
            None => checks.of_topic(name),
        };
        check.map_or(Ok(()), |check| check.check(payload))
    }
}

/// Brings everything that is stored to the checks, before anything is published.
pub(crate) async fn load(engine: &Engine, checks: &dyn PayloadChecks) -> Result<()> {
    checks.relearn(&system::load(engine, SystemTopic::Schemas).await?);
    Ok(())
}

/// How long to wait before the store is asked again.
const RETRY: Duration = Duration::from_millis(250);

/// Hears what this and other hubs write.
pub(crate) fn follow(engine: &Arc<Engine>, checks: &Arc<dyn PayloadChecks>) {
    let checks = checks.clone();
    supervise::run(engine, "news of schemas", move |engine| {
        let checks = checks.clone();
        async move {
            loop {
                let watch = SystemWatch::open(&engine, SystemTopic::Schemas, Position::Latest).await;
                // What was written before the watch began.
                let entries = system::load(&engine, SystemTopic::Schemas).await;
                let (Ok(mut watch), Ok(entries)) = (watch, entries) else {
                    tokio::time::sleep(RETRY).await;
                    continue;
                };
                checks.relearn(&entries);
                loop {
                    match watch.recv().await {
                        Ok(Some(entry)) => checks.learn(&entry),
                        Ok(None) => match system::load(&engine, SystemTopic::Schemas).await {
                            Ok(entries) => checks.relearn(&entries),
                            Err(_) => break,
                        },
                        Err(_) => break,
                    }
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    });
}
