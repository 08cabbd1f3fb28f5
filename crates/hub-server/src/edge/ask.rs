//! What a user asked for: it is asked for again whenever the group has another owner.

use crate::acl::{Action, Policy, Target};
use crate::gateway::Name;
use hub_client::{SubscribeOptions, SubscribeRequest};
use hub_core::{Bus, GroupRequest, Luggage, Millis, Position, SubscribeGroup};
use hub_proto::{Code, Error, EventId, Result, TopicName, shown};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

/// A SUBSCRIBE with a group.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// As the user calls it.
    pub name: Name,
    pub group: String,
    /// Of a list.
    pub topics: Option<Vec<String>>,
    pub from: Position,
    pub options: GroupRequest,
    pub max_in_flight: Option<usize>,
    pub ack_timeout: Millis,
    /// What may wait for the user, in bytes.
    pub bytes: usize,
    /// Whom it counts for what is made.
    pub subject: Option<String>,
    /// Groups of other subjects are refused.
    pub own_groups: bool,
    /// The member's id, if its client can resume it.
    pub client_member: Option<Uuid>,
}

impl Ask {
    /// Whether a member that asked for `other` can go on as one that asks for this. Where a new group starts does not matter to it.
    pub fn has_terms_of(&self, other: &Self) -> bool {
        let terms = |ask: &'_ Self| (ask.max_in_flight, ask.ack_timeout, ask.own_groups);
        terms(self) == terms(other) && self.topics == other.topics && self.options == other.options
    }

    /// To this hub's own bus.
    pub fn here(&self, bus: &Bus) -> SubscribeGroup {
        let subscribe = match &self.topics {
            Some(topics) => bus.subscribe_all(&self.name.topic, topics.iter().map(String::as_str)),
            None => bus.subscribe(&self.name.topic),
        };
        let subscribe = match &self.subject {
            Some(subject) => subscribe.on_behalf_of(subject),
            None => subscribe,
        };
        let subscribe = subscribe.own_groups_only(self.own_groups);
        let member = subscribe.group(&self.group).from(self.from).options(self.options.clone());
        let member = member.ack_timeout(self.ack_timeout).max_bytes(self.bytes);
        match self.max_in_flight {
            Some(max_in_flight) => member.max_in_flight(max_in_flight),
            None => member,
        }
    }

    /// To another hub: the request, and the members of its frame beside it, with what fits into the frame of what the user has; the rest
    /// is brought before.
    /// `resumed`, on a member's first time, is what its client still works on.
    pub fn there(
        &self,
        member: Uuid,
        luggage: &Luggage,
        paused: bool,
        resumed: Option<&HashSet<EventId>>,
    ) -> (SubscribeRequest, Map<String, Value>) {
        let GroupRequest { filter, ordering, coalesce, max_attempts } = &self.options;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let options = SubscribeOptions {
            from: Some(self.from),
            topics: self.topics.clone().unwrap_or_default(),
            filter: filter.clone(),
            ordering: *ordering,
            coalesce: *coalesce,
            max_attempts: *max_attempts,
            max_in_flight: self.max_in_flight.map(number),
            ack_timeout: Some(Duration::from_millis(self.ack_timeout)),
            ..SubscribeOptions::default()
        };
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        add("members", luggage.members.into());
        add("member", member.to_string().into());
        if paused {
            add("paused", true.into());
        }
        if let Some(subject) = &self.subject {
            add("for_subject", subject.as_str().into());
        }
        if self.own_groups {
            add("own_groups", true.into());
        }
        if let Some(client_member) = self.client_member {
            add("client_member", client_member.to_string().into());
        }
        if let Some(held) = resumed {
            add("resumed", json!(held));
        }
        add("held", events(&luggage.held));
        add("settled", events(&luggage.settled));
        (SubscribeRequest::new(&self.name.topic, Some(&self.group)).options(options), members)
    }

    /// A list that exists with other topics becomes this one: that takes something from whoever reads those.
    ///
    /// # Errors
    /// `forbidden` unless `policy` allows to read those, too.
    pub fn may_replace(&self, stored: &[TopicName], policy: &Policy) -> Result<()> {
        let may = |topic: &TopicName| {
            policy.allows(Action::Subscribe, Target::Topic(topic), Some(self.group.as_str()))
        };
        if self.topics.is_none() || stored.iter().all(may) {
            return Ok(());
        }
        let msg = format!(
            "the list {} with group {} has other topics, which the token does not allow to subscribe; use another label",
            shown(&self.name.topic),
            shown(&self.group)
        );
        Err(Error::new(Code::Forbidden, msg))
    }
}

/// Events as hubs tell each other of them.
pub(crate) fn events(held: &[hub_core::Held]) -> Value {
    let event = |held: &hub_core::Held| {
        let hub_core::Held { topic, id, seq, attempt, epoch, left } = held;
        let mut event = json!({"topic": topic.as_str(), "id": id, "seq": seq, "attempt": attempt});
        if *epoch > 0 {
            event["epoch"] = json!(epoch);
        }
        if let Some(left) = left {
            event["left_ms"] = json!(left);
        }
        event
    };
    Value::Array(held.iter().map(event).collect())
}
