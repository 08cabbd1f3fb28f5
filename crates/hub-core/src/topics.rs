//! The topics there are: by name for publishers, in order for lists and patterns.
//!
//! Who walks over topics does it page by page, and holds the lock for no longer than a page: on a hub with a hundred thousand
//! topics nobody waits for a list.

use crate::topic::Topic;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::TopicName;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Topics that are looked at under one lock.
pub(crate) const PAGE: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct Topics {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    by_name: HashMap<TopicName, Arc<Topic>, RandomState>,
    in_order: BTreeMap<TopicName, Arc<Topic>>,
}

impl Topics {
    pub fn get(&self, name: &str) -> Option<Arc<Topic>> {
        self.inner.read().by_name.get(name).cloned()
    }

    pub fn insert(&self, topic: &Arc<Topic>) {
        let mut inner = self.inner.write();
        inner.by_name.insert(topic.name.clone(), topic.clone());
        // The hub's own are found by their names, and listed nowhere.
        if !topic.name.is_system() {
            inner.in_order.insert(topic.name.clone(), topic.clone());
        }
    }

    /// Takes one out, unless another one of its name has taken its place.
    pub fn remove(&self, topic: &Arc<Topic>) -> bool {
        let mut inner = self.inner.write();
        let is_there = inner.by_name.get(&topic.name).is_some_and(|there| Arc::ptr_eq(there, topic));
        if is_there {
            inner.by_name.remove(&topic.name);
            inner.in_order.remove(&topic.name);
        }
        is_there
    }

    /// Takes all of them out.
    pub fn clear(&self) -> Vec<Arc<Topic>> {
        let Inner { by_name, .. } = std::mem::take(&mut *self.inner.write());
        by_name.into_values().collect()
    }

    /// At most `limit` topics whose names begin with `prefix`, behind `after`, in the order of their names.
    pub fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<Arc<Topic>> {
        let after = after.filter(|after| *after >= prefix);
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let inner = self.inner.read();
        let behind = inner.in_order.range::<str, _>((start, Bound::Unbounded)).take(limit);
        behind.take_while(|(name, _)| name.starts_with(prefix)).map(|(_, topic)| topic.clone()).collect()
    }

    /// Those whose names begin with `prefix`, in the order of their names. Topics that are born meanwhile may be among them.
    pub fn walk<'a>(&'a self, prefix: &'a str) -> Walk<'a> {
        Walk { topics: self, prefix, last: None, page: Vec::new().into_iter() }
    }
}

/// A walk over topics, in the order of their names.
pub(crate) struct Walk<'a> {
    topics: &'a Topics,
    prefix: &'a str,
    last: Option<TopicName>,
    page: std::vec::IntoIter<Arc<Topic>>,
}

impl Iterator for Walk<'_> {
    type Item = Arc<Topic>;

    fn next(&mut self) -> Option<Arc<Topic>> {
        if self.page.len() == 0 {
            self.page = self.topics.page(self.prefix, self.last.as_deref(), PAGE).into_iter();
        }
        let topic = self.page.next()?;
        if self.page.len() == 0 {
            self.last = Some(topic.name.clone());
        }
        Some(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bus;
    use crate::engine::By;

    #[tokio::test]
    async fn a_walk_goes_over_every_topic_with_its_prefix_in_order() {
        let bus = Bus::in_memory().await.expect("a bus");
        let engine = bus.engine();
        for n in 0..PAGE * 2 + 3 {
            let name = TopicName::parse(&format!("a.t{n:04}")).expect("a name");
            engine.topic(&name, By::User(None)).expect("a topic");
        }
        for name in ["a", "ab", "b.t"] {
            engine.topic(&TopicName::parse(name).expect("a name"), By::User(None)).expect("a topic");
        }
        let names =
            |prefix| -> Vec<String> { engine.walk(prefix).map(|topic| topic.name.to_string()).collect() };
        let all = names("");
        assert_eq!(all.len(), PAGE * 2 + 6);
        assert!(all.is_sorted());
        assert_eq!(names("a.").len(), PAGE * 2 + 3);
        assert_eq!(names("a").len(), PAGE * 2 + 5);
        assert_eq!((names("b"), names("c")), (vec!["b.t".to_owned()], vec![]));
        bus.stop().await.expect("it stops");
    }
}
