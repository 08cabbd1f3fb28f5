//! What is stored beside events: groups with their progress, and subscriptions.

use crate::Millis;
use crate::group::options::GroupOptions;
use crate::group::state::{GroupState, Progress};
use hub_proto::{GroupName, TopicName};

/// A change to what is stored beside events. Writing the same one twice changes nothing more.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A group is new, or its options or idle time changed. Its progress stays.
    Group(GroupRecord),
    /// A group came forward; ignored for a group that is not there.
    Progress(TopicName, GroupName, Progress),
    /// A group is gone, with its progress.
    GroupGone(TopicName, GroupName),
    /// A subscription to a pattern or to several topics is new or changed.
    Subscription(SubscriptionRecord),
    /// A subscription is gone: its label and group.
    SubscriptionGone(String, GroupName),
}

impl Record {
    /// The name of the group it is about.
    pub fn group(&self) -> &GroupName {
        match self {
            Self::Group(record) => &record.name,
            Self::Subscription(record) => &record.group,
            Self::Progress(_, group, _) | Self::GroupGone(_, group) | Self::SubscriptionGone(_, group) => {
                group
            }
        }
    }
}

/// A durable group on one topic.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRecord {
    /// The topic it reads.
    pub topic: TopicName,
    /// Its name.
    pub name: GroupName,
    /// How it dispatches.
    pub options: GroupOptions,
    /// When it was made.
    pub created: Millis,
    /// Since when it has had no member; `None` while it has one.
    pub idle_since: Option<Millis>,
    /// Made by a subscription to a pattern or to several topics, and gone with it.
    pub driven: bool,
    /// The last seq of the dead-letter topic when the group was made. A group that is deleted and made again after it
    /// wrote a dead letter has a higher one: it keeps the dead letters of its lives apart.
    pub born: u64,
}

/// A group as it is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredGroup {
    /// What it is.
    pub record: GroupRecord,
    /// How far it is.
    pub state: GroupState,
}

/// A subscription to a pattern or to several topics. It drives one ordinary group per matching topic.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionRecord {
    /// The pattern as written, or the label of a list of topics.
    pub label: String,
    /// The group's name on every topic.
    pub group: GroupName,
    /// The listed topics; empty for a pattern.
    pub topics: Vec<TopicName>,
    /// The options its groups are made with.
    pub options: GroupOptions,
    /// When it was made.
    pub created: Millis,
    /// Since when it has had no member; `None` while it has one.
    pub idle_since: Option<Millis>,
}
