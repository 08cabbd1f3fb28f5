//! A hub with something of everything, so that the lists in its answers are not empty.

use super::world::{STATIC, World};
use crate::push::endpoint::SECRET;
use hub_core::outbox::{Drainer, DrainerOptions, MemoryOutbox, NewRow, OutboxStore};
use hub_core::{
    Config, Delivery, Filter, LetterFilter, LetterRange, Ordering, Payload, Position, Quota, QuotaOf,
    Subscription,
};
use hub_server::Settings;
use hub_server::limits::{Limits, SubjectQuota, TopicQuota};
use reqwest::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Nothing takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// An event of `orders.created`, and a row of the outbox that was not published yet.
const EVENT: &str = "018bcfe5-6800-7000-8000-000000000001";
const ROW: &str = "018bcfe5-6800-7000-8000-000000000003";

/// The hub, and what its members hold.
pub struct FilledWorld {
    pub world: World,
    held: Vec<(Subscription, Vec<Delivery>)>,
    /// Streams that are open.
    streams: Vec<Response>,
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let look = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{what}"));
}

impl FilledWorld {
    pub async fn new() -> Self {
        let quota =
            |of| Quota { of, topics: Some(10_000), groups: Some(10_000), stored_bytes: Some(1 << 30) };
        let quotas = vec![quota(QuotaOf::EverySubject), quota(QuotaOf::Topics("orders.**".parse().unwrap()))];
        let bytes = Some(1 << 30);
        let of_subject = SubjectQuota {
            subject: None,
            connections: Some(1000),
            subscriptions: Some(1000),
            bytes_in: bytes,
            bytes_out: bytes,
        };
        let of_pattern =
            TopicQuota { pattern: "orders.**".parse().unwrap(), bytes_in: bytes, bytes_out: bytes };
        let limits =
            Limits { subject_quotas: vec![of_subject], topic_quotas: vec![of_pattern], ..Limits::default() };
        let settings = Settings { limits, open_metrics: true, ..Settings::default() };
        let world = World::configured(settings, Config { quotas, ..Config::default() }).await;
        world.bus().sample_rates();
        let mut filled = Self { world, held: Vec::new(), streams: Vec::new() };
        filled.drain_outbox().await;
        filled.fill().await;
        for subject in ["ada", "eve"] {
            let token = filled.world.token_of(subject, &["subscribe:t"]);
            filled.streams.push(filled.world.request("GET", "/events?topic=t", &token).send().await.unwrap());
        }
        filled
    }

    /// An outbox with a row that can never be published, and one behind it. It was drained, and is not any more.
    async fn drain_outbox(&self) {
        let (world, outbox) = (&self.world, MemoryOutbox::default());
        let row = |n: u64, topic: &str, id: &str| {
            let row = NewRow::new(topic, Payload::of(&n).unwrap()).key("order-18");
            NewRow { id: id.parse().unwrap(), at: n, ..row }
        };
        let rows =
            vec![row(2, "no topic", "018bcfe5-6800-7000-8000-000000000002"), row(3, "orders.created", ROW)];
        outbox.add(rows).await.unwrap();
        let stop = CancellationToken::new();
        let (store, bus): (Arc<dyn OutboxStore>, _) =
            (Arc::new(outbox.clone()), Arc::new(world.bus().clone()));
        let drainer = Drainer::new(store.clone(), bus, DrainerOptions::default());
        let progress = drainer.progress();
        world.hub.outboxes().set("shop", |shop| (shop.store, shop.progress) = (Some(store), progress));
        world.hub.outboxes().set("crm", |crm| crm.trouble = Some("connection refused".into()));
        let running = tokio::spawn(drainer.run(stop.clone()));
        until("the row is parked", async || outbox.counts().await.unwrap().errors == 1).await;
        stop.cancel();
        running.await.unwrap();
    }

    /// Adds what is missing: requests delete topics, groups, letters and push subscriptions.
    pub async fn fill(&mut self) {
        self.held.clear();
        self.delete_schemas().await;
        let bus = self.world.bus().clone();
        for topic in ["t", "orders.created"] {
            for n in 0..4 {
                let event = bus.publish(topic, json!({ "order": n })).key("order-18").tag("vip").sid("s-1");
                let event = event.header("x-correlation-id", "basket-7");
                event.header("x-tenant", "blue").caused_by(EVENT.parse().unwrap()).await.unwrap();
            }
        }
        bus.publish("orders.created", json!(17)).id(EVENT.parse().unwrap()).await.unwrap();
        self.world.post("/publish/orders.created?key=order-19", "1").await.ok();
        for (topic, group) in [("t", "g"), ("orders.created", "billing")] {
            self.hold(topic, group).await;
        }
        self.bury("t", "dead").await;
        self.bury("orders.created", "ledger").await;
        self.push().await;
        self.schemas().await;
        bus.sample_rates();
    }

    /// Has a member of a group hold an event that others of its key wait for. An event has failed before.
    async fn hold(&mut self, topic: &str, group: &str) {
        let join = self.world.bus().subscribe(topic).on_behalf_of("ada").group(group);
        let filter = Filter {
            tags: vec!["vip".into()],
            key: Some("order-18".into()),
            headers: vec![("x-tenant".into(), "blue".into())],
        };
        let join = join.from(Position::Earliest).filter(filter).ordering(Ordering::Key).max_in_flight(1);
        let mut member = join.open().await.unwrap();
        let first = tokio::time::timeout(PATIENCE, member.recv()).await.unwrap().unwrap();
        first.nack("no route").unwrap();
        let second = tokio::time::timeout(PATIENCE, member.recv()).await.unwrap().unwrap();
        self.held.push((member, vec![second]));
    }

    /// Has a group give up an event.
    async fn bury(&self, topic: &str, group: &str) {
        let bus = self.world.bus();
        let letters = async || {
            let page = bus.dead_letters(topic, &LetterFilter::default(), LetterRange::default(), 1000).await;
            page.unwrap().letters.len()
        };
        let before = letters().await;
        let join = bus.subscribe(topic).group(group).from(Position::Earliest).max_attempts(1);
        let mut member = join.open().await.unwrap();
        bus.publish(topic, json!({"amount": 17})).key("order-18").await.unwrap();
        let event = tokio::time::timeout(PATIENCE, member.recv()).await.unwrap().unwrap();
        event.nack("no such account").unwrap();
        until("the letter is written", async || letters().await > before).await;
        member.close();
    }

    /// Requests store schemas that nothing matches.
    async fn delete_schemas(&self) {
        let listed = self.world.get("/schemas?limit=1000").await.ok();
        for schema in listed["schemas"].as_array().unwrap() {
            let path = format!("/schemas/{}", schema["topic"].as_str().unwrap());
            self.world.ask("DELETE", &path, STATIC, "").await.ok();
        }
    }

    /// Schemas that everything matches, one of them of two versions.
    async fn schemas(&self) {
        let token = self.world.token_of("ada", &["admin:**"]);
        for (path, schema) in
            [("t", r#"{"maxProperties":1000}"#), ("t", r#"{"maxProperties":1001}"#), ("orders.*", "true")]
        {
            let path = format!("/schemas/{path}?force=true");
            self.world.ask("PUT", &path, &token, schema).await.ok();
        }
    }

    async fn push(&self) {
        for (name, topic) in [("crm", "orders.*"), ("mail", "t")] {
            let more = json!({
                "topic": topic, "url": "https://crm.example.com/hooks", "secrets": [SECRET], "rate": 10,
                "filter": {"tags": ["vip"], "key": "order-18", "headers": {"x-tenant": "blue"}},
            });
            self.world.ask("PUT", &format!("/push/{name}"), STATIC, &more.to_string()).await.ok();
        }
    }

    /// Requests whose answers have what requests that are made up seldom meet, in their order: method, path, content type, body.
    pub async fn pointed_requests(&self) -> Vec<(&'static str, String, &'static str, String)> {
        let (bus, json) = (self.world.bus(), "application/json");
        let letters = self.world.get("/dlq?topic=t").await.ok()["letters"].take();
        let letter = letters[0]["id"].as_str().unwrap();
        // The replay fails, too: a letter of a replay.
        self.world.post("/dlq/replay", &json!({"topic": "t", "ids": [letter]}).to_string()).await.ok();
        let mut member = bus.subscribe("t").group("dead").max_attempts(1).open().await.unwrap();
        let failed = letters[0]["originalSeq"].as_u64().unwrap();
        loop {
            let event = tokio::time::timeout(PATIENCE, member.recv()).await.unwrap().unwrap();
            match event.event().header("x-hub-replay-of") {
                Some(_) => break event.nack("still no such account").unwrap(),
                None => event.ack().unwrap(),
            }
        }
        let again = async || self.world.get("/dlq?topic=t").await.ok()["letters"][1]["id"].take();
        until("the letter of the replay is written", async || again().await.is_string()).await;
        let again = again().await;
        member.close();
        bus.sample_rates();
        let list = bus.subscribe_all("shop", ["t", "orders.created"]).group("listed");
        list.open().await.unwrap().close();
        let last = bus.bounds("t").await.unwrap().last;
        let get = |path: &str| ("GET", path.to_owned(), "", String::new());
        let post =
            |path: &str, kind: &'static str, body: Value| ("POST", path.to_owned(), kind, body.to_string());
        let mut requests: Vec<_> = (1..=last).map(|seq| get(&format!("/event?topic=t&seq={seq}"))).collect();
        requests.extend([
            get(&format!("/dlq/show?topic=t&id={letter}")),
            get(&format!("/dlq/show?topic=t&id={}", again.as_str().unwrap())),
            get("/dlq?topic=t"),
            get("/dlq?topic=t&limit=1&payload=1"),
            get("/dlq?topic=t&summary=1"),
            get("/dlq/summary"),
            get("/outbox"),
            get("/connections"),
            get("/connections?limit=1"),
            get("/whoami"),
            get("/audit"),
            get("/latest-by-key?topic=orders.created&limit=1"),
            get("/history?topic=t&key=order-18&limit=1"),
            get("/history?topic=orders.created"),
            get("/groups/detail?topic=t&group=g"),
            get("/groups/detail?topic=t&group=dead"),
            get("/stats?range=1m"),
            get("/stats?range=1m&topic=t"),
            get("/stats?range=1m&topic=t&group=dead"),
            get(&format!("/event?topic=orders.created&id={ROW}")),
            get("/event?topic=t&seq=1&limit=1"),
            get("/event/search?correlationId=basket-7"),
            get("/cursors?topic=t&limit=1"),
            get("/groups?limit=1"),
            get("/topics?limit=1"),
            get("/push?limit=1"),
            get("/schemas?limit=1"),
            get("/schemas/t"),
            get("/quotas?all=1&limit=1"),
            get("/replay?topic=t&limit=1"),
            post(
                "/publish/orders.created",
                "application/cloudevents-batch+json",
                json!([
                    {"specversion": "1.0", "type": "paid", "source": "/shop", "id": "B-1", "data_base64": "AAEC"},
                    {"specversion": "1.0", "type": "paid", "source": "/shop", "id": "B-2", "datacontenttype": "text/plain", "data": "x"},
                    {"specversion": "0.3", "type": "paid", "source": "/shop", "id": "B-3"},
                ]),
            ),
            post("/publish/orders.created?id=018bcfe5-6800-7000-8000-000000000009", json, json!(1)),
            post("/publish/orders.created?id=018bcfe5-6800-7000-8000-000000000009", json, json!(1)),
            get("/export?topic=orders.created"),
            get("/replay?topic=orders.created"),
            post("/dlq/delete", json, json!({"topic": "t", "ids": [letter]})),
            get(&format!("/event?topic=t&seq={failed}")),
            ("DELETE", "/groups?label=shop&group=listed".to_owned(), "", String::new()),
            ("DELETE", "/groups?topic=orders.created&group=ledger".to_owned(), "", String::new()),
            post("/dlq/replay", json, json!({"topic": "orders.created"})),
            post("/dlq/replay", json, json!({"topic": "orders.created", "rate": 1})),
        ]);
        requests
    }

    /// Values of a parameter that lead to something in this world.
    pub async fn values(&self, parameter: &str) -> Vec<String> {
        let ids = |list: Value, name: &str| {
            let ids = list.as_array().into_iter().flatten().filter_map(|entry| entry[name].as_str());
            ids.map(str::to_owned).collect::<Vec<_>>()
        };
        let of = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        match parameter {
            "topic" => of(&["t", "orders.created", "orders.created"]),
            "group" => of(&["g", "billing", "dead", "ledger"]),
            "name" => of(&["crm", "mail"]),
            "key" => of(&["order-18", "order-19"]),
            "outbox" => of(&["shop", "crm"]),
            "err" => of(&["no such account"]),
            "correlationId" => of(&["basket-7"]),
            "q" => of(&["a", "t"]),
            "seq" | "afterSeq" => of(&["0", "1", "2"]),
            "id" | "ids" | "afterId" => {
                let jobs = ids(self.world.get("/jobs").await.ok()["jobs"].take(), "job");
                let letters = ids(self.world.get("/dlq").await.ok()["letters"].take(), "id");
                [of(&[EVENT, ROW]), jobs, letters].concat()
            }
            _ => Vec::new(),
        }
    }
}
