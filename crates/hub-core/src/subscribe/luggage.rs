//! What a member brings along from another owner of its group, sorted by topic.

use crate::cluster::{Held, Luggage, Stay};
use crate::engine::{By, Engine};
use crate::group::{Carried, HeldLease};
use hub_proto::{GroupName, Result, TopicName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Notes where the member is connected, and what it has of which topic.
pub(super) async fn unpack(
    engine: &Arc<Engine>,
    group: &GroupName,
    stay: &mut Stay,
    luggage: &Luggage,
) -> Result<BTreeMap<TopicName, Carried>> {
    if let Some(cluster) = &engine.cluster
        && luggage.hub != cluster.me.id
    {
        cluster.note_edge(engine, group, stay, luggage.hub).await?;
    }
    let mut carried: BTreeMap<TopicName, Carried> = BTreeMap::new();
    for held in &luggage.held {
        let topic = &held.topic;
        let Held { seq, attempt, epoch, left, .. } = *held;
        let held = HeldLease { seq, attempt, epoch, left };
        carried.entry(topic.clone()).or_default().held.push(held);
    }
    for settled in &luggage.settled {
        carried.entry(settled.topic.clone()).or_default().settled.push((settled.seq, settled.epoch));
    }
    for topic in carried.keys() {
        // It may have been born elsewhere, a moment ago.
        engine.topic(topic, By::Hub)?;
    }
    Ok(carried)
}
