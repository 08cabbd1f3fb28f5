//! Rows, and their order.

use crate::Millis;
use hub_proto::{Error, EventId, IdGenerator, NewEvent, Payload, PublishOptions, TopicName};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a row is called in its database. It should be a UUID, and whoever writes rows may get that wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(Arc<str>);

impl RowId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RowId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<EventId> for RowId {
    fn from(id: EventId) -> Self {
        Self(id.to_string().into())
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Microseconds since the Unix epoch: rows of one key can be written within one millisecond.
pub type Micros = u64;

/// Where a row stands among those of its key: those without a number first, then by number, then by time and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The number that its writer gave it.
    pub ord: Option<i64>,
    /// When it was written, by its writer's clock.
    pub at: Micros,
    /// Its name.
    pub id: RowId,
}

impl Place {
    /// Where it stands among all rows.
    pub fn in_time(&self) -> (Micros, &RowId) {
        (self.at, &self.id)
    }
}

/// A row that can be claimed, or that holds others up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its key.
    pub key: Option<Arc<str>>,
    /// Its place.
    pub place: Place,
}

/// A row that was claimed.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key.
    pub key: Option<Arc<str>>,
    /// Its place.
    pub place: Place,
    /// How often it has failed.
    pub attempts: u32,
    /// It was not fresh: there may be others behind it.
    pub waited: bool,
    /// What is to be published, or why it never can be.
    pub event: Result<NewEvent, Error>,
}

impl Row {
    /// What it takes in memory, for the most part.
    pub fn bytes(&self) -> usize {
        self.event.as_ref().map_or(0, |event| event.payload.len())
    }

    /// What is published for a row, out of what stands in it; or why that can never be.
    pub fn event(
        id: &str,
        topic: &str,
        options: PublishOptions,
        payload: Result<Payload, String>,
    ) -> Result<NewEvent, Error> {
        let Ok(id) = id.parse::<EventId>() else {
            return Err(Error::bad_request(format!("the row's id is {id:?}, which is not a UUID")));
        };
        let payload = payload
            .map_err(|why| Error::bad_request(format!("the row's payload cannot be published: {why}")))?;
        let options = PublishOptions { id: Some(id), ..options };
        Ok(NewEvent { options, ..NewEvent::new(TopicName::parse(topic)?, payload) })
    }
}

/// A row as its writer gives it.
#[derive(Clone, Debug)]
pub struct NewRow {
    /// Its id, which becomes the event's.
    pub id: EventId,
    /// The topic.
    pub topic: String,
    /// What is published.
    pub payload: Payload,
    /// Headers of the event.
    pub headers: Vec<(String, String)>,
    /// The entity that it is about.
    pub key: Option<String>,
    /// Its number among the rows of its key.
    pub ord: Option<i64>,
    /// When it was written.
    pub at: Micros,
}

impl NewRow {
    /// A row of this moment, with an id of its own: later ones of this process come behind it.
    pub fn new(topic: impl Into<String>, payload: Payload) -> Self {
        static IDS: LazyLock<IdGenerator> = LazyLock::new(IdGenerator::new);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Micros::try_from(now.as_micros()).unwrap_or(Micros::MAX);
        Self {
            id: IDS.next(at / 1000),
            topic: topic.into(),
            payload,
            headers: Vec::new(),
            key: None,
            ord: None,
            at,
        }
    }

    /// The entity that it is about: rows of one key are published in their order.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Its number among the rows of its key, if time is not good enough.
    #[must_use]
    pub fn ord(mut self, ord: i64) -> Self {
        self.ord = Some(ord);
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What a row is up to, for those who look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowStatus {
    /// To be published; perhaps after a while, or after another one.
    Pending,
    /// In the hands of a drainer.
    Claimed,
    /// Published.
    Sent,
    /// Parked: somebody has to look at it.
    Error,
}

impl RowStatus {
    /// As it stands in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Sent => "sent",
            Self::Error => "error",
        }
    }

    /// Of what stands in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Claimed, Self::Sent, Self::Error].into_iter().find(|it| it.as_str() == text)
    }
}

/// What makes a row that is not sent different from one that was just written. Writers leave it empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It is claimed, or it has been and waits for its time. Later rows of its key wait for it.
    Held,
    /// It waits for an earlier row of its key.
    Behind,
    /// It is parked.
    Parked,
}

impl Stage {
    /// As it stands in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Behind => "behind",
            Self::Parked => "parked",
        }
    }
}

/// A row, for those who look at it.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its name.
    pub id: String,
    /// Where it is published, as it stands in the row.
    pub topic: String,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ord: Option<i64>,
    /// What it is up to.
    pub status: RowStatus,
    /// When it was written, in milliseconds since the epoch.
    pub ts: Millis,
    /// How often it has failed.
    pub attempts: u32,
    /// What was said the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who has claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// It waits for an earlier row of its key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// What is published, as JSON text: if a single row was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<serde_json::value::RawValue>>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_of_a_key_go_by_number_if_they_have_one_and_else_by_time_and_name() {
        let place = |ord, at, id: &str| Place { ord, at, id: id.into() };
        assert!(place(Some(1), 9, "b") < place(Some(2), 1, "a"));
        assert!(place(Some(2), 1, "a") < place(Some(2), 1, "b"));
        assert!(place(None, 1, "b") < place(None, 2, "a"));
        assert!(place(None, 1, "b") > place(None, 1, "a"));
        assert!(place(Some(-1), 1, "a") > place(None, 2, "b"), "those without a number are older");
    }

    #[test]
    fn a_row_that_nobody_could_publish_says_why() {
        let event = |id: &str, topic: &str, payload: Result<Payload, String>| {
            Row::event(id, topic, PublishOptions::default(), payload)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let (id, payload) =
            ("018f4e3a-1b2c-7d3e-8f40-112233445566", || Payload::of(&1).map_err(|e| e.to_string()));
        assert_eq!(event(id, "a.b", payload()), Ok(()));
        assert!(event("7", "a.b", payload()).unwrap_err().contains("\"7\", which is not a UUID"));
        assert!(event(id, "a b", payload()).unwrap_err().contains("topic"));
        assert!(event(id, "a.b", Err("a NaN".into())).unwrap_err().contains("a NaN"));
    }
}
