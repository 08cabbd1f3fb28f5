//! What goes.

use super::remember;
use crate::append::topic::Tail;
use crate::db::Db;
use crate::document::signed;
use crate::error::Trouble;
use crate::read;
use crate::topics::{Cleaned, number};
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::store::{CleanPolicy, RangeSet};
use hub_proto::TopicName;
use mongodb::bson::{Bson, Document, doc};
use std::collections::VecDeque;
use std::time::Duration;

/// Records that one plan looks at, of each kind: what has to be held in memory is bounded.
const LOOKED_AT: i64 = 10_000;
/// Keys in one question.
const KEYS: usize = 500;
/// Seqs that one plan looks at: each of its questions has to be answered within the limit of a call, however long the log is.
const REACH: u64 = 100_000;

/// What is to be deleted, once everybody knows.
#[derive(Debug)]
pub struct Plan {
    /// When everybody had been told.
    pub told: Duration,
    pub seqs: RangeSet,
    /// Bytes of those records.
    pub bytes: u64,
    /// How far the compactor is after this plan.
    pub compacted: u64,
    pub buried: u64,
}

/// A plan in the making.
struct Planner<'a> {
    db: &'a Db,
    topic: &'a TopicName,
    policy: &'a CleanPolicy,
    tail: Tail,
    /// Nothing above goes.
    reach: u64,
    /// What waits to be deleted already.
    waiting: &'a VecDeque<Plan>,
    seqs: RangeSet,
    bytes: u64,
}

/// Plans the next part; `None` when there is nothing more to do. What is planned is announced.
pub async fn make(
    db: &Db,
    topic: &TopicName,
    policy: &CleanPolicy,
    tail: Tail,
    waiting: &VecDeque<Plan>,
) -> Result<Option<Plan>, Trouble> {
    // The newest record stays: the numbering goes by it.
    let reach = policy.keep_above.unwrap_or(u64::MAX).min(tail.seq.saturating_sub(1));
    if tail.seq == 0 {
        return Ok(None);
    }
    let cleaned = Cleaned::read(db, topic).await?;
    let done =
        waiting.back().map_or((cleaned.compacted, cleaned.buried), |plan| (plan.compacted, plan.buried));
    let mut planner =
        Planner { db, topic, policy, tail, reach, waiting, seqs: RangeSet::default(), bytes: 0 };
    planner.too_old().await?;
    let (mut compacted, mut buried) = done;
    if policy.compact {
        compacted = planner.overtaken(compacted).await?;
        buried = planner.dead(buried, compacted).await?;
    }
    planner.too_much(&cleaned).await?;
    if planner.seqs.is_empty() && (compacted, buried) == done {
        return Ok(None);
    }
    let Planner { seqs, bytes, .. } = planner;
    remember::announce(db, topic, &seqs, policy.ids_since, &cleaned).await?;
    Ok(Some(Plan { told: db.clock.now(), seqs, bytes, compacted, buried }))
}

impl Planner<'_> {
    /// Whether a record is planned to go.
    fn goes(&self, seq: u64) -> bool {
        self.seqs.contains(seq) || self.waiting.iter().any(|plan| plan.seqs.contains(seq))
    }

    /// The first seq from here on that is not planned to go. What plans have is a range from the beginning, as a rule.
    fn first_unplanned(&self, mut from: u64) -> u64 {
        let plans = || self.waiting.iter().map(|plan| &plan.seqs).chain([&self.seqs]);
        while let Some(end) = plans().find_map(|seqs| seqs.end_of(from)) {
            from = end + 1;
        }
        from
    }

    /// By age: a range from the beginning.
    async fn too_old(&mut self) -> Result<(), Trouble> {
        let Some(before) = self.policy.committed_before else { return Ok(()) };
        let Some(first) = read::first(self.db, self.topic).await? else { return Ok(()) };
        let upto = read::seq_before(self.db, self.topic, before).await?.min(self.reach);
        let from = self.first_unplanned(first);
        if from > upto {
            return Ok(());
        }
        let upto = upto.min(from + REACH - 1);
        self.seqs.insert(from, upto);
        if self.policy.max_bytes.is_some() {
            self.bytes += self.bytes_of(from, upto).await?;
        }
        Ok(())
    }

    /// By key: looks at what is new since `from`, and takes what that has overtaken. Answers how far it has come.
    async fn overtaken(&mut self, from: u64) -> Result<u64, Trouble> {
        let upto = self.policy.keep_above.unwrap_or(u64::MAX).min(self.tail.seq).min(from + REACH);
        if from >= upto {
            return Ok(from);
        }
        let new = doc! { "topic": self.topic.as_str(), "key": { "$gte": "" },
        "seq": { "$gt": signed(from), "$lte": signed(upto) } };
        let fields = doc! { "_id": 0, "seq": 1, "key": 1 };
        let found = self.find(new, fields, LOOKED_AT).await?;
        let end = if (found.len() as i64) < LOOKED_AT { upto } else { found.last().map_or(upto, seq_in) };
        let mut newest: HashMap<&str, u64, RandomState> = HashMap::default();
        for record in &found {
            if let Ok(key) = record.get_str("key") {
                newest.insert(key, seq_in(record));
            }
        }
        let keys: Vec<&str> = newest.keys().copied().collect();
        for keys in keys.chunks(KEYS) {
            let highest = keys.iter().filter_map(|key| newest.get(key)).max().copied().unwrap_or(0);
            let older = doc! { "topic": self.topic.as_str(), "key": { "$in": keys },
            "seq": { "$lt": signed(highest.min(self.reach + 1)) } };
            let fields = doc! { "_id": 0, "seq": 1, "key": 1, "size": 1 };
            // Read as a stream: a key may have any number of them.
            let mut found = self.db.call(self.db.events.find(older).projection(fields)).await?;
            while self.db.call(found.advance()).await? {
                let record = Document::try_from(found.current()).map_err(mongodb::error::Error::from)?;
                let (seq, key) = (seq_in(&record), record.get_str("key").unwrap_or_default());
                if newest.get(key).is_some_and(|newest| seq < *newest) && !self.goes(seq) {
                    self.seqs.insert(seq, seq);
                    self.bytes += number(&record, "size");
                }
            }
        }
        Ok(end)
    }

    /// Tombstones whose grace is over. What they have overtaken is planned already, and goes before them. Answers how
    /// far it has come.
    async fn dead(&mut self, from: u64, compacted: u64) -> Result<u64, Trouble> {
        let in_time = read::seq_before(self.db, self.topic, self.policy.tombstones_before).await?;
        let upto = in_time.min(self.reach).min(compacted).min(from + REACH);
        if from >= upto {
            return Ok(from);
        }
        let tombstones = doc! { "topic": self.topic.as_str(), "seq": { "$gt": signed(from), "$lte": signed(upto) },
        "key": { "$gte": "" }, "payload": { "$type": "null" } };
        let fields = doc! { "_id": 0, "seq": 1, "size": 1 };
        let found = self.find(tombstones, fields, LOOKED_AT).await?;
        for record in &found {
            let seq = seq_in(record);
            if !self.goes(seq) {
                self.seqs.insert(seq, seq);
                self.bytes += number(record, "size");
            }
        }
        Ok(if (found.len() as i64) < LOOKED_AT { upto } else { found.last().map_or(upto, seq_in) })
    }

    /// By size, last: what goes for other reasons makes room for what does not.
    async fn too_much(&mut self, cleaned: &Cleaned) -> Result<(), Trouble> {
        let Some(max) = self.policy.max_bytes else { return Ok(()) };
        let planned = self.bytes + self.waiting.iter().map(|plan| plan.bytes).sum::<u64>();
        let kept = self.tail.end.saturating_sub(cleaned.removed_bytes).saturating_sub(planned);
        let mut excess = kept.saturating_sub(max);
        if excess == 0 {
            return Ok(());
        }
        let Some(first) = read::first(self.db, self.topic).await? else { return Ok(()) };
        let (mut after, mut planned) = (self.first_unplanned(first.max(cleaned.deleted + 1)) - 1, 0);
        while excess > 0 && after < self.reach && planned < REACH {
            let next = doc! { "topic": self.topic.as_str(), "seq": { "$gt": signed(after), "$lte": signed(self.reach) } };
            let found = self.find(next, doc! { "_id": 0, "seq": 1, "size": 1 }, LOOKED_AT).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = seq_in(last);
            for record in found {
                let (seq, size) = (seq_in(&record), number(&record, "size"));
                if excess > 0 && !self.goes(seq) {
                    self.seqs.insert(seq, seq);
                    self.bytes += size;
                    planned += 1;
                    excess = excess.saturating_sub(size);
                }
            }
        }
        Ok(())
    }

    /// Records in the order of the log.
    async fn find(&self, filter: Document, fields: Document, limit: i64) -> Result<Vec<Document>, Trouble> {
        let find = self.db.events.clone_with_type::<Document>();
        let find = async {
            find.find(filter)
                .projection(fields)
                .sort(doc! { "seq": 1 })
                .limit(limit)
                .await?
                .try_collect()
                .await
        };
        self.db.call(find).await
    }

    async fn bytes_of(&self, from: u64, to: u64) -> Result<u64, Trouble> {
        let sum = [
            doc! { "$match": { "topic": self.topic.as_str(), "seq": { "$gte": signed(from), "$lte": signed(to) } } },
            doc! { "$group": { "_id": Bson::Null, "bytes": { "$sum": { "$toLong": "$size" } } } },
        ];
        let sum = async { self.db.events.aggregate(sum).await?.try_collect::<Vec<Document>>().await };
        Ok(self.db.call(sum).await?.first().map_or(0, |sum| number(sum, "bytes")))
    }
}

fn seq_in(record: &Document) -> u64 {
    number(record, "seq")
}
