//! What of a sample a viewer may see. Each row is decided about once, and again when the viewer's rights may have changed.

use super::rows::TopicRow;
use super::snapshot::Snapshot;
use crate::http::auth::Caller;

/// Rows that are decided about before others get their turn.
const STRIDE: usize = 256;

/// See the module.
#[derive(Default)]
pub(super) struct Visibility {
    generation: u64,
    /// By place.
    topics: Vec<bool>,
    groups: Vec<bool>,
}

impl Visibility {
    /// Decides about the rows that are new in a sample; answers how many those are.
    pub async fn update(&mut self, caller: &Caller, snapshot: &Snapshot) -> usize {
        if self.generation != snapshot.generation {
            *self = Self { generation: snapshot.generation, ..Self::default() };
        }
        let (topics, groups) = (self.topics.len(), self.groups.len());
        for at in topics..snapshot.topics.len() {
            let slot = snapshot.topics.get(at as u32);
            self.topics.push(slot.is_some_and(|slot| caller.sees_topic(&slot.row.name)));
            give_way(at).await;
        }
        for at in groups..snapshot.groups.len() {
            let status = snapshot.groups.get(at as u32).map(|slot| &slot.row.status);
            self.groups.push(status.is_some_and(|status| caller.sees_group(&status.topic, &status.group)));
            give_way(at).await;
        }
        self.topics.len() - topics + self.groups.len() - groups
    }

    pub fn sees_topic(&self, at: u32) -> bool {
        self.topics.get(at as usize).is_some_and(|sees| *sees)
    }

    pub fn sees_group(&self, at: u32) -> bool {
        self.groups.get(at as usize).is_some_and(|sees| *sees)
    }

    /// The places of topics that could be seen before and cannot now, or the other way round.
    pub fn moved_topics(&self, before: &Self) -> Vec<u32> {
        self.moved(before, |visibility| &visibility.topics)
    }

    /// The same of groups.
    pub fn moved_groups(&self, before: &Self) -> Vec<u32> {
        self.moved(before, |visibility| &visibility.groups)
    }

    fn moved(&self, before: &Self, of: fn(&Self) -> &Vec<bool>) -> Vec<u32> {
        if self.generation != before.generation {
            return Vec::new();
        }
        let both = (0..).zip(of(self).iter().zip(of(before)));
        both.filter(|(_, (now, then))| now != then).map(|(at, _)| at).collect()
    }

    /// How many groups of a topic it may see.
    pub fn groups_of(&self, topic: &TopicRow) -> usize {
        topic.groups.iter().filter(|at| self.sees_group(**at)).count()
    }
}

async fn give_way(count: usize) {
    if count % STRIDE == STRIDE - 1 {
        tokio::task::yield_now().await;
    }
}
