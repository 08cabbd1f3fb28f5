//! Reading letters. Each call looks at a bounded number of records and bytes.

use super::marks::{self, Place};
use super::{DeadLetter, LetterFilter, LetterPage, LetterRange, MAX_IDS};
use crate::engine::Engine;
use crate::position::refused;
use crate::store::ReadLimit;
use futures_util::future::try_join_all;
use hub_proto::{Error, EventId, Result, TopicName};

/// Records that one call looks at, and about how many bytes.
const MAX_LOOKED_AT: usize = 10_000;
const MAX_BYTES: usize = 16 << 20;

/// One read of the store.
const BLOCK: ReadLimit = ReadLimit { events: 256, bytes: 1 << 20 };

/// Letters that are looked up by id at the same time.
const LOOKUPS: usize = 16;

/// The letters of a topic that a filter matches, at most `limit`.
pub(crate) async fn page(
    engine: &Engine,
    topic: &TopicName,
    filter: &LetterFilter,
    range: LetterRange,
    limit: usize,
) -> Result<LetterPage> {
    engine.check_running()?;
    if let Some(ids) = &filter.ids {
        return by_ids(engine, topic, filter, range, ids).await;
    }
    let name = topic.dead_letter();
    let mut after = range.after;
    if let Some(from) = filter.from {
        after = after.max(engine.store.seq_before(&name, from).await.map_err(refused)?);
    }
    let mut page = LetterPage::default();
    loop {
        let block = engine.store.read(&name, after, BLOCK).await.map_err(refused)?;
        let Some(last) = block.last().map(|record| record.seq()) else { return Ok(page) };
        let mut found = Vec::new();
        let mut is_end = false;
        for record in block {
            let is_late = filter.until.is_some_and(|until| record.committed() >= until);
            if record.seq() > range.upto || is_late {
                is_end = true;
                break;
            }
            page.looked_at += 1;
            page.bytes += record.json().len();
            found.extend(DeadLetter::read(record).filter(|letter| filter.matches(letter)));
        }
        for letter in marked(engine, filter, found).await? {
            if page.letters.len() == limit {
                page.next = page.letters.last().map(DeadLetter::seq);
                return Ok(page);
            }
            page.letters.push(letter);
        }
        after = last;
        if is_end || after >= range.upto {
            return Ok(page);
        }
        if page.looked_at >= MAX_LOOKED_AT || page.bytes >= MAX_BYTES || page.letters.len() == limit {
            page.next = Some(after);
            return Ok(page);
        }
    }
}

/// Those that are named. An id that is no letter of the topic is left out.
async fn by_ids(
    engine: &Engine,
    topic: &TopicName,
    filter: &LetterFilter,
    range: LetterRange,
    ids: &[EventId],
) -> Result<LetterPage> {
    if ids.len() > MAX_IDS {
        return Err(Error::bad_request(format!(
            "ids has {} entries; at most {MAX_IDS} are allowed",
            ids.len()
        )));
    }
    let mut found: Vec<DeadLetter> = Vec::new();
    for ids in ids.chunks(LOOKUPS) {
        let mut lookups = Vec::with_capacity(ids.len());
        for &id in ids {
            lookups.push(record(engine, topic, id));
        }
        found.extend(try_join_all(lookups).await?.into_iter().flatten());
    }
    let bytes = found.iter().map(DeadLetter::bytes).sum();
    let is_in_time = |letter: &DeadLetter| {
        filter.from.is_none_or(|from| letter.committed() >= from)
            && filter.until.is_none_or(|until| letter.committed() < until)
    };
    found.retain(|letter| {
        letter.seq() > range.after
            && letter.seq() <= range.upto
            && is_in_time(letter)
            && filter.matches(letter)
    });
    // One that is named twice is meant once.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|letter| seen.insert(letter.seq()));
    let letters = marked(engine, filter, found).await?;
    Ok(LetterPage { letters, next: None, looked_at: ids.len(), bytes })
}

/// One letter; `None` if there is none of this id, or it was discarded.
pub(crate) async fn find(engine: &Engine, topic: &TopicName, id: EventId) -> Result<Option<DeadLetter>> {
    engine.check_running()?;
    let found = record(engine, topic, id).await?.into_iter().collect();
    Ok(marked(engine, &LetterFilter::default(), found).await?.pop())
}

/// The same, also if it was discarded.
pub(crate) async fn find_any(engine: &Engine, topic: &TopicName, id: EventId) -> Result<Option<DeadLetter>> {
    let Some(letter) = record(engine, topic, id).await? else { return Ok(None) };
    let mark = marks::of(engine, &[(&letter.topic, letter.seq())]).await?.pop().unwrap_or_default();
    Ok(Some(DeadLetter { mark, ..letter }))
}

async fn record(engine: &Engine, topic: &TopicName, id: EventId) -> Result<Option<DeadLetter>> {
    let (name, store) = (topic.dead_letter(), &engine.store);
    let Some(seq) = store.seq_of(&name, id).await.map_err(refused)?.filter(|&seq| seq > 0) else {
        return Ok(None);
    };
    let one = ReadLimit { events: 1, bytes: 1 };
    let found = store.read(&name, seq - 1, one).await.map_err(refused)?;
    Ok(found.into_iter().find(|record| record.seq() == seq).and_then(DeadLetter::read))
}

/// Letters with what was done with them, without those that the filter leaves out for that.
async fn marked(engine: &Engine, filter: &LetterFilter, letters: Vec<DeadLetter>) -> Result<Vec<DeadLetter>> {
    let places: Vec<Place<'_>> = letters.iter().map(|letter| (&letter.topic, letter.seq())).collect();
    let marks = marks::of(engine, &places).await?;
    let letters = letters.into_iter().zip(marks).map(|(letter, mark)| DeadLetter { mark, ..letter });
    Ok(letters.filter(|letter| filter.matches_mark(&letter.mark)).collect())
}
