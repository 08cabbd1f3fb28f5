//! Cleaning: retention and compaction, announced before they happen.
//!
//! A hub that appends knows a topic's end, and that knowledge may be a minute old. If numbers that it is about to use
//! could be taken, read and cleaned away meanwhile, its insert would land in the hole. So nothing is deleted before
//! everybody has had the time to hear of it:
//!
//! 1. **Plan.** The cleaner reads the topic's end, picks what goes below it (never the newest record: the numbering goes
//!    by that), raises `clean_floor` and writes the ids that have to be remembered into `dedupe`.
//! 2. It waits, by its own steady clock, for [`Options::clean_delay`](crate::Options): ten minutes.
//! 3. **Delete**, in small transactions that count what they remove, from the lowest seq up.
//!
//! What is due is deleted before more is planned, so a plan that cannot be made keeps nothing from being deleted. Plans are small, and
//! planning goes on for [`PLANNING`] at most: what is left is for the next time, and other topics have their turn.
//!
//! Plans are kept in memory. A cleaner that is started again plans anew; announcing the same twice changes nothing. If
//! the settings of a topic change, plans that were made under the old ones are dropped: floors stay raised, which
//! costs nothing.

mod delete;
mod plan;
mod remember;

use self::plan::Plan;
use crate::append::Appender;
use crate::append::topic::{TRUST, read_tail};
use crate::db::Db;
use crate::error::Trouble;
use crate::read;
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::store::{CleanPolicy, Cleaned};
use hub_proto::TopicName;
use mongodb::bson::{Bson, Document, doc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long one call plans.
const PLANNING: Duration = Duration::from_secs(30);
/// Ids that are forgotten at once.
const FORGOTTEN: i64 = 10_000;

/// Plans, and what they are made under.
pub struct Cleaner {
    db: Db,
    delay: Duration,
    plans: parking_lot::Mutex<PlansByTopic>,
}

type PlansByTopic = HashMap<(TopicName, Purpose), Arc<Mutex<Plans>>, RandomState>;

/// What plans are for. Those of one purpose do not disturb those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Retention and compaction of a topic that is there.
    Upkeep,
    /// Removing what was deleted with its topic.
    Deletion,
}

/// What is planned for one topic, oldest first.
#[derive(Default)]
struct Plans {
    rules: Rules,
    waiting: VecDeque<Plan>,
}

/// What of a policy does not change by the passing of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rules {
    by_age: bool,
    max_bytes: Option<u64>,
    compact: bool,
}

impl Rules {
    fn of(policy: &CleanPolicy) -> Self {
        Self {
            by_age: policy.committed_before.is_some(),
            max_bytes: policy.max_bytes,
            compact: policy.compact,
        }
    }
}

impl Cleaner {
    pub fn new(db: Db, delay: Duration) -> Self {
        Self { db, delay, plans: parking_lot::Mutex::default() }
    }

    /// Plans what `policy` does not keep, and deletes what was planned long enough ago. A cleaner that hardly waits holds
    /// its own hub's appends up meanwhile: they would not hear of it in time.
    pub async fn clean(
        &self,
        topic: &TopicName,
        purpose: Purpose,
        policy: &CleanPolicy,
        appender: &Appender,
    ) -> Result<Cleaned, Trouble> {
        let plans = self.plans.lock().entry((topic.clone(), purpose)).or_default().clone();
        // One at a time per topic: plans build on each other.
        let mut plans = plans.lock().await;
        let rules = Rules::of(policy);
        if plans.rules != rules {
            plans.waiting.clear();
            plans.rules = rules;
        }
        let _held = match self.delay < 2 * TRUST {
            true => Some(appender.hold(topic).await),
            false => None,
        };
        let mut removed = self.delete_due(topic, &mut plans).await?;
        let is_planned = self.plan(topic, policy, &mut plans).await?;
        removed += self.delete_due(topic, &mut plans).await?;
        self.forget(topic, policy.ids_since).await?;
        let is_partial = !is_planned || !plans.waiting.is_empty();
        Ok(Cleaned { removed, bounds: read::bounds(&self.db, topic).await?, is_partial })
    }

    /// Plans what `policy` does not keep; `false` if there is more than could be planned in time.
    async fn plan(
        &self,
        topic: &TopicName,
        policy: &CleanPolicy,
        plans: &mut Plans,
    ) -> Result<bool, Trouble> {
        let until = Instant::now() + PLANNING;
        // What comes meanwhile is for the next time: who follows a topic that grows never comes to its end.
        let tail = read_tail(&self.db, topic, None).await?;
        while let Some(plan) = plan::make(&self.db, topic, policy, tail, &plans.waiting).await? {
            plans.waiting.push_back(plan);
            if Instant::now() >= until {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes what was planned long enough ago; answers how many records there were.
    async fn delete_due(&self, topic: &TopicName, plans: &mut Plans) -> Result<u64, Trouble> {
        let mut removed = 0;
        while let Some(plan) =
            plans.waiting.front_mut().filter(|plan| self.db.clock.since(plan.told) >= self.delay)
        {
            removed += delete::run(&self.db, topic, plan).await?;
            plans.waiting.pop_front();
        }
        Ok(removed)
    }

    /// Ids that nobody has to remember any more go, a part after the other: each is done within the limit of a call.
    async fn forget(&self, topic: &TopicName, since: Millis) -> Result<(), Trouble> {
        let old = doc! { "topic": topic.as_str(), "committed": { "$lt": crate::document::signed(since) } };
        loop {
            let find = self.db.dedupe.find(old.clone()).projection(doc! { "_id": 1 }).limit(FORGOTTEN);
            let found: Vec<Document> = self.db.call(async { find.await?.try_collect().await }).await?;
            let ids: Vec<&Bson> = found.iter().filter_map(|found| found.get("_id")).collect();
            if !ids.is_empty() {
                let these = doc! { "topic": topic.as_str(), "_id": { "$in": &ids } };
                self.db.call(self.db.dedupe.delete_many(these)).await?;
            }
            if (found.len() as i64) < FORGOTTEN {
                return Ok(());
            }
        }
    }
}
