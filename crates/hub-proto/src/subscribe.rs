//! What a consumer subscribes to, and how.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::{EventId, Filter};

/// A subscription that is asked for: of a topic, of a pattern, or of a list of topics.
///
/// ```
/// use hub_proto::{Position, SubscribeOptions, SubscribeRequest};
/// let orders = SubscribeRequest::new("orders.*", Some("billing"))
///     .options(SubscribeOptions { from: Some(Position::Earliest), ..Default::default() });
/// assert_eq!(orders.group.as_deref(), Some("billing"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeRequest {
    /// The topic or the pattern; the label of the list if [`SubscribeOptions::topics`] has one.
    pub topic: String,
    /// The group; without one the subscription only watches.
    pub group: Option<String>,
    /// How.
    pub options: SubscribeOptions,
}

impl SubscribeRequest {
    /// A subscription with no options.
    pub fn new(topic: &str, group: Option<&str>) -> Self {
        Self {
            topic: topic.to_owned(),
            group: group.map(str::to_owned),
            options: SubscribeOptions::default(),
        }
    }

    /// The same with these options.
    #[must_use]
    pub fn options(mut self, options: SubscribeOptions) -> Self {
        self.options = options;
        self
    }
}

/// The `opts` of a SUBSCRIBE. Whatever is left out takes the group's stored value, or the hub's.
///
/// ```
/// use hub_proto::{Position, SubscribeOptions};
/// let options = SubscribeOptions { from: Some(Position::Earliest), max_in_flight: Some(50), ..Default::default() };
/// assert_eq!(serde_json::to_string(&options)?, r#"{"from":"earliest","maxInFlight":50}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Where a new group begins, or a subscription without one.
    pub from: Option<Position>,
    /// A list of topics; the subscription's topic is then a label for them.
    pub topics: Vec<String>,
    /// Which events are wanted.
    pub filter: Option<Filter>,
    /// Whether events of a key come one at a time.
    pub ordering: Option<Ordering>,
    /// Whether events that a newer one of the same key has overtaken are left out.
    pub coalesce: Option<bool>,
    /// Failures before an event becomes a dead letter.
    pub max_attempts: Option<u32>,
    /// Several events in one frame. They are handed out one by one all the same.
    pub batch: Option<bool>,
    /// How many at most.
    pub batch_size: Option<u32>,
    /// Events in hand at once. This is also what bounds the memory of a group's subscription on this side.
    pub max_in_flight: Option<u32>,
    /// The time to settle an event.
    pub ack_timeout: Option<Duration>,
    /// Of a group: the member, by an id that nobody can guess. One that loses its connection keeps its leases for a while (10 s by default), and
    /// goes on with them when it subscribes again, with the same id and what it still [holds](Self::held). A bus in this process has no
    /// connection to lose, and ignores it.
    pub member: Option<Uuid>,
    /// What a member that comes back still works on. It keeps the leases of these events, as far as the hub's answer names them; it
    /// gives back the others.
    pub held: Vec<EventId>,
    /// What happens when the program does not take events as fast as they come; of this side only, and only without a
    /// group.
    pub when_full: WhenFull,
}

/// What happens to the events of a subscription without a group that nobody takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest give way, and the program is told how many it missed. The connection goes on for everybody else.
    #[default]
    Lag,
    /// Nothing is read from the connection until there is room, so the hub waits: history is read at the program's pace.
    /// It holds up everything else on this connection, so give the subscription one of its own.
    Wait,
}

/// Where to start in a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// After the newest event: only what is still to come.
    #[default]
    Latest,
    /// Before the oldest event there is.
    Earliest,
    /// At the first event committed at this time or later, in milliseconds since 1970.
    Time(u64),
    /// After the event with this id.
    AfterId(EventId),
    /// After this seq.
    AfterSeq(u64),
}

/// Whether events of one key keep their order within a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// Events go to whoever has room.
    #[default]
    None,
    /// Two events of one key are never in flight at once, and go in order, redeliveries included.
    Key,
}

impl SubscribeOptions {
    /// How many events of a group may be in hand: 1,000 unless set.
    pub fn window(&self) -> usize {
        self.max_in_flight.map_or(1000, |events| events as usize).max(1)
    }
}

impl Serialize for SubscribeOptions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        match self.from {
            None => {}
            Some(Position::Latest) => map.serialize_entry("from", "latest")?,
            Some(Position::Earliest) => map.serialize_entry("from", "earliest")?,
            Some(Position::Time(ts)) => {
                map.serialize_entry("from", "ts")?;
                map.serialize_entry("ts", &ts)?;
            }
            Some(Position::AfterId(id)) => {
                map.serialize_entry("from", "afterId")?;
                map.serialize_entry("afterId", &id)?;
            }
            Some(Position::AfterSeq(seq)) => {
                map.serialize_entry("from", "afterSeq")?;
                map.serialize_entry("afterSeq", &seq)?;
            }
        }
        if !self.topics.is_empty() {
            map.serialize_entry("topics", &self.topics)?;
        }
        entry(&mut map, "filter", self.filter.as_ref())?;
        entry(&mut map, "ordering", self.ordering)?;
        entry(&mut map, "coalesce", self.coalesce)?;
        entry(&mut map, "maxAttempts", self.max_attempts)?;
        entry(&mut map, "batch", self.batch)?;
        entry(&mut map, "batchSize", self.batch_size)?;
        entry(&mut map, "maxInFlight", self.max_in_flight)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        entry(&mut map, "ackTimeoutMs", self.ack_timeout.map(millis))?;
        entry(&mut map, "member", self.member)?;
        entry(&mut map, "held", (!self.held.is_empty()).then_some(&self.held))?;
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, name: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, &value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_written_as_the_protocol_has_them() {
        let everything = SubscribeOptions {
            from: Some(Position::AfterSeq(7)),
            topics: vec!["a".into(), "b".into()],
            filter: Some(Filter {
                tags: vec!["red".into()],
                key: Some("k".into()),
                headers: vec![("h".to_owned(), "v".to_owned())],
            }),
            ordering: Some(Ordering::Key),
            coalesce: Some(true),
            max_attempts: Some(3),
            batch: Some(true),
            batch_size: Some(10),
            max_in_flight: Some(20),
            ack_timeout: Some(Duration::from_secs(5)),
            member: Some(Uuid::from_bytes([9; 16])),
            held: vec![EventId::from_bytes([7; 16])],
            when_full: WhenFull::Wait,
        };
        assert_eq!(
            serde_json::to_value(&everything).unwrap(),
            json!({
                "from": "afterSeq", "afterSeq": 7, "topics": ["a", "b"],
                "filter": {"tags": ["red"], "key": "k", "headers": {"h": "v"}},
                "ordering": "key", "coalesce": true, "maxAttempts": 3, "batch": true, "batchSize": 10,
                "maxInFlight": 20, "ackTimeoutMs": 5000,
                "member": "09090909-0909-0909-0909-090909090909",
                "held": ["07070707-0707-0707-0707-070707070707"]
            })
        );
        assert_eq!(serde_json::to_value(SubscribeOptions::default()).unwrap(), json!({}));
        let id = EventId::from_bytes([7; 16]);
        for (from, written) in [
            (Position::Latest, json!({"from": "latest"})),
            (Position::Earliest, json!({"from": "earliest"})),
            (Position::Time(5), json!({"from": "ts", "ts": 5})),
            (Position::AfterId(id), json!({"from": "afterId", "afterId": id})),
        ] {
            let options = SubscribeOptions { from: Some(from), ..Default::default() };
            assert_eq!(serde_json::to_value(&options).unwrap(), written);
        }
    }
}
