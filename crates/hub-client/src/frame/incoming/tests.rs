#![allow(clippy::unwrap_used)]
use super::*;
use hub_proto::{Draft, Event, EventId, NewEvent, Payload, PublishOptions, TopicName};
use proptest::prelude::*;

const EVENT: &str =
    r#"{"id":"07070707-0707-0707-0707-070707070707","ts":5,"topic":"t","payload":"}},\"ctx\":{","seq":3}"#;

fn same(text: &str) -> bool {
    let Incoming::Events { of, events } = read(text).unwrap() else { panic!("{text}") };
    let Some((topic, group, fast)) = fast_event(text) else { return false };
    assert_eq!((&*of.0, of.1.as_deref(), &events[..]), (topic, group, &[fast][..]));
    true
}

#[test]
fn an_event_is_found_by_its_ends_as_serde_finds_it() {
    let ctx = r#""ctx":{"attempt":2,"maxAttempts":5,"ack_deadline_ms":30000}"#;
    assert!(same(&format!(r#"{{"op":"EVENT","topic":"a.*","group":"g","event":{EVENT},{ctx}}}"#)));
    let later = r#""ctx":{"attempt":2,"maxAttempts":5,"ack_deadline_ms":30000,"epoch":7}"#;
    assert!(same(&format!(r#"{{"op":"EVENT","topic":"a.*","group":"g","event":{EVENT},{later}}}"#)));
    assert!(same(&format!(r#"{{"op":"EVENT","topic":"t","event":{EVENT}}}"#)));
    // What is laid out differently is left to serde.
    assert!(!same(&format!(r#"{{"op":"EVENT","topic":"t","group":"g","event":{EVENT},{ctx} }}"#)));
    assert!(!same(&format!(r#"{{"op":"EVENT","topic":"t","event":{EVENT},"new":1}}"#)));
    assert!(!same(&format!(r#"{{"op":"EVENT","topic":"\"t","group":"g","event":{EVENT},{ctx}}}"#)));
    assert!(!same(&format!(r#"{{"op":"EVENT","topic":"t","group":"g","event":{EVENT},{ctx},"new":{{}}}}"#)));
    assert!(!same(&format!(r#"{{"event":{EVENT},{ctx},"op":"EVENT","topic":"t","group":"g"}}"#)));
}

#[test]
fn an_answer_is_matched_by_its_corr() {
    for (text, expected) in [
        (r#"{"op":"OK","corr":"12","id":"x"}"#, Some(12)),
        (r#"{"corr":"12","op":"OK"}"#, Some(12)),
        (r#"{"op":"OK","corr":"1\u0032"}"#, Some(12)),
        (r#"{"op":"OK","corr":"mine"}"#, None),
        (r#"{"op":"OK","corr":""}"#, None),
        (r#"{"op":"OK"}"#, None),
        (r#"{"op":"OK","corr":null}"#, None),
    ] {
        let Incoming::Ok { corr } = read(text).unwrap() else { panic!("{text}") };
        assert_eq!(corr, expected, "{text}");
    }
}

#[test]
fn an_error_keeps_what_a_program_decides_by() {
    let text = r#"{"op":"ERR","corr":"3","code":"rate_limited","msg":"slow down","retry_after_ms":250}"#;
    let Incoming::Err { corr, error, of } = read(text).unwrap() else { panic!() };
    assert_eq!((corr, of, error.kind()), (Some(3), None, ErrorKind::Refused));
    assert_eq!(error.refusal().unwrap().retry_after_ms, Some(250));
    assert_eq!(error.to_string(), "the hub answered rate_limited: slow down");
    let text = r#"{"op":"ERR","code":"not_yet_known","msg":"m","topic":"t","group":"g"}"#;
    let Incoming::Err { error, of, .. } = read(text).unwrap() else { panic!() };
    assert_eq!((error.code(), error.code_text()), (Some(Code::Internal), Some("not_yet_known")));
    assert_eq!(of, Some((Cow::Borrowed("t"), Some(Cow::Borrowed("g")))));
}

#[test]
fn what_no_hub_sends_is_refused_without_quoting_it() {
    let long = format!("{{\"op\":\"{}", "secret".repeat(1000));
    for bad in [
        "",
        "[]",
        "{}",
        "\"secret\"",
        "{\"op\":1}",
        "{\"op\":\"EVENT\"}",
        "{\"op\":\"EVENT\",\"topic\":\"t\"}",
        &long,
    ] {
        let error = read(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{bad}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert!(matches!(read(r#"{"op":"HELLO","new":[1]}"#).unwrap(), Incoming::Other));
}

fn event() -> impl Strategy<Value = String> {
    let payload = prop_oneof![
        any::<String>().prop_map(|text| serde_json::json!(text)),
        any::<i64>().prop_map(|n| serde_json::json!({ "ctx": { "attempt": n }, "seq": n })),
        prop::collection::vec(any::<bool>(), 0..4).prop_map(|list| serde_json::json!(list)),
    ];
    let key = prop::option::of(any::<String>());
    (payload, key, any::<[u8; 16]>(), 1..u64::MAX).prop_map(|(payload, key, id, seq)| {
        let topic = TopicName::parse("orders").unwrap();
        let options = PublishOptions { key, tags: vec!["\"},{".into()], ..PublishOptions::default() };
        let new = NewEvent::new(topic, Payload::of(&payload).unwrap()).with_options(options);
        let event = Draft::encode(new, EventId::from_bytes(id), 5).commit(seq, 5);
        String::from_utf8(event.json().to_vec()).unwrap()
    })
}

fn frame() -> impl Strategy<Value = String> {
    let name = "[a-zA-Z0-9_.*-]{1,12}";
    (event(), name, prop::option::of("[a-zA-Z0-9_.-]{1,12}"), any::<u32>(), any::<u64>()).prop_map(
        |(event, topic, group, attempt, left)| match group {
            Some(group) => format!(
                r#"{{"op":"EVENT","topic":"{topic}","group":"{group}","event":{event},"ctx":{{"attempt":{attempt},"maxAttempts":5,"ack_deadline_ms":{left}}}}}"#
            ),
            None => format!(r#"{{"op":"EVENT","topic":"{topic}","event":{event}}}"#),
        },
    )
}

proptest! {
    #[test]
    fn every_event_that_a_hub_writes_is_found_by_its_ends(text in frame()) {
        prop_assert!(same(&text));
    }

    #[test]
    fn a_frame_with_one_byte_changed_is_read_alike_both_ways_or_not_at_all(
        text in frame(), at: prop::sample::Index, byte: u8,
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        // What is no text never comes here.
        let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
        let slow = read(&text);
        let Some((topic, group, fast)) = fast_event(&text) else { return Ok(()) };
        if let Ok(Incoming::Events { of, events }) = slow
            && Event::from_hub(fast.event.to_owned().into(), None).is_ok()
        {
            prop_assert_eq!((&*of.0, of.1.as_deref(), &events[..]), (topic, group, &[fast][..]));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text: String, start in 0..4_usize) {
        let start = ["", "{\"op\":\"OK\",\"corr\":\"", "{\"op\":\"EVENT\",\"topic\":\"", "{\"op\":\"ERR\","][start];
        let text = format!("{start}{text}");
        let _ = (read(&text), fast_event(&text));
    }
}
