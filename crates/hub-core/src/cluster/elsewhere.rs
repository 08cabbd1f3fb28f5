//! Groups that other hubs serve, or nobody does, as they were last saved. For people.

use super::Cluster;
use crate::engine::Engine;
use crate::group::options::GroupOptions;
use crate::group::status::{GroupStatus, Oldest, Reason};
use crate::store::{HubId, HubInfo, StoreResult, StoredGroup};
use hub_proto::TopicName;
use std::collections::HashMap;

/// A group that this hub does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// How it is doing, as far as the store knows: what members hold and wait for is known to the hub that serves it.
    pub status: GroupStatus,
    /// Its options.
    pub options: GroupOptions,
    /// The hub that serves it; `None`: nobody does, so it has no members.
    pub owner: Option<HubInfo>,
}

impl Cluster {
    /// The groups on these topics, as they were last saved, served by any hub or by none.
    pub async fn stored_groups(&self, topics: &[TopicName]) -> StoreResult<Vec<StoredGroup>> {
        self.in_time(self.shared.groups(Some(topics))).await
    }

    /// The groups that are not served here, by topic and name; of one topic if asked for.
    pub async fn elsewhere(&self, engine: &Engine, topics: &[TopicName]) -> StoreResult<Vec<Elsewhere>> {
        let owners: HashMap<String, HubId> = {
            let owners = self.in_time(self.shared.owners()).await?;
            owners.into_iter().filter_map(|(name, owner)| Some((name, owner.hub?))).collect()
        };
        let stored = self.stored_groups(topics).await?;
        let peers = self.peers.lock();
        let shown = |StoredGroup { record, state }: StoredGroup| {
            let topic = engine.find(&record.topic);
            if topic.as_ref().is_some_and(|topic| topic.group(&record.name).is_some()) {
                return None;
            }
            let owner = owners.get(record.name.as_str()).and_then(|&hub| peers.living(hub)).cloned();
            let last = topic.map_or(state.high, |topic| topic.last()).max(state.floor);
            let reason = if owner.is_some() { Reason::Elsewhere } else { Reason::NoMembers };
            let status = GroupStatus {
                topic: record.topic,
                group: record.name,
                floor: state.floor,
                last,
                lag: last - state.floor,
                inflight: 0,
                parked: 0,
                members: 0,
                reason: Some(reason),
                since: record.idle_since,
                oldest: (state.floor < last).then_some(Oldest { seq: state.floor + 1, age: None }),
            };
            Some(Elsewhere { status, options: record.options, owner })
        };
        let mut groups: Vec<Elsewhere> = stored.into_iter().filter_map(shown).collect();
        drop(peers);
        groups.sort_unstable_by(|a, b| {
            (&a.status.topic, &a.status.group).cmp(&(&b.status.topic, &b.status.group))
        });
        Ok(groups)
    }
}
