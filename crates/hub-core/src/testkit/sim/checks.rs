//! After every step, and at the end: is everything as the model says?

use super::SimStore;
use super::model::{Log, Model};
use super::op::Op;
use super::world::{Life, Step, World, known, settle};
use crate::Reason;
use crate::clock::Clock;
use crate::store::ReadLimit;
use hub_proto::{Event, GroupName, TopicName};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<S: SimStore> World<'_, S> {
    /// The model's clock follows.
    pub(super) fn tick(&mut self, life: &Life) {
        self.model.now = self.base + life.clock.steady();
        self.model.healthy_since = self.model.healthy_since.max(self.faults.lock().felt_until);
        self.model.expire();
    }

    pub(super) async fn check(&mut self, life: &mut Life) -> Step {
        self.tick(life);
        self.sync().await?;
        self.answers(life).await?;
        for at in self.model.groups.keys().cloned().collect::<Vec<_>>() {
            let status = life.bus.group(&at.0, &at.1);
            match status {
                Some(status) => self.model.floor(&at, status.floor)?,
                // The engine is down, or a topic was seen whose commit it has not heard of yet.
                None if life.bus.topics().is_empty() || !self.healthy(life) => {}
                None => return Err(format!("{at:?} is gone")),
            }
        }
        self.nothing_owed(life)
    }

    /// Takes note of what was committed and of what was cleaned away: the truth about the log.
    pub(super) async fn sync(&mut self) -> Step {
        let all = ReadLimit { events: usize::MAX, bytes: usize::MAX };
        let seen = std::mem::take(&mut *self.seen.lock());
        seen.iter().try_for_each(|event| self.committed(event))?;
        let image = self.truth.load().await.map_err(|error| error.to_string())?;
        for (topic, bounds) in image.topics {
            // What a crash cut off was committed without anybody seeing it.
            let last = self.model.topics.get(&topic).map_or(0, Log::last);
            if last < bounds.last {
                let read = self.truth.read(&topic, last, all).await.map_err(|error| error.to_string())?;
                read.iter().try_for_each(|event| self.committed(event))?;
            }
            let Some(log) = self.model.topics.get_mut(&topic) else { continue };
            if bounds.events as usize != log.present.len() {
                let kept = self.truth.read(&topic, 0, all).await.map_err(|error| error.to_string())?;
                cleaned(&topic, log, &kept)?;
            }
        }
        Ok(())
    }

    pub(super) fn committed(&mut self, event: &Event) -> Step {
        let topic = event.topic();
        if !self.model.topics.contains_key(topic) {
            self.model.topics.insert(topic.clone(), Log::default());
            for at in self.existing.clone() {
                if self.targets[at].covers(topic) {
                    self.found(at, topic.clone(), 0);
                }
            }
        }
        let log = self.model.topics.get_mut(topic).expect("inserted above");
        if event.seq() != log.last() + 1 {
            return Err(format!("{topic} has {} after {}", event.seq(), log.last()));
        }
        log.events.push(known(event));
        log.present.insert(event.seq());
        if let Some(story) = &mut self.story {
            story.push(format!("{}: {topic} gets {} key {:?}", self.model.now, event.seq(), event.key()));
        }
        self.stats.events += 1;
        if topic.is_dead_letter() {
            let letter: Letter = event.decode().map_err(|error| error.to_string())?;
            self.stats.dead_letters += 1;
            self.model.buried(&(letter.topic, letter.group), letter.original.seq)?;
        }
        Ok(())
    }

    pub(super) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    pub(super) fn note(&mut self, what: u64) {
        self.stats.digest = (self.stats.digest ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    }

    /// Everybody consumes until nothing is left; then everything must be accounted for.
    pub(super) async fn drain(&mut self, life: &mut Life) -> Step {
        self.faults.lock().left = 0;
        life.clock.advance(2_000).await;
        self.check(life).await?;
        while let Some(member) = life.members.pop() {
            let id = member.id;
            member.feed.close();
            self.model.left(id, &[]);
        }
        for at in 0..self.targets.len() as u64 {
            self.join(life, at, 100, 3_600_000, at % 2 == 0).await?;
        }
        let open = |life: &Life, model: &Model| {
            let statuses = model.groups.keys().filter_map(|at| life.bus.group(&at.0, &at.1));
            statuses
                .filter(|status| status.reason != Some(Reason::CaughtUp) || status.lag > 0)
                .collect::<Vec<_>>()
        };
        for _ in 0..200 {
            for member in 0..life.members.len() as u64 {
                self.receive(life, member, 50).await?;
                self.carry_out(&Op::AckAll { member }, life).await?;
            }
            settle().await;
            self.check(life).await?;
            if open(life, &self.model).is_empty() {
                break;
            }
            life.clock.advance(500).await;
        }
        let open = open(life, &self.model);
        if !open.is_empty() {
            return Err(format!("some groups do not come to their end: {open:?}"));
        }
        for at in self.model.groups.keys() {
            self.model.drained(at)?;
        }
        self.drain_watchers(life).await?;
        self.snapshot(life).await
    }

    /// The snapshot of the compacted topic says what its newest events say.
    pub(super) async fn snapshot(&mut self, life: &Life) -> Step {
        if self.model.topics.get("c.state").is_none_or(|log| log.last() == 0) {
            return Ok(());
        }
        life.bus.clean("c.state").await.map_err(|error| error.to_string())?;
        let text = |error: hub_proto::Error| error.to_string();
        let newest = life.bus.latest_page("c.state", None, None).await.map_err(text)?;
        let snapshot = life.bus.latest_page("c.state.snapshot", None, None).await.map_err(text)?;
        let newest: Vec<_> = newest.iter().map(|event| (event.key().cloned(), event.seq())).collect();
        let mut written = Vec::new();
        for entry in
            snapshot.iter().filter(|event| event.key().is_some_and(|key| &**key != crate::snapshot::UPTO))
        {
            let value: serde_json::Value = entry.decode().map_err(text)?;
            written.push((entry.key().cloned(), value["seq"].as_u64().unwrap_or(0)));
        }
        if newest != written {
            return Err(format!("the snapshot says {written:?}, the topic {newest:?}"));
        }
        Ok(())
    }
}

/// Cleaning removed something: only what the settings let go.
fn cleaned(topic: &TopicName, log: &mut Log, kept: &[Arc<Event>]) -> Step {
    let kept: BTreeSet<u64> = kept.iter().map(|event| event.seq()).collect();
    if let Some(back) = kept.difference(&log.present).next() {
        return Err(format!("{topic} has {back} again after it was cleaned away"));
    }
    let first = kept.first().copied().unwrap_or(u64::MAX);
    for &seq in log.present.difference(&kept) {
        let known = &log.events[seq as usize - 1];
        let newer =
            log.events[seq as usize..].iter().any(|newer| newer.key.is_some() && newer.key == known.key);
        let allowed = match topic.as_str() {
            "r.log" => seq < first,
            "c.state" => known.key.is_some() && (newer || known.payload == b"null"),
            name => name.ends_with(".snapshot"),
        };
        if !allowed {
            return Err(format!("{topic} lost {seq}"));
        }
    }
    log.present = kept;
    Ok(())
}
/// What a dead letter says.
#[derive(Deserialize)]
struct Letter {
    topic: TopicName,
    group: GroupName,
    original: Original,
}

#[derive(Deserialize)]
struct Original {
    seq: u64,
}
