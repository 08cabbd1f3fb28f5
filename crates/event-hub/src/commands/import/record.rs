//! A line of an export as an event to publish.

use hub_proto::{EventId, NewEvent, Payload, PublishOptions, TopicName, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The members of a record that are kept. Unknown ones are ignored, as hubs do; `topic` and `seq` are the old place.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    payload: &'a RawValue,
    id: Option<EventId>,
    ts: Option<u64>,
    key: Option<String>,
    sid: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    caused_by: Option<Vec<EventId>>,
    tags: Option<Vec<String>>,
}

/// Reads a line; `None` if it is a dead letter that was replayed: a second record of an event, for one group of the hub that it comes
/// from. Every group here would get the event twice.
///
/// # Errors
/// What is wrong with it.
pub fn read(line: &[u8], topic: &TopicName) -> Result<Option<NewEvent>, String> {
    if line.first() != Some(&b'{') {
        return Err("not a JSON object; a record of an export is expected".into());
    }
    let record: Record<'_> = serde_json::from_slice(line).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => format!("not a record: {error}"),
        _ => format!("not JSON: {error}"),
    })?;
    let payload =
        Payload::stored(record.payload.get().as_bytes().to_vec()).map_err(|error| error.msg.into_owned())?;
    let headers = record.headers.unwrap_or_default();
    if headers.contains_key(header::REPLAY_FOR) {
        return Ok(None);
    }
    let headers = headers.into_iter();
    let options = PublishOptions {
        id: record.id,
        ts: record.ts,
        key: record.key,
        sid: record.sid,
        headers: headers.filter(|(name, _)| !header::is_reserved(name)).collect(),
        caused_by: record.caused_by.unwrap_or_default(),
        tags: record.tags.unwrap_or_default(),
    };
    Ok(Some(NewEvent::new(topic.clone(), payload).with_options(options)))
}

/// About as many bytes as an event takes in a frame.
pub fn frame_bytes(event: &NewEvent, line: &[u8]) -> usize {
    // The line has everything that the frame has, but for the name of the topic, which may be longer now.
    line.len() + event.topic.as_str().len() + 96
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicName {
        TopicName::parse("copy").expect("a name")
    }

    #[test]
    fn everything_of_a_record_is_kept_but_its_place_and_the_headers_of_the_hub() {
        let id = "018bcfe5-6800-7000-8000-000000000001";
        let line = format!(
            r#"{{"id":"{id}","ts":5,"topic":"orders","key":"k","sid":"s","headers":{{"a":"b","x-hub-derived":"1","X-Hub-Y":"2"}},"caused_by":["{id}"],"tags":["t"],"payload":{{"n":1.50}},"seq":7,"new":true}}"#
        );
        let event = read(line.as_bytes(), &topic()).expect("a record").expect("an event");
        assert_eq!(event.topic.as_str(), "copy");
        assert_eq!(event.payload.as_bytes(), br#"{"n":1.50}"#, "numbers stay as they were written");
        let options = serde_json::to_string(&event.options).expect("JSON");
        assert_eq!(
            options,
            format!(
                r#"{{"id":"{id}","ts":5,"key":"k","sid":"s","headers":{{"a":"b"}},"caused_by":["{id}"],"tags":["t"]}}"#
            )
        );
    }

    #[test]
    fn absent_and_null_members_are_the_same() {
        let event = read(br#"{"payload":null,"key":null,"headers":null}"#, &topic()).expect("a record");
        let event = event.expect("an event");
        assert!(event.payload.is_null());
        assert_eq!(event.options, PublishOptions::default());
    }

    #[test]
    fn what_is_no_record_is_told_what_is_wrong() {
        for (line, expected) in [
            ("{oops", "not JSON: key must be a string"),
            ("[1]", "not a JSON object"),
            (r#"{"id":"018bcfe5-6800-7000-8000-000000000001"}"#, "missing field `payload`"),
            (r#"{"id":"nonsense","payload":1}"#, "not a record"),
            (r#"{"payload":1,"tags":"red"}"#, "not a record"),
        ] {
            let error = read(line.as_bytes(), &topic()).expect_err("refused");
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
