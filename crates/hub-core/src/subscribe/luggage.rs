//! What a member brings along from another owner of its group, sorted by topic.

use crate::cluster::{Luggage, Stay};
use crate::engine::{By, Engine};
use crate::group::Carried;
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
        carried.entry(held.topic.clone()).or_default().held.push((held.seq, held.attempt, held.left));
    }
    for settled in &luggage.settled {
        carried.entry(settled.topic.clone()).or_default().settled.push(settled.seq);
    }
    for topic in carried.keys() {
        // It may have been born elsewhere, a moment ago.
        engine.topic(topic, By::Hub)?;
    }
    Ok(carried)
}
