//! The topics that a caller may see, page by page, from the hub's index.
//!
//! Only the parts of the index are walked in which a rule of the caller allows something: a token with narrow rights costs what
//! it may see, and one without rights nothing.

use super::auth::Caller;
use hub_core::Bus;
use hub_proto::TopicName;

/// Topics that are looked at before others get their turn.
const PAGE: usize = 128;

/// See the module.
pub(super) struct Visible {
    /// What names begin with that are still to be walked, none of them a part of another.
    prefixes: std::vec::IntoIter<String>,
    prefix: Option<String>,
    after: Option<String>,
    /// Whether `after` itself is to be looked at.
    includes_after: bool,
    looked_at: usize,
}

impl Visible {
    /// Those from `after` on, in the order of their names: behind it, or with it.
    pub fn from(caller: &Caller, after: Option<&str>, includes_after: bool) -> Self {
        let mut prefixes = caller.visible_prefixes().into_iter();
        let prefix = prefixes.next();
        Self { prefixes, prefix, after: after.map(str::to_owned), includes_after, looked_at: 0 }
    }

    /// The same for topics whose names begin with `root`.
    pub fn under(caller: &Caller, root: &str, after: Option<&str>, includes_after: bool) -> Self {
        let within = |prefix: String| match root.starts_with(&*prefix) {
            true => Some(root.to_owned()),
            false => prefix.starts_with(root).then_some(prefix),
        };
        // A prefix that `root` begins with stands for all of them.
        let mut prefixes: Vec<String> = caller.visible_prefixes().into_iter().filter_map(within).collect();
        prefixes.dedup();
        let mut prefixes = prefixes.into_iter();
        let prefix = prefixes.next();
        Self { prefixes, prefix, after: after.map(str::to_owned), includes_after, looked_at: 0 }
    }

    /// The next ones, at most a page; empty at the end.
    pub async fn next(&mut self, bus: &Bus, caller: &Caller) -> Vec<TopicName> {
        while let Some(prefix) = &self.prefix {
            let mut names = Vec::new();
            if std::mem::take(&mut self.includes_after)
                && let Some(first) = self.after.as_deref().and_then(|after| TopicName::readable(after).ok())
                && bus.has_topic(&first)
            {
                names.push(first);
            }
            let page = bus.topics_after(prefix, self.after.as_deref(), PAGE);
            match page.last() {
                Some(last) => self.after = Some(last.to_string()),
                None => self.prefix = self.prefixes.next(),
            }
            self.looked_at += page.len();
            names.extend(page);
            names.retain(|name| caller.sees_topic(name));
            if !names.is_empty() {
                return names;
            }
            tokio::task::yield_now().await;
        }
        Vec::new()
    }

    /// How many topics were looked at.
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }
}
