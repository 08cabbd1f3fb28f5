//! Which topics, and which groups on them, have labels of their own in the metrics.
//!
//! The number of labels is bounded, and so is what one subject can have of them: a subject that makes topics without end takes
//! no label away from others. A topic that an operator names in the configuration has its label from a reserve. A label is given
//! when a topic or a group appears, and is free again when that is deleted.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use prometheus_client::encoding::EncodeLabelSet;
use std::sync::Arc;

/// The label of topics and groups without one of their own.
pub(super) const OTHER: &str = "_other";

/// One subject has at most this part of the labels.
const SHARES: usize = 10;

/// The labels `{topic, "_other"}`, for groups past the limit, are at most this part of the labels of groups.
const OVERFLOW: usize = 10;

/// The bytes of a topic's and a group's name that one slot pays for. A pair with longer names takes several: the limit is there
/// to bound the size of the answer to a scrape.
pub(super) const SLOT_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TopicLabel {
    pub topic: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct GroupLabel {
    pub topic: String,
    pub group: String,
}

/// Whose share a label is taken from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelOwner {
    /// The subject that made the topic or the group.
    Subject(Arc<str>),
    /// Topics of other hubs whose subject is not known yet have one share together.
    UnknownSubject,
    /// The program itself: bounded by the total only.
    Program,
    /// A topic that the configuration names, or one of the hub's own: always labelled, and not counted.
    Reserve,
}

impl LabelOwner {
    pub fn of(maker: Option<&Arc<str>>) -> Self {
        maker.map_or(Self::Program, |subject| Self::Subject(subject.clone()))
    }
}

/// Slots that owners share.
#[derive(Default)]
struct Budget {
    limit: usize,
    share: usize,
    used: usize,
    /// Of owners that are bounded by a share.
    used_by: HashMap<LabelOwner, usize, RandomState>,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, share: (limit / SHARES).max(1), ..Self::default() }
    }

    /// Takes slots, if there are so many for this owner.
    fn take(&mut self, owner: &LabelOwner, slots: usize) -> bool {
        if *owner == LabelOwner::Reserve {
            return true;
        }
        if self.used + slots > self.limit {
            return false;
        }
        if *owner != LabelOwner::Program {
            let used = self.used_by.get(owner).copied().unwrap_or_default() + slots;
            if used > self.share {
                return false;
            }
            self.used_by.insert(owner.clone(), used);
        }
        self.used += slots;
        true
    }

    fn give_back(&mut self, owner: &LabelOwner, slots: usize) {
        if *owner == LabelOwner::Reserve {
            return;
        }
        self.used = self.used.saturating_sub(slots);
        if let Some(used) = self.used_by.get_mut(owner) {
            *used = used.saturating_sub(slots);
            if *used == 0 {
                self.used_by.remove(owner);
            }
        }
    }
}

/// The label of one or more groups: those of one name on topics without a label share it.
struct Pair {
    owner: LabelOwner,
    slots: usize,
    /// A label that is given again has another number.
    number: u64,
    groups: usize,
}

/// The labels that are given.
#[derive(Default)]
pub(super) struct Labels {
    topics: HashMap<String, LabelOwner, RandomState>,
    topic_slots: Budget,
    pairs: HashMap<GroupLabel, Pair, RandomState>,
    pair_slots: Budget,
    /// Topics with a label `{topic, "_other"}`, each with its owner and slots.
    overflow: HashMap<String, (LabelOwner, usize), RandomState>,
    overflow_slots: Budget,
    numbers: u64,
}

/// The label that a group counts under.
#[derive(Debug)]
pub(super) struct PairLabel {
    pub label: GroupLabel,
    /// `None` if it is shared by groups of other names; such a label stays when a group is deleted.
    number: Option<u64>,
}

impl PairLabel {
    /// Whether the label has the group's own name.
    pub fn is_own(&self) -> bool {
        self.number.is_some()
    }
}

impl Labels {
    pub fn new(limit: usize) -> Self {
        Self {
            topic_slots: Budget::new(limit),
            pair_slots: Budget::new(limit),
            overflow_slots: Budget::new((limit / OVERFLOW).max(1)),
            ..Self::default()
        }
    }

    /// Whether a topic has a label; it gets one if there is one for this owner.
    pub fn add_topic(&mut self, topic: &str, owner: LabelOwner) -> bool {
        if self.topics.contains_key(topic) {
            return true;
        }
        let has_label = topic != OTHER && self.topic_slots.take(&owner, 1);
        if has_label {
            self.topics.insert(topic.into(), owner);
        }
        has_label
    }

    /// The subject that made a topic is known by now. A topic that has its label keeps it, from the share of the subject if there
    /// is room in that.
    pub fn set_owner(&mut self, topic: &str, owner: LabelOwner) {
        let Some(before) = self.topics.get_mut(topic) else { return };
        if *before == LabelOwner::Reserve || *before == owner {
            return;
        }
        self.topic_slots.give_back(before, 1);
        if self.topic_slots.take(&owner, 1) {
            *before = owner;
        } else {
            let is_taken = self.topic_slots.take(before, 1);
            debug_assert!(is_taken, "the slot was given back a moment ago");
        }
    }

    /// The label of a group on a topic that has a label, or has none.
    pub fn add_group(&mut self, topic: Option<&str>, group: &str, owner: &LabelOwner) -> PairLabel {
        let label = GroupLabel { topic: topic.unwrap_or(OTHER).into(), group: group.into() };
        if let Some(pair) = self.pairs.get_mut(&label) {
            pair.groups += 1;
            return PairLabel { label, number: Some(pair.number) };
        }
        let slots = slots(label.topic.len() + label.group.len());
        if group != OTHER && self.pair_slots.take(owner, slots) {
            self.numbers += 1;
            let number = self.numbers;
            self.pairs.insert(label.clone(), Pair { owner: owner.clone(), slots, number, groups: 1 });
            return PairLabel { label, number: Some(number) };
        }
        let topic = topic.filter(|topic| self.add_overflow(topic, owner)).unwrap_or(OTHER);
        PairLabel { label: GroupLabel { topic: topic.into(), group: OTHER.into() }, number: None }
    }

    /// The labels of groups on topics that have one, too.
    pub fn groups(&self) -> Vec<(String, String)> {
        let own = self.pairs.keys().filter(|label| label.topic != OTHER);
        own.map(|label| (label.topic.clone(), label.group.clone())).collect()
    }

    fn add_overflow(&mut self, topic: &str, owner: &LabelOwner) -> bool {
        if self.overflow.contains_key(topic) {
            return true;
        }
        let slots = slots(topic.len());
        let has_label = self.overflow_slots.take(owner, slots);
        if has_label {
            self.overflow.insert(topic.into(), (owner.clone(), slots));
        }
        has_label
    }

    /// A group is gone. Answers whether its label is free.
    pub fn remove_group(&mut self, pair: &PairLabel) -> bool {
        let Some(found) = self.pairs.get_mut(&pair.label).filter(|found| Some(found.number) == pair.number)
        else {
            return false;
        };
        found.groups -= 1;
        if found.groups > 0 {
            return false;
        }
        self.pair_slots.give_back(&found.owner, found.slots);
        self.pairs.remove(&pair.label);
        true
    }

    /// A topic is gone. Answers whether it had a label, and the labels of groups that were left on it.
    pub fn remove_topic(&mut self, topic: &str) -> (bool, Vec<GroupLabel>) {
        let Some(owner) = self.topics.remove(topic) else { return (false, Vec::new()) };
        self.topic_slots.give_back(&owner, 1);
        let pair_slots = &mut self.pair_slots;
        let mut gone: Vec<GroupLabel> = Vec::new();
        self.pairs.retain(|label, pair| {
            let stays = label.topic != topic;
            if !stays {
                pair_slots.give_back(&pair.owner, pair.slots);
                gone.push(label.clone());
            }
            stays
        });
        if let Some((owner, slots)) = self.overflow.remove(topic) {
            self.overflow_slots.give_back(&owner, slots);
            gone.push(GroupLabel { topic: topic.into(), group: OTHER.into() });
        }
        (true, gone)
    }
}

/// How many slots names of so many bytes take.
fn slots(bytes: usize) -> usize {
    bytes.div_ceil(SLOT_BYTES).max(1)
}
