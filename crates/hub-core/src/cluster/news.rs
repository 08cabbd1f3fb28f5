//! Hearing of what other hubs commit.
//!
//! News only say that there is something; what it is, is read from the store, once per topic however many groups wait for
//! it. While no other hub is alive there is nothing to hear.

use super::Cluster;
use crate::engine::{By, Engine};
use crate::store::{Bounds, Changes, ReadLimit, StoreResult};
use crate::topic::{Topic, Waiter};
use hub_proto::TopicName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often everybody's tails are asked for while the news do not come.
const POLL: Duration = Duration::from_millis(250);
/// How often while they do: the net below them.
const SURE: Duration = Duration::from_secs(2);
/// How often while no other hub is there.
const ALONE: Duration = Duration::from_secs(10);
/// Every so many times all topics are asked for, not only those that somebody waits for.
const ALL: u32 = 16;
/// Topics that are read at once.
const READS: usize = 8;
/// One read for the tail of a topic.
const BLOCK: ReadLimit = ReadLimit { events: 1024, bytes: 1 << 20 };
/// A topic that is further behind is left to its readers.
const FAR: u64 = 4096;
/// A commit of our own may be what the news are about: it is answered in a moment.
const MOMENT: Duration = Duration::from_millis(2);

impl Cluster {
    /// Follows the news for as long as the hub runs.
    pub async fn follow(&self, engine: &Arc<Engine>) {
        let (mut lost, mut times) = (false, 0);
        loop {
            while !self.has_others() {
                tokio::select! {
                    () = self.joined.notified() => {}
                    // One that came and went between two heartbeats may have left something.
                    () = tokio::time::sleep(ALONE) => drop(self.make_sure(engine, &mut times).await),
                }
            }
            match self.shared.changes().await {
                Ok(mut changes) => {
                    if std::mem::take(&mut lost) {
                        tracing::info!("news of other hubs' events come again");
                    }
                    // From here on nothing is missed; what was committed before is asked for.
                    let heard = self.ask(engine).await;
                    let error = match heard {
                        Ok(()) => self.listen(engine, &mut *changes).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = error {
                        engine.metrics.news_lost();
                        tracing::warn!(%error, "the news of other hubs' events are lost; asking every {POLL:?} until they are back");
                        lost = true;
                    }
                }
                Err(error) => {
                    if !lost {
                        engine.metrics.news_lost();
                        tracing::warn!(%error, "there are no news of other hubs' events; asking every {POLL:?}");
                    }
                    lost = true;
                }
            }
            if lost {
                tokio::time::sleep(POLL).await;
                // An error was told above.
                let _ = self.make_sure(engine, &mut times).await;
            }
        }
    }

    /// Listens until the news are lost, or no other hub is left.
    async fn listen(&self, engine: &Arc<Engine>, changes: &mut dyn Changes) -> StoreResult<()> {
        let mut sure = tokio::time::interval(SURE);
        sure.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut times = 0;
        let mut reads = JoinSet::new();
        let mut behind: BTreeMap<TopicName, u64> = BTreeMap::new();
        loop {
            while reads.len() < READS
                && let Some((topic, seq)) = behind.pop_first()
            {
                reads.spawn_on(catch_up(engine.clone(), topic, seq), &engine.runtime);
            }
            tokio::select! {
                news = changes.next() => {
                    for (topic, seq) in news? {
                        let known = behind.entry(topic).or_default();
                        *known = seq.max(*known);
                    }
                }
                Some(_) = reads.join_next() => {}
                _ = sure.tick() => {
                    if !self.has_others() {
                        // What the last one has left behind.
                        return self.ask(engine).await;
                    }
                    self.make_sure(engine, &mut times).await?;
                }
            }
        }
    }

    /// Asks for the tails of all topics: there may be new ones.
    pub async fn ask(&self, engine: &Arc<Engine>) -> StoreResult<()> {
        for (name, last) in self.in_time(self.shared.tails(None)).await? {
            if last <= engine.deletions.upto(&name) && engine.find(&name).is_none() {
                // Only what was deleted is left of it.
                continue;
            }
            let Ok(topic) = engine.topic(&name, By::Hub) else { continue };
            learn(&topic, last);
        }
        Ok(())
    }

    /// Asks for the tails that somebody waits for, and now and then for all.
    async fn make_sure(&self, engine: &Arc<Engine>, time: &mut u32) -> StoreResult<()> {
        *time += 1;
        if time.is_multiple_of(ALL) {
            return self.ask(engine).await;
        }
        let waited: Vec<TopicName> = engine
            .topics()
            .chain(engine.system_topics())
            .filter(|topic| topic.is_waited_for())
            .map(|topic| topic.name.clone())
            .collect();
        if waited.is_empty() {
            return Ok(());
        }
        for (name, last) in self.in_time(self.shared.tails(Some(&waited))).await? {
            engine.find(&name).into_iter().for_each(|topic| learn(&topic, last));
        }
        Ok(())
    }
}

fn learn(topic: &Topic, last: u64) {
    topic.learn(Bounds { last, ..Bounds::default() }).into_iter().for_each(Waiter::wake);
}

/// Brings what others have committed into the tail of a topic.
async fn catch_up(engine: Arc<Engine>, name: TopicName, seq: u64) {
    if seq <= engine.deletions.upto(&name) {
        return;
    }
    let Ok(topic) = engine.topic(&name, By::Hub) else { return };
    for _ in 0..3 {
        if topic.last() >= seq || !topic.is_committing() {
            break;
        }
        tokio::time::sleep(MOMENT).await;
    }
    while topic.last() < seq {
        let last = topic.last();
        if !topic.is_waited_for() || seq - last > FAR {
            return learn(&topic, seq);
        }
        match engine.store.read(&name, last, BLOCK).await {
            Ok(events) if !events.is_empty() => {
                for run in events.chunk_by(|a, b| a.seq() + 1 == b.seq()) {
                    let waiters = engine.tails.append(&topic, run.to_vec());
                    waiters.into_iter().for_each(Waiter::wake);
                }
            }
            // Whoever waits asks the store himself, and says so if it does not answer.
            _ => return learn(&topic, seq),
        }
    }
}
