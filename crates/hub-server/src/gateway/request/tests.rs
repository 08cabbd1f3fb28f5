#![allow(clippy::unwrap_used)]

use super::*;

const ALLOWED: Allowed = Allowed { batch_events: 3, peer: false };
const ID: &str = "018f4e9a-0000-7000-8000-000000000001";

fn of(text: &str) -> (Corr, Result<Request>) {
    let (corr, _, request) = read(&Bytes::copy_from_slice(text.as_bytes()), ALLOWED);
    (corr, request)
}

fn ok(text: &str) -> Request {
    of(text).1.unwrap_or_else(|error| panic!("{text}: {}", error.msg))
}

fn refused(text: &str) -> Error {
    of(text).1.expect_err(text)
}

#[test]
fn every_operation_is_read_with_its_fields() {
    let table = [
        (r#"{"op":"AUTH"}"#.to_owned(), "Auth { token: None }"),
        (r#"{"op":"AUTH","token":"a\u0062"}"#.to_owned(), "Auth { token: Some(Secret) }"),
        (
            r#"{"op":"UNSUBSCRIBE","topic":"t"}"#.to_owned(),
            r#"Unsubscribe(Name { topic: "t", group: None })"#,
        ),
        (
            r#"{"op":"PAUSE","topic":"t","group":"g"}"#.to_owned(),
            r#"Pause(Name { topic: "t", group: Some("g") })"#,
        ),
        (
            r#"{"op":"RESUME","topic":"t","group":null}"#.to_owned(),
            r#"Resume(Name { topic: "t", group: None })"#,
        ),
        (
            format!(r#"{{"op":"ACK","topic":"t","group":"g","id":"{ID}","attempt":2}}"#),
            r#"Ack { of: Name { topic: "t", group: Some("g") }, ids: One(ID), attempt: Some(2) }"#,
        ),
        (
            format!(r#"{{"op":"ACK","topic":"t","group":"g","ids":["{ID}","{ID}"]}}"#),
            r#"Ack { of: Name { topic: "t", group: Some("g") }, ids: Several([ID, ID]), attempt: None }"#,
        ),
        (
            format!(r#"{{"op":"NACK","topic":"t","group":"g","id":"{ID}","reason":"why","delay_ms":5}}"#),
            r#"Nack { of: Name { topic: "t", group: Some("g") }, id: ID, attempt: None, reason: "why", delay_ms: Some(5) }"#,
        ),
        (
            format!(r#"{{"op":"NACK","topic":"t","group":"g","id":"{ID}","reason":null}}"#),
            r#"Nack { of: Name { topic: "t", group: Some("g") }, id: ID, attempt: None, reason: "", delay_ms: None }"#,
        ),
        (
            r#"{"op":"MODACK","topic":"t","group":"g","ids":[],"extend_ms":9}"#.to_owned(),
            r#"Modack { of: Name { topic: "t", group: Some("g") }, ids: Several([]), attempt: None, extend_ms: 9 }"#,
        ),
    ];
    let id = format!("{:?}", serde_json::from_str::<EventId>(&format!("\"{ID}\"")).unwrap());
    for (text, expected) in table {
        assert_eq!(format!("{:?}", ok(&text)).replace(&id, "ID"), expected, "{text}");
    }
    let Request::Auth { token: Some(token) } = ok(r#"{"op":"AUTH","token":"a\u0062"}"#) else {
        panic!("a token")
    };
    assert_eq!(token.expose(), "ab");
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let long = format!(r#"{{"op":"PUBLISH","events":[{}]}}"#, ["1"; 4].join(","));
    let ids = format!(r#"{{"op":"ACK","topic":"t","group":"g","ids":[{}]}}"#, ["1"; IDS + 1].join(","));
    let both = format!(r#"{{"op":"ACK","topic":"t","group":"g","id":"{ID}","ids":[]}}"#);
    let subscribe = |opts: &str| format!(r#"{{"op":"SUBSCRIBE","topic":"t","opts":{opts}}}"#);
    let table: &[(&str, Code, &str)] = &[
        ("", Code::BadJson, "the frame is not JSON"),
        ("{\"op\"", Code::BadJson, "the frame is not JSON"),
        ("[]", Code::BadRequest, "a frame is one JSON object with an op"),
        (r#"["PUBLISH"]"#, Code::BadRequest, "a frame is one JSON object with an op"),
        ("7", Code::BadRequest, "a frame is one JSON object with an op"),
        ("{}", Code::BadRequest, "op is missing"),
        (r#"{"op":7}"#, Code::BadRequest, "it must be a string"),
        (r#"{"op":"SING"}"#, Code::UnknownOp, "there are AUTH, PUBLISH"),
        (r#"{"op":"PUBLISH","op":"PUBLISH"}"#, Code::BadRequest, "duplicate field `op`"),
        (r#"{"op":"PUBLISH","payload":1}"#, Code::BadRequest, "topic is missing"),
        (r#"{"op":"PUBLISH","topic":"t"}"#, Code::BadRequest, "payload is missing"),
        (r#"{"op":"ACK","topic":"t"}"#, Code::BadRequest, "group is missing"),
        (r#"{"op":"ACK","topic":"t","group":"g"}"#, Code::BadRequest, "name one id, or several as ids"),
        (&both, Code::BadRequest, "id and ids are both there"),
        (&ids, Code::TooLarge, "ids has more than 10000 ids; send several frames"),
        (&long, Code::TooLarge, "events has more than 3 events"),
        (r#"{"op":"PUBLISH","events":{}}"#, Code::BadRequest, "an array of events"),
        (r#"{"op":"NACK","topic":"t","group":"g","id":"7"}"#, Code::BadRequest, "it must be a UUID"),
        (r#"{"op":"AUTH","token":{"secret":"hunter2"}}"#, Code::BadRequest, "token is not a string"),
        (&subscribe("[]"), Code::BadRequest, "it must be an object"),
        (&subscribe(r#"{"from":"now"}"#), Code::BadRequest, r#"it must be "latest", "earliest""#),
        (&subscribe(r#"{"from":"ts"}"#), Code::BadRequest, r#"from is "ts", but ts is missing"#),
        (&subscribe(r#"{"from":"afterId","afterId":"x"}"#), Code::BadRequest, "afterId is"),
        (&subscribe(r#"{"from":"afterSeq","afterSeq":-1}"#), Code::BadRequest, "afterSeq is"),
        (&subscribe(r#"{"filter":{"tag":["x"]}}"#), Code::BadRequest, "it has tags, key, headers"),
        (&subscribe(r#"{"filter":[["x"]]}"#), Code::BadRequest, "filter"),
        (&subscribe(r#"{"filter":{"key":"a","key":"b"}}"#), Code::BadRequest, "each name there once"),
        (&subscribe(r#"{"ordering":"any"}"#), Code::BadRequest, r#""none" or "key""#),
        (&subscribe(r#"{"batch":1,"batch":2}"#), Code::BadRequest, "no name is there twice"),
        (&subscribe(r#"{"topics":"a,b"}"#), Code::BadRequest, "an array of topics"),
    ];
    for (text, code, words) in table {
        let error = refused(text);
        assert_eq!(error.code, *code, "{text:.100}: {}", error.msg);
        assert!(error.msg.contains(words), "{text:.100}: {}", error.msg);
        assert!(error.msg.len() < 600 && !error.msg.contains("hunter2"), "{}", error.msg);
    }
}

#[test]
fn a_corr_comes_back_as_it_was_written_even_if_the_rest_is_wrong() {
    for corr in [r#""""#, r#""c""#, r#""\u0000\n\"""#, "\"\u{1f600}\""] {
        for rest in [r#""op":"SING""#, r#""op":"AUTH""#, r#""nothing":1"#] {
            let (found, _) = of(&format!(r#"{{{rest},"corr":{corr}}}"#));
            assert_eq!(found.0.as_deref(), Some(corr.as_bytes()), "{rest}");
        }
    }
    assert_eq!(of(r#"{"op":"AUTH","corr":null}"#).0, Corr::default());
    let of_length = |n: usize| of(&format!(r#"{{"op":"AUTH","corr":"{}"}}"#, "c".repeat(n)));
    assert!(of_length(CORR_BYTES - 2).1.is_ok() && of_length(CORR_BYTES - 1).1.is_err());
    for corr in ["7", "true", "[]", "{}"] {
        let (found, request) = of(&format!(r#"{{"op":"AUTH","corr":{corr}}}"#));
        assert!(found.0.is_none() && request.is_err_and(|error| error.msg.starts_with("corr is")), "{corr}");
    }
}

#[test]
fn a_bad_event_of_a_batch_has_its_error_in_its_place() {
    let text = r#"{"op":"PUBLISH","events":[{"topic":"a","payload":1},7,{"topic":"b","payload":null}]}"#;
    let Request::PublishAll(events) = ok(text) else { panic!("not a batch") };
    let topics: Vec<_> = events.iter().map(|event| event.as_ref().ok().map(|it| it.topic.as_str())).collect();
    assert_eq!(topics, [Some("a"), None, Some("b")]);
    assert!(
        matches!(ok(r#"{"op":"PUBLISH","events":[]}"#), Request::PublishAll(events) if events.is_empty())
    );
}

#[test]
fn options_of_a_subscription_are_read_and_null_is_none() {
    let text = r#"{"op":"SUBSCRIBE","topic":"label","group":"g","opts":{"topics":["a","b"],"from":"ts","ts":5,
        "filter":{"tags":["x"]},"ordering":"key","coalesce":null,"maxAttempts":2,"batch":true,"batchSize":10,
        "maxInFlight":20,"ackTimeoutMs":1000,"unknown":{}}}"#;
    let Request::Subscribe(name, options) = ok(text) else { panic!("no subscription") };
    assert_eq!((name.topic.as_str(), name.group.as_deref()), ("label", Some("g")));
    assert_eq!(options.topics.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(options.from, Position::Time(5));
    assert_eq!((options.group.ordering, options.group.coalesce), (Some(Ordering::Key), None));
    assert_eq!((options.group.max_attempts, options.for_group), (Some(2), Some("ordering")));
    assert_eq!((options.batch, options.batch_size), (true, Some(10)));
    assert_eq!((options.max_in_flight, options.ack_timeout), (Some(20), Some(1000)));

    let Request::Subscribe(_, options) = ok(r#"{"op":"SUBSCRIBE","topic":"t","opts":null}"#) else {
        panic!()
    };
    assert_eq!((options.from, options.for_group, options.batch), (Position::Latest, None, false));
}

/// What waits for its commit must not keep megabytes that came around it.
#[test]
fn a_large_frame_is_not_kept_for_a_small_part_of_it() {
    let shares = |frame: &Bytes, part: &[u8]| frame.as_ptr_range().contains(&part.as_ptr());
    let junk = "x".repeat(100_000);
    let around =
        Bytes::from(format!(r#"{{"op":"PUBLISH","corr":"c","topic":"t","payload":[1],"junk":"{junk}"}}"#));
    let (corr, _, request) = read(&around, ALLOWED);
    let Ok(Request::Publish(event)) = request else { panic!("no event") };
    assert!(!shares(&around, &corr.0.unwrap()) && !shares(&around, event.payload.as_bytes()));
    assert_eq!(event.payload.as_bytes(), b"[1]");

    let batch = Bytes::from(format!(
        r#"{{"op":"PUBLISH","events":[{{"topic":"t","payload":[1]}}],"junk":"{junk}"}}"#
    ));
    let Ok(Request::PublishAll(events)) = read(&batch, ALLOWED).2 else { panic!("no batch") };
    assert!(!shares(&batch, events[0].as_ref().unwrap().payload.as_bytes()));

    let mostly = Bytes::from(format!(r#"{{"op":"PUBLISH","topic":"t","payload":"{junk}"}}"#));
    let Ok(Request::Publish(event)) = read(&mostly, ALLOWED).2 else { panic!("no event") };
    assert!(shares(&mostly, event.payload.as_bytes()), "copied for nothing");
}

proptest::proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused_and_answered_in_json(text in "[\\x00-\\x7f]{0,80}|(\\{(\"(op|corr|topic|payload|ids|opts|events)\":(\"[A-Z]{0,8}\"|[0-9]{1,3}|null|\\[\\]|\\{\\}),?){0,5}\\})") {
        super::super::fuzzing::frame(text.as_bytes());
    }
}
