//! Records as documents, and back.

use super::state::{self, Buckets};
use crate::document::signed;
use crate::topics::number;
use hub_core::Millis;
use hub_core::store::{GroupRecord, GroupState, StoreError, StoreResult, StoredGroup, SubscriptionRecord};
use hub_proto::{GroupName, TopicName};
use mongodb::bson::{Document, doc};

/// Which document a record is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A group on a topic.
    Group(TopicName, GroupName),
    /// A subscription: its label and group.
    Subscription(String, GroupName),
}

impl Address {
    /// Its `_id`.
    pub fn id(&self) -> Document {
        match self {
            Self::Group(topic, group) => doc! { "topic": topic.as_str(), "group": group.as_str() },
            Self::Subscription(label, group) => doc! { "label": label, "group": group.as_str() },
        }
    }

    /// The group's name.
    pub fn group(&self) -> &GroupName {
        match self {
            Self::Group(_, group) | Self::Subscription(_, group) => group,
        }
    }
}

/// What a document of the collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A group on a topic.
    Group,
    /// A subscription to a pattern or a list.
    Subscription,
    /// A name that can be owned.
    Name,
}

/// Tells documents apart.
pub fn kind_of(document: &Document) -> Kind {
    match document.get_document("_id") {
        Ok(id) if id.contains_key("topic") => Kind::Group,
        Ok(id) if id.contains_key("label") => Kind::Subscription,
        _ => Kind::Name,
    }
}

/// The `_id` of a name.
pub fn name_id(name: &str) -> Document {
    doc! { "name": name }
}

/// The epoch below which nothing changes a document.
pub fn fence_of(document: &Document) -> u64 {
    number(document, "fence")
}

/// What is known of a document that is in the database.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    pub rev: u64,
    pub fence: u64,
    /// Of a group; a subscription has none.
    pub state: GroupState,
    pub buckets: Buckets,
}

/// Reads what a save is based on.
pub fn saved(document: &Document) -> StoreResult<Saved> {
    let state = match document.get_document("state") {
        Ok(state) => state::read(state).map_err(|what| damaged(document, &what))?,
        Err(_) => GroupState::default(),
    };
    let buckets = Buckets::of(&state);
    Ok(Saved { rev: number(document, "rev"), fence: fence_of(document), state, buckets })
}

/// The fields of a group but for its state.
pub fn group_fields(record: &GroupRecord) -> Document {
    let mut fields = doc! {
        "topic": record.topic.as_str(),
        "group": record.name.as_str(),
        "options": options_text(&record.options),
        "created": signed(record.created),
        "driven": record.driven,
        "born": signed(record.born),
    };
    put_idle(&mut fields, record.idle_since);
    fields
}

/// The fields of a subscription.
pub fn subscription_fields(record: &SubscriptionRecord) -> Document {
    let mut fields = doc! {
        "label": &record.label,
        "group": record.group.as_str(),
        "options": options_text(&record.options),
        "topics": record.topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>(),
        "created": signed(record.created),
    };
    put_idle(&mut fields, record.idle_since);
    fields
}

fn put_idle(fields: &mut Document, since: Option<Millis>) {
    if let Some(since) = since {
        fields.insert("idle_since", signed(since));
    }
}

/// As JSON: names of headers may be what no name of a document can be.
fn options_text(options: &hub_core::GroupOptions) -> String {
    serde_json::to_string(options).unwrap_or_default()
}

/// Reads a group.
pub fn stored_group(document: &Document) -> StoreResult<StoredGroup> {
    let text = |name: &str| text(document, name);
    let topic = TopicName::stored(text("topic")?).map_err(|error| damaged(document, &error.msg))?;
    let name = GroupName::parse(text("group")?).map_err(|error| damaged(document, &error.msg))?;
    let record = GroupRecord {
        topic,
        name,
        options: options(document)?,
        created: number(document, "created"),
        idle_since: idle_since(document),
        driven: document.get_bool("driven").map_err(|error| damaged(document, &error.to_string()))?,
        born: number(document, "born"),
    };
    Ok(StoredGroup { record, state: saved(document)?.state })
}

/// Reads a subscription.
pub fn stored_subscription(document: &Document) -> StoreResult<SubscriptionRecord> {
    let wrong = |error: hub_proto::Error| damaged(document, &error.msg);
    let topics = document.get_array("topics").map_err(|error| damaged(document, &error.to_string()))?;
    let topics =
        topics.iter().map(|topic| TopicName::stored(topic.as_str().unwrap_or_default()).map_err(wrong));
    Ok(SubscriptionRecord {
        label: text(document, "label")?.to_owned(),
        group: GroupName::parse(text(document, "group")?).map_err(wrong)?,
        topics: topics.collect::<Result<_, _>>()?,
        options: options(document)?,
        created: number(document, "created"),
        idle_since: idle_since(document),
    })
}

fn idle_since(document: &Document) -> Option<Millis> {
    document.contains_key("idle_since").then(|| number(document, "idle_since"))
}

fn options(document: &Document) -> StoreResult<hub_core::GroupOptions> {
    serde_json::from_str(text(document, "options")?)
        .map_err(|error| damaged(document, &format!("its options cannot be read: {error}")))
}

fn text<'a>(document: &'a Document, name: &str) -> StoreResult<&'a str> {
    document.get_str(name).map_err(|error| damaged(document, &error.to_string()))
}

fn damaged(document: &Document, what: &str) -> StoreError {
    let id = document.get_document("_id").map(ToString::to_string).unwrap_or_default();
    StoreError::Damaged(format!("the document {id} of the groups: {what}"))
}
