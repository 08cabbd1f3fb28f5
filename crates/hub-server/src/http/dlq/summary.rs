//! `GET /dlq/summary`: how many letters there are, by error and by group.

use super::super::auth::Caller;
use super::super::error::{Answer, in_time};
use super::super::query::Params;
use super::which::{self, FILTER, Place, Topics};
use crate::Hub;
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::{DeadLetter, LetterRange, Millis};
use hub_proto::{GroupName, TopicName, limits};
use serde::Serialize;
use std::collections::HashMap;

/// Errors that are counted apart, and groups; further ones are counted together.
const MAX_ERRORS: usize = 100;
const MAX_GROUPS: usize = 1000;
/// Letters that one request looks at, and about how many bytes.
const MAX_LOOKED_AT: usize = 20_000;
const MAX_BYTES: usize = 32 << 20;

/// How many letters are alike.
#[derive(Default, Serialize)]
struct Count {
    count: u64,
    /// Those of them that were replayed.
    replayed: u64,
    /// When the first and the last of them were given up.
    #[serde(rename = "firstTs")]
    first: Millis,
    #[serde(rename = "lastTs")]
    last: Millis,
}

impl Count {
    fn add(&mut self, letter: &DeadLetter) {
        self.first = if self.count == 0 { letter.buried() } else { self.first.min(letter.buried()) };
        self.last = self.last.max(letter.buried());
        self.count += 1;
        self.replayed += u64::from(letter.replays() > 0);
    }
}

#[derive(Serialize)]
struct ByError {
    err: String,
    #[serde(flatten)]
    count: Count,
}

#[derive(Serialize)]
struct ByGroup {
    topic: TopicName,
    group: GroupName,
    #[serde(flatten)]
    count: Count,
}

#[derive(Serialize)]
struct Summary {
    letters: u64,
    replayed: u64,
    /// The most frequent first.
    errors: Vec<ByError>,
    /// Letters with further errors.
    #[serde(rename = "otherErrors")]
    other_errors: u64,
    groups: Vec<ByGroup>,
    #[serde(rename = "otherGroups")]
    other_groups: u64,
    /// Whether all letters were counted; else those behind `next` were not.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Default)]
struct Counting {
    all: Count,
    errors: HashMap<String, Count>,
    other_errors: u64,
    groups: HashMap<(TopicName, GroupName), Count>,
    other_groups: u64,
}

impl Counting {
    fn add(&mut self, letter: &DeadLetter) {
        self.all.add(letter);
        let (err, group) = (letter.short_err(), (letter.topic().clone(), letter.group().clone()));
        let is_full = self.errors.len() >= MAX_ERRORS && !self.errors.contains_key(err);
        match is_full {
            true => self.other_errors += 1,
            false => self.errors.entry(err.to_owned()).or_default().add(letter),
        }
        let is_full = self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&group);
        match is_full {
            true => self.other_groups += 1,
            false => self.groups.entry(group).or_default().add(letter),
        }
    }

    fn summary(self, next: Option<String>) -> Summary {
        let errors = self.errors.into_iter().map(|(err, count)| ByError { err, count });
        let mut errors: Vec<ByError> = errors.collect();
        errors.sort_unstable_by(|a, b| (b.count.count, &a.err).cmp(&(a.count.count, &b.err)));
        let groups = self.groups.into_iter();
        let mut groups: Vec<ByGroup> =
            groups.map(|((topic, group), count)| ByGroup { topic, group, count }).collect();
        groups.sort_unstable_by(|a, b| (&a.topic, &a.group).cmp(&(&b.topic, &b.group)));
        Summary {
            letters: self.all.count,
            replayed: self.all.replayed,
            errors,
            other_errors: self.other_errors,
            groups,
            other_groups: self.other_groups,
            complete: next.is_none(),
            next,
        }
    }
}

pub(in super::super) async fn summary(
    State(hub): State<Hub>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &[&["topic", "after"][..], &FILTER].concat())?;
    answer(&hub, caller, &params).await
}

pub(super) async fn answer(hub: &Hub, mut caller: Caller, params: &Params) -> Answer {
    let filter = which::filter(params)?;
    let after = Place::of(params)?;
    caller.take_one()?;
    let mut topics = Topics::of(hub, &caller, params, after)?;
    let mut counting = Counting::default();
    let (mut looked_at, mut bytes, mut next) = (0, 0, None);
    let is_enough = |looked_at: usize, bytes: usize| looked_at >= MAX_LOOKED_AT || bytes >= MAX_BYTES;
    'topics: while let Some((topic, mut after)) = topics.next(hub, &caller).await {
        loop {
            if is_enough(looked_at, bytes) || topics.is_exhausted() {
                next = Some(Place::write(&topic, after));
                break 'topics;
            }
            let range = LetterRange { after, ..LetterRange::default() };
            let page = in_time(hub.bus().dead_letters(&topic, &filter, range, limits::BATCH_EVENTS)).await?;
            looked_at += page.looked_at;
            bytes += page.bytes;
            page.letters.iter().for_each(|letter| counting.add(letter));
            let Some(seq) = page.next else { break };
            after = seq;
            tokio::task::yield_now().await;
        }
    }
    caller.owe(Work { bytes, topics: topics.looked_at(), groups: 0 });
    Ok(Json(counting.summary(next)).into_response())
}
