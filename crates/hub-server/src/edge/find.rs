//! Finding the owner of a group, and joining it there.

use super::Ask;
use super::ask::events;
use super::detached::{Arriving, DetachedMembers, MemberAttachment, Recall};
use super::link::{Trouble, connect};
use crate::Hub;
use crate::acl::Policy;
use hub_client::{Connection, Deliveries};
use hub_core::store::HubId;
use hub_core::{ById, Held, Luggage, Owner};
use hub_proto::{EventId, TopicName};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// The most events in one frame of luggage.
const FRAME_EVENTS: usize = 2_000;
/// The most that one of them takes, twice over, and room for the rest of the frame.
const EVENT_BYTES: usize = 2_048;

/// Where a group is served.
pub(super) enum Spot {
    Here,
    There(HubId, Connection),
}

/// A member that was opened.
pub(super) enum Opened {
    Here(Box<ById>, Option<MemberAttachment>),
    There(Box<OpenedThere>),
}

/// A member that another hub serves.
pub(super) struct OpenedThere {
    pub owner: HubId,
    pub connection: Connection,
    pub deliveries: Deliveries,
    /// What a member that was resumed goes on holding.
    pub resumed: Vec<Held>,
    /// It was opened so that nothing is delivered yet.
    pub is_paused: bool,
}

/// What matters only when a client opens a member, and not when the member moves to another owner.
#[derive(Clone)]
pub(super) struct FirstTime {
    /// Says whether a list of topics may be replaced.
    pub policy: Policy,
    /// What the client still works on, of a member that it resumes.
    pub held: Option<Arc<HashSet<EventId>>>,
}

/// A member that joins a group which this hub serves.
pub(crate) struct Joining<'a> {
    pub ask: &'a Ask,
    /// It can be found again when its connection is lost.
    pub arriving: Option<Arriving>,
    /// What it brings along from the owner before.
    pub luggage: Option<Luggage>,
    /// What the client still works on, of a member that it resumes.
    pub resumed: Option<&'a HashSet<EventId>>,
}

/// Joins a group that this hub serves, or goes on with the subscription that waits for its member.
pub(crate) async fn join_here(
    hub: &Hub,
    joining: Joining<'_>,
) -> hub_proto::Result<(Box<ById>, Option<MemberAttachment>)> {
    let Joining { ask, arriving, luggage, resumed } = joining;
    let (attachment, before) = match &arriving {
        Some(arriving) => {
            let (attachment, before) = DetachedMembers::attach(hub, arriving).await?;
            (Some(attachment), before)
        }
        None => (None, None),
    };
    let feed = match (before, luggage) {
        (Some(mut feed), luggage) => {
            // Of a client that says nothing of what it holds, nothing is known to have arrived.
            match (arriving.is_some_and(|arriving| arriving.is_again), luggage) {
                (true, Some(luggage)) => feed.come_back(&luggage.held, &luggage.settled),
                (true, None) => {}
                (false, _) => feed.keep_only(resumed.unwrap_or(&HashSet::new())),
            }
            feed.subscription().resume();
            feed
        }
        (None, Some(luggage)) => Box::new(ask.here(hub.bus()).bringing(luggage).open_by_id().await?),
        (None, None) => Box::new(ask.here(hub.bus()).open_by_id().await?),
    };
    Ok((feed, attachment))
}

/// Looks who owns the group; connects if it is another hub.
pub(super) async fn look(hub: Hub, ask: Arc<Ask>) -> Result<Spot, Trouble> {
    match hub.bus().owner_of(&ask.group).await? {
        Owner::Here => Ok(Spot::Here),
        Owner::There(owner) => Ok(Spot::There(owner.id, connect(&hub, &owner).await?)),
    }
}

/// A member that looks for the owner of its group.
pub(super) struct Opening {
    pub hub: Hub,
    pub ask: Arc<Ask>,
    pub member: Uuid,
    pub recall: Arc<Recall>,
    pub luggage: Luggage,
    pub paused: bool,
    pub first_time: Option<FirstTime>,
}

/// Joins the group.
pub(super) async fn open(spot: Spot, opening: Opening) -> Result<Opened, Trouble> {
    let Opening { hub, ask, member, recall, mut luggage, paused, first_time } = opening;
    let resumed = first_time.as_ref().and_then(|first_time| first_time.held.clone());
    match spot {
        Spot::Here => {
            if let Some(FirstTime { policy, .. }) = &first_time
                && let Some(stored) = hub.bus().subscription(&ask.name.topic, &ask.group)
            {
                ask.may_replace(&stored.topics, policy)?;
            }
            let arriving = Arriving::of_client(&ask, member, first_time.is_some(), recall);
            let joining =
                Joining { ask: &ask, arriving, luggage: Some(luggage), resumed: resumed.as_deref() };
            let (feed, attachment) = join_here(&hub, joining).await?;
            if paused {
                feed.subscription().pause();
            }
            Ok(Opened::Here(feed, attachment))
        }
        Spot::There(owner, connection) => {
            if let (Some(FirstTime { policy, .. }), Some(_)) = (&first_time, &ask.topics) {
                let stored = topics_of(&connection, &ask.name.topic, &ask.group).await?;
                ask.may_replace(&stored.unwrap_or_default(), policy)?;
            }
            // The owner has the same limit, if they are configured alike.
            let most = (hub.settings().limits.frame_bytes / EVENT_BYTES).clamp(1, FRAME_EVENTS);
            let (held, settled) = (rest(&mut luggage.held, most), rest(&mut luggage.settled, most));
            for (held, settled) in chunks(&held, &settled, most) {
                let part = json!({"held": events(held), "settled": events(settled)});
                connection.request("BRING", &part).await?;
            }
            // What the client holds has to be known before more is delivered.
            let has_held = resumed.as_ref().is_some_and(|held| !held.is_empty());
            let is_paused = paused || has_held;
            let resumed = ask.client_member.and(first_time).map(|_| resumed.unwrap_or_default());
            let (request, members) = ask.there(member, &luggage, is_paused, resumed.as_deref());
            let deliveries = connection.subscribe_with(request, &members).await?;
            let deliveries =
                Unfinished { deliveries: Some(deliveries), can_resume: ask.client_member.is_some() };
            let resumed = match has_held {
                true => held_of(&connection, &ask.name.topic, &ask.group).await?,
                false => Vec::new(),
            };
            let Some(deliveries) = deliveries.finish() else {
                return Err(Trouble::Again("the subscription was given up".into()));
            };
            Ok(Opened::There(Box::new(OpenedThere { owner, connection, deliveries, resumed, is_paused })))
        }
    }
}

/// A member that is being opened at another hub. If that is given up, because its client is gone again, the owner keeps the leases
/// that the client can resume: it is not told of an end, it loses the connection.
struct Unfinished {
    deliveries: Option<Deliveries>,
    can_resume: bool,
}

impl Unfinished {
    fn finish(mut self) -> Option<Deliveries> {
        self.deliveries.take()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(deliveries) = self.deliveries.take().filter(|_| self.can_resume) {
            deliveries.detach();
        }
    }
}

/// What is too much for one frame.
fn rest(events: &mut Vec<Held>, most: usize) -> Vec<Held> {
    if events.len() > most { events.split_off(most) } else { Vec::new() }
}

/// The same in frames.
fn chunks<'a>(
    held: &'a [Held],
    settled: &'a [Held],
    most: usize,
) -> impl Iterator<Item = (&'a [Held], &'a [Held])> {
    let held = held.chunks(most).map(|held| (held, &[][..]));
    held.chain(settled.chunks(most).map(|settled| (&[][..], settled)))
}

/// What a member holds at the hub that serves it.
async fn held_of(connection: &Connection, topic: &str, group: &str) -> Result<Vec<Held>, Trouble> {
    #[derive(Deserialize)]
    struct Answer {
        held: Vec<WrittenLease>,
    }
    let answer = connection.request("HELD", &json!({"topic": topic, "group": group})).await?;
    Ok(answer.read::<Answer>()?.held.into_iter().map(Held::from).collect())
}

/// A lease as hubs tell each other of it; see [`events`].
#[derive(Deserialize)]
struct WrittenLease {
    topic: TopicName,
    id: EventId,
    seq: u64,
    attempt: u32,
    #[serde(default)]
    epoch: u64,
    left_ms: Option<u64>,
}

impl From<WrittenLease> for Held {
    fn from(lease: WrittenLease) -> Self {
        let WrittenLease { topic, id, seq, attempt, epoch, left_ms: left } = lease;
        Self { topic, id, seq, attempt, epoch, left }
    }
}

/// The topics of a list that another hub has; `None` if there is no such list.
pub(super) async fn topics_of(
    connection: &Connection,
    label: &str,
    group: &str,
) -> Result<Option<Vec<TopicName>>, Trouble> {
    #[derive(Deserialize)]
    struct Listed {
        #[serde(default)]
        topics: Option<Vec<TopicName>>,
    }
    let answer = connection.request("LIST", &json!({"topic": label, "group": group})).await?;
    Ok(answer.read::<Listed>()?.topics)
}
