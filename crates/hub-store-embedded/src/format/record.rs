//! Records beside events, as bytes: groups with their progress, and subscriptions.
//!
//! A record is the content of one frame, and the kind of the frame says which record it is. The frame, with its length
//! and checksum, is not made here. The manifest holds the same groups and subscriptions, one after the other, each
//! group with its whole state: [`write_group`] and [`write_subscription`].
//!
//! The tests pin an encoding of every record. What changes the bytes needs a new kind, so that old logs stay readable.
//!
//! # Fields
//!
//! Fields follow each other without padding, and nothing follows the last one. Numbers are little-endian. What is
//! longer than its fields, shorter, or not as described here is refused.
//!
//! | type | bytes | what |
//! | --- | --- | --- |
//! | `u32`, `u64` | 4, 8 | a number |
//! | `bool` | 1 | 0 or 1 |
//! | `text` | 4 + n | `u32` n, then n bytes of UTF-8 |
//! | `topic` | 4 + n | a `text`: a topic's name, of any length |
//! | `group` | 4 + n | a `text`: a group's name, 1 to 200 bytes |
//! | `options` | 4 + n | a `text`: the options as a JSON object, see [`GroupOptions`] |
//! | `moment` | 8 | `u64` milliseconds since the Unix epoch |
//! | `moment?` | 1 or 9 | 0 for none; or 1, then a `moment` |
//! | `ranges` | 4 + 16 n | `u32` n, then n times: `u64` from, `u64` to; both are in the range, from <= to |
//! | `tries` | 4 + 16 n | `u32` n, then n times: `u64` seq, `u32` attempts, `u32` failures |
//! | `topics` | 4 + … | `u32` n, then n times: `topic` |
//!
//! # Kind 8: a group
//!
//! New, or its options or idle time changed. Its progress stays.
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | topic | `topic` | the topic it reads |
//! | name | `group` | its name |
//! | options | `options` | how it dispatches |
//! | created | `moment` | when it was made |
//! | idle since | `moment?` | since when it has had no member; none while it has one |
//! | driven | `bool` | 1 if a subscription made it |
//! | born | `u64` | the last seq of the dead-letter topic when it was made |
//!
//! # Kind 9: progress of a group
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | topic | `topic` | the topic it reads |
//! | name | `group` | its name |
//! | epoch | `u64` | the epoch after this step |
//! | reset | `bool` | 1: forget what was stored before |
//! | floor | `u64` | everything up to here is settled |
//! | high | `u64` | nothing above was ever handed out |
//! | settled | `ranges` | settled above the floor, at least what is new |
//! | tries | `tries` | what changed |
//!
//! # Kind 10: a group is gone
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | topic | `topic` | the topic it read |
//! | name | `group` | its name |
//!
//! # Kind 11: a subscription
//!
//! New or changed. In the manifest it is the same.
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | label | `text` | the pattern as written, or the label of a list of topics |
//! | group | `group` | the group's name on every topic |
//! | topics | `topics` | the listed topics; none for a pattern |
//! | options | `options` | what its groups are made with |
//! | created | `moment` | when it was made |
//! | idle since | `moment?` | since when it has had no member; none while it has one |
//!
//! # Kind 12: a subscription is gone
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | label | `text` | its label |
//! | group | `group` | its group |
//!
//! # In the manifest: a group with its state
//!
//! | field | type | what |
//! | --- | --- | --- |
//! | … | | the fields of kind 8 |
//! | epoch | `u64` | how often its cursor was set |
//! | floor | `u64` | everything up to here is settled |
//! | high | `u64` | nothing above was ever handed out |
//! | settled | `ranges` | all that is settled above the floor, ascending |
//! | tries | `tries` | of the unsettled events that were not delivered just once, ascending |

use super::bytes::{Malformed, Put, Take};
use hub_core::store::{GroupRecord, GroupState, Progress, Record, StoredGroup, SubscriptionRecord, Tries};
use hub_core::{GroupName, GroupOptions, TopicName};

#[cfg(test)]
mod tests;

/// The frame of a [`Record::Group`].
pub const GROUP: u8 = 8;
/// The frame of a [`Record::Progress`].
pub const PROGRESS: u8 = 9;
/// The frame of a [`Record::GroupGone`].
pub const GROUP_GONE: u8 = 10;
/// The frame of a [`Record::Subscription`].
pub const SUBSCRIPTION: u8 = 11;
/// The frame of a [`Record::SubscriptionGone`].
pub const SUBSCRIPTION_GONE: u8 = 12;

/// Bytes of a settled range, and of the tries of an event.
const PAIR: usize = 16;
/// The least bytes of a topic: its length and one letter.
const LEAST_TOPIC: usize = 5;

/// Appends the content of a record's frame, without its kind, and answers the kind.
pub fn write(record: &Record, into: &mut Vec<u8>) -> u8 {
    match record {
        Record::Group(group) => {
            put_group(group, into);
            GROUP
        }
        Record::Progress(topic, group, progress) => {
            put_text(topic, into);
            put_text(group, into);
            into.put_u64(progress.epoch);
            into.put_u8(progress.reset.into());
            into.put_u64(progress.floor);
            into.put_u64(progress.high);
            put_ranges(progress.settled.len(), progress.settled.iter().copied(), into);
            put_tries(progress.tries.len(), progress.tries.iter().copied(), into);
            PROGRESS
        }
        Record::GroupGone(topic, group) => {
            put_text(topic, into);
            put_text(group, into);
            GROUP_GONE
        }
        Record::Subscription(subscription) => {
            write_subscription(subscription, into);
            SUBSCRIPTION
        }
        Record::SubscriptionGone(label, group) => {
            put_text(label, into);
            put_text(group, into);
            SUBSCRIPTION_GONE
        }
    }
}

/// Ranges and tries that one part of a group's progress has, so that it fits into a frame.
const PAIRS_PER_PART: usize = 1 << 19;

/// The progress of a group in parts that each fit into a frame. One after the other they do what the whole does.
pub fn parts(progress: &Progress) -> Vec<Progress> {
    let &Progress { epoch, floor, high, .. } = progress;
    let part = |settled: &[(u64, u64)], tries: &[(u64, Tries)]| Progress {
        epoch,
        reset: false,
        floor,
        high,
        settled: settled.to_vec(),
        tries: tries.to_vec(),
    };
    let settled = progress.settled.chunks(PAIRS_PER_PART).map(|settled| part(settled, &[]));
    let tries = progress.tries.chunks(PAIRS_PER_PART).map(|tries| part(&[], tries));
    let mut parts: Vec<Progress> = settled.chain(tries).collect();
    if let Some(first) = parts.first_mut() {
        first.reset = progress.reset;
    }
    parts
}

/// Reads what [`write()`] wrote, all of it.
///
/// # Errors
/// The kind is not that of a record, or the content is not that of the kind.
pub fn read(kind: u8, content: &[u8]) -> Result<Record, Malformed> {
    let mut from = Take(content);
    take_record(kind, &mut from)
        .and_then(|record| from.end().map(|()| record))
        .map_err(|err| Malformed(format!("a record of kind {kind}: {err}")))
}

fn take_record(kind: u8, from: &mut Take<'_>) -> Result<Record, Malformed> {
    Ok(match kind {
        GROUP => Record::Group(take_group(from)?),
        PROGRESS => {
            let (topic, group) = (take_topic(from)?, take_name(from)?);
            let progress = Progress {
                epoch: from.u64()?,
                reset: take_bool(from, "reset")?,
                floor: from.u64()?,
                high: from.u64()?,
                settled: take_ranges(from)?,
                tries: take_tries(from)?,
            };
            Record::Progress(topic, group, progress)
        }
        GROUP_GONE => Record::GroupGone(take_topic(from)?, take_name(from)?),
        SUBSCRIPTION => Record::Subscription(read_subscription(from)?),
        SUBSCRIPTION_GONE => Record::SubscriptionGone(from.text()?.to_owned(), take_name(from)?),
        _ => return Err(Malformed(format!("{GROUP} to {SUBSCRIPTION_GONE} are expected"))),
    })
}

/// Appends a group with its whole state, as the manifest has it.
pub fn write_group(group: &StoredGroup, into: &mut Vec<u8>) {
    let StoredGroup { record, state } = group;
    put_group(record, into);
    into.put_u64(state.epoch);
    into.put_u64(state.floor);
    into.put_u64(state.high);
    put_ranges(state.settled.len(), state.settled.iter(), into);
    put_tries(state.tries.len(), state.tries.iter().map(|(&seq, &tries)| (seq, tries)), into);
}

/// Takes what [`write_group`] wrote. What [`GroupState`] promises of its numbers is not checked.
///
/// # Errors
/// Something else is there.
pub fn read_group(from: &mut Take<'_>) -> Result<StoredGroup, Malformed> {
    Ok(StoredGroup {
        record: take_group(from)?,
        state: GroupState {
            epoch: from.u64()?,
            floor: from.u64()?,
            high: from.u64()?,
            settled: take_ranges(from)?.into_iter().collect(),
            tries: take_tries(from)?.into_iter().collect(),
        },
    })
}

/// Appends a subscription: the content of its frame, and as the manifest has it.
pub fn write_subscription(subscription: &SubscriptionRecord, into: &mut Vec<u8>) {
    put_text(&subscription.label, into);
    put_text(&subscription.group, into);
    put_count(subscription.topics.len(), into);
    for topic in &subscription.topics {
        put_text(topic, into);
    }
    put_options(&subscription.options, into);
    into.put_u64(subscription.created);
    put_moment(subscription.idle_since, into);
}

/// Takes what [`write_subscription`] wrote.
///
/// # Errors
/// Something else is there.
pub fn read_subscription(from: &mut Take<'_>) -> Result<SubscriptionRecord, Malformed> {
    Ok(SubscriptionRecord {
        label: from.text()?.to_owned(),
        group: take_name(from)?,
        topics: take_list(from, "topics", LEAST_TOPIC, take_topic)?,
        options: take_options(from)?,
        created: from.u64()?,
        idle_since: take_moment(from)?,
    })
}

fn put_group(group: &GroupRecord, into: &mut Vec<u8>) {
    put_text(&group.topic, into);
    put_text(&group.name, into);
    put_options(&group.options, into);
    into.put_u64(group.created);
    put_moment(group.idle_since, into);
    into.put_u8(group.driven.into());
    into.put_u64(group.born);
}

fn take_group(from: &mut Take<'_>) -> Result<GroupRecord, Malformed> {
    Ok(GroupRecord {
        topic: take_topic(from)?,
        name: take_name(from)?,
        options: take_options(from)?,
        created: from.u64()?,
        idle_since: take_moment(from)?,
        driven: take_bool(from, "driven")?,
        born: from.u64()?,
    })
}

fn put_text(text: &str, into: &mut Vec<u8>) {
    into.put_bytes(text.as_bytes());
}

fn take_topic(from: &mut Take<'_>) -> Result<TopicName, Malformed> {
    TopicName::stored(from.text()?).map_err(|err| Malformed(err.msg.into_owned()))
}

fn take_name(from: &mut Take<'_>) -> Result<GroupName, Malformed> {
    GroupName::parse(from.text()?).map_err(|err| Malformed(err.msg.into_owned()))
}

fn put_options(options: &GroupOptions, into: &mut Vec<u8>) {
    into.put_bytes(&serde_json::to_vec(options).expect("texts and numbers are JSON, and a Vec takes all"));
}

fn take_options(from: &mut Take<'_>) -> Result<GroupOptions, Malformed> {
    serde_json::from_str(from.text()?)
        .map_err(|err| Malformed(format!("the options are not those of a group: {err}")))
}

fn put_moment(moment: Option<u64>, into: &mut Vec<u8>) {
    into.put_u8(moment.is_some().into());
    if let Some(moment) = moment {
        into.put_u64(moment);
    }
}

fn take_moment(from: &mut Take<'_>) -> Result<Option<u64>, Malformed> {
    take_bool(from, "idle since")?.then(|| from.u64()).transpose()
}

fn take_bool(from: &mut Take<'_>, what: &str) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Malformed(format!("{what}: 0 or 1 is expected, {other} is there"))),
    }
}

fn put_ranges(count: usize, ranges: impl Iterator<Item = (u64, u64)>, into: &mut Vec<u8>) {
    put_count(count, into);
    for (from, to) in ranges {
        into.put_u64(from);
        into.put_u64(to);
    }
}

fn take_ranges(from: &mut Take<'_>) -> Result<Vec<(u64, u64)>, Malformed> {
    take_list(from, "settled ranges", PAIR, |from| match (from.u64()?, from.u64()?) {
        (first, last) if first > last => {
            Err(Malformed(format!("a settled range begins at {first} and ends before, at {last}")))
        }
        range => Ok(range),
    })
}

fn put_tries(count: usize, tries: impl Iterator<Item = (u64, Tries)>, into: &mut Vec<u8>) {
    put_count(count, into);
    for (seq, Tries { attempts, failures }) in tries {
        into.put_u64(seq);
        into.put_u32(attempts);
        into.put_u32(failures);
    }
}

fn take_tries(from: &mut Take<'_>) -> Result<Vec<(u64, Tries)>, Malformed> {
    take_list(from, "tries", PAIR, |from| {
        Ok((from.u64()?, Tries { attempts: from.u32()?, failures: from.u32()? }))
    })
}

fn put_count(count: usize, into: &mut Vec<u8>) {
    into.put_u32(u32::try_from(count).expect("nothing that is stored has that many"));
}

/// A count and its items. A count that the bytes there cannot hold is refused before there is room made for it:
/// `least` is what an item has at least.
fn take_list<T>(
    from: &mut Take<'_>,
    what: &str,
    least: usize,
    mut item: impl FnMut(&mut Take<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let (count, left) = (from.u32()? as usize, from.0.len());
    if count > left / least {
        return Err(Malformed(format!(
            "{count} {what} of at least {least} bytes each are expected, {left} bytes are there"
        )));
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(item(from)?);
    }
    Ok(items)
}
