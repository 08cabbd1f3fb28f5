//! Everything at once: what a hub needs to start, and the ends of all topics.

use super::extent::extent;
use crate::db::Db;
use crate::deleted::DeletedTopics;
use crate::error::Trouble;
use crate::groups::{self, Address, Kind, Saved};
use crate::schema::SCHEMA;
use crate::topics::{Cleaned, number};
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::store::{Image, StoreError, StoreResult, StoredGroup, SubscriptionRecord};
use hub_proto::TopicName;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

/// Names in one question: a message has 48 MB at most, a document 16.
pub const NAMES: usize = 10_000;

/// Reads what is stored about topics, groups and subscriptions, and what later saves are based on.
///
/// In a fresh session: a hub that starts after an election must not miss what was acknowledged before it.
pub async fn image(db: &Db, deleted: &DeletedTopics) -> Result<(Image, FoundGroups), Trouble> {
    let mut session = db.fresh_session_of_all().await?;
    let firsts = ends(db, &mut session, 1).await?;
    let lasts = ends(db, &mut session, -1).await?;
    let mut cleaned: HashMap<String, Cleaned, RandomState> = HashMap::default();
    let all = db.topics.find(doc! { "_id": { "$ne": SCHEMA } });
    let mut cursor = db.call(async { all.session(&mut session).await }).await?;
    while let Some(document) = db.advance(&mut cursor, &mut session).await? {
        if let Ok(topic) = document.get_str("_id") {
            cleaned.insert(topic.to_owned(), Cleaned::of(&document));
        }
    }
    let firsts: HashMap<&str, u64, RandomState> =
        firsts.iter().filter_map(|found| Some((found.get_str("_id").ok()?, number(found, "seq")))).collect();
    let mut image = Image::default();
    for found in &lasts {
        let (topic, last) = (topic_in(found)?, number(found, "seq"));
        // One that was born between the two looks has lost nothing yet.
        let first = firsts.get(topic.as_str()).copied().unwrap_or(1).min(last);
        let cleaned = cleaned.get(topic.as_str()).cloned().unwrap_or_default();
        deleted.learn(&topic, cleaned.deleted);
        let bounds = extent(first, last, number(found, "committed"), number(found, "end"), &cleaned);
        let bounds = deleted.visible(&topic, bounds);
        image.topics.push((topic, bounds));
    }
    let everything = doc! { "group": { "$exists": true } };
    Ok((image, groups_in(db, &mut session, everything).await?))
}

/// Groups and subscriptions that were found.
#[derive(Default)]
pub struct FoundGroups {
    pub groups: Vec<StoredGroup>,
    pub subscriptions: Vec<SubscriptionRecord>,
    /// What later saves are based on.
    pub saved: Vec<(Address, Saved)>,
    /// Documents that cannot be read. They are left as they are, and do not keep others from being served.
    pub damaged: Vec<StoreError>,
}

impl FoundGroups {
    fn add(&mut self, document: &Document) -> StoreResult<()> {
        match groups::kind_of(document) {
            Kind::Group => {
                let (group, saved) = (groups::stored_group(document)?, groups::saved(document)?);
                let address = Address::Group(group.record.topic.clone(), group.record.name.clone());
                self.saved.push((address, saved));
                self.groups.push(group);
            }
            Kind::Subscription => {
                let (record, saved) = (groups::stored_subscription(document)?, groups::saved(document)?);
                let address = Address::Subscription(record.label.clone(), record.group.clone());
                self.saved.push((address, saved));
                self.subscriptions.push(record);
            }
            Kind::Name => {}
        }
        Ok(())
    }
}

/// The groups and subscriptions that a filter finds.
pub async fn groups_in(
    db: &Db,
    session: &mut ClientSession,
    filter: Document,
) -> Result<FoundGroups, Trouble> {
    let mut found = FoundGroups::default();
    let mut cursor = db.call(async { db.groups.find(filter).session(&mut *session).await }).await?;
    while let Some(document) = db.advance(&mut cursor, session).await? {
        if let Err(error) = found.add(&document) {
            found.damaged.push(error);
        }
    }
    Ok(found)
}

/// The highest seq of each of some topics, or of all.
pub async fn tails(db: &Db, of: Option<&[TopicName]>) -> Result<Vec<(TopicName, u64)>, Trouble> {
    let Some(of) = of else { return tails_of(db, None).await };
    let mut tails = Vec::new();
    for of in of.chunks(NAMES) {
        let of = of.iter().map(|topic| topic.as_str()).collect::<Vec<_>>();
        tails.append(&mut tails_of(db, Some(doc! { "$match": { "topic": { "$in": of } } })).await?);
    }
    Ok(tails)
}

async fn tails_of(db: &Db, which: Option<Document>) -> Result<Vec<(TopicName, u64)>, Trouble> {
    let pipeline = which.into_iter().chain(one_per_topic(-1));
    let found = async { db.events.aggregate(pipeline).await?.try_collect::<Vec<Document>>().await };
    let found = db.call(found).await?;
    found.iter().map(|found| Ok((topic_in(found)?, number(found, "seq")))).collect()
}

/// The first (1) or last (-1) record of each topic: the server jumps from topic to topic in the index and looks at no
/// others.
fn one_per_topic(direction: i32) -> [Document; 2] {
    [
        doc! { "$sort": { "topic": direction, "seq": direction } },
        doc! { "$group": {
            "_id": "$topic",
            "seq": { "$first": "$seq" },
            "committed": { "$first": "$committed" },
            "end": { "$first": "$end" },
        } },
    ]
}

async fn ends(db: &Db, session: &mut ClientSession, direction: i32) -> Result<Vec<Document>, Trouble> {
    let ends = db.events.aggregate(one_per_topic(direction));
    let mut cursor = db.call(async { ends.session(&mut *session).await }).await?;
    let mut found = Vec::new();
    while let Some(document) = db.advance(&mut cursor, session).await? {
        found.push(document);
    }
    Ok(found)
}

fn topic_in(found: &Document) -> Result<TopicName, Trouble> {
    let name = found.get_str("_id").unwrap_or_default();
    TopicName::stored(name)
        .map_err(|error| Trouble::Damaged(format!("an event has a topic that is no topic: {}", error.msg)))
}
