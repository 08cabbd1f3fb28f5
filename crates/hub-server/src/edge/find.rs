//! Finding the owner of a group, and joining it there.

use super::Ask;
use super::ask::events;
use super::link::{Trouble, connect};
use crate::Hub;
use crate::acl::Policy;
use hub_client::{Connection, Deliveries};
use hub_core::store::HubId;
use hub_core::{ById, Held, Luggage, Owner};
use hub_proto::TopicName;
use serde::Deserialize;
use serde_json::json;
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
    Here(Box<ById>),
    There(HubId, Connection, Deliveries),
}

/// Looks who owns the group; connects if it is another hub.
pub(super) async fn look(hub: Hub, ask: Arc<Ask>) -> Result<Spot, Trouble> {
    match hub.bus().owner_of(&ask.group).await? {
        Owner::Here => Ok(Spot::Here),
        Owner::There(owner) => Ok(Spot::There(owner.id, connect(&hub, &owner).await?)),
    }
}

/// Joins the group. `policy` is asked, on a first time, whether a list of topics may be replaced.
pub(super) async fn open(
    hub: Hub,
    (ask, member): (Arc<Ask>, Uuid),
    spot: Spot,
    mut luggage: Luggage,
    paused: bool,
    policy: Option<Policy>,
) -> Result<Opened, Trouble> {
    match spot {
        Spot::Here => {
            if let Some(policy) = policy
                && let Some(stored) = hub.bus().subscription(&ask.name.topic, &ask.group)
            {
                ask.may_replace(&stored.topics, &policy)?;
            }
            let feed = ask.here(hub.bus()).bringing(luggage).open_by_id().await?;
            if paused {
                feed.subscription().pause();
            }
            Ok(Opened::Here(Box::new(feed)))
        }
        Spot::There(owner, connection) => {
            if let (Some(policy), Some(_)) = (policy, &ask.topics) {
                let stored = topics_of(&connection, &ask.name.topic, &ask.group).await?;
                ask.may_replace(&stored.unwrap_or_default(), &policy)?;
            }
            // The owner has the same limit, if they are configured alike.
            let most = (hub.settings().limits.frame_bytes / EVENT_BYTES).clamp(1, FRAME_EVENTS);
            let (held, settled) = (rest(&mut luggage.held, most), rest(&mut luggage.settled, most));
            for (held, settled) in chunks(&held, &settled, most) {
                let part = json!({"held": events(held), "settled": events(settled)});
                connection.request("BRING", &part).await?;
            }
            let deliveries = connection.subscribe(ask.there(member, &luggage, paused)).await?;
            Ok(Opened::There(owner, connection, deliveries))
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
