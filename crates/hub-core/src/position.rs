//! Places in a topic.

use crate::Millis;
use crate::engine::Engine;
use crate::store::StoreError;
use crate::topic::Topic;
use hub_proto::{Error, EventId, Position, Result, TopicName};

/// Refuses a position that means something in one topic only.
pub(crate) fn check_for_several(position: Position) -> Result<()> {
    match position {
        Position::AfterId(_) | Position::AfterSeq(_) => Err(Error::bad_request(
            "afterId and afterSeq are places in one topic; for several use earliest, latest or ts",
        )),
        _ => Ok(()),
    }
}

/// The seq after which reading starts.
pub(crate) async fn resolve(position: Position, engine: &Engine, topic: &Topic) -> Result<u64> {
    let store = &engine.store;
    match position {
        // Another hub may have committed what has not been heard of here yet.
        Position::Latest if engine.cluster.is_some() => {
            store.bounds(&topic.name).await.map_err(refused).map(|bounds| bounds.last)
        }
        Position::Latest => Ok(topic.last()),
        Position::Earliest => {
            store.bounds(&topic.name).await.map_err(refused).map(|bounds| bounds.first.saturating_sub(1))
        }
        Position::Time(time) => store.seq_before(&topic.name, time).await.map_err(refused),
        Position::AfterId(id) => store.seq_of(&topic.name, id).await.map_err(refused)?.ok_or_else(|| {
            Error::unknown_id(format!("topic {} has no event {id}, or no longer remembers it", topic.name))
                .with_id(id)
        }),
        Position::AfterSeq(seq) => {
            let mut last = topic.last();
            if seq > last && engine.cluster.is_some() {
                // Who comes from another hub may have seen more than this one has heard of.
                last = store.bounds(&topic.name).await.map_err(refused)?.last;
            }
            if seq > last {
                return Err(Error::bad_request(format!(
                    "seq {seq} is beyond the end of topic {}; allowed is 0 to {last}",
                    topic.name
                )));
            }
            Ok(seq)
        }
    }
}

/// A read that the store did not answer.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn refused(error: StoreError) -> Error {
    tracing::debug!(%error, "the store refused a request");
    Error::unavailable(error.brief())
}

/// The floor of a group: everything up to `seq` is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The topic.
    pub topic: TopicName,
    /// The last settled seq; 0: none.
    pub seq: u64,
    /// The id of that event, while it is kept.
    pub last_id: Option<EventId>,
    /// Its timestamp, while it is kept.
    pub last_ts: Option<Millis>,
}
