//! How many topics of one subject wait for commits at the same time.
//!
//! A shared store commits a bounded number of topics at once, and topics wait for their turn. So a subject
//! has at most [`MAX_TOPICS`] topics in line or being committed; what it publishes to others waits before the line, and other subjects
//! have their turn. A topic counts once, however many of its events are under way.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Topics of one subject that wait for commits. MongoDB commits 16 topics at a time.
pub(crate) const MAX_TOPICS: usize = 64;

/// The topics of all subjects that wait for commits.
#[derive(Default)]
pub(crate) struct TopicsInFlight {
    /// A subject without topics is not in it.
    subjects: Mutex<HashMap<Arc<str>, Counts, RandomState>>,
    /// Told whenever topics are given back.
    freed: Notify,
}

/// The number of each topic, and how often it was taken.
type Counts = HashMap<u64, usize, RandomState>;

/// Topics that are taken until this is dropped.
pub(crate) struct TakenTopics {
    all: Arc<TopicsInFlight>,
    subject: Arc<str>,
    topics: Vec<u64>,
}

impl TakenTopics {
    /// Nothing yet.
    pub fn new(all: &Arc<TopicsInFlight>, subject: &Arc<str>) -> Self {
        Self { all: all.clone(), subject: subject.clone(), topics: Vec::new() }
    }

    /// Takes topics, by their numbers: all of them or, if there is no room, none.
    pub fn try_take(&mut self, topics: impl IntoIterator<Item = u64>) -> bool {
        let mut new: Vec<u64> = topics.into_iter().filter(|topic| !self.topics.contains(topic)).collect();
        if new.is_empty() {
            return true;
        }
        new.sort_unstable();
        new.dedup();
        let mut subjects = self.all.subjects.lock();
        let taken = subjects.get(&self.subject);
        let more = new.iter().filter(|topic| taken.is_none_or(|taken| !taken.contains_key(*topic))).count();
        if taken.map_or(0, HashMap::len) + more > MAX_TOPICS {
            return false;
        }
        let taken = subjects.entry(self.subject.clone()).or_default();
        for &topic in &new {
            *taken.entry(topic).or_default() += 1;
        }
        self.topics.append(&mut new);
        true
    }

    /// Takes one topic out of these, to be given back by itself.
    pub fn split(&mut self, topic: u64) -> Self {
        let found = self.topics.iter().position(|&taken| taken == topic);
        let topics = found.map(|at| self.topics.swap_remove(at)).into_iter().collect();
        Self { all: self.all.clone(), subject: self.subject.clone(), topics }
    }

    /// Takes at most [`MAX_TOPICS`] topics, when there is room.
    pub async fn take(&mut self, topics: &[u64]) {
        let all = self.all.clone();
        loop {
            let freed = all.freed.notified();
            tokio::pin!(freed);
            // Before the look, so that nothing that is given back in between is missed.
            freed.as_mut().enable();
            if self.try_take(topics.iter().copied()) {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for TakenTopics {
    fn drop(&mut self) {
        if self.topics.is_empty() {
            return;
        }
        {
            let mut subjects = self.all.subjects.lock();
            if let Some(taken) = subjects.get_mut(&self.subject) {
                for topic in &self.topics {
                    if let Some(count) = taken.get_mut(topic) {
                        *count -= 1;
                        if *count == 0 {
                            taken.remove(topic);
                        }
                    }
                }
                if taken.is_empty() {
                    subjects.remove(&self.subject);
                }
            }
        }
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(all: &Arc<TopicsInFlight>, subject: &str) -> TakenTopics {
        TakenTopics::new(all, &subject.into())
    }

    #[test]
    fn a_subject_has_so_many_topics_and_another_as_many() {
        let all = Arc::new(TopicsInFlight::default());
        let (mut eve, mut again, mut bob) = (taken(&all, "eve"), taken(&all, "eve"), taken(&all, "bob"));
        assert!(eve.try_take(0..MAX_TOPICS as u64));
        assert!(!eve.try_take([1000]), "one more");
        assert!(again.try_take([3, 3, 4]), "those count once");
        assert!(!again.try_take([5, 1000]), "all of them or none");
        assert!(bob.try_take([1000]));
        drop(eve);
        assert!(again.try_take([1000]));
        assert_eq!(all.subjects.lock().get("eve").map(HashMap::len), Some(3));
        drop((again, bob));
        assert!(all.subjects.lock().is_empty(), "nobody is remembered who has none");
    }

    #[tokio::test]
    async fn what_waits_goes_on_when_topics_are_given_back() {
        let all = Arc::new(TopicsInFlight::default());
        let mut eve = taken(&all, "eve");
        assert!(eve.try_take(0..MAX_TOPICS as u64));
        let mut waiting = taken(&all, "eve");
        let wait = tokio::spawn(async move {
            waiting.take(&[1000, 1001]).await;
            waiting
        });
        tokio::task::yield_now().await;
        assert!(!wait.is_finished());
        drop(eve);
        assert_eq!(wait.await.expect("it was not cancelled").topics, [1000, 1001]);
    }
}
