//! Replaying letters to the groups that failed, and discarding them.
//!
//! A replay appends a record to the source topic that says for which group it is ([`header::REPLAY_FOR`]). Its id is derived from
//! the letter's id and the round, and only then the letter is marked. So a crash in between, a resend of the request, or another hub
//! that does the same doubles nothing: the id is there already.

use super::DeadLetter;
use super::marks::{self, Deed, Place};
use crate::deletion::being_deleted;
use crate::engine::Engine;
use crate::position::refused;
use crate::topic::Topic;
use hub_proto::{
    Code, Draft, Error, EventId, GroupName, NewEvent, Payload, PublishOptions, Receipt, Result, TopicName,
    header,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How letters are replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    /// A letter is replayed once in each round. To replay a letter again, name the next round.
    pub round: u32,
    /// What the replayed event carries instead of the original's payload.
    pub payload: Option<Payload>,
}

impl Default for Replay {
    fn default() -> Self {
        Self { round: 1, payload: None }
    }
}

/// What became of a letter that was to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The record is there.
    Done(Receipt),
    /// The letter was replayed in this round, or a later one, before.
    Before,
}

/// The id of the record that a round of replaying makes of a letter.
pub(crate) fn id_of_replay(letter: EventId, round: u32) -> EventId {
    EventId::derived(&[b"replay", &letter.to_bytes(), &round.to_be_bytes()])
}

/// Replays letters. Each has a result of its own, in the order given.
pub(crate) async fn replay(
    engine: &Arc<Engine>,
    letters: &[DeadLetter],
    how: &Replay,
) -> Result<Vec<Result<Replayed>>> {
    engine.check_running()?;
    check(engine, how)?;
    let groups = groups_of(engine, letters).await?;
    let mut results: Vec<Option<Result<Replayed>>> = Vec::with_capacity(letters.len());
    let mut drafts = Vec::new();
    for letter in letters {
        results.push(if letter.mark.replays >= how.round {
            Some(Ok(Replayed::Before))
        } else if groups.get(&letter.topic).is_none_or(|groups| !groups.contains(&letter.group)) {
            Some(Err(no_group(letter)))
        } else {
            match draft(engine, letter, how) {
                Ok(draft) => {
                    drafts.push(draft);
                    None
                }
                Err(error) => Some(Err(error)),
            }
        });
    }
    let mut receipts = engine.committer.publish_all(drafts, engine.clock.steady()).await.into_iter();
    for (letter, result) in letters.iter().zip(&mut results).filter(|(_, result)| result.is_none()) {
        let lost = || Err(Error::internal("a replay was not answered"));
        let receipt = receipts.next().unwrap_or_else(lost).map_err(|error| explain(error, letter, how));
        *result = Some(receipt.map(Replayed::Done));
    }
    let mut results: Vec<Result<Replayed>> = results.into_iter().flatten().collect();
    mark(engine, letters, how.round, &mut results).await;
    Ok(results)
}

/// Marks what was replayed. A letter that could not be marked counts as not replayed: asking again is safe.
async fn mark(engine: &Arc<Engine>, letters: &[DeadLetter], round: u32, results: &mut [Result<Replayed>]) {
    let now = engine.clock.wall();
    let done = |result: &Result<Replayed>| matches!(result, Ok(Replayed::Done(_)));
    let at: Vec<usize> = (0..results.len()).filter(|&at| done(&results[at])).collect();
    let of = |&at: &usize| {
        let place: Place<'_> = (&letters[at].topic, letters[at].seq());
        (place, Deed::Replayed(round, now))
    };
    let marks: Vec<(Place<'_>, Deed)> = at.iter().map(of).collect();
    if marks.is_empty() {
        return;
    }
    let written = match marks::write(engine, &marks).await {
        Ok(written) => written,
        Err(error) => at.iter().map(|_| Err(error.clone())).collect(),
    };
    for (at, written) in at.into_iter().zip(written) {
        if let Err(error) = written {
            results[at] = Err(error);
        }
    }
}

/// Discards letters: nobody lists or replays them any more. Answers how many.
pub(crate) async fn discard(engine: &Arc<Engine>, letters: &[DeadLetter]) -> Result<usize> {
    let now = engine.clock.wall();
    let marks: Vec<(Place<'_>, Deed)> =
        letters.iter().map(|letter| ((&letter.topic, letter.seq()), Deed::Discarded(now))).collect();
    if !marks.is_empty() {
        for written in marks::write(engine, &marks).await? {
            written?;
        }
    }
    Ok(marks.len())
}

fn check(engine: &Engine, how: &Replay) -> Result<()> {
    if how.round == 0 {
        return Err(Error::bad_request("round is 0; the first round is 1"));
    }
    let (bytes, most) = (how.payload.as_ref().map_or(0, Payload::len), engine.config.max_payload);
    if bytes > most {
        return Err(Error::too_large(format!("payload has {bytes} bytes; at most {most} are allowed")));
    }
    Ok(())
}

/// The groups that there are on the topics of these letters, on any hub.
async fn groups_of(
    engine: &Engine,
    letters: &[DeadLetter],
) -> Result<BTreeMap<TopicName, BTreeSet<GroupName>>> {
    let mut groups: BTreeMap<TopicName, BTreeSet<GroupName>> = BTreeMap::new();
    for topic in letters.iter().map(|letter| &letter.topic) {
        if !groups.contains_key(topic) {
            let here = engine.find(topic).map(|topic| topic.groups.read().keys().cloned().collect());
            groups.insert(topic.clone(), here.unwrap_or_default());
        }
    }
    if let Some(cluster) = &engine.cluster {
        let topics: Vec<TopicName> = groups.keys().cloned().collect();
        for stored in cluster.stored_groups(&topics).await.map_err(refused)? {
            groups.entry(stored.record.topic).or_default().insert(stored.record.name);
        }
    }
    Ok(groups)
}

/// The record that a replay appends.
fn draft(engine: &Arc<Engine>, letter: &DeadLetter, how: &Replay) -> Result<(Arc<Topic>, Draft)> {
    let topic = engine.known(&letter.topic)?;
    if topic.is_deleting() {
        return Err(being_deleted(&topic.name));
    }
    if topic.is_full() {
        return Err(Error::quota_exceeded(format!(
            "topic {} keeps as many bytes as a quota allows; have events removed or the quota raised",
            topic.name
        )));
    }
    let original = &letter.original;
    let first = letter.replay_of().unwrap_or_else(|| original.id());
    // The hub's own headers say what happened to the original; the replayed record has its own story.
    let is_kept = |name: &str| {
        !header::is_reserved(name) || (name == header::DERIVED && topic.name.derived().is_some())
    };
    let mut headers: Vec<(String, String)> =
        original.headers().iter().filter(|(name, _)| is_kept(name)).cloned().collect();
    headers.push((header::REPLAY_FOR.to_owned(), letter.group.to_string()));
    headers.push((header::REPLAY_OF.to_owned(), first.to_string()));
    headers.push((header::REPLAY_LETTER.to_owned(), letter.id().to_string()));
    let payload = match &how.payload {
        Some(payload) => payload.clone(),
        None => Payload::stored(original.json().slice_ref(original.payload()))?,
    };
    engine.check_payload(&topic.name, Some(&topic), &payload)?;
    let caused_by = if how.payload.is_some() { vec![first] } else { original.caused_by().to_vec() };
    let options = PublishOptions {
        key: original.key().map(ToString::to_string),
        sid: original.sid().map(str::to_owned),
        headers,
        caused_by,
        tags: original.tags().to_vec(),
        ..PublishOptions::default()
    };
    let event = NewEvent { topic: topic.name.clone(), payload, options };
    let mut draft = Draft::encode(event, letter.replay_id(how.round), original.ts());
    draft.set_relaxed(topic.is_relaxed());
    Ok((topic, draft))
}

fn no_group(letter: &DeadLetter) -> Error {
    Error::bad_request(format!(
        "topic {} has no group {} any more: nobody would get letter {}",
        letter.topic,
        letter.group,
        letter.id()
    ))
}

fn explain(error: Error, letter: &DeadLetter, how: &Replay) -> Error {
    match error.code {
        Code::IdConflict => Error::new(
            Code::IdConflict,
            format!(
                "letter {} was replayed in round {} with another payload; say round {} to replay it again",
                letter.id(),
                how.round,
                how.round.saturating_add(1)
            ),
        ),
        _ => error,
    }
}
