//! Readers without a group that coalesce: they get the newest event of every key, miss none, and never lag.

use super::SimStore;
use super::model::Log;
use super::steps::pick;
use super::world::{Life, Step, World, known, settle};
use crate::subscribe::{Watch, Watched};
use hub_proto::{Event, Position, TopicName};

/// What is watched: a topic that is compacted, one that keeps little, and one that keeps everything.
const WATCHED: [&str; 3] = ["c.state", "r.log", "a.one"];
/// More give way.
const WATCHERS: usize = 3;

pub(super) struct Watcher {
    watch: Watch,
    topic: TopicName,
    /// The last event that it got.
    seq: u64,
}

impl<S: SimStore> World<'_, S> {
    /// A reader comes, and another one goes if there are many.
    pub(super) async fn watch(&mut self, life: &mut Life, topic: u64) -> Step {
        let topic = WATCHED[(topic % WATCHED.len() as u64) as usize];
        let subscribe = life.bus.subscribe(topic).from(Position::Earliest).coalesce(true);
        match subscribe.watch().await {
            Ok(watch) => {
                let topic = topic.parse().expect("a valid name");
                life.watchers.push(Watcher { watch, topic, seq: 0 });
            }
            // A failing store is allowed to fail.
            Err(error) if !self.healthy(life) => self.say(|| format!("no watch: {error}")),
            Err(error) => return Err(format!("watching {topic}: {error}")),
        }
        if life.watchers.len() > WATCHERS {
            life.watchers.remove(0);
        }
        Ok(())
    }

    /// A reader takes up to `count` events. It gives up waiting in the middle of whatever it is at.
    pub(super) async fn look(&mut self, life: &mut Life, watcher: u64, count: u64) -> Step {
        let Some(at) = pick(&life.watchers, watcher) else { return Ok(()) };
        let (mut patience, mut left) = (3, count);
        while left > 0 && patience > 0 {
            let watched = tokio::select! {
                biased;
                watched = life.watchers[at].watch.recv() => Some(watched),
                () = settle() => None,
            };
            self.tick(life);
            match watched {
                None => patience -= 1,
                Some(Ok(Watched::Event(event))) => {
                    self.sync().await?;
                    self.watched(&mut life.watchers[at], &event)?;
                    left -= 1;
                }
                Some(Ok(lagged @ Watched::Lagged { .. })) => {
                    return Err(format!("a reader that coalesces got {lagged:?}"));
                }
                Some(Err(_)) if !self.healthy(life) => patience -= 1,
                Some(Err(error)) => return Err(format!("a reader got {error}")),
            }
        }
        Ok(())
    }

    fn watched(&mut self, watcher: &mut Watcher, event: &Event) -> Step {
        let Watcher { topic, seq: before, .. } = watcher;
        let seq = event.seq();
        let log = self.model.topics.get(topic).filter(|_| event.topic() == topic);
        if log.and_then(|log| log.events.get(seq as usize - 1)) != Some(&known(event)) {
            return Err(format!("a reader of {topic} got an event at {seq} that is not the one in the log"));
        }
        if seq <= *before {
            return Err(format!("a reader of {topic} got {seq} after {before}"));
        }
        if let Some(missed) = log.and_then(|log| missed(log, *before, seq)) {
            return Err(format!("a reader of {topic} got {seq} after {before} and missed {missed}"));
        }
        *before = seq;
        self.note(seq);
        Ok(())
    }

    /// Everybody reads to the end: what is not overtaken has come.
    pub(super) async fn drain_watchers(&mut self, life: &mut Life) -> Step {
        for at in 0..life.watchers.len() as u64 {
            self.look(life, at, u64::MAX).await?;
        }
        for Watcher { topic, seq, .. } in &life.watchers {
            let Some(log) = self.model.topics.get(topic) else { continue };
            if let Some(missed) = missed(log, *seq, log.last() + 1) {
                return Err(format!("a reader of {topic} stopped at {seq} and missed {missed}"));
            }
        }
        Ok(())
    }
}

/// The first event between two that is there, and that no newer one of its key has overtaken.
fn missed(log: &Log, after: u64, before: u64) -> Option<u64> {
    let is_overtaken = |seq: u64| log.key(seq).is_some_and(|key| log.newest_of(key) > seq);
    log.present.range(after + 1..before).copied().find(|&seq| !is_overtaken(seq))
}
