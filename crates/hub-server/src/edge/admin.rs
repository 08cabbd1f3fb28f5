//! Placing and deleting groups, wherever they are served.

use super::find::topics_of;
use super::link::{Trouble, connect};
use crate::Hub;
use hub_client::{Connection, SubscribeOptions};
use hub_core::{Bus, Owner, Position};
use hub_proto::{Code, Error, GroupName, Result, TopicName};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The first wait before the owner is looked for again; it doubles.
const FIRST: Duration = Duration::from_millis(20);
/// The longest one.
const LONGEST: Duration = Duration::from_millis(250);
/// Whoever asks is answered within this.
const PATIENCE: Duration = Duration::from_secs(15);

/// What to do with a group.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Place it on a topic.
    Seek(TopicName, Position),
    /// Delete it on a topic, or the subscription to a pattern with all its groups.
    Delete(String),
    /// Delete the subscription to the list with this label.
    DeleteList(String),
}

/// Does it at the hub that owns the group; the new seq, or how many groups went.
///
/// # Errors
/// Those of the bus; `unavailable` if the owner cannot be reached.
pub(crate) async fn act(hub: &Hub, group: &GroupName, act: &Act) -> Result<u64> {
    let mut search = Search::new();
    loop {
        let done = match search.owner(hub, group).await {
            Ok(None) => act_here(hub.bus(), group, act).await.map_err(of_this_hub),
            Ok(Some(owner)) => {
                let done = ask(&owner, group, act).await;
                owner.close().await;
                done
            }
            Err(trouble) => Err(trouble),
        };
        match done {
            Ok(done) => return Ok(done),
            Err(trouble) => search.again(group, trouble).await?,
        }
    }
}

/// The same at this hub alone.
///
/// # Errors
/// Those of the bus, `not_owner` among them.
pub(crate) async fn act_here(bus: &Bus, group: &str, act: &Act) -> Result<u64> {
    Ok(match act {
        Act::Seek(topic, to) => bus.set_cursor(topic, group, *to).await?,
        Act::Delete(topic) => bus.delete_group(topic, group).await? as u64,
        Act::DeleteList(label) => bus.delete_list(label, group).await? as u64,
    })
}

async fn ask(owner: &Connection, group: &GroupName, act: &Act) -> Result<u64, Trouble> {
    #[derive(Deserialize)]
    struct Done {
        done: u64,
    }
    let answer = match act {
        Act::Seek(topic, to) => {
            let opts = SubscribeOptions { from: Some(*to), ..SubscribeOptions::default() };
            owner.request("SEEK", &json!({"topic": topic, "group": group, "opts": opts})).await?
        }
        Act::Delete(topic) => owner.request("DELETE", &json!({"topic": topic, "group": group})).await?,
        Act::DeleteList(label) => {
            owner.request("DELETE", &json!({"topic": label, "group": group, "label": true})).await?
        }
    };
    Ok(answer.read::<Done>()?.done)
}

/// The topics of a list, as the hub that owns the group has them; `None` if there is no such list.
///
/// # Errors
/// `unavailable` if the owner cannot be reached.
pub(crate) async fn list_at_owner(
    hub: &Hub,
    label: &str,
    group: &GroupName,
) -> Result<Option<Vec<TopicName>>> {
    let mut search = Search::new();
    loop {
        let topics = match search.owner(hub, group).await {
            Ok(None) => Ok(hub.bus().subscription(label, group).map(|record| record.topics)),
            Ok(Some(owner)) => {
                let topics = topics_of(&owner, label, group).await;
                owner.close().await;
                topics
            }
            Err(trouble) => Err(trouble),
        };
        match topics {
            Ok(topics) => return Ok(topics.filter(|topics| !topics.is_empty())),
            Err(trouble) => search.again(group, trouble).await?,
        }
    }
}

/// What this hub cannot do, nobody else can do for it, unless the group has gone to another one.
fn of_this_hub(error: Error) -> Trouble {
    match error.code {
        Code::NotOwner => error.into(),
        _ => Trouble::Ended(error),
    }
}

/// The search for the owner of a group, while that changes hands.
struct Search {
    deadline: Instant,
    wait: Duration,
}

impl Search {
    fn new() -> Self {
        Self { deadline: Instant::now() + PATIENCE, wait: FIRST }
    }

    /// A connection to the owner; `None` if this hub is.
    async fn owner(&self, hub: &Hub, group: &GroupName) -> Result<Option<Connection>, Trouble> {
        match hub.bus().owner_of(group).await.map_err(of_this_hub)? {
            Owner::Here => Ok(None),
            Owner::There(owner) => connect(hub, &owner).await.map(Some),
        }
    }

    /// Waits a moment, unless it has lasted for too long.
    async fn again(&mut self, group: &GroupName, trouble: Trouble) -> Result<()> {
        let why = match trouble {
            Trouble::Ended(error) => return Err(error),
            Trouble::Again(why) => why,
        };
        if Instant::now() + self.wait >= self.deadline {
            return Err(Error::unavailable(format!(
                "the hub that serves group {group} cannot be reached: {why}; try again"
            )));
        }
        tokio::time::sleep(self.wait).await;
        self.wait = (2 * self.wait).min(LONGEST);
        Ok(())
    }
}
