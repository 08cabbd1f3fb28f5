//! What a hub knows of one topic's end, and how sure it is.

use crate::db::Db;
use crate::document;
use crate::error::Trouble;
use crate::topics::Cleaned;
use hub_core::Millis;
use hub_core::store::{StoreError, StoreResult};
use hub_proto::TopicName;
use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long anything that was read is relied on.
pub const TRUST: Duration = Duration::from_secs(60);
/// How often others are given way in vain, before they are taken to have gone.
const IN_VAIN: u32 = 3;
/// Nobody is given way longer.
const LONGEST_WAY: Duration = Duration::from_millis(250);
/// Looks of one who gives way, at most.
const LOOKS: u32 = 16;
/// Timers are not finer.
const TICK: Duration = Duration::from_millis(1);

/// The end of a topic's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The highest seq; 0 without events.
    pub seq: u64,
    /// Its commit time.
    pub committed: Millis,
    /// Bytes of the log up to its end.
    pub end: u64,
    /// When the question was asked that this is the answer to.
    pub known_at: Duration,
}

/// One topic, as this hub writes to it.
#[derive(Debug)]
pub struct Topic {
    pub name: TopicName,
    /// One batch at a time.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// `None`: it has to be read.
    tail: Option<Tail>,
    /// The highest seq that was ever confirmed: a topic never gets shorter.
    highest: u64,
    /// What was cleaned, and when that was asked.
    cleaned: Option<(Cleaned, Duration)>,
    /// Others write to it too: how often they are still given way.
    others: u32,
    /// The last insert took this long, and it is the turn of others now.
    wrote: Option<Duration>,
}

impl Topic {
    pub fn new(name: TopicName) -> Self {
        Self { name, turn: Arc::default(), known: Mutex::default() }
    }

    /// The end, as far as it is known and fresh; else it is read.
    pub async fn tail(&self, db: &Db) -> Result<StoreResult<Tail>, Trouble> {
        let known = self.known.lock().tail;
        if let Some(tail) = known.filter(|tail| db.clock.since(tail.known_at) < TRUST) {
            return Ok(Ok(tail));
        }
        let mut tail = read_tail(db, &self.name, None).await?;
        let highest = self.known.lock().highest;
        if tail.seq < highest {
            // A primary that was just elected may answer with less than it has.
            let mut session = db.fresh_session_of(&self.name).await?;
            tail = read_tail(db, &self.name, Some(&mut session)).await?;
        }
        if tail.seq < highest {
            return Ok(Err(StoreError::Damaged(format!(
                "topic {} had {highest} events and ends at {} now: was the database restored, or changed by hand? \
                 Nothing is appended to it until the hub is started again",
                self.name, tail.seq
            ))));
        }
        self.confirmed(tail);
        Ok(Ok(tail))
    }

    /// A majority has everything up to here.
    pub fn confirmed(&self, tail: Tail) {
        let mut known = self.known.lock();
        known.highest = known.highest.max(tail.seq);
        known.tail = Some(tail);
    }

    /// What is known may be wrong: it is read before it is used.
    pub fn doubt(&self) {
        self.known.lock().tail = None;
    }

    /// What was cleaned, as far as it is fresh; else it is read.
    pub async fn cleaned(&self, db: &Db) -> Result<(Cleaned, Duration), Trouble> {
        let known = self.known.lock().cleaned.clone();
        if let Some(known) = known.filter(|(_, at)| db.clock.since(*at) < TRUST) {
            return Ok(known);
        }
        let asked = db.clock.now();
        let cleaned = Cleaned::read(db, &self.name).await?;
        self.known.lock().cleaned = Some((cleaned.clone(), asked));
        Ok((cleaned, asked))
    }

    /// What is known of that is old.
    pub fn forget_cleaned(&self) {
        self.known.lock().cleaned = None;
    }

    /// Reads what was cleaned, whatever is known here, and whatever a primary knows that was just elected.
    pub async fn cleaned_now(&self, db: &Db) -> Result<Cleaned, Trouble> {
        drop(db.fresh_session().await?);
        self.forget_cleaned();
        Ok(self.cleaned(db).await?.0)
    }

    /// Another hub took the number.
    pub fn lost(&self) {
        let mut known = self.known.lock();
        known.others = IN_VAIN;
        known.wrote = None;
    }

    /// An insert succeeded after `took`.
    pub fn wrote(&self, took: Duration) {
        self.known.lock().wrote = Some(took);
    }

    /// Whether others write to it too.
    pub fn is_shared(&self) -> bool {
        self.known.lock().others > 0
    }

    /// After an insert, if others write to the topic too: looks where it ends until one of them has written, or could
    /// have. Turns are passed on like this without an insert that fails, each as soon as the one before has ended.
    pub async fn give_way(&self, db: &Db) {
        let (took, seq) = {
            let mut known = self.known.lock();
            let (took, tail) = (known.wrote.take(), known.tail);
            let (Some(took), Some(tail), true) = (took, tail, known.others > 0) else { return };
            ((took * 2).min(LONGEST_WAY), tail.seq)
        };
        let until = Instant::now() + took;
        let pace = took / LOOKS;
        while Instant::now() < until {
            // A call that is given up costs its connection. Whatever is wrong, the insert will meet it too.
            let look = tokio::time::timeout_at(until + LONGEST_WAY, read_tail(db, &self.name, None));
            let Ok(Ok(tail)) = look.await else { break };
            if tail.seq > seq {
                self.confirmed(tail);
                self.known.lock().others = IN_VAIN;
                return;
            }
            if pace >= TICK {
                tokio::time::sleep(pace).await;
            }
        }
        let mut known = self.known.lock();
        known.others = known.others.saturating_sub(1);
    }
}

/// Reads where a topic ends, by majority.
pub async fn read_tail(
    db: &Db,
    topic: &TopicName,
    session: Option<&mut ClientSession>,
) -> Result<Tail, Trouble> {
    let known_at = db.clock.now();
    let find = db
        .events
        .find_one(doc! { "topic": topic.as_str() })
        .sort(doc! { "seq": -1 })
        .projection(doc! { "_id": 0, "seq": 1, "committed": 1, "end": 1 });
    let found = match session {
        Some(session) => db.call(async { find.session(session).await }).await?,
        None => db.call(find).await?,
    };
    let Some(found) = found else { return Ok(Tail { known_at, ..Tail::default() }) };
    let place = document::place(topic, &found)?;
    Ok(Tail { seq: place.seq, committed: place.committed, end: place.end, known_at })
}
