//! Which letters somebody means, and on which topics.

use super::super::auth::Caller;
use super::super::cursors::exists;
use super::super::error::{Failure, shown};
use super::super::query::Params;
use super::super::visible::Visible;
use crate::Hub;
use crate::acl::{Action, Target};
use hub_core::{LetterFilter, Millis};
use hub_proto::{Derivation, EventId, GroupName, TopicName};

/// The parameters that a filter is read from.
pub(super) const FILTER: [&str; 7] = ["group", "err", "q", "key", "fromTs", "toTs", "replayed"];

const MILLIS: &str = "milliseconds since 1970";

/// Longest text that errors are searched for.
const TEXT_BYTES: usize = 1024;

/// Dead-letter topics that one request looks at.
const MAX_TOPICS: usize = 1000;

/// A topic, named by itself or by its dead-letter topic.
pub(super) fn source(name: &str) -> Result<TopicName, Failure> {
    let topic = TopicName::readable(name)?;
    match topic.derived() {
        Some(derived) if derived.how == Derivation::DeadLetters => Ok(TopicName::stored(derived.source)?),
        _ => Ok(topic),
    }
}

/// The filter that the parameters give.
pub(super) fn filter(params: &Params) -> Result<LetterFilter, Failure> {
    let text = |name: &str| params.get(name).map(str::to_owned);
    checked(LetterFilter {
        ids: None,
        group: params.group()?,
        err: text("err"),
        text: text("q"),
        key: text("key"),
        from: params.number("fromTs", MILLIS)?,
        until: params.number("toTs", MILLIS)?,
        replayed: params.flag("replayed")?,
    })
}

/// Refuses a filter with texts that are too long, or without a moment between its times.
pub(super) fn checked(filter: LetterFilter) -> Result<LetterFilter, Failure> {
    for (name, text) in [("err", &filter.err), ("q", &filter.text), ("key", &filter.key)] {
        if text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES) {
            return Err(Failure::bad_request(format!("{name} is longer than {TEXT_BYTES} bytes")));
        }
    }
    let is_empty = |from: Millis, until: Millis| from >= until;
    if filter.from.zip(filter.until).is_some_and(|(from, until)| is_empty(from, until)) {
        return Err(Failure::bad_request("fromTs is not before toTs; nothing lies between them"));
    }
    Ok(filter)
}

/// Ids as they are written.
pub(super) fn ids<'a>(ids: impl Iterator<Item = &'a str>) -> Result<Vec<EventId>, Failure> {
    Ok(ids.map(EventId::parse).collect::<hub_proto::Result<Vec<_>>>()?)
}

/// A group, as it is written.
pub(super) fn group(name: Option<&str>) -> Result<Option<GroupName>, Failure> {
    Ok(name.map(GroupName::parse).transpose()?)
}

/// Whether somebody may read the dead letters of a topic.
pub(in super::super) fn sees(caller: &Caller, topic: &TopicName) -> bool {
    let letters = topic.dead_letter();
    let letters = Target::Topic(&letters);
    caller.may(Action::Subscribe, letters, None) || caller.reads_as_administrator(letters)
}

/// Refuses those who may not.
pub(super) fn must_see(caller: &Caller, topic: &TopicName) -> Result<(), Failure> {
    match sees(caller, topic) {
        true => Ok(()),
        false => caller.must(Action::Subscribe, Target::Topic(&topic.dead_letter()), None),
    }
}

/// Where a page goes on: behind a letter of a topic.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Place {
    pub topic: Option<TopicName>,
    pub seq: u64,
}

impl Place {
    pub fn of(params: &Params) -> Result<Self, Failure> {
        let Some(after) = params.get("after") else { return Ok(Self::default()) };
        let wrong =
            || Failure::bad_request(format!("after is {}; it must be next of a page before", shown(after)));
        let (topic, seq) = after.rsplit_once('/').ok_or_else(wrong)?;
        let topic = TopicName::readable(topic).map_err(|_| wrong())?;
        Ok(Self { topic: Some(topic), seq: seq.parse().map_err(|_| wrong())? })
    }

    pub fn write(topic: &TopicName, seq: u64) -> String {
        format!("{topic}/{seq}")
    }
}

/// The topics whose letters are asked for, one after the other.
pub(super) struct Topics {
    /// The one that is named.
    only: Option<TopicName>,
    visible: Option<Visible>,
    page: std::vec::IntoIter<TopicName>,
    after: Place,
    looked_at: usize,
}

impl Topics {
    /// The topic that the parameters name, which the caller has to be allowed to read; else all that it may.
    pub fn of(hub: &Hub, caller: &Caller, params: &Params, after: Place) -> Result<Self, Failure> {
        let only = params.get("topic").map(source).transpose()?;
        if let Some(topic) = &only {
            must_see(caller, topic)?;
            exists(hub.bus(), topic)?;
        }
        let start = after.topic.as_ref().map(TopicName::dead_letter);
        let visible = only.is_none().then(|| Visible::under(caller, "dlq.", start.as_deref(), true));
        Ok(Self { only, visible, page: Vec::new().into_iter(), after, looked_at: 0 })
    }

    /// The next one, with the seq of its letters after which to go on.
    pub async fn next(&mut self, hub: &Hub, caller: &Caller) -> Option<(TopicName, u64)> {
        loop {
            let topic = match (self.only.take(), &mut self.visible) {
                (Some(topic), _) => Some(topic),
                (None, None) => return None,
                (None, Some(visible)) => match self.page.next() {
                    Some(letters) => {
                        letters.derived().and_then(|derived| source_of(derived.how, derived.source))
                    }
                    None => {
                        let page = visible.next(hub.bus(), caller).await;
                        if page.is_empty() {
                            return None;
                        }
                        self.page = page.into_iter();
                        continue;
                    }
                },
            };
            let Some(topic) = topic.filter(|topic| sees(caller, topic)) else { continue };
            self.looked_at += 1;
            let after = if self.after.topic.as_ref() == Some(&topic) { self.after.seq } else { 0 };
            return Some((topic, after));
        }
    }

    /// How many topics were looked at.
    pub fn looked_at(&self) -> usize {
        self.looked_at + self.visible.as_ref().map_or(0, Visible::looked_at)
    }

    /// Whether one request has looked at as many as it may.
    pub fn is_exhausted(&self) -> bool {
        self.looked_at >= MAX_TOPICS
    }
}

fn source_of(how: Derivation, source: &str) -> Option<TopicName> {
    (how == Derivation::DeadLetters).then(|| TopicName::stored(source).ok()).flatten()
}
