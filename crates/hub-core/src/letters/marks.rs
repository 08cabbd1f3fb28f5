//! What was done with letters: entries of a system topic, one for each letter that was replayed or discarded.
//!
//! The key is the source topic and the seq of the letter, so the marks of a topic stand together, in the order of its letters.
//! That a letter was discarded is an entry of its own beside it: a replay and a discard at the same time, on whichever hubs, write
//! different entries, and neither takes back what the other one wrote.
//! Nothing of it is kept in memory: a page of letters is read with their marks. A mark goes when its letter does.

use crate::Millis;
use crate::engine::Engine;
use crate::position::refused;
use crate::store::ReadLimit;
use crate::system::{self, SystemEntry, SystemTopic};
use hub_proto::{Key, Result, TopicName};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Marks that are removed with one commit.
const PAGE: ReadLimit = ReadLimit { events: 500, bytes: 1 << 20 };

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// The last round in which the letter was replayed; 0: none.
    #[serde(default)]
    pub replays: u32,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Millis>,
    /// When it was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<Millis>,
}

/// What is written about a letter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// Replayed in this round, at this time.
    Replayed(u32, Millis),
    /// Discarded at this time.
    Discarded(Millis),
}

impl Mark {
    pub fn is_discarded(&self) -> bool {
        self.discarded.is_some()
    }
}

/// A letter: its source topic, and its seq on the dead-letter topic.
pub(super) type Place<'a> = (&'a TopicName, u64);

fn replay_key((topic, seq): Place<'_>) -> Key {
    // Twenty digits: the order of the texts is that of the numbers. No topic has a slash.
    format!("{topic}/{seq:020}").into()
}

fn discard_key((topic, seq): Place<'_>) -> Key {
    format!("{topic}/{seq:020}/discarded").into()
}

/// The marks of letters, in their order; the default for those without one.
pub(super) async fn of(engine: &Engine, letters: &[Place<'_>]) -> Result<Vec<Mark>> {
    if letters.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Key> = letters.iter().flat_map(|&place| [replay_key(place), discard_key(place)]).collect();
    let newest = engine.store.newest(&SystemTopic::Letters.name(), &keys).await.map_err(refused)?;
    let read = |record: &Option<Arc<hub_proto::Event>>| -> Mark {
        let record = record.as_ref().filter(|record| !record.is_tombstone());
        record.and_then(|record| record.decode().ok()).unwrap_or_default()
    };
    let mark = |entries: &[Option<Arc<hub_proto::Event>>]| {
        entries.iter().map(read).reduce(|replayed, discarded| Mark {
            discarded: replayed.discarded.or(discarded.discarded),
            ..replayed
        })
    };
    Ok(newest.chunks(2).map(|entries| mark(entries).unwrap_or_default()).collect())
}

/// Writes marks with one commit. Each has a result of its own.
pub(super) async fn write(engine: &Arc<Engine>, marks: &[(Place<'_>, Deed)]) -> Result<Vec<Result<()>>> {
    let entry = |&(place, deed): &(Place<'_>, Deed)| {
        let (key, mark) = match deed {
            Deed::Replayed(round, at) => {
                (replay_key(place), Mark { replays: round, replayed: Some(at), discarded: None })
            }
            Deed::Discarded(at) => (discard_key(place), Mark { discarded: Some(at), ..Mark::default() }),
        };
        SystemEntry { key, value: serde_json::to_value(mark).ok() }
    };
    let entries: Vec<SystemEntry> = marks.iter().map(entry).collect();
    let written = system::write_all(engine, SystemTopic::Letters, &entries).await?;
    Ok(written.into_iter().map(|receipt| receipt.map(drop)).collect())
}

/// The letters of a topic below a seq are gone: so are their marks.
pub(crate) async fn forget(engine: &Arc<Engine>, topic: &TopicName, below: u64) -> Result<()> {
    let (prefix, name) = (format!("{topic}/"), SystemTopic::Letters.name());
    let mut after: Key = prefix.as_str().into();
    loop {
        let page = engine.store.newest_page(&name, Some(&after), PAGE).await.map_err(refused)?;
        let is_gone = |key: &Key| {
            let seq = key.strip_prefix(&prefix).and_then(|rest| rest.split('/').next()?.parse::<u64>().ok());
            seq.is_some_and(|seq| seq < below)
        };
        let gone = page.iter().filter_map(|record| record.key()).take_while(|key| is_gone(key));
        let gone: Vec<SystemEntry> = gone.map(|key| SystemEntry { key: key.clone(), value: None }).collect();
        let Some(last) = gone.last() else { return Ok(()) };
        after = last.key.clone();
        let is_all = gone.len() < page.len();
        for written in system::write_all(engine, SystemTopic::Letters, &gone).await? {
            written?;
        }
        if is_all {
            return Ok(());
        }
    }
}
