//! What hubs in one process share over a memory store: programs and tests with several buses.

use super::{MemoryStore, done};
use crate::Millis;
use crate::store::{
    Changes, Claim, Estate, Heartbeat, HubId, HubInfo, Ownership, Shared, StoreError, StoreResult,
    StoredGroup,
};
use futures_core::future::BoxFuture;
use hub_proto::{GroupName, TopicName};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::broadcast;

/// News that a slow listener may fall behind by.
const NEWS: usize = 1024;

type News = Vec<(TopicName, u64)>;

/// Heartbeats, owners, fences, and who listens.
pub(super) struct Common {
    hubs: Mutex<BTreeMap<HubId, Heartbeat>>,
    owners: Mutex<BTreeMap<String, Ownership>>,
    fences: Mutex<BTreeMap<String, u64>>,
    news: broadcast::Sender<News>,
}

impl Default for Common {
    fn default() -> Self {
        let news = broadcast::Sender::new(NEWS);
        Self { hubs: Mutex::default(), owners: Mutex::default(), fences: Mutex::default(), news }
    }
}

impl Common {
    /// Whether a record of this group may be written under `epoch`.
    pub fn admits(&self, group: &GroupName, epoch: u64) -> StoreResult<()> {
        let fence = self.fences.lock().get(group.as_str()).copied().unwrap_or(0);
        if epoch != 0 && epoch < fence { Err(StoreError::Fenced(group.to_string())) } else { Ok(()) }
    }

    /// Says what was committed, if somebody listens.
    pub fn tell(&self, news: impl FnOnce() -> News) {
        if self.news.receiver_count() > 0 {
            // Nobody is left to hear it: just as well.
            let _ = self.news.send(news());
        }
    }
}

struct Listening(broadcast::Receiver<News>);

impl Changes for Listening {
    fn next(&mut self) -> BoxFuture<'_, StoreResult<News>> {
        Box::pin(async {
            self.0
                .recv()
                .await
                .map_err(|error| StoreError::Unavailable(format!("the news are lost: {error}")))
        })
    }
}

impl Shared for MemoryStore {
    fn beat<'a>(&'a self, me: &'a HubInfo) -> BoxFuture<'a, StoreResult<Vec<Heartbeat>>> {
        let mut hubs = self.shared.common.hubs.lock();
        hubs.entry(me.id).or_insert_with(|| Heartbeat { hub: me.clone(), count: 0 }).count += 1;
        done(hubs.values().cloned().collect())
    }

    fn forget<'a>(&'a self, gone: &'a [HubId]) -> BoxFuture<'a, StoreResult<()>> {
        self.shared.common.hubs.lock().retain(|hub, _| !gone.contains(hub));
        done(())
    }

    fn owner<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Ownership>> {
        done(self.shared.common.owners.lock().get(name).cloned().unwrap_or_default())
    }

    fn owned(&self, hub: HubId) -> BoxFuture<'_, StoreResult<Vec<(String, u64)>>> {
        let owners = self.shared.common.owners.lock();
        let owned = owners.iter().filter(|(_, owner)| owner.hub == Some(hub));
        done(owned.map(|(name, owner)| (name.clone(), owner.epoch)).collect())
    }

    fn owners(&self) -> BoxFuture<'_, StoreResult<Vec<(String, Ownership)>>> {
        let owners = self.shared.common.owners.lock();
        let owned = owners.iter().filter(|(_, owner)| owner.hub.is_some());
        done(owned.map(|(name, owner)| (name.clone(), owner.clone())).collect())
    }

    fn claim<'a>(&'a self, name: &'a str, seen: u64, me: HubId) -> BoxFuture<'a, StoreResult<Claim>> {
        let mut owners = self.shared.common.owners.lock();
        let owner = owners.entry(name.to_owned()).or_default();
        if owner.epoch != seen {
            return done(Claim::Lost(owner.clone()));
        }
        owner.epoch += 1;
        owner.hub = Some(me);
        done(Claim::Won { epoch: owner.epoch, edges: owner.edges.clone() })
    }

    fn renew<'a>(
        &'a self,
        names: &'a [&'a str],
        me: HubId,
    ) -> BoxFuture<'a, StoreResult<Vec<(String, u64)>>> {
        let mut owners = self.shared.common.owners.lock();
        let mut renewed = Vec::new();
        for &name in names {
            if let Some(owner) = owners.get_mut(name).filter(|owner| owner.hub == Some(me)) {
                owner.epoch += 1;
                renewed.push((name.to_owned(), owner.epoch));
            }
        }
        done(renewed)
    }

    fn set_edges<'a>(
        &'a self,
        name: &'a str,
        epoch: u64,
        edges: &'a [HubId],
    ) -> BoxFuture<'a, StoreResult<()>> {
        let mut owners = self.shared.common.owners.lock();
        let set = match owners.get_mut(name).filter(|owner| owner.epoch == epoch) {
            Some(owner) => {
                owner.edges = edges.to_vec();
                Ok(())
            }
            None => Err(StoreError::Fenced(name.to_owned())),
        };
        Box::pin(std::future::ready(set))
    }

    fn release<'a>(&'a self, names: &'a [(String, u64)]) -> BoxFuture<'a, StoreResult<()>> {
        let mut owners = self.shared.common.owners.lock();
        for (name, epoch) in names {
            if let Some(owner) = owners.get_mut(name).filter(|owner| owner.epoch == *epoch) {
                owner.hub = None;
            }
        }
        done(())
    }

    fn estate<'a>(&'a self, group: &'a str, epoch: u64) -> BoxFuture<'a, StoreResult<Estate>> {
        let mut fences = self.shared.common.fences.lock();
        let fence = fences.entry(group.to_owned()).or_default();
        *fence = epoch.max(*fence);
        drop(fences);
        let groups = self.shared.groups.lock();
        let subscriptions = self.shared.subscriptions.lock();
        done(Estate {
            groups: groups.values().filter(|stored| stored.record.name.as_str() == group).cloned().collect(),
            subscriptions: subscriptions
                .values()
                .filter(|sub| sub.group.as_str() == group)
                .cloned()
                .collect(),
        })
    }

    fn groups<'a>(&'a self, topics: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<StoredGroup>>> {
        let groups = self.shared.groups.lock();
        let wanted = groups
            .values()
            .filter(|stored| topics.is_none_or(|topics| topics.contains(&stored.record.topic)));
        done(wanted.cloned().collect())
    }

    fn idle_since(&self, time: Millis) -> BoxFuture<'_, StoreResult<Vec<String>>> {
        let is_idle = |since: Option<Millis>| since.is_some_and(|since| since < time);
        let (groups, subscriptions) = (self.shared.groups.lock(), self.shared.subscriptions.lock());
        let groups = groups.values().filter(|stored| is_idle(stored.record.idle_since));
        let subscriptions = subscriptions.values().filter(|sub| is_idle(sub.idle_since));
        let mut names: Vec<String> = groups.map(|stored| stored.record.name.to_string()).collect();
        names.extend(subscriptions.map(|sub| sub.group.to_string()));
        names.sort_unstable();
        names.dedup();
        done(names)
    }

    fn tails<'a>(&'a self, of: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<News>> {
        let topics = self.shared.topics.read();
        let wanted = topics.iter().filter(|(name, _)| of.is_none_or(|of| of.contains(name)));
        let tails = wanted.map(|(name, log)| (name.clone(), log.lock().bounds().last));
        done(tails.filter(|(_, last)| *last > 0).collect())
    }

    fn changes(&self) -> BoxFuture<'_, StoreResult<Box<dyn Changes>>> {
        done(Box::new(Listening(self.shared.common.news.subscribe())))
    }
}
