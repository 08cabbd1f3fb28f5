//! How much a connection may do, and what happens to one that does more.

use crate::world::{ALL, Client, World, signed, token};
use futures_util::{SinkExt, StreamExt};
use hub_core::{Config, Pattern, Position};
use hub_server::limits::{Limits, SubjectQuota, TopicQuota};
use hub_server::{Origins, Settings};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Nothing takes so long unless it hangs.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

async fn limited(limits: Limits) -> World {
    World::with(Config::default(), Settings { limits, ..Settings::default() }).await
}

fn batch(topic: &str, n: usize) -> Value {
    let event = json!({"topic": topic, "payload": 1});
    json!({"op": "PUBLISH", "events": vec![event; n]})
}

/// Asks until it is refused: on a machine that stands still for a second there is room again.
async fn refused(client: &mut Client, frame: &Value) -> Value {
    for _ in 0..100 {
        let answer = client.ask(frame.clone()).await;
        if answer["op"] == "ERR" {
            assert_eq!(answer["code"], "rate_limited", "{answer}");
            let wait = answer["retry_after_ms"].as_u64().unwrap();
            assert!((1..=1000).contains(&wait), "{answer}");
            return answer;
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn a_connection_over_its_rate_is_told_how_long_to_wait_and_a_batch_is_refused_whole() {
    let world = limited(Limits { connection_rate: Some(4), ..Limits::default() }).await;
    let (mut client, mut other) = (world.client(ALL).await, world.client(ALL).await);
    let told = refused(&mut client, &batch("t", 3)).await;
    assert!(told["msg"].as_str().unwrap().contains("this connection may send 4 events per second"), "{told}");
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!(events.len() % 3, 0, "no part of a batch");
    other.ok(batch("u", 3)).await;
    tokio::time::sleep(std::time::Duration::from_millis(told["retry_after_ms"].as_u64().unwrap())).await;
    client.ok(batch("t", 3)).await;
    let never = client.ask(batch("t", 5)).await;
    assert!(never["msg"].as_str().unwrap().contains("send smaller batches"), "{never}");
}

#[tokio::test]
async fn connections_of_one_subject_share_its_rate_and_others_do_not() {
    let world = limited(Limits { subject_rate: Some(3), ..Limits::default() }).await;
    let ada = signed(Some("ada"), ALL);
    let (mut one, mut two) = (world.client_with(&ada).await, world.client_with(&ada).await);
    let mut bob = world.client_with(&signed(Some("bob"), ALL)).await;
    refused(&mut one, &batch("t", 3)).await;
    let told = refused(&mut two, &batch("t", 3)).await;
    assert!(told["msg"].as_str().unwrap().contains("this subject"), "{told}");
    bob.ok(batch("t", 3)).await;
}

#[tokio::test]
async fn a_topic_with_a_rate_is_shared_by_all_who_publish_to_it() {
    let topic_rates = vec![(Pattern::parse("hot.*").unwrap(), 3)];
    let world = limited(Limits { topic_rates, ..Limits::default() }).await;
    let mut one = world.client_with(&signed(Some("ada"), ALL)).await;
    let mut two = world.client_with(&signed(Some("bob"), ALL)).await;
    refused(&mut one, &batch("hot.a", 3)).await;
    refused(&mut two, &batch("hot.a", 2)).await;
    two.ok(batch("hot.b", 3)).await;
    two.ok(batch("cold", 1000)).await;
    // A batch that has room but for one topic is refused whole.
    let before = world.bus().bounds("cold").await.unwrap();
    let mut mixed = batch("cold", 5);
    mixed["events"].as_array_mut().unwrap().extend(vec![json!({"topic": "hot.b", "payload": 1}); 4]);
    assert_eq!(two.err(mixed).await, "rate_limited");
    assert_eq!(world.bus().bounds("cold").await.unwrap(), before);
}

#[tokio::test]
async fn a_flood_that_ignores_the_refusals_is_closed() {
    let world = limited(Limits { connection_rate: Some(1), ..Limits::default() }).await;
    let client = world.client(ALL).await;
    let (mut sink, mut stream) = client.socket.split();
    let flood = tokio::spawn(async move {
        let text = r#"{"op":"PUBLISH","topic":"t","payload":1}"#;
        // Until it is cut off.
        while sink.send(Message::text(text)).await.is_ok() {}
    });
    let mut limited = 0;
    let close = loop {
        match tokio::time::timeout(PATIENCE, stream.next()).await.expect("a close in time") {
            Some(Ok(Message::Text(text))) => limited += usize::from(text.contains("rate_limited")),
            Some(Ok(Message::Close(close))) => break close.unwrap(),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(u16::from(close.code), 1008, "{close:?}");
    assert!(limited >= 1000, "{limited}: those are refused that came after a second, too");
    drop(stream);
    flood.await.unwrap();
}

#[tokio::test]
async fn a_burst_that_was_sent_before_it_could_hear_of_the_limit_is_answered_and_goes_on() {
    let world = limited(Limits { connection_rate: Some(100), ..Limits::default() }).await;
    let mut client = world.client(ALL).await;
    for _ in 0..3000 {
        let text = r#"{"op":"PUBLISH","topic":"t","payload":1}"#;
        client.socket.feed(Message::text(text)).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..3000 {
        match client.next().await["op"].as_str().unwrap() {
            "OK" => taken += 1,
            _ => refused += 1,
        }
    }
    assert!(taken >= 99 && refused > 1000, "{taken} and {refused}");
    // Refused or not, it is still there.
    client.ask(json!({"op": "UNSUBSCRIBE", "topic": "t"})).await;
}

#[tokio::test]
async fn a_connection_that_does_not_say_who_it_is_is_closed_whatever_it_says_instead() {
    let world = limited(Limits { auth_timeout: 300, ..Limits::default() }).await;
    let (mut silent, mut busy, mut wrong) =
        (world.stranger().await, world.stranger().await, world.stranger().await);
    let mut known = world.client(ALL).await;
    busy.send_text("{}").await;
    busy.socket.send(Message::Ping("hello".into())).await.unwrap();
    assert_eq!(wrong.err(json!({"op": "AUTH", "token": "x.y.z"})).await, "jwt_invalid");
    for client in [&mut silent, &mut busy, &mut wrong] {
        let close = client.closed().await.unwrap();
        assert_eq!(u16::from(close.code), 1008, "{close:?}");
    }
    known.ok(batch("t", 1)).await;
}

#[tokio::test]
async fn a_connection_has_so_many_subscriptions_and_no_more() {
    let world = limited(Limits { subscriptions: 3, ..Limits::default() }).await;
    let mut client = world.client(ALL).await;
    let subscribe = |topic: &str, group: &str| json!({"op": "SUBSCRIBE", "topic": topic, "group": group});
    client.ok(subscribe("a", "g")).await;
    client.ok(subscribe("b.*", "g")).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "a"})).await;
    let answer = client.ask(subscribe("c", "g")).await;
    assert_eq!(answer["code"], "bad_request");
    assert!(answer["msg"].as_str().unwrap().contains("3 subscriptions"), "{answer}");
    assert!(world.bus().groups("c").is_empty());
    assert_eq!(client.err(subscribe("a", "g")).await, "already_subscribed");
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "a"})).await;
    client.ok(subscribe("c", "g")).await;
}

#[tokio::test]
async fn a_frame_over_the_limit_closes_with_1009_and_the_client_sees_it() {
    let world = limited(Limits { frame_bytes: 100_000, ..Limits::default() }).await;
    let frame = |bytes: usize| {
        let text = json!({"op": "PUBLISH", "topic": "t", "payload": ""}).to_string();
        text.replace("\"\"", &format!("\"{}\"", "x".repeat(bytes - text.len())))
    };
    let mut client = world.client(ALL).await;
    client.send_text(frame(100_000)).await;
    assert_eq!(client.next().await["seq"], 1, "one of just that size");

    // As large as it gets, and in parts that are each below it.
    let large = |bytes: usize| vec![Message::text("x".repeat(bytes))];
    let part =
        |data: Data, last: bool| Message::Frame(Frame::message(vec![b'x'; 60_000], OpCode::Data(data), last));
    let parts = vec![part(Data::Text, false), part(Data::Continue, true)];
    for messages in [large(100_001), large(30 << 20), parts] {
        let client = world.client(ALL).await;
        let (mut sink, mut stream) = client.socket.split();
        let sending = tokio::spawn(async move {
            for message in messages {
                // The hub reads no further; it may hang up meanwhile.
                let _ = sink.send(message).await;
            }
        });
        let close = loop {
            match tokio::time::timeout(PATIENCE, stream.next()).await.expect("a close in time") {
                Some(Ok(Message::Close(close))) => break close.unwrap(),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(u16::from(close.code), 1009, "{close:?}");
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn lists_have_an_end() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    assert_eq!(client.ok(batch("u", 0)).await["results"], json!([]));
    assert_eq!(client.ok(batch("u", 1000)).await["results"].as_array().unwrap().len(), 1000);
    assert_eq!(client.err(batch("u", 1001)).await, "too_large");
    assert_eq!(world.bus().bounds("u").await.unwrap().last, 1000);
    let id = "018f4e9a-0000-7000-8000-000000000000";
    let ack = |n: usize| json!({"op": "ACK", "topic": "t", "group": "g", "ids": vec![id; n]});
    assert_eq!(client.ok(ack(10_000)).await["acked"], 0);
    assert_eq!(client.err(ack(10_001)).await, "too_large");
    let list = |n: usize| {
        let topics: Vec<_> = (0..n).map(|n| format!("list.{n}")).collect();
        json!({"op": "SUBSCRIBE", "topic": "list", "group": "g", "opts": {"topics": topics}})
    };
    assert_eq!(client.err(list(0)).await, "bad_request");
    assert_eq!(client.err(list(1001)).await, "too_large");
    client.ok(list(20)).await;
}

#[tokio::test]
async fn pages_of_other_origins_get_no_connection() {
    let listed = Origins::Listed(vec!["https://app.example".into()]);
    let table = [
        (Origins::SameHost, None, 101),
        (Origins::SameHost, Some("http://127.0.0.1:3000"), 101),
        (Origins::SameHost, Some("http://127.0.0.2"), 403),
        (Origins::SameHost, Some("https://app.example"), 403),
        (Origins::SameHost, Some("null"), 403),
        (listed.clone(), None, 101),
        (listed.clone(), Some("https://app.example"), 101),
        (listed.clone(), Some("http://app.example"), 403),
        (listed.clone(), Some("https://app.example.evil"), 403),
        (listed, Some("http://127.0.0.1:3000"), 403),
        (Origins::Any, Some("null"), 101),
    ];
    let world = World::new().await;
    for (origins, origin, expected) in table {
        world.hub.apply(Settings { origins: origins.clone(), ..Settings::default() });
        let mut request = format!("ws://{}/", world.address).into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let status = match connect_async(request).await {
            Ok((_, response)) => response.status().as_u16(),
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(status, expected, "{origins:?} {origin:?}");
    }
}

#[tokio::test]
async fn limits_that_are_changed_bind_open_connections() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(batch("t", 1000)).await;
    let few = Limits { batch_events: 2, ..Limits::default() };
    world.hub.apply(Settings { limits: few, ..Settings::default() });
    // A session hears of it by itself, not by being asked.
    while client.ask(batch("t", 3)).await["op"] == "OK" {}
    client.ok(batch("t", 2)).await;
    let slow = Limits { connection_rate: Some(2), ..Limits::default() };
    world.hub.apply(Settings { limits: slow, ..Settings::default() });
    refused(&mut client, &batch("t", 2)).await;
    world.hub.apply(Settings::default());
    client.ok(batch("t", 1000)).await;
    client.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
}

/// Quotas of bytes per second for every subject.
fn bytes_per_second(bytes_in: Option<u32>, bytes_out: Option<u32>) -> Limits {
    let quota = SubjectQuota { bytes_in, bytes_out, ..SubjectQuota::default() };
    Limits { subject_quotas: vec![quota], ..Limits::default() }
}

#[tokio::test]
async fn a_subject_that_has_sent_its_bytes_of_a_second_is_rate_limited() {
    let world = limited(bytes_per_second(Some(10_000), None)).await;
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    let large = json!({"op": "PUBLISH", "topic": "t", "payload": "x".repeat(100_000)});
    client.ok(large.clone()).await;
    let told = client.ask(large).await;
    assert_eq!(told["code"], "rate_limited", "{told}");
    assert!(told["msg"].as_str().unwrap().contains("10000 bytes per second"), "{told}");
    assert!(told["retry_after_ms"].as_u64().unwrap() > 1000, "{told}");
    // The next frame is read a little later, and answered.
    assert_eq!(client.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await, "rate_limited");
    let mut other = world.client_with(&signed(Some("bob"), ALL)).await;
    other.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
}

#[tokio::test]
async fn a_subject_that_was_sent_its_bytes_of_a_second_gets_the_rest_later() {
    let world = limited(bytes_per_second(None, Some(400_000))).await;
    for n in 1..=4 {
        world.bus().publish("t", json!([n, "x".repeat(200_000)])).await.unwrap();
    }
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    let opts = json!({"from": "earliest"});
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts})).await;
    for n in 1..=4 {
        let event = client.next().await;
        assert_eq!(event["event"]["seq"], n);
        // Requests are answered meanwhile.
        let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]});
        client.ok(ack).await;
    }
}

/// Bytes per second of the topics of a pattern.
fn topic_bytes_per_second(pattern: &str, bytes_in: Option<u32>, bytes_out: Option<u32>) -> Limits {
    let quota = TopicQuota { pattern: pattern.parse().unwrap(), bytes_in, bytes_out };
    Limits { topic_quotas: vec![quota], ..Limits::default() }
}

#[tokio::test]
async fn topics_that_have_taken_their_bytes_of_a_second_are_rate_limited() {
    let world = limited(topic_bytes_per_second("m.*", Some(10_000), None)).await;
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    client.ok(json!({"op": "PUBLISH", "topic": "m.a", "payload": "x".repeat(100_000)})).await;
    let mut other = world.client_with(&signed(Some("bob"), ALL)).await;
    let small = json!({"op": "PUBLISH", "topic": "m.b", "payload": 1});
    let told = other.ask(small.clone()).await;
    assert_eq!(told["code"], "rate_limited", "{told}");
    assert!(told["msg"].as_str().unwrap().contains("topics of m.*"), "{told}");
    assert!(told["retry_after_ms"].as_u64().unwrap() > 1000, "{told}");
    let events = json!([{"topic": "x", "payload": 1}, {"topic": "m.c", "payload": 1}]);
    assert_eq!(other.err(json!({"op": "PUBLISH", "events": events})).await, "rate_limited", "refused whole");
    other.ok(json!({"op": "PUBLISH", "topic": "x", "payload": 1})).await;
    assert!(!world.bus().has_topic("m.c"));
}

#[tokio::test]
async fn publishes_without_the_right_do_not_use_up_the_room_of_a_topic() {
    let mut limits = topic_bytes_per_second("m.*", Some(1_000), None);
    limits.topic_rates = vec![("m.*".parse().unwrap(), 1)];
    let world = limited(limits).await;
    let mut stranger = world.client_with(&signed(Some("eve"), &["publish:other"])).await;
    let large = json!({"topic": "m.a", "payload": "x".repeat(100_000)});
    let forged = json!({"op": "PUBLISH", "topic": "m.a", "payload": "x".repeat(100_000)});
    assert_eq!(stranger.err(forged).await, "forbidden");
    let told =
        stranger.ok(json!({"op": "PUBLISH", "events": [large, {"topic": "other", "payload": 1}]})).await;
    assert_eq!(told["results"][0]["code"], "forbidden", "{told}");
    let mut owner = world.client_with(&signed(Some("ada"), ALL)).await;
    owner.ok(json!({"op": "PUBLISH", "topic": "m.a", "payload": 1})).await;
}

#[tokio::test]
async fn topics_that_have_given_their_bytes_of_a_second_give_the_rest_later() {
    let world = limited(topic_bytes_per_second("m.*", None, Some(1_000))).await;
    for n in 1..=3 {
        world.bus().publish("m.a", json!([n, "x".repeat(100_000)])).await.unwrap();
    }
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    let opts = json!({"from": "earliest"});
    client.ok(json!({"op": "SUBSCRIBE", "topic": "m.**", "group": "g", "opts": opts})).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "x", "group": "g"})).await;
    assert_eq!(client.next().await["event"]["seq"], 1);
    // The rest of `m.a` waits a minute for its quota; a topic that the quota does not cover goes on at once.
    world.bus().publish("x", json!("now")).await.unwrap();
    assert_eq!(client.next().await["event"]["topic"], "x");
    let mut other = world.client_with(&signed(Some("bob"), ALL)).await;
    other.ok(json!({"op": "SUBSCRIBE", "topic": "m.a", "opts": opts})).await;
    // A quota that is taken away holds nothing back.
    world.hub.apply(Settings::default());
    for n in 2..=3 {
        assert_eq!(client.next().await["event"]["seq"], n);
    }
    for n in 1..=3 {
        assert_eq!(other.next().await["event"]["seq"], n);
    }
}

#[tokio::test]
async fn deliveries_that_wait_for_the_bytes_of_their_topic_come_when_it_has_some() {
    let world = limited(topic_bytes_per_second("**", None, Some(400_000))).await;
    for n in 1..=4 {
        world.bus().publish("t", json!([n, "x".repeat(200_000)])).await.unwrap();
    }
    let mut client = world.client(ALL).await;
    let opts = json!({"from": "earliest", "batch": true});
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts})).await;
    let mut seen = 0;
    while seen < 4 {
        seen += client.next().await["events"].as_array().unwrap().len();
    }
}
