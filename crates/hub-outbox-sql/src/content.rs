//! What stands in rows: JSON on one side, events on the other.

use hub_core::Millis;
use hub_core::outbox::{Micros, NewRow, Outcome, Place, Row, RowStatus, Stage};
use hub_proto::{Error, Payload, PublishOptions};
use serde_json::Value;

/// A number that sorts before any that a writer gives: where rows without one are. (One that gives this very number
/// shares the place.)
pub const NO_ORD: i64 = i64::MIN;

/// A row that was read.
pub struct Columns {
    pub id: String,
    pub topic: String,
    pub payload: Option<Vec<u8>>,
    pub headers: Option<Vec<u8>>,
    pub key: Option<String>,
    pub ord: Option<i64>,
    pub at: Micros,
    pub attempts: u32,
    pub waited: bool,
}

impl Columns {
    /// What is published for it. Whatever its writer got wrong is told there, so that the row is parked with the reason.
    pub fn row(self) -> Row {
        let Self { id, topic, payload, headers, key, ord, at, attempts, waited } = self;
        let payload = match payload {
            Some(json) => Payload::from_json(json).map_err(|error| error.to_string()),
            None => Err("it is NULL; the JSON value is written as 'null'".into()),
        };
        let event = read_headers(headers.as_deref()).and_then(|headers| {
            let options = PublishOptions {
                ts: Some(at / 1000),
                key: key.clone(),
                headers,
                ..PublishOptions::default()
            };
            Row::event(&id, &topic, options, payload)
        });
        let place = Place { ord, at, id: id.as_str().into() };
        Row { key: key.as_deref().map(Into::into), place, attempts, waited, event }
    }
}

fn read_headers(json: Option<&[u8]>) -> Result<Vec<(String, String)>, Error> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let wrong = |why: &str| Error::bad_request(format!("the row's headers {why}"));
    match serde_json::from_slice(json) {
        Ok(Value::Null) => Ok(Vec::new()),
        Ok(Value::Object(headers)) => headers
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(value) => Ok((name, value)),
                _ => Err(wrong(&format!("have something else than a string as {name:?}"))),
            })
            .collect(),
        Ok(_) => Err(wrong("are not a JSON object of strings")),
        Err(_) => Err(wrong("are not JSON; they are an object of strings, such as {\"trace\": \"7\"}")),
    }
}

/// Headers as they are written: nothing if there are none.
pub fn headers_json(row: &NewRow) -> Option<String> {
    let headers = row.headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    (!row.headers.is_empty()).then(|| Value::Object(headers.collect()).to_string())
}

/// A payload as it is written. It is JSON, so it is UTF-8.
pub fn payload_json(row: &NewRow) -> String {
    String::from_utf8_lossy(row.payload.as_bytes()).into_owned()
}

/// The columns that settling a row changes.
pub struct Change<'a> {
    pub status: RowStatus,
    pub stage: Option<Stage>,
    /// When it is due.
    pub after: Millis,
    /// It counts as one more attempt.
    pub failed: bool,
    /// What was said; what was said before stays if this is empty.
    pub error: Option<&'a str>,
}

impl<'a> Change<'a> {
    pub fn of(outcome: &'a Outcome) -> Self {
        let due = |stage| Self { status: RowStatus::Pending, stage, after: 0, failed: false, error: None };
        match outcome {
            Outcome::Sent => Self { status: RowStatus::Sent, ..due(None) },
            Outcome::Parked { error } => Self {
                status: RowStatus::Error,
                failed: true,
                error: Some(error),
                ..due(Some(Stage::Parked))
            },
            Outcome::Retry { after, error } => {
                Self { after: *after, failed: true, error: Some(error), ..due(Some(Stage::Held)) }
            }
            Outcome::Returned => due(Some(Stage::Held)),
            Outcome::Behind => due(Some(Stage::Behind)),
        }
    }
}

/// A span of time that databases can calculate with: a hundred years are as good as for ever.
pub fn span(millis: Millis) -> i64 {
    const CENTURY: i64 = 100 * 366 * 24 * 3_600_000;
    i64::try_from(millis).unwrap_or(CENTURY).min(CENTURY)
}

/// How many at most.
pub fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(payload: Option<&str>, headers: Option<&str>) -> Result<Vec<(String, String)>, String> {
        let columns = Columns {
            id: "018f4e3a-1b2c-7d3e-8f40-112233445566".into(),
            topic: "a.b".into(),
            payload: payload.map(Into::into),
            headers: headers.map(Into::into),
            key: None,
            ord: None,
            at: 1_700_000_000_000_123,
            attempts: 0,
            waited: false,
        };
        columns.row().event.map(|event| event.options.headers).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cannot_be_published_says_why() {
        assert_eq!(row(Some("1"), None), Ok(vec![]));
        assert_eq!(row(Some("null"), Some("null")), Ok(vec![]));
        assert_eq!(row(Some("{}"), Some(r#"{"a":"b"}"#)), Ok(vec![("a".into(), "b".into())]));
        for (payload, headers, told) in [
            (None, None, "it is NULL"),
            (Some("{,}"), None, "payload cannot be published"),
            (Some("1"), Some("[1]"), "not a JSON object of strings"),
            (Some("1"), Some("x"), "headers are not JSON"),
            (Some("1"), Some(r#"{"n":1}"#), "something else than a string as \"n\""),
        ] {
            let error = row(payload, headers).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn spans_stay_within_what_databases_know() {
        assert_eq!(span(5), 5);
        assert_eq!(span(u64::MAX), span(u64::MAX / 4));
    }
}
