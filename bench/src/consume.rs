//! Consumers that ack every event by itself.

use crate::measure::{Cost, Stopwatch};
use anyhow::{Context, Result};
use hub_core::{Bus, Ordering, Position, Subscription, TopicName};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The members of one group.
pub struct Team {
    members: Vec<Subscription>,
}

impl Team {
    /// Subscribes the members of a new group to `topic`, from its beginning.
    pub async fn join(
        bus: &Bus,
        topic: &TopicName,
        group: &str,
        members: usize,
        ordering: Ordering,
    ) -> Result<Self> {
        let mut joined = Vec::with_capacity(members);
        for _ in 0..members {
            let member = bus.subscribe(topic).group(group).ordering(ordering);
            joined.push(member.from(Position::Earliest).open().await?);
        }
        Ok(Self { members: joined })
    }

    /// Nobody gets anything before [`drain`] starts.
    pub fn paused(self) -> Self {
        self.members.iter().for_each(Subscription::pause);
        self
    }
}

/// What a group still has to ack.
struct Left {
    count: AtomicUsize,
    done: Notify,
}

/// Lets the members of all teams go; measures until each team has acked `count` events.
pub async fn drain(teams: Vec<Team>, count: usize) -> Result<Cost> {
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    let mut lefts = Vec::with_capacity(teams.len());
    for team in teams {
        let left = Arc::new(Left { count: AtomicUsize::new(count), done: Notify::new() });
        for member in team.members {
            tasks.spawn(work(member, left.clone()));
        }
        lefts.push(left);
    }
    let all_done = async {
        for left in &lefts {
            left.done.notified().await;
        }
        stopwatch.stop()
    };
    let cost = tokio::select! {
        cost = all_done => cost,
        Some(failed) = tasks.join_next() => match failed.context("a member came to its end")?? {},
    };
    tasks.shutdown().await;
    Ok(cost)
}

/// Acks whatever comes, for ever.
async fn work(mut member: Subscription, left: Arc<Left>) -> Result<Infallible> {
    member.resume();
    loop {
        let delivery = member.recv().await?;
        delivery.ack()?;
        if left.count.fetch_sub(1, Relaxed) == 1 {
            left.done.notify_one();
        }
    }
}
