//! Deleting what was planned, and counting it.

use super::plan::Plan;
use crate::db::Db;
use crate::document::{place, signed};
use crate::error::Trouble;
use crate::topics::Cleaned;
use hub_core::store::RangeSet;
use hub_proto::TopicName;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};

/// Seqs of one transaction.
const BLOCK: u64 = 1000;
/// How often a transaction that got into another's way is tried.
const TRIES: usize = 5;

/// A few seqs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Block {
    ranges: Vec<(u64, u64)>,
    count: u64,
}

impl Block {
    /// The documents of a topic with these seqs.
    pub fn filter(&self, topic: &TopicName) -> Document {
        if let [(from, to)] = self.ranges[..] {
            return doc! { "topic": topic.as_str(), "seq": { "$gte": signed(from), "$lte": signed(to) } };
        }
        let seqs = self.ranges.iter().flat_map(|&(from, to)| from..=to);
        doc! { "topic": topic.as_str(), "seq": { "$in": seqs.map(signed).collect::<Vec<_>>() } }
    }
}

/// Cuts a set into blocks, from the lowest up.
pub fn blocks(seqs: &RangeSet) -> impl Iterator<Item = Block> {
    blocks_of(BLOCK, seqs)
}

/// The same, with so many records at most.
pub fn blocks_of(most: u64, seqs: &RangeSet) -> impl Iterator<Item = Block> {
    let mut rest = seqs.iter().collect::<Vec<_>>().into_iter();
    let mut open: Option<(u64, u64)> = None;
    std::iter::from_fn(move || {
        let mut block = Block::default();
        while block.count < most {
            let Some((from, to)) = open.take().or_else(|| rest.next()) else { break };
            let end = to.min(from + (most - block.count) - 1);
            block.ranges.push((from, end));
            block.count += end - from + 1;
            if end < to {
                open = Some((end + 1, to));
            }
        }
        (block.count > 0).then_some(block)
    })
}

/// Deletes what a plan has, and says how many records there were. What is done is taken out of the plan, so that a plan
/// that failed half way goes on where it was.
pub async fn run(db: &Db, topic: &TopicName, plan: &mut Plan) -> Result<u64, Trouble> {
    let mut removed = 0;
    let all: Vec<Block> = blocks(&plan.seqs).collect();
    for block in all {
        let (events, bytes) = delete(db, topic, &block).await?;
        removed += events;
        plan.bytes = plan.bytes.saturating_sub(bytes);
        if let Some(&(_, upto)) = block.ranges.last() {
            plan.seqs.remove_upto(upto);
        }
    }
    if plan.compacted > 0 || plan.buried > 0 {
        let upto = doc! { "compacted": signed(plan.compacted), "buried": signed(plan.buried) };
        let update = db.topics.update_one(doc! { "_id": topic.as_str() }, doc! { "$max": upto });
        db.call(update.upsert(true)).await?;
    }
    Ok(removed)
}

async fn delete(db: &Db, topic: &TopicName, block: &Block) -> Result<(u64, u64), Trouble> {
    let mut session = db.call(db.client.start_session()).await?;
    let mut attempt = 1;
    loop {
        match db.calls(transact(db, &mut session, topic, block)).await {
            Ok(removed) => return Ok(removed),
            Err(trouble) => {
                // What is left open ends by itself, too.
                let _ = db.call(session.abort_transaction()).await;
                let again = matches!(&trouble, Trouble::Driver(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR));
                if !again || attempt >= TRIES {
                    return Err(trouble);
                }
                attempt += 1;
            }
        }
    }
}

/// Removes a block and counts it, or neither.
async fn transact(
    db: &Db,
    session: &mut ClientSession,
    topic: &TopicName,
    block: &Block,
) -> Result<(u64, u64), Trouble> {
    session.start_transaction().with_options(db.transaction()).await?;
    let filter = block.filter(topic);
    let of_topic = doc! { "_id": topic.as_str() };
    let marked = db.topics.find_one(of_topic.clone()).session(&mut *session).await?;
    // What was deleted with its topic is counted already.
    let deleted = marked.as_ref().map_or(0, |marked| Cleaned::of(marked).deleted);
    let (mut found, mut events, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut cursor = db
        .events
        .find(filter.clone())
        .projection(doc! { "_id": 0, "seq": 1, "size": 1 })
        .batch_size(BLOCK as u32)
        .session(&mut *session)
        .await?;
    while cursor.advance(session).await? {
        let place = place(topic, cursor.current())?;
        found += 1;
        if place.seq > deleted {
            events += 1;
            bytes += place.size;
        }
    }
    if found > 0 {
        db.events.delete_many(filter).session(&mut *session).await?;
    }
    if events > 0 {
        let count = doc! { "$inc": { "removed.events": signed(events), "removed.bytes": signed(bytes) } };
        db.topics.update_one(of_topic, count).upsert(true).session(&mut *session).await?;
    }
    loop {
        match session.commit_transaction().await {
            Ok(()) => return Ok((events, bytes)),
            // Asking again is safe; the limit of the call ends this.
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_set_in_order_and_are_bounded() {
        let mut seqs = RangeSet::default();
        seqs.insert(3, 3);
        seqs.insert(10, 2509);
        seqs.insert(3000, 3001);
        let cut: Vec<Block> = blocks(&seqs).collect();
        assert!(cut.iter().all(|block| block.count <= BLOCK));
        let covered: Vec<u64> =
            cut.iter().flat_map(|block| &block.ranges).flat_map(|&(from, to)| from..=to).collect();
        let wanted: Vec<u64> = seqs.iter().flat_map(|(from, to)| from..=to).collect();
        assert_eq!(covered, wanted);
    }
}
