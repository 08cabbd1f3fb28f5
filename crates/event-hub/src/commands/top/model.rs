//! What is shown: the last answers of the hub, and what the user chose.

use super::keys::Key;
use super::poll::Look;
use crate::commands::groups::is_stall;
use crate::listing::{Span, measured};
use anyhow::Result;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Instant;

/// Characters of a filter.
const FILTER_CHARS: usize = 200;

/// A topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topic {
    pub name: String,
    pub events: u64,
    pub bytes: u64,
    pub last: u64,
    pub groups: u64,
    /// Published per second.
    pub rate: Option<f64>,
    /// The time of the newest event.
    pub newest: Option<u64>,
}

/// A group on a topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub topic: String,
    pub name: String,
    pub lag: u64,
    pub inflight: u64,
    pub parked: u64,
    pub members: u64,
    pub floor: u64,
    /// Delivered per second; settled per second if the hub does not say.
    pub rate: Option<f64>,
    /// Commit to delivery, of 99 events in 100, in milliseconds.
    pub latency: Option<f64>,
    pub reason: Option<String>,
}

impl Group {
    pub fn is_stuck(&self) -> bool {
        self.lag > 0 && is_stall(self.reason.as_deref())
    }
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Topics = 0,
    Groups = 1,
}

/// How lists are sorted, in the order in which `s` goes through them.
pub const TOPIC_SORTS: [&str; 4] = ["rate", "events", "size", "name"];
pub const GROUP_SORTS: [&str; 5] = ["lag", "rate", "in flight", "parked", "name"];

/// How a list is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed {
    sort: usize,
    pub is_reversed: bool,
    /// The first row that is shown.
    pub top: usize,
}

/// What the keys do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Watching,
    Filtering,
    Helping,
}

pub struct Model {
    pub address: String,
    topics: Vec<Topic>,
    groups: Vec<Group>,
    pub health: Value,
    pub is_cut: bool,
    /// Why there is no newer answer.
    pub error: Option<String>,
    pub filter: String,
    pub mode: Mode,
    is_paused: bool,
    pub pane: Pane,
    lists: [Listed; 2],
    seen: Option<Instant>,
}

impl Model {
    pub fn new(address: String, filter: String) -> Self {
        Self {
            address,
            topics: Vec::new(),
            groups: Vec::new(),
            health: Value::Null,
            is_cut: false,
            error: None,
            filter,
            mode: Mode::Watching,
            is_paused: false,
            pane: Pane::Groups,
            lists: [Listed::default(); 2],
            seen: None,
        }
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes an answer of the hub over.
    pub fn update(&mut self, (at, look): (Instant, Result<Look>)) {
        let look = match look {
            Ok(look) => look,
            Err(error) => {
                self.error = Some(format!("{error:#}"));
                return;
            }
        };
        let seconds = self.seen.map(|seen| at.duration_since(seen).as_secs_f64()).filter(|s| *s > 0.0);
        let per_second = |now: u64, before: Option<u64>| Some(now.saturating_sub(before?) as f64 / seconds?);
        let known: HashMap<&str, u64> =
            self.topics.iter().map(|topic| (topic.name.as_str(), topic.last)).collect();
        let topics = look.topics.iter().map(|topic| {
            let (name, last) = (text(&topic["name"]), number(&topic["last"]));
            let rate = measured(topic, Span::Second, "published").as_f64();
            Topic {
                events: number(&topic["events"]),
                bytes: number(&topic["bytes"]),
                groups: number(&topic["groups"]),
                rate: rate.or_else(|| per_second(last, known.get(name.as_str()).copied())),
                newest: topic["lastCommitted"].as_u64(),
                name,
                last,
            }
        });
        let topics: Vec<Topic> = topics.collect();
        let known: HashMap<(&str, &str), u64> = self
            .groups
            .iter()
            .map(|group| ((group.topic.as_str(), group.name.as_str()), group.floor))
            .collect();
        let groups = look.groups.iter().map(|group| {
            let (topic, name, floor) =
                (text(&group["topic"]), text(&group["group"]), number(&group["floor"]));
            let rate = measured(group, Span::Second, "delivered").as_f64();
            Group {
                lag: number(&group["lag"]),
                inflight: number(&group["inflight"]),
                parked: number(&group["parked"]),
                members: number(&group["members"]),
                rate: rate
                    .or_else(|| per_second(floor, known.get(&(topic.as_str(), name.as_str())).copied())),
                latency: measured(group, Span::Minute, "latencyMs")["p99"].as_f64(),
                reason: group["reason"].as_str().map(str::to_owned),
                topic,
                name,
                floor,
            }
        });
        let groups: Vec<Group> = groups.collect();
        (self.topics, self.groups) = (topics, groups);
        (self.health, self.is_cut) = (look.health, look.is_cut);
        (self.error, self.seen) = (None, Some(at));
    }

    /// All topics, whatever the filter says.
    pub fn all_topics(&self) -> &[Topic] {
        &self.topics
    }

    pub fn all_groups(&self) -> &[Group] {
        &self.groups
    }

    /// The topics that match the filter, sorted.
    pub fn topics(&self) -> Vec<&Topic> {
        let listed = self.list(Pane::Topics);
        let mut topics: Vec<&Topic> = self.topics.iter().filter(|topic| self.matches(&topic.name)).collect();
        let compare = |a: &&Topic, b: &&Topic| match TOPIC_SORTS[listed.sort] {
            "rate" => largest(a.rate.unwrap_or(0.0), b.rate.unwrap_or(0.0)),
            "events" => b.events.cmp(&a.events),
            "size" => b.bytes.cmp(&a.bytes),
            _ => Ordering::Equal,
        };
        topics.sort_by(|a, b| compare(a, b).then_with(|| a.name.cmp(&b.name)));
        if listed.is_reversed {
            topics.reverse();
        }
        topics
    }

    /// The groups that match the filter, sorted.
    pub fn groups(&self) -> Vec<&Group> {
        let listed = self.list(Pane::Groups);
        let matches = |group: &&Group| self.matches(&group.topic) || self.matches(&group.name);
        let mut groups: Vec<&Group> = self.groups.iter().filter(matches).collect();
        let compare = |a: &&Group, b: &&Group| match GROUP_SORTS[listed.sort] {
            "lag" => b.lag.cmp(&a.lag),
            "rate" => largest(a.rate.unwrap_or(0.0), b.rate.unwrap_or(0.0)),
            "in flight" => b.inflight.cmp(&a.inflight),
            "parked" => b.parked.cmp(&a.parked),
            _ => Ordering::Equal,
        };
        groups.sort_by(|a, b| compare(a, b).then_with(|| (&a.topic, &a.name).cmp(&(&b.topic, &b.name))));
        if listed.is_reversed {
            groups.reverse();
        }
        groups
    }

    fn matches(&self, name: &str) -> bool {
        name.to_ascii_lowercase().contains(&self.filter.to_ascii_lowercase())
    }

    pub fn list(&self, pane: Pane) -> Listed {
        self.lists[pane as usize]
    }

    pub fn sort(&self, pane: Pane) -> &'static str {
        let sort = self.lists[pane as usize].sort;
        if pane == Pane::Topics { TOPIC_SORTS[sort] } else { GROUP_SORTS[sort] }
    }

    /// Keeps a list from being scrolled beyond its end: `rows` of `total` are shown.
    pub fn clamp(&mut self, pane: Pane, rows: usize, total: usize) -> usize {
        let list = &mut self.lists[pane as usize];
        list.top = list.top.min(total.saturating_sub(rows));
        list.top
    }

    /// Handles a key; whether the view goes on.
    pub fn press(&mut self, key: Key) -> bool {
        match (self.mode, key) {
            (_, Key::Interrupt) => return false,
            (Mode::Filtering, key) => self.edit_filter(key),
            (Mode::Helping, _) => self.mode = Mode::Watching,
            (Mode::Watching, Key::Char('q' | 'Q')) => return false,
            (Mode::Watching, key) => self.watch(key),
        }
        true
    }

    fn edit_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Watching,
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Watching;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.len() < FILTER_CHARS => self.filter.push(c),
            _ => {}
        }
    }

    fn watch(&mut self, key: Key) {
        let list = &mut self.lists[self.pane as usize];
        match key {
            Key::Char(' ') => self.is_paused = !self.is_paused,
            Key::Char('?' | 'h') => self.mode = Mode::Helping,
            Key::Char('/') => self.mode = Mode::Filtering,
            Key::Char('r') => list.is_reversed = !list.is_reversed,
            Key::Char('s') => {
                let sorts = if self.pane == Pane::Topics { TOPIC_SORTS.len() } else { GROUP_SORTS.len() };
                list.sort = (list.sort + 1) % sorts;
            }
            Key::Tab => self.pane = if self.pane == Pane::Topics { Pane::Groups } else { Pane::Topics },
            Key::Escape => self.filter.clear(),
            Key::Up | Key::Char('k') => list.top = list.top.saturating_sub(1),
            Key::Down | Key::Char('j') => list.top += 1,
            Key::PageUp => list.top = list.top.saturating_sub(10),
            Key::PageDown => list.top += 10,
            Key::Home => list.top = 0,
            Key::End => list.top = usize::MAX / 2,
            _ => {}
        }
    }
}

fn largest(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    pub fn look(published: u64, settled: u64) -> Look {
        Look {
            topics: vec![
                json!({"name": "orders", "events": published, "bytes": 2048, "last": published, "groups": 1}),
                json!({"name": "idle", "events": 900, "bytes": 10, "last": 900, "groups": 0}),
            ],
            groups: vec![
                json!({"topic": "orders", "group": "billing", "floor": settled, "lag": published - settled,
                    "inflight": 3, "parked": 0, "members": 2, "reason": null}),
                json!({"topic": "orders", "group": "mail", "floor": 0, "lag": published, "members": 0,
                    "reason": "no_members"}),
            ],
            health: json!({"ready": true}),
            ..Look::default()
        }
    }

    pub fn model() -> Model {
        let mut model = Model::new("http://127.0.0.1:8082/".into(), String::new());
        let began = Instant::now();
        model.update((began, Ok(look(100, 50))));
        model.update((began + Duration::from_secs(2), Ok(look(300, 150))));
        model
    }

    fn names(model: &Model) -> (Vec<&str>, Vec<&str>) {
        let topics = model.topics().iter().map(|topic| topic.name.as_str()).collect();
        (topics, model.groups().iter().map(|group| group.name.as_str()).collect())
    }

    #[test]
    fn rates_come_from_the_hub_or_from_what_changed_between_two_answers() {
        let mut model = model();
        let rate =
            |model: &Model| model.topics().iter().find(|topic| topic.name == "orders").and_then(|t| t.rate);
        assert_eq!(rate(&model), Some(100.0));
        assert_eq!(model.groups()[1].rate, Some(50.0));
        let mut said = look(400, 200);
        said.topics[0]["rates"] = json!({"second": {"published": 7.5}});
        model.update((Instant::now() + Duration::from_secs(9), Ok(said)));
        assert_eq!(rate(&model), Some(7.5));
    }

    #[test]
    fn lists_are_sorted_filtered_and_reversed_by_keys() {
        let mut model = model();
        assert_eq!(names(&model), (vec!["orders", "idle"], vec!["mail", "billing"]));
        model.press(Key::Char('r'));
        assert_eq!(names(&model).1, ["billing", "mail"]);
        model.press(Key::Tab);
        model.press(Key::Char('s'));
        assert_eq!(model.sort(Pane::Topics), "events");
        assert_eq!(names(&model).0, ["idle", "orders"]);
        for key in "/IDL".chars() {
            model.press(Key::Char(key));
        }
        assert_eq!(names(&model), (vec!["idle"], vec![]));
        model.press(Key::Escape);
        assert_eq!(names(&model).0.len(), 2);
    }

    #[test]
    fn q_ends_it_but_not_where_it_is_typed() {
        let mut model = model();
        model.press(Key::Char('/'));
        assert!(model.press(Key::Char('q')) && model.filter == "q");
        assert!(!model.press(Key::Interrupt), "Ctrl-C ends it everywhere");
        model.press(Key::Enter);
        assert!(!model.press(Key::Char('q')));
    }

    #[test]
    fn an_error_keeps_the_last_answer_on_the_screen() {
        let mut model = model();
        model.update((Instant::now(), Err(anyhow::anyhow!("no hub answers"))));
        assert_eq!((model.error.as_deref(), model.topics().len()), (Some("no hub answers"), 2));
    }
}
