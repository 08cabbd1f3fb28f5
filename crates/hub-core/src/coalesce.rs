//! Leaving out events that a newer event of the same key has overtaken.

use crate::store::{EventStore, StoreError, newest_of_each};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Event, Key, TopicName};
use std::collections::VecDeque;
use std::sync::Arc;

/// Drops the events of `block` whose key has a newer event in the topic.
pub(crate) async fn drop_overtaken(
    store: &dyn EventStore,
    topic: &TopicName,
    block: &mut VecDeque<Arc<Event>>,
) -> Result<(), StoreError> {
    let mut keys: Vec<Key> = block.iter().filter_map(|event| key_of(event).cloned()).collect();
    keys.sort_unstable();
    keys.dedup();
    let newest = newest_of_each(store, topic, &keys).await?;
    block.retain(|event| {
        let Some(key) = key_of(event) else { return true };
        let at = keys.binary_search(key).ok();
        // Where the newest record of a key is damaged, no event of the key is known to be overtaken: all are delivered.
        let newest = at.and_then(|at| newest[at].as_ref().ok()?.as_ref());
        newest.is_none_or(|newest| newest.seq() <= event.seq())
    });
    Ok(())
}

/// Drops the events of `block` whose key has a newer event in `block`.
pub(crate) fn drop_overtaken_within(block: &mut VecDeque<Arc<Event>>) {
    let mut newest: HashMap<Key, u64, RandomState> = HashMap::default();
    for event in block.iter() {
        if let Some(key) = key_of(event) {
            newest.insert(key.clone(), event.seq());
        }
    }
    block.retain(|event| key_of(event).and_then(|key| newest.get(key)).is_none_or(|&seq| seq == event.seq()));
}

/// The key by which an event overtakes others. Replayed dead letters for one group overtake nothing.
fn key_of(event: &Event) -> Option<&Key> {
    event.key().filter(|_| event.audience().is_none())
}
