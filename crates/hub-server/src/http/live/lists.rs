//! The messages `topics`, `groups` and `problems` of one viewer: what changed since the sample that it saw last.

use super::message::{List, put_message};
use super::problems::problems;
use super::rows::{GroupRow, TopicRow, json};
use super::snapshot::Snapshot;
use super::table::{Row, Slot};
use super::visibility::Visibility;
use crate::Hub;
use crate::http::auth::Caller;
use hashbrown::HashMap;
use hub_proto::TopicName;

/// A message with rows ends at this size. The other rows follow in the next one.
const MESSAGE_BYTES: usize = 64 << 10;
/// Topics of the overview.
const BUSIEST: usize = 10;

/// Which rows a viewer wants.
pub(super) enum Wanted {
    /// The busiest topics, and problems.
    Overview,
    /// All topics, or one.
    Topics(Option<TopicName>),
    /// All groups, or those of one topic.
    Groups(Option<TopicName>),
    /// None.
    Nothing,
}

impl Wanted {
    /// The name of the list that the page has read, if it has read one.
    fn list(&self) -> Option<&'static str> {
        match self {
            Self::Topics(_) => Some("topics"),
            Self::Groups(_) => Some("groups"),
            Self::Overview | Self::Nothing => None,
        }
    }
}

/// See the module.
pub(super) struct Lists {
    wanted: Wanted,
    /// The sample that was seen last.
    seen: Option<u64>,
    /// The generation of that sample.
    generation: Option<u64>,
    /// The busiest topics as they were sent, with the sample in which they changed.
    busiest: HashMap<TopicName, u64>,
    /// Problems as they were sent.
    problems: Vec<u8>,
    /// Rows that are still to be sent.
    backlog: Option<Backlog>,
}

/// Places of rows, which are sent as the newest sample has them: a viewer that reads slowly keeps no old sample in memory. What cannot be
/// seen, or is gone, is sent as gone.
struct Backlog {
    /// That of the samples in which the places mean something.
    generation: u64,
    places: std::vec::IntoIter<u32>,
}

impl Lists {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            seen: None,
            generation: None,
            busiest: HashMap::new(),
            problems: Vec::new(),
            backlog: None,
        }
    }

    /// Whether there are rows that are still to be sent.
    pub fn has_backlog(&self) -> bool {
        self.backlog.is_some()
    }

    /// Leaves out rows that are still to be sent. The rights have changed: what may be seen comes with the next sample.
    pub fn drop_backlog(&mut self) {
        if self.backlog.take().is_some() {
            // All that changed while they waited is looked at again.
            self.seen = Some(0);
        }
    }

    /// Writes what changed. `before` is what the viewer might see until now, if its rights have changed since.
    pub fn sample(
        &mut self,
        (hub, caller): (&Hub, &Caller),
        snapshot: &Snapshot,
        (visibility, before): (&Visibility, Option<&Visibility>),
        text: &mut Vec<u8>,
    ) {
        let generation = self.generation.replace(snapshot.generation);
        let seen = self.seen.replace(snapshot.number);
        if generation.is_some_and(|before| before != snapshot.generation)
            && let Some(name) = self.wanted.list()
        {
            // The new tables do not know which rows are gone: the page reads its list again.
            self.backlog = None;
            return put_message(name, b"{\"rows\":[],\"reset\":true}", text);
        }
        // The page has read the lists when it opened the stream.
        let seen = seen.unwrap_or(snapshot.number);
        let places = match &self.wanted {
            Wanted::Nothing => return,
            Wanted::Overview => return self.overview(hub, caller, snapshot, visibility, text),
            Wanted::Topics(only) => {
                let changed = snapshot.topics.changed_after(seen);
                let is_wanted = |at: &u32| {
                    let slot = snapshot.topics.get(*at);
                    slot.is_some_and(|slot| only.as_ref().is_none_or(|only| slot.row.name == *only))
                };
                let visible = changed.into_iter().filter(|at| visibility.sees_topic(*at));
                let moved = before.map(|before| visibility.moved_topics(before)).unwrap_or_default();
                visible.chain(moved).filter(is_wanted).collect()
            }
            Wanted::Groups(only) => {
                let changed = snapshot.groups.changed_after(seen);
                let is_wanted = |at: &u32| {
                    let slot = snapshot.groups.get(*at);
                    slot.is_some_and(|slot| only.as_ref().is_none_or(|only| slot.row.status.topic == *only))
                };
                let visible = changed.into_iter().filter(|at| visibility.sees_group(*at));
                let moved = before.map(|before| visibility.moved_groups(before)).unwrap_or_default();
                visible.chain(moved).filter(is_wanted).collect::<Vec<u32>>()
            }
        };
        if !places.is_empty() {
            self.backlog = Some(Backlog { generation: snapshot.generation, places: places.into_iter() });
            self.go_on(snapshot, visibility, text);
        }
    }

    /// Writes further rows that are still to be sent, as `snapshot` has them, which is the newest.
    pub fn go_on(&mut self, snapshot: &Snapshot, visibility: &Visibility, text: &mut Vec<u8>) {
        let Some(Backlog { generation, places }) = &mut self.backlog else { return };
        if *generation != snapshot.generation {
            // With the sample that comes next the page reads everything again.
            self.backlog = None;
            return;
        }
        match &self.wanted {
            Wanted::Topics(_) => {
                let slots =
                    places.filter_map(|at| Some((snapshot.topics.get(at)?, visibility.sees_topic(at))));
                let put = |row: &TopicRow, text: &mut Vec<u8>| put_topic(row, visibility, text);
                put_rows("topics", slots, put, |row| json(&row.name), text);
            }
            _ => {
                let slots =
                    places.filter_map(|at| Some((snapshot.groups.get(at)?, visibility.sees_group(at))));
                let put = |row: &GroupRow, text: &mut Vec<u8>| text.extend_from_slice(row.text());
                let name = |row: &GroupRow| json(&(&row.status.topic, &row.status.group));
                put_rows("groups", slots, put, name, text);
            }
        }
        if places.len() == 0 {
            self.backlog = None;
        }
    }

    fn overview(
        &mut self,
        hub: &Hub,
        caller: &Caller,
        snapshot: &Snapshot,
        visibility: &Visibility,
        text: &mut Vec<u8>,
    ) {
        let problems = problems(hub, caller, snapshot, visibility);
        if problems != self.problems {
            put_message("problems", &problems, text);
            self.problems = problems;
        }
        let visible = snapshot.busiest().iter().filter(|at| visibility.sees_topic(**at));
        let slots: Vec<&Slot<TopicRow>> = visible
            .filter_map(|at| snapshot.topics.get(*at))
            .filter(|slot| !slot.is_gone)
            .take(BUSIEST)
            .collect();
        let busiest: HashMap<TopicName, u64> =
            slots.iter().map(|slot| (slot.row.name.clone(), slot.changed_in)).collect();
        let before = std::mem::replace(&mut self.busiest, busiest);
        let changed = slots.into_iter().filter(|slot| before.get(&slot.row.name) != Some(&slot.changed_in));
        let gone: Vec<&TopicName> = before.keys().filter(|name| !self.busiest.contains_key(*name)).collect();
        let mut data = b"{\"rows\":".to_vec();
        let (empty, mut list) = (data.len() + 2, List::begin(&mut data));
        changed.for_each(|slot| put_topic(&slot.row, visibility, list.entry()));
        list.end();
        if data.len() == empty && gone.is_empty() {
            return;
        }
        if !gone.is_empty() {
            data.extend_from_slice(b",\"gone\":");
            data.extend_from_slice(&json(&gone));
        }
        data.push(b'}');
        put_message("topics", &data, text);
    }
}

fn put_topic(row: &TopicRow, visibility: &Visibility, text: &mut Vec<u8>) {
    text.extend_from_slice(row.text());
    text.extend_from_slice(format!(",\"groups\":{}}}", visibility.groups_of(row)).as_bytes());
}

/// Writes a message with rows, until it has its size. `slots` are rows and whether they can be seen.
fn put_rows<'a, R: Row + 'a>(
    name: &str,
    slots: impl Iterator<Item = (&'a Slot<R>, bool)>,
    put: impl Fn(&R, &mut Vec<u8>),
    name_of: impl Fn(&R) -> Vec<u8>,
    text: &mut Vec<u8>,
) {
    let (mut data, mut gone) = (b"{\"rows\":".to_vec(), Vec::new());
    let mut list = List::begin(&mut data);
    let mut gone_list = List::begin(&mut gone);
    let mut size = 0;
    for (slot, is_visible) in slots {
        if is_visible && !slot.is_gone {
            let entry = list.entry();
            let before = entry.len();
            put(&slot.row, entry);
            size += entry.len() - before;
        } else {
            let entry = gone_list.entry();
            let before = entry.len();
            entry.extend_from_slice(&name_of(&slot.row));
            size += entry.len() - before;
        }
        if size >= MESSAGE_BYTES {
            break;
        }
    }
    list.end();
    gone_list.end();
    if gone.len() > 2 {
        data.extend_from_slice(b",\"gone\":");
        data.extend_from_slice(&gone);
    }
    data.push(b'}');
    put_message(name, &data, text);
}
