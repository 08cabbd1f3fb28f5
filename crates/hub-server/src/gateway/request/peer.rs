//! What one hub asks another for. From anybody else these operations are unknown, and these fields are refused.

use super::{
    Fields, Name, Options, attempt, event_ids, id, ids, list, name, of_group, required, several, wrong,
};
use hub_core::Held;
use hub_core::{EventId, Position, TopicName};
use hub_proto::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// The most events that a member can bring along, of each kind: as many as it may have in hand.
pub(crate) const BROUGHT: usize = 100_000;

/// What a member that is served through another hub has from the owner before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    pub held: Vec<Held>,
    pub settled: Vec<Held>,
    /// How many members of the group the hub has.
    pub members: u32,
    /// Which of them this is, for as long as its user has the subscription.
    pub member: Option<Uuid>,
    /// It rests.
    pub paused: bool,
    /// Whom it counts for what is made.
    pub subject: Option<String>,
    /// Groups of other subjects are refused.
    pub own_groups: bool,
    /// The member's id, if its client can resume it.
    pub client_member: Option<Uuid>,
    /// The client opens the member just now, and still works on these events.
    pub resumed: Option<Vec<EventId>>,
}

/// What only hubs may ask for.
#[derive(Debug)]
pub(crate) enum PeerRequest {
    /// Part of what the next SUBSCRIBE brings along: it may be more than fits in a frame.
    Bring(Brought),
    /// The member is gone; the event that may have killed it.
    Release(Name, Option<EventId>),
    /// The same, of a member that its client can resume.
    Detach(Name, Option<EventId>),
    /// What does the member hold?
    Held(Name),
    /// Events that never reached the member.
    Return { of: Name, ids: super::Ids, attempt: Option<u32> },
    /// Everything up to this ack was said before: which acks are saved?
    Saved(Name, u64),
    /// Which topics a list has.
    List(Name),
    /// Places a group anew.
    Seek(Name, Position),
    /// Deletes a group, or a subscription with its groups; whether the name is the label of a list.
    Delete(Name, bool),
}

/// Reads an operation of hubs; `None` if it is none.
pub(super) fn operation(op: &str, fields: &Fields<'_>) -> Result<Option<PeerRequest>> {
    Ok(Some(match op {
        "BRING" => PeerRequest::Bring(brought(fields)?.unwrap_or_default()),
        "RELEASE" => PeerRequest::Release(of_group(fields)?, blame(fields)?),
        "DETACH" => PeerRequest::Detach(of_group(fields)?, blame(fields)?),
        "HELD" => PeerRequest::Held(of_group(fields)?),
        "RETURN" => {
            PeerRequest::Return { of: of_group(fields)?, ids: ids(fields)?, attempt: attempt(fields)? }
        }
        "SAVED" => {
            let upto = read(required("upto", fields.upto)?, "upto", "a whole number")?;
            PeerRequest::Saved(of_group(fields)?, upto)
        }
        "LIST" => PeerRequest::List(of_group(fields)?),
        "SEEK" => {
            let Options { from, .. } = super::options(required("opts", fields.opts)?)?;
            PeerRequest::Seek(of_group(fields)?, from)
        }
        "DELETE" => {
            let is_list = match fields.label {
                Some(raw) => read(raw, "label", "true or false")?,
                None => false,
            };
            required("group", fields.group)?;
            PeerRequest::Delete(name(fields)?, is_list)
        }
        _ => return Ok(None),
    }))
}

fn blame(fields: &Fields<'_>) -> Result<Option<EventId>> {
    fields.blame.map(|raw| id("blame", raw)).transpose()
}

/// What a SUBSCRIBE brings along; `None` if it says nothing of that.
pub(super) fn brought(fields: &Fields<'_>) -> Result<Option<Brought>> {
    let Fields { held, settled, members, member, paused, for_subject, own_groups, .. } = *fields;
    if of_hubs(fields).iter().all(|(_, field)| field.is_none()) {
        return Ok(None);
    }
    Ok(Some(Brought {
        held: held.map_or(Ok(Vec::new()), |raw| events("held", raw))?,
        settled: settled.map_or(Ok(Vec::new()), |raw| events("settled", raw))?,
        members: members.map_or(Ok(0), |raw| read(raw, "members", "a whole number"))?,
        member: member.map(|raw| read(raw, "member", "a UUID")).transpose()?,
        paused: paused.map_or(Ok(false), |raw| read(raw, "paused", "true or false"))?,
        subject: for_subject.map(|raw| read(raw, "for_subject", "a string")).transpose()?,
        own_groups: own_groups
            .map(|raw| read(raw, "own_groups", "true or false"))
            .transpose()?
            .unwrap_or(false),
        client_member: fields.client_member.map(|raw| read(raw, "client_member", "a UUID")).transpose()?,
        resumed: fields.resumed.map(|raw| event_ids("resumed", raw)).transpose()?,
    }))
}

/// The fields of a SUBSCRIBE that only hubs send.
fn of_hubs<'a>(fields: &Fields<'a>) -> [(&'static str, Option<&'a RawValue>); 9] {
    [
        ("held", fields.held),
        ("settled", fields.settled),
        ("members", fields.members),
        ("member", fields.member),
        ("paused", fields.paused),
        ("for_subject", fields.for_subject),
        ("own_groups", fields.own_groups),
        ("client_member", fields.client_member),
        ("resumed", fields.resumed),
    ]
}

/// Refuses the same from somebody who is no hub.
pub(super) fn refuse_brought(fields: &Fields<'_>) -> Result<()> {
    match of_hubs(fields).iter().find(|(_, field)| field.is_some()) {
        Some((name @ ("held" | "member"), _)) => Err(Error::bad_request(format!(
            "{name} is beside opts; it is one of the options, write it in opts"
        ))),
        Some((name, _)) => Err(Error::bad_request(format!("{name} is for hubs only; leave it out"))),
        None => Ok(()),
    }
}

fn events(name: &str, raw: &RawValue) -> Result<Vec<Held>> {
    #[derive(Deserialize)]
    struct Written<'a> {
        #[serde(borrow)]
        topic: std::borrow::Cow<'a, str>,
        id: EventId,
        seq: u64,
        attempt: u32,
        #[serde(default)]
        epoch: u64,
        #[serde(default)]
        left_ms: Option<u64>,
    }
    let parts = several(raw, BROUGHT).map_err(|found| list(name, raw, found, "events", BROUGHT))?;
    let mut last: Option<TopicName> = None;
    let mut event = |raw: &RawValue| {
        let Written { topic, id, seq, attempt, epoch, left_ms: left } =
            read(raw, name, "an array of {topic, id, seq, attempt, epoch?, left_ms?}")?;
        // Most have the topic of the one before.
        let topic = match last.take().filter(|last| last.as_str() == topic) {
            Some(topic) => topic,
            None => TopicName::readable(&topic)?,
        };
        last = Some(topic.clone());
        Ok(Held { topic, id, seq, attempt, epoch, left })
    };
    parts.into_iter().map(&mut event).collect()
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, name: &str, expected: &str) -> Result<T> {
    serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, expected))
}
