//! `/connections`.

use super::sse::Reader;
use super::world::World as Http;
use crate::world::{ALL, Client, STATIC, World, signed};
use hub_core::Config;
use hub_server::Settings;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Nothing takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hub with both ports.
struct Ports {
    world: World,
    ops: SocketAddr,
}

impl Ports {
    async fn open() -> Self {
        let world = World::with(Config::default(), Settings::default()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ops = listener.local_addr().unwrap();
        tokio::spawn(hub_server::net::serve(listener, world.hub.ops(), None, world.hub.clone()));
        Self { world, ops }
    }

    async fn client(&self, subject: &str, scopes: &[&str]) -> Client {
        self.world.client_with(&signed(Some(subject), scopes)).await
    }

    async fn ask(&self, path: &str, token: &str) -> Value {
        let request = reqwest::Client::new().get(format!("http://{}{path}", self.ops)).bearer_auth(token);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    async fn list(&self, token: &str) -> Vec<Value> {
        self.ask("/connections", token).await["connections"].as_array().unwrap().clone()
    }

    /// Waits until the list of everything is as wanted.
    async fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = self.list(STATIC).await;
            if is_so(&list) {
                return list;
            }
            assert!(Instant::now() < deadline, "{what}: {list:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn subjects(list: &[Value]) -> Vec<&str> {
    list.iter().map(|one| one["subject"].as_str().unwrap_or("-")).collect()
}

#[tokio::test]
async fn a_socket_is_listed_from_its_auth_to_its_end_with_what_it_holds() {
    let hub = Ports::open().await;
    let mut client = hub.world.stranger().await;
    assert_eq!(hub.list(STATIC).await, Vec::<Value>::new(), "it has not said who it is");
    let before = hub.world.bus().now();
    client.ok(json!({"op": "AUTH", "token": signed(Some("ada"), ALL)})).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "other"})).await;
    for n in 0..3 {
        client.ok(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await;
    }
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(client.next().await["event"]["id"].take());
    }
    let list = hub.until("three are in flight", |list| list[0]["inflight"] == 3).await;
    let [one] = &list[..] else { panic!("{list:?}") };
    assert_eq!((&one["subject"], &one["kind"]), (&json!("ada"), &json!("websocket")));
    assert_eq!((&one["subscriptions"], &one["queuedBytes"]), (&json!(2), &json!(0)));
    assert!(one["address"].as_str().unwrap().parse::<SocketAddr>().unwrap().ip().is_loopback());
    let since = one["since"].as_u64().unwrap();
    assert!(since >= before && one["expires"].as_u64().unwrap() > since, "{one}");
    assert!(one["sentBytes"].as_u64().unwrap() > 100, "{one}");
    client.ok(json!({"op": "ACK", "topic": "t", "group": "g", "id": events[0]})).await;
    hub.until("two are in flight", |list| list[0]["inflight"] == 2).await;
    client.ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": events[1..]})).await;
    hub.until("none is in flight", |list| list[0]["inflight"] == 0).await;
    client.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 4})).await;
    client.next().await;
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    let is_left = |one: &Value| one["inflight"] == 0 && one["subscriptions"] == 1;
    hub.until("the subscription is gone with what it held", |list| is_left(&list[0])).await;
    drop(client);
    hub.until("the connection is gone", <[Value]>::is_empty).await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_shows_what_is_queued_for_it() {
    let hub = Ports::open().await;
    let mut slow = Client::open_narrow(hub.world.address).await;
    slow.ok(json!({"op": "AUTH", "token": signed(Some("slow"), ALL)})).await;
    slow.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"maxInFlight": 1000}})).await;
    let payload = json!("x".repeat(64 << 10));
    for _ in 0..300 {
        hub.world.bus().publish("t", payload.clone()).await.unwrap();
    }
    // All that was delivered was sent or is queued, and what is queued keeps the rest in the log.
    let number = |list: &[Value], name: &str| list[0][name].as_u64().unwrap();
    let is_stuck = |list: &[Value]| {
        let (queued, sent) = (number(list, "queuedBytes"), number(list, "sentBytes"));
        queued > 0 && queued + sent > number(list, "inflight") * (64 << 10)
    };
    let list = hub.until("events are queued for it", is_stuck).await;
    assert!((1..300).contains(&number(&list, "inflight")), "{list:?}");
    // It reads again.
    for _ in 0..300 {
        slow.next().await;
    }
    hub.until("nothing is queued any more", |list| list[0]["queuedBytes"] == 0).await;
    hub.until("all are in flight", |list| list[0]["inflight"] == 300).await;
}

#[tokio::test]
async fn a_subject_sees_its_own_connections_and_an_administrator_of_everything_all() {
    let hub = Ports::open().await;
    let _open = [
        hub.client("ada", &["subscribe:**"]).await,
        hub.client("ada", &["publish:t"]).await,
        hub.client("eve", ALL).await,
        hub.world.client(&["subscribe:**"]).await,
    ];
    assert_eq!(subjects(&hub.list(STATIC).await), ["-", "ada", "ada", "eve"]);
    let ask = async |subject: Option<&str>, scopes: &[&str]| {
        subjects(&hub.list(&signed(subject, scopes)).await).join(" ")
    };
    assert_eq!(ask(Some("root"), &["admin:**"]).await, "- ada ada eve");
    assert_eq!(ask(Some("ada"), &[]).await, "ada ada");
    assert_eq!(ask(Some("eve"), &["admin:t", "subscribe:**"]).await, "eve", "an admin right on something");
    assert_eq!(ask(Some("ad"), &[]).await, "");
    assert_eq!(ask(None, &[]).await, "-", "tokens without a subject count together");
    // No page leads to those of others.
    for path in ["/connections?limit=1&after=1.ada", "/connections?after=99.ada", "/connections?after=0.eve"]
    {
        let page = hub.ask(path, &signed(Some("ada"), &[])).await;
        let list = page["connections"].as_array().unwrap();
        assert!(
            subjects(list).iter().all(|subject| *subject == "ada") && page.get("next").is_none(),
            "{page}"
        );
    }
}

#[tokio::test]
async fn the_list_comes_in_pages_and_is_filtered_by_subject() {
    let hub = Ports::open().await;
    let mut open = Vec::new();
    for subject in ["c.c", "b", "a-b", "c.c", "a"] {
        open.push(hub.client(subject, &[]).await);
    }
    let (mut found, mut path) = (Vec::new(), "/connections?limit=2".to_owned());
    loop {
        let page = hub.ask(&path, STATIC).await;
        found.extend(page["connections"].as_array().unwrap().iter().map(|one| one["subject"].clone()));
        match page["next"].as_str() {
            Some(next) => path = format!("/connections?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(found, ["a", "a-b", "b", "c.c", "c.c"]);
    let filtered = hub.ask("/connections?q=b", STATIC).await;
    assert_eq!(subjects(filtered["connections"].as_array().unwrap()), ["a-b", "b"]);
    let refused =
        reqwest::Client::new().get(format!("http://{}/connections?after=x", hub.ops)).bearer_auth(STATIC);
    assert_eq!(refused.send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_stream_of_events_is_listed_while_it_is_open() {
    let world = Http::new().await;
    world.fill("t", 3).await;
    let list = async || world.get("/connections").await.ok()["connections"].take();
    let token = world.token_of("ada", &["subscribe:t"]);
    let mut reader = Reader::open(&world, "/events?topic=t&from=earliest", &token).await;
    reader.seqs(3).await;
    let one = list().await[0].take();
    assert_eq!(
        (&one["kind"], &one["subject"], &one["subscriptions"]),
        (&json!("events"), &json!("ada"), &json!(1))
    );
    assert!(one["expires"].is_u64(), "{one}");
    // What was read has been sent once the stream waits for more.
    let sent = async || list().await[0]["sentBytes"].as_u64().unwrap() > 100;
    tokio::time::timeout(PATIENCE, async {
        while !sent().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    drop(reader);
    // The hub learns of it when it writes.
    tokio::time::timeout(PATIENCE, async {
        while list().await != json!([]) {
            world.fill("t", 1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}
