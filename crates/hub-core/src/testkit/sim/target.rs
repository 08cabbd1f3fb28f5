//! What members of the simulated hub can join.

use super::model::Log;
use crate::group::options::GroupRequest;
use hub_proto::{Filter, GroupName, Ordering, Position};

/// A subscription that members can join.
pub(super) struct Target {
    pub(super) label: &'static str,
    pub(super) topics: &'static [&'static str],
    pub(super) group: &'static str,
    pub(super) request: GroupRequest,
    pub(super) from: Position,
}

pub(super) fn targets() -> Vec<Target> {
    let key = Some(Ordering::Key);
    let target = |label, group, max_attempts, from| Target {
        label,
        topics: &[],
        group,
        request: GroupRequest { max_attempts: Some(max_attempts), ..Default::default() },
        from,
    };
    let mut targets = vec![
        target("a.one", "plain", 3, Position::Latest),
        target("a.one", "keyed", 2, Position::Earliest),
        target("c.state", "latest", 3, Position::Earliest),
        target("a.two", "some", 3, Position::Earliest),
        target("p.*", "pattern", 2, Position::Latest),
        target("r.log", "lagging", 3, Position::Earliest),
        target("both", "list", 2, Position::Latest),
        target("dlq.a.one", "morgue", 2, Position::Earliest),
    ];
    targets[1].request.ordering = key;
    targets[2].request.coalesce = Some(true);
    targets[3].request.filter = Some(Filter { key: Some("k1".into()), ..Default::default() });
    targets[6].topics = &["a.one", "a.two"];
    targets[6].request.ordering = key;
    targets
}

impl Target {
    /// The topic that has to be there before anybody can join.
    pub(super) fn waits_for(&self) -> Option<&'static str> {
        self.label.strip_prefix("dlq.")
    }

    pub(super) fn covers(&self, topic: &str) -> bool {
        match self.label {
            "p.*" => topic.starts_with("p."),
            label if self.topics.is_empty() => label == topic,
            _ => self.topics.contains(&topic),
        }
    }
}

/// Where a new group starts.
pub(super) fn start(target: &Target, log: &Log) -> u64 {
    match target.from {
        Position::Latest => log.last(),
        // Whatever is gone counts as settled anyway.
        _ => log.present.first().map_or(log.last(), |first| first - 1),
    }
}

pub(super) fn group_name(target: &Target) -> GroupName {
    target.group.parse().expect("a valid name")
}
