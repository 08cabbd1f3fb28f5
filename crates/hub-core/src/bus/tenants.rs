//! What a hub that several subjects share needs of the bus: quotas, topics of the hub's own, deletion.

use super::Bus;
use crate::deletion::{self, DeletedTopic};
use crate::quota::{Quota, QuotaUse};
use crate::system::{self, SystemEntry, SystemTopic, SystemWatch};
use hub_proto::{Error, EventId, Position, Result, TopicName};
use std::sync::Arc;

impl Bus {
    // ---- quotas ----

    /// Sets other quotas. What is used stays; what is over a quota stays, too.
    pub fn set_quotas(&self, quotas: Vec<Quota>) {
        self.engine().set_quotas(quotas);
    }

    /// The quota of a subject, if there is one, and what is used of it.
    pub fn quota_of(&self, subject: &str) -> (Option<Quota>, QuotaUse) {
        let quotas = &self.engine().quotas;
        (quotas.of(subject), quotas.used_by(subject))
    }

    /// The quotas of topics, and what is used of them.
    pub fn topic_quotas(&self) -> Vec<(Quota, QuotaUse)> {
        self.engine().quotas.of_topics()
    }

    /// The subjects that have used the largest share of their quotas, the largest share first.
    pub fn fullest_quotas(&self, limit: usize) -> Vec<(Arc<str>, Quota, QuotaUse)> {
        self.engine().quotas.fullest(limit)
    }

    /// Subjects that have made something that is there, by name, behind `after`.
    pub fn subjects(&self, after: Option<&str>, limit: usize) -> Vec<(Arc<str>, QuotaUse)> {
        self.engine().quotas.subjects(after, limit)
    }

    /// The subject that brought a topic into being, if one did.
    pub fn maker_of(&self, topic: &TopicName) -> Option<Arc<str>> {
        self.engine().quotas.maker_of(topic)
    }

    // ---- the hub's own topics ----

    /// Writes an entry of a system topic, and waits until it is safe. All hubs on the same store hear of it.
    pub async fn system_write(&self, topic: SystemTopic, entry: &SystemEntry) -> Result<()> {
        system::write(self.engine(), topic, entry).await.map(drop)
    }

    /// The same for an entry that nobody else may have written: hubs that decide at the same moment derive the same id, and one of
    /// them gets it.
    ///
    /// # Errors
    /// `id_conflict` if another entry was written under the id.
    pub async fn system_write_once(
        &self,
        topic: SystemTopic,
        entry: &SystemEntry,
        id: EventId,
    ) -> Result<()> {
        system::write_once(self.engine(), topic, entry, id).await.map(drop)
    }

    /// Everything that holds on a system topic.
    pub async fn system_entries(&self, topic: SystemTopic) -> Result<Vec<SystemEntry>> {
        system::load(self.engine(), topic).await
    }

    /// What is written to a system topic from now on.
    pub async fn system_watch(&self, topic: SystemTopic) -> Result<SystemWatch> {
        SystemWatch::open(self.engine(), topic, Position::Latest).await
    }

    // ---- deletion ----

    /// Deletes a topic with its groups and the topics derived from it. Subscriptions with a group end; those without one stay, and
    /// get what is published to the topic if it is created again.
    ///
    /// A topic that is created again continues the numbering of the deleted one, and ids of before are remembered for
    /// [`Config::dedupe_window`](crate::Config): resending one appends nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// bus.publish("t", json!(1)).await?;
    /// assert_eq!(bus.delete_topic("t").await?.events, 1);
    /// assert!(!bus.has_topic("t"));
    /// assert_eq!(bus.publish("t", json!(2)).await?.seq, 2);
    /// # bus.stop().await }
    /// ```
    ///
    /// # Errors
    /// `bad_request` if there is no such topic, or it is derived from another one. `unavailable` if the store, or a hub that serves a
    /// group of the topic, did not answer in time: the deletion may happen all the same, and asking again is safe.
    pub async fn delete_topic(&self, topic: &str) -> Result<DeletedTopic> {
        let name = TopicName::readable(topic)?;
        if name.derived().is_some() {
            return Err(Error::bad_request(format!(
                "topic {name} is derived from {0}; it is deleted with {0}",
                name.root()
            )));
        }
        deletion::delete(self.engine(), &name).await
    }
}
