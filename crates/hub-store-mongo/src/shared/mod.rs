//! What several hubs have in common: heartbeats, owners, estates, news.
//!
//! A name that can be owned is a document of `groups`, see there. Claims, releases and edges are single updates that name
//! the epoch they are based on; who owns a name is asked with a linearizable read, because a primary that was just
//! elected may answer a majority read with less than was acknowledged before.

mod changes;
pub mod hubs;
pub mod owners;

use crate::groups::name_id;
use crate::read;
use crate::store::MongoStore;
use futures_core::future::BoxFuture;
use futures_util::TryStreamExt;
use hub_core::Millis;
use hub_core::store::{
    Changes, Claim, Estate, Heartbeat, HubId, HubInfo, Ownership, Shared, StoreResult, StoredGroup,
};
use hub_proto::{EventId, TopicName};
use mongodb::bson::{Bson, Document, doc};

/// A hub as the database has it.
fn hub_bson(hub: HubId) -> Bson {
    crate::append::past::uuid(EventId::from_bytes(hub.0.into_bytes()))
}

/// Reads what [`hub_bson`] wrote.
fn hub_in(value: Option<&Bson>) -> Option<HubId> {
    match value {
        Some(Bson::Binary(binary)) => uuid::Uuid::from_slice(&binary.bytes).ok().map(HubId),
        _ => None,
    }
}

impl Shared for MongoStore {
    fn beat<'a>(&'a self, me: &'a HubInfo) -> BoxFuture<'a, StoreResult<Vec<Heartbeat>>> {
        Box::pin(async move { self.inner.noted_write(hubs::beat(&self.inner.db, me).await) })
    }

    fn forget<'a>(&'a self, hubs: &'a [HubId]) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move { self.inner.noted_write(hubs::forget(&self.inner.db, hubs).await) })
    }

    fn owner<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Ownership>> {
        Box::pin(async move { self.inner.noted(owners::owner(&self.inner.db, name).await) })
    }

    fn owned(&self, hub: HubId) -> BoxFuture<'_, StoreResult<Vec<(String, u64)>>> {
        Box::pin(async move {
            let owned = owners::find(&self.inner.db, doc! { "hub": hub_bson(hub) }).await;
            let owned = self.inner.noted(owned)?;
            Ok(owned.into_iter().map(|(name, owner)| (name, owner.epoch)).collect())
        })
    }

    fn owners(&self) -> BoxFuture<'_, StoreResult<Vec<(String, Ownership)>>> {
        Box::pin(async move {
            let owned = owners::find(&self.inner.db, doc! { "hub": { "$exists": true } }).await;
            self.inner.noted(owned)
        })
    }

    fn claim<'a>(&'a self, name: &'a str, seen: u64, me: HubId) -> BoxFuture<'a, StoreResult<Claim>> {
        Box::pin(async move { self.inner.noted_write(owners::claim(&self.inner.db, name, seen, me).await) })
    }

    fn renew<'a>(
        &'a self,
        names: &'a [&'a str],
        me: HubId,
    ) -> BoxFuture<'a, StoreResult<Vec<(String, u64)>>> {
        Box::pin(async move { self.inner.noted_write(owners::renew(&self.inner.db, names, me).await) })
    }

    fn set_edges<'a>(
        &'a self,
        name: &'a str,
        epoch: u64,
        edges: &'a [HubId],
    ) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.inner.noted_write(owners::set_edges(&self.inner.db, name, epoch, edges).await)?
        })
    }

    fn release<'a>(&'a self, names: &'a [(String, u64)]) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move { self.inner.noted_write(owners::release(&self.inner.db, names).await) })
    }

    fn estate<'a>(&'a self, group: &'a str, epoch: u64) -> BoxFuture<'a, StoreResult<Estate>> {
        Box::pin(async move {
            let found = self.inner.noted_write(owners::estate(&self.inner.db, group, epoch).await)?;
            let (groups, subscriptions) = self.inner.learn(found);
            Ok(Estate { groups, subscriptions })
        })
    }

    fn groups<'a>(&'a self, topics: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<StoredGroup>>> {
        Box::pin(async move {
            let some = |topics: &[TopicName]| {
                let names: Vec<&str> = topics.iter().map(TopicName::as_str).collect();
                doc! { "topic": { "$in": names } }
            };
            let filters: Vec<Document> = match topics {
                Some(topics) => topics.chunks(read::NAMES).map(some).collect(),
                None => vec![doc! { "_id.topic": { "$exists": true } }],
            };
            let db = &self.inner.db;
            let mut groups = Vec::new();
            for filter in filters {
                let found = async {
                    let mut session = db.call(db.client.start_session()).await?;
                    read::groups_in(db, &mut session, filter).await
                };
                let found = self.inner.noted(found.await)?;
                self.inner.note_damage(&found.damaged);
                groups.extend(found.groups);
            }
            Ok(groups)
        })
    }

    fn idle_since(&self, time: Millis) -> BoxFuture<'_, StoreResult<Vec<String>>> {
        Box::pin(async move {
            let filter = doc! { "idle_since": { "$lt": crate::document::signed(time) } };
            let db = &self.inner.db;
            let find = async {
                let found = db.groups.find(filter).projection(doc! { "_id": 0, "group": 1 }).await?;
                found.try_collect::<Vec<Document>>().await
            };
            let found = self.inner.noted(db.call(find).await)?;
            let mut names: Vec<String> =
                found.iter().filter_map(|found| found.get_str("group").ok().map(str::to_owned)).collect();
            names.sort_unstable();
            names.dedup();
            Ok(names)
        })
    }

    fn tails<'a>(&'a self, of: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<(TopicName, u64)>>> {
        Box::pin(async move { self.inner.noted(read::tails(&self.inner.db, of).await) })
    }

    fn changes(&self) -> BoxFuture<'_, StoreResult<Box<dyn Changes>>> {
        Box::pin(async move {
            let changes = self.inner.noted(changes::listen(&self.inner.db).await)?;
            Ok(Box::new(changes) as Box<dyn Changes>)
        })
    }
}

/// The filter of a name held under an epoch.
fn held(name: &str, epoch: u64) -> Document {
    doc! { "_id": name_id(name), "epoch": crate::document::signed(epoch) }
}
