#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::arbitrary::{spell, text, value};
use crate::{Code, Draft, NewEvent, Payload, header};

const ID: EventId = EventId::from_bytes([7; 16]);

fn commit(topic: &str, payload: &str, options: PublishOptions) -> Event {
    let payload = Payload::from_json(payload.to_owned()).unwrap();
    let event = NewEvent::new(TopicName::parse(topic).unwrap(), payload).with_options(options);
    Draft::encode(event, ID, 5).commit(3, 9)
}

fn id() -> impl Strategy<Value = EventId> {
    any::<[u8; 16]>().prop_map(EventId::from_bytes)
}

fn options() -> impl Strategy<Value = PublishOptions> {
    let maybe_text = || prop::option::of(text());
    let name = prop_oneof![4 => text(), 1 => Just(header::REPLAY_FOR.to_owned())];
    let headers = prop::collection::btree_map(name, text(), 0..4);
    let (causes, tags) = (prop::collection::vec(id(), 0..3), prop::collection::vec(text(), 0..3));
    (maybe_text(), maybe_text(), headers, causes, tags).prop_map(|(key, sid, headers, caused_by, tags)| {
        PublishOptions {
            id: None,
            ts: None,
            key,
            sid,
            headers: headers.into_iter().collect(),
            caused_by,
            tags,
        }
    })
}

fn new_event() -> impl Strategy<Value = NewEvent> {
    let topic = "[a-zA-Z0-9_-]{1,8}(\\.[a-zA-Z0-9_-]{1,8}){0,3}";
    (topic, value(), any::<u64>(), options()).prop_map(|(topic, value, seed, options)| NewEvent {
        topic: TopicName::parse(&topic).unwrap(),
        payload: Payload::from_json(spell(&value, seed)).unwrap(),
        options,
    })
}

fn assert_fields(event: &Event, new: &NewEvent) {
    let options = &new.options;
    assert_eq!(event.topic(), &new.topic);
    assert_eq!(event.key().map(|key| &**key), options.key.as_deref());
    assert_eq!(event.sid(), options.sid.as_deref());
    assert_eq!(event.headers(), options.headers);
    assert_eq!(event.caused_by(), options.caused_by);
    assert_eq!(event.tags(), options.tags);
    assert_eq!(event.audience(), event.header(header::REPLAY_FOR));
    assert_eq!(event.is_tombstone(), new.payload.is_null() && options.key.is_some());
}

proptest! {
    #[test]
    fn an_event_comes_back_from_its_json_as_it_went_in(
        new in new_event(), id in id(), ts: u64, seq: u64, committed: u64,
    ) {
        let draft = Draft::encode(new.clone(), id, ts);
        prop_assert_eq!(draft.audience().is_some(), new.options.headers.iter().any(|(n, _)| n == header::REPLAY_FOR));
        prop_assert_eq!(draft.payload(), new.payload.as_bytes());
        let content = draft.content();
        let event = draft.commit(seq, committed);
        prop_assert_eq!(event.content(), content);
        prop_assert!(memchr::memchr2(b'\n', b'\r', event.json()).is_none());

        let again = Event::from_json(event.json().clone(), committed).unwrap();
        prop_assert_eq!(again.json().as_ptr(), event.json().as_ptr(), "our own layout is kept, not copied");
        let trusted = Event::from_trusted(event.json().clone(), committed, &new.topic).unwrap();
        for event in [&event, &again, &trusted] {
            assert_fields(event, &new);
            prop_assert_eq!(event.payload(), new.payload.as_bytes());
            prop_assert_eq!(
                (event.id(), event.ts(), event.seq(), event.committed()),
                (id, ts, seq, committed)
            );
        }
        prop_assert_eq!(&event, &again);
        let other = TopicName::parse("another-one").unwrap();
        for likely in [None, Some(&new.topic), Some(&other)] {
            let event = Event::from_hub(event.json().clone(), likely).unwrap();
            assert_fields(&event, &new);
            prop_assert_eq!((event.id(), event.seq(), event.committed()), (id, seq, ts));
        }
    }

    #[test]
    fn a_record_with_its_members_in_another_order_is_written_anew(
        new in new_event(), value in value(), id in id(), a: u64, b: u64,
    ) {
        let new = NewEvent { payload: Payload::from_json(spell(&value, a)).unwrap(), ..new };
        let event = Draft::encode(new.clone(), id, 1).commit(2, 3);
        // A map writes its members in the order of the alphabet.
        let mut record: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(event.json()).unwrap();
        record.insert("payload".into(), RawValue::from_string(spell(&value, b).trim_ascii().into()).unwrap());
        let json: Bytes = serde_json::to_vec(&record).unwrap().into();
        assert_fields(&Event::from_hub(json.clone(), Some(&new.topic)).unwrap(), &new);
        let again = Event::from_json(json, 3).unwrap();
        assert_fields(&again, &new);
        prop_assert!(again.same_content(new.options.key.as_deref(), new.payload.as_bytes()));
        prop_assert_eq!(again.content(), event.content());
        prop_assert_eq!(again.json().last_chunk(), Some(b",\"seq\":2}"));
    }

    #[test]
    fn damaged_records_are_read_right_or_refused(
        new in new_event(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let event = Draft::encode(new, ID, 1).commit(2, 3);
        let mut bytes = event.json().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let whole = Event::from_json(bytes.clone().into(), 3);
        // Whatever is taken is a JSON object whose payload is the one serde finds.
        if let Ok(event) = whole {
            let record: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&bytes).unwrap();
            prop_assert!(json::same(record["payload"].get().as_bytes(), event.payload()));
        }
        bytes.truncate(cut.index(bytes.len()));
        let _ = Event::from_trusted(bytes.clone().into(), 3, event.topic());
        prop_assert!(Event::from_hub(bytes.clone().into(), None).is_err());
        prop_assert!(Event::from_json(bytes.into(), 3).is_err());
    }
}

#[test]
fn members_come_in_a_fixed_order_and_absent_ones_are_left_out() {
    let event = commit("a.b", " [1,\n2] ", PublishOptions::default());
    assert_eq!(
        event.json(),
        &r#"{"id":"07070707-0707-0707-0707-070707070707","ts":5,"topic":"a.b","payload":[1, 2],"seq":3}"#
    );
    let full = PublishOptions {
        id: None,
        ts: None,
        key: Some("k\n".into()),
        sid: Some("s".into()),
        headers: vec![("h".into(), "\"".into())],
        caused_by: vec![ID],
        tags: vec!["t".into(), "u".into()],
    };
    assert_eq!(
        commit("a", "null", full).json(),
        &concat!(
            r#"{"id":"07070707-0707-0707-0707-070707070707","ts":5,"topic":"a","key":"k\n","sid":"s","#,
            r#""headers":{"h":"\""},"caused_by":["07070707-0707-0707-0707-070707070707"],"tags":["t","u"],"#,
            r#""payload":null,"seq":3}"#
        )
    );
}

#[test]
fn committing_appends_in_place() {
    let event = NewEvent::new(TopicName::parse("a").unwrap(), Payload::of(&"\n".repeat(1000)).unwrap())
        .with_key("\u{1}".repeat(500));
    let draft = Draft::encode(event, ID, u64::MAX);
    let before = draft.payload().as_ptr();
    assert_eq!(draft.commit(u64::MAX, 0).payload().as_ptr(), before);
}

#[test]
fn a_tombstone_has_a_key_and_a_null_payload() {
    let key = || PublishOptions { key: Some("k".into()), ..Default::default() };
    assert!(commit("a", "null", key()).is_tombstone());
    assert!(!commit("a", "null", PublishOptions::default()).is_tombstone());
    assert!(!commit("a", "{}", key()).is_tombstone());
}

#[test]
fn content_is_compared_as_json_and_with_the_key() {
    let key = |key: &str| PublishOptions { key: Some(key.into()), ..Default::default() };
    let event = commit("a", r#"{"a":1,"b":"x"}"#, key("k"));
    assert!(event.same_content(Some("k"), br#"{"b":"\u0078","a":1.0}"#));
    assert!(!event.same_content(Some("k"), br#"{"b":"x","a":2}"#));
    assert!(!event.same_content(None, event.payload()));
    assert_eq!(event.content(), commit("b", r#"{"b":"x","a":10e-1}"#, key("k")).content());
    assert_ne!(event.content(), commit("a", r#"{"a":1,"b":"x"}"#, key("j")).content());
    let keyless = commit("a", "1", PublishOptions::default());
    assert_ne!(keyless.content(), commit("a", "1", key("")).content());
    // Pinned: what the stores keep of cleaned records depends on it.
    assert_eq!(event.content().to_string(), "cd959df6-7c11-5ca0-a94b-80db7f307608");
}

#[test]
fn payloads_as_deep_as_allowed_decode() {
    let nested = format!("{}{}", "[".repeat(128), "]".repeat(128));
    let event = commit("a", &nested, PublishOptions::default());
    assert!(event.decode::<Value>().is_ok());
    let err = event.decode::<u32>().unwrap_err();
    assert!(err.code == Code::BadRequest && err.id == Some(ID) && err.msg.contains("expected u32"), "{err}");
    assert_eq!(commit("a", "[1,2]", PublishOptions::default()).decode::<Vec<u8>>().unwrap(), [1, 2]);
}

#[test]
fn what_is_no_record_is_refused() {
    let good = json!({"id": ID, "seq": 1, "ts": 2, "topic": "a", "payload": null});
    assert!(Event::from_json(good.to_string().into(), 0).is_ok());
    for (member, value, code) in [
        ("id", json!("x"), Code::BadRequest),
        ("seq", json!(-1), Code::BadRequest),
        ("ts", json!(null), Code::BadRequest),
        ("topic", json!("a..b"), Code::BadRequest),
        ("key", json!(1), Code::BadRequest),
        ("tags", json!("t"), Code::BadRequest),
    ] {
        let mut record = good.clone();
        record[member] = value;
        let err = Event::from_json(record.to_string().into(), 0).unwrap_err();
        assert_eq!(err.code, code, "{record}: {err}");
    }
    // A payload that would swallow a second `seq` is no payload.
    let two =
        r#"{"id":"07070707-0707-0707-0707-070707070707","ts":5,"topic":"a","payload":1,"seq":2,"seq":3}"#;
    assert!(Event::from_json(two.into(), 0).is_err());
    assert_eq!(Event::from_json("{".into(), 0).unwrap_err().code, Code::BadJson);
}

#[test]
fn the_hubs_own_records_may_be_long_and_deep() {
    let nested = format!("{}{}", "[".repeat(140), "]".repeat(140));
    let topic = TopicName::parse(&"t".repeat(200)).unwrap().dead_letter();
    let event = NewEvent::new(topic, Payload::stored(nested).unwrap());
    let event = Draft::encode(event, ID, 1).commit(1, 1);
    assert_eq!(Event::from_json(event.json().clone(), 1).unwrap(), event);
}

#[test]
fn a_record_from_elsewhere_cannot_be_so_deep_that_reading_it_kills() {
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let json = format!(r#"{{"id":"{ID}","ts":1,"topic":"a","payload":{nested},"seq":1}}"#);
    assert_eq!(Event::from_json(json.into(), 1).unwrap_err().code, Code::BadRequest);
}

#[test]
fn a_record_with_seq_0_is_refused_in_every_layout() {
    for json in [
        format!(r#"{{"id":"{ID}","ts":1,"topic":"a","payload":1,"seq":0}}"#),
        format!(r#"{{"seq":0,"id":"{ID}","ts":1,"topic":"a","payload":1}}"#),
    ] {
        assert!(Event::from_json(json.into(), 1).unwrap_err().msg.contains("seq 0"));
    }
}

#[test]
fn a_payload_of_another_shape_is_named_and_not_quoted_in_full() {
    let event = commit("a", &format!("{:?}", "x".repeat(100_000)), PublishOptions::default());
    assert!(event.decode::<u64>().unwrap_err().msg.len() < 400);
}

#[test]
fn a_trusted_record_of_another_topic_is_refused() {
    let event = commit("a", "1", PublishOptions::default());
    let other = TopicName::parse("b").unwrap();
    assert_eq!(Event::from_trusted(event.json().clone(), 9, &other).unwrap_err().code, Code::Internal);
}

#[test]
fn debug_shows_no_payload_and_no_key() {
    let event =
        commit("a", "\"secret\"", PublishOptions { key: Some("secret".into()), ..Default::default() });
    assert!(!format!("{event:?}").contains("secret"));
    let draft = Draft::encode(NewEvent::new(event.topic().clone(), Payload::of("secret").unwrap()), ID, 1);
    assert!(!format!("{draft:?}").contains("secret"));
}

#[test]
fn events_can_be_shared_between_threads_and_are_small() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Event>();
    shareable::<Draft>();
    assert!(size_of::<Event>() <= 192, "{}", size_of::<Event>());
}
