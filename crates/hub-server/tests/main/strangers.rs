//! Those who send what nobody understands, or nothing, or very slowly.

use crate::world::{ALL, Client, World, token};
use futures_util::SinkExt;
use hub_core::Config;
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

/// Nothing takes so long unless it hangs.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
const ID: &str = "018f4e9a-0000-7000-8000-000000000000";

/// One answer, an ERR, and the connection goes on.
async fn told(client: &mut Client, what: &str) -> Value {
    let answer = client.next().await;
    assert_eq!(answer["op"], "ERR", "{what}: {answer}");
    assert!(answer["msg"].as_str().unwrap().len() < 600, "{what}: {answer}");
    client.ok(json!({"op": "PUBLISH", "topic": "well", "payload": 1})).await;
    assert!(client.is_quiet(), "{what}: more than one answer");
    answer
}

#[tokio::test]
async fn a_bad_frame_is_answered_by_one_error_and_nothing_else_happens() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let publish = |payload: &str| format!(r#"{{"op":"PUBLISH","topic":"t","payload":{payload}}}"#);
    let table: Vec<(String, &str)> = vec![
        ("".into(), "bad_json"),
        (" ".into(), "bad_json"),
        ("hello".into(), "bad_json"),
        ("\u{0}".into(), "bad_json"),
        ("{".into(), "bad_json"),
        (r#"{"op":"PUBLISH","topic":"t","payload""#.into(), "bad_json"),
        (r#"{"op":"PUBLISH"} {"op":"PUBLISH"}"#.into(), "bad_json"),
        (r#"{'op':'PUBLISH'}"#.into(), "bad_json"),
        (r#"{"op":"PUBLISH",}"#.into(), "bad_json"),
        ("{\"op\":\"PUB\nLISH\"}".into(), "bad_json"),
        (r#"{"op":"\ud800"}"#.into(), "bad_request"),
        ("[1]".into(), "bad_request"),
        (r#"["PUBLISH",null,"t",null,1]"#.into(), "bad_request"),
        (r#""x""#.into(), "bad_request"),
        ("null".into(), "bad_request"),
        ("1e4".into(), "bad_request"),
        ("{}".into(), "bad_request"),
        (r#"{"op":null}"#.into(), "bad_request"),
        (r#"{"op":["PUBLISH"]}"#.into(), "bad_request"),
        (r#"{"op":"publish"}"#.into(), "unknown_op"),
        (r#"{"op":"PUBLISH\u0000"}"#.into(), "unknown_op"),
        (format!(r#"{{"op":"{}"}}"#, "A".repeat(1 << 20)), "unknown_op"),
        (r#"{"op":"PUBLISH","op":"PUBLISH","topic":"t","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"t","payload":1,"payload":2}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","corr":"a","corr":"b","topic":"t","payload":1}"#.into(), "bad_request"),
        (
            format!(r#"{{"op":"PUBLISH","corr":"{}","topic":"t","payload":1}}"#, "c".repeat(1 << 20)),
            "bad_request",
        ),
        (r#"{"op":"PUBLISH","corr":7,"topic":"t","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"t"}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"a..b","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"a\u0000b","payload":1}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"a.*","payload":1}"#.into(), "bad_request"),
        (format!(r#"{{"op":"PUBLISH","topic":"{}","payload":1}}"#, "a".repeat(1 << 20)), "bad_request"),
        (publish(&nested(129)), "bad_request"),
        (publish(&nested(100_000)), "bad_request"),
        (publish(&"[".repeat(100_000)), "bad_json"),
        (nested(100_000), "bad_request"),
        (format!(r#"{{"x":{},"op":"NO"}}"#, nested(100_000)), "unknown_op"),
        (publish("1").replace("\"t\"", &nested(100_000)), "bad_request"),
        (format!(r#"{{"op":"PUBLISH","topic":"t","payload":1,"opts":{}}}"#, nested(100_000)), "bad_request"),
        (format!(r#"{{"op":"PUBLISH","events":{}}}"#, "1".repeat(1 << 20)), "bad_request"),
        (format!(r#"{{"op":"SUBSCRIBE","topic":"t","opts":{{"filter":{}}}}}"#, nested(5_000)), "bad_request"),
        (publish(&format!("\"{}\"", "x".repeat(2 << 20))), "too_large"),
        (r#"{"op":"PUBLISH","topic":"t","payload":1,"opts":{"ts":1e400}}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"t","payload":1,"opts":{"ts":-1}}"#.into(), "bad_request"),
        (r#"{"op":"PUBLISH","topic":"t","payload":1,"opts":{"id":"7"}}"#.into(), "bad_request"),
        (
            r#"{"op":"PUBLISH","topic":"t","payload":1,"opts":{"headers":{"x-hub-x":"1"}}}"#.into(),
            "bad_request",
        ),
    ];
    for (text, code) in table {
        let what = format!("{}… ({} bytes)", &text[..text.floor_char_boundary(60)], text.len());
        client.send_text(text).await;
        assert_eq!(told(&mut client, &what).await["code"], code, "{what}");
    }
    for bytes in [vec![], vec![0xff; 10], br#"{"op":"PUBLISH","topic":"t","payload":1}"#.to_vec()] {
        client.socket.send(Message::Binary(bytes.into())).await.unwrap();
        assert_eq!(told(&mut client, "binary").await["code"], "bad_request");
    }
    assert!(!world.bus().has_topic("t"), "something of it was published");
}

#[tokio::test]
async fn odd_but_valid_frames_are_carried_out() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    let deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    for text in [
        format!(r#"{{"op":"PUBLISH","topic":"t","payload":{deep}}}"#),
        r#"{"op":"PUBLISH","topic":"t","payload":1e400}"#.into(),
        format!(r#"{{"op":"PUBLISH","topic":"t","payload":{}}}"#, "9".repeat(100_000)),
        r#" { "op" : "PUBLISH" , "topic" : "t" , "payload" : "\u0000\u001f" } "#.into(),
        r#"{"\u006fp":"PUB\u004cISH","topic":"\u0074","payload":null}"#.into(),
        format!(
            r#"{{"op":"PUBLISH","topic":"t","payload":1,"unknown":{}}}"#,
            "[".repeat(50_000) + &"]".repeat(50_000)
        ),
        r#"{"op":"PUBLISH","topic":"t","payload":1,"group":7,"token":{},"ids":true,"opts":null}"#.into(),
        r#"{"op":"PUBLISH","topic":"t","payload":{"a":1,"a":2}}"#.into(),
    ] {
        client.send_text(text.clone()).await;
        assert_eq!(client.next().await["op"], "OK", "{}", &text[..60]);
    }
    for corr in [r#""""#, r#""\u0000\"\\""#, r#""😀""#] {
        client.send_text(format!(r#"{{"op":"PUBLISH","corr":{corr},"topic":"t","payload":1}}"#)).await;
        assert_eq!(client.next().await["corr"], serde_json::from_str::<Value>(corr).unwrap());
    }
}

/// Every field of every operation with everything that it cannot be.
#[tokio::test]
async fn a_field_of_a_wrong_type_is_named_whatever_the_operation() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let of = |op: &str, more: Value| {
        let mut frame = json!({"op": op, "topic": "t", "group": "g"});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let frames = [
        (json!({"op": "AUTH", "token": token(ALL)}), vec!["token:s"]),
        (
            json!({"op": "PUBLISH", "topic": "t", "payload": 1, "opts": {}}),
            vec![
                "op:s",
                "corr:s",
                "topic:s",
                "opts:o",
                "opts.id:s",
                "opts.ts:n",
                "opts.key:s",
                "opts.sid:s",
                "opts.headers:o",
                "opts.tags:a",
                "opts.caused_by:a",
                "events:e",
            ],
        ),
        (
            of("SUBSCRIBE", json!({"group": "other", "opts": {}})),
            vec![
                "topic:s",
                "group:s",
                "opts:o",
                "opts.from:s",
                "opts.topics:a",
                "opts.filter:o",
                "opts.ordering:s",
                "opts.coalesce:b",
                "opts.maxAttempts:n",
                "opts.batch:b",
                "opts.batchSize:n",
                "opts.maxInFlight:n",
                "opts.ackTimeoutMs:n",
                "opts.filter.tags:a",
                "opts.filter.key:s",
                "opts.filter.headers:o",
            ],
        ),
        (of("UNSUBSCRIBE", json!({})), vec!["topic:s", "group:s"]),
        (of("ACK", json!({"id": ID})), vec!["topic:s", "group:s", "id:s", "attempt:n"]),
        (of("ACK", json!({"ids": [ID]})), vec!["ids:a", "attempt:n"]),
        (
            of("NACK", json!({"id": ID})),
            vec!["topic:s", "group:s", "id:s", "reason:s", "delay_ms:n", "attempt:n"],
        ),
        (of("MODACK", json!({"id": ID, "extend_ms": 1})), vec!["topic:s", "group:s", "id:s", "extend_ms:n"]),
        (of("MODACK", json!({"ids": [ID], "extend_ms": 1})), vec!["ids:a"]),
        (of("PAUSE", json!({})), vec!["topic:s", "group:s"]),
        (of("RESUME", json!({})), vec!["topic:s", "group:s"]),
    ];
    let wrong = |of: &str| -> Vec<&str> {
        let all = [("s", r#""x""#), ("n", "7"), ("b", "true"), ("a", "[]"), ("o", "{}")];
        // A bad event of a batch has its error in its place.
        let kind = if of == "e" { "a" } else { of };
        let others = all.iter().filter(|(one, _)| *one != kind).map(|(_, value)| *value);
        let numbers =
            ["-1", "1.5", "1e400", "99999999999999999999999999"].into_iter().filter(|_| kind == "n");
        let lists = ["[1]", "[null]", r#"["x",[]]"#].into_iter().filter(|_| of == "a");
        others.chain(numbers).chain(lists).collect()
    };
    for (frame, fields) in frames {
        for (field, kind) in fields.iter().map(|field| field.split_once(':').unwrap()) {
            for value in wrong(kind) {
                let mut frame = frame.clone();
                let mut place = &mut frame;
                for part in field.split('.') {
                    place = &mut place[part];
                }
                *place = json!("@@");
                // Some of these cannot be held by a `Value`.
                let text = frame.to_string().replace("\"@@\"", value);
                client.send_text(text.clone()).await;
                let answer = told(&mut client, &text).await;
                assert_eq!(answer["code"], "bad_request", "{text}: {answer}");
            }
        }
    }
    assert!(world.bus().group("t", "other").is_none());
}

/// A connection by hand, after the upgrade.
async fn by_hand(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = "GET / HTTP/1.1\r\nhost: hub\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream
}

/// The code with which it is closed; what comes before that is passed over.
async fn close_code(stream: &mut TcpStream) -> u16 {
    loop {
        let (kind, len) = (stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap());
        let len = if len == 126 { stream.read_u16().await.unwrap().into() } else { usize::from(len) };
        let mut body = vec![0; len];
        stream.read_exact(&mut body).await.unwrap();
        if kind == 0x88 {
            return u16::from_be_bytes([body[0], body[1]]);
        }
    }
}

/// A text frame, with a mask that changes nothing.
fn text_frame(text: &[u8]) -> Vec<u8> {
    let head = [0x81, 0x80 | 126, (text.len() >> 8) as u8, text.len() as u8, 0, 0, 0, 0];
    [&head[..], text].concat()
}

#[tokio::test]
async fn what_is_no_frame_at_all_is_closed_with_the_code_for_it() {
    let world = World::new().await;
    let mut well = world.client(ALL).await;
    for (bytes, code) in [
        (text_frame(b"{\"op\":\"\xff\xfe\"}"), 1007),
        (text_frame(b"\xed\xa0\x80"), 1007),
        // Not masked; a kind that there is not; a bit that nobody agreed on; a continuation of nothing.
        (vec![0x81, 0x02, b'{', b'}'], 1002),
        (vec![0x83, 0x80, 0, 0, 0, 0], 1002),
        (vec![0xc1, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x80, 0x80, 0, 0, 0, 0], 1002),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 1002),
    ] {
        let mut stream = by_hand(&world).await;
        stream.write_all(&bytes).await.unwrap();
        let closed = tokio::time::timeout(PATIENCE, close_code(&mut stream)).await;
        assert_eq!(closed, Ok(code), "{bytes:?}");
        well.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    }
}

#[tokio::test]
async fn a_frame_that_comes_byte_by_byte_holds_up_nobody() {
    let world = World::new().await;
    let mut slow = by_hand(&world).await;
    let mut fast = world.client(ALL).await;
    fast.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let auth = json!({"op": "AUTH", "token": token(ALL)}).to_string();
    let publish = json!({"op": "PUBLISH", "topic": "u", "payload": 1}).to_string();
    for byte in [text_frame(auth.as_bytes()), text_frame(publish.as_bytes())].concat() {
        slow.write_all(&[byte]).await.unwrap();
        let answer = fast.ok(json!({"op": "PUBLISH", "topic": "t", "payload": byte})).await;
        assert_eq!(fast.next().await["event"]["seq"], answer["seq"]);
    }
    let mut reader = world.client(ALL).await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "u", "opts": {"from": "earliest"}})).await;
    assert_eq!(reader.next().await["event"]["seq"], 1, "it was a frame in the end");
}

#[tokio::test]
async fn who_vanishes_leaves_its_events_to_others_and_only_the_oldest_counts() {
    let world = World::new().await;
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"maxAttempts": 1}});
    let mut gone = world.client(ALL).await;
    gone.ok(subscribe.clone()).await;
    let mut other = world.client(ALL).await;
    for n in 1..=3 {
        other.ok(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await;
    }
    for _ in 0..3 {
        gone.next().await;
    }
    other.ok(json!({"op": "SUBSCRIBE", "topic": "dlq.t"})).await;
    drop(gone);
    let letter = other.next().await;
    assert_eq!(
        letter["event"]["payload"]["original"]["seq"], 1,
        "the oldest may be what killed it: {letter}"
    );
    other.ok(subscribe).await;
    for seq in 2..=3 {
        let event = other.next().await;
        assert_eq!((&event["event"]["seq"], &event["ctx"]["attempt"]), (&json!(seq), &json!(2)), "{event}");
    }
}

#[tokio::test]
async fn who_answers_no_ping_is_taken_for_gone() {
    let limits = Limits { idle_timeout: 600, ..Limits::default() };
    let world = World::with(Config::default(), Settings { limits, ..Settings::default() }).await;
    let mut silent = world.client(ALL).await;
    silent.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    world.bus().publish("t", json!(1)).await.unwrap();
    silent.next().await;
    // From here on nobody reads its socket, so nobody answers pings. The other one's is read.
    let mut other = world.client(ALL).await;
    other.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let event = other.next().await;
    assert_eq!((&event["event"]["seq"], &event["ctx"]["attempt"]), (&json!(1), &json!(2)), "{event}");
    other.ok(json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]})).await;
}

#[tokio::test]
async fn a_subscription_that_always_has_more_leaves_room_for_others() {
    let world = World::new().await;
    let many: Vec<_> = (0..1000).map(|_| json!({"topic": "much", "payload": "x".repeat(500)})).collect();
    let mut publisher = world.client(ALL).await;
    for _ in 0..30 {
        publisher.ok(json!({"op": "PUBLISH", "events": many})).await;
    }
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "little"})).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "much", "opts": {"from": "earliest"}})).await;
    publisher.ok(json!({"op": "PUBLISH", "topic": "little", "payload": 1})).await;
    let mut before = 0;
    while client.next().await["topic"] == "much" {
        before += 1;
    }
    // What fits into the socket is on its way already.
    assert!(before < 25_000, "{before} of 30,000 came before the one of another topic");
}
