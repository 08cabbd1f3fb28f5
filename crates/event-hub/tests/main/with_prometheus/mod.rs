//! Metrics as Prometheus sees them: the formats, every panel of the Grafana dashboard, the alert rules.

use crate::hub::{Hub, Place, run_with};
use crate::socket::{Socket, clients};
use hub_testbed::prometheus::{Prometheus, promtool};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const DASHBOARD: &str = include_str!("../../../../../docs/operations/grafana/event-hub.json");
const RULES: &str = include_str!("../../../../../docs/operations/prometheus/alerts.yml");

/// Metrics of the contract whose names have milliseconds in them, which promtool advises against.
const CONTRACT_UNITS: [&str; 5] = [
    "subscribe_poll_duration_ms",
    "delivery_handler_duration_ms",
    "delivery_latency_ms",
    "store_commit_duration_ms",
    "outbox_oldest_age_ms",
];

fn operations(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations").join(name)
}

/// A hub with an outbox and a quota, so that every family of metrics has series.
fn start(place: &Place) -> Hub {
    let outbox = format!("sqlite:{}", place.text("shop.db"));
    let made = run_with(&["outbox", "init", "--apply", "--db", &outbox], &[]);
    assert_eq!(made.code, 0, "{}", made.err);
    let config = format!(
        "[[outbox]]\nname = \"shop\"\nurl = {outbox:?}\n[[quota]]\npattern = \"orders.**\"\ntopics = 100\n"
    );
    let config = place.write("hub.toml", &config);
    Hub::start(&place.path("data"), &["--config", &config], &[])
}

/// A consumer that settles events in every way that there is.
struct Consumer(Socket);

impl Consumer {
    async fn open(hub: &Hub) -> Self {
        let mut client = Socket::open(hub.ws(), hub.token()).await;
        for group in ["mail", "idle"] {
            let opts = json!({"from": "earliest", "maxAttempts": 2});
            client
                .ok(json!({"op": "SUBSCRIBE", "topic": "orders.created", "group": group, "opts": opts}))
                .await;
        }
        client.ok(json!({"op": "UNSUBSCRIBE", "topic": "orders.created", "group": "idle"})).await;
        Self(client)
    }

    /// Publishes an event and settles what comes: an odd number is acked, an even one fails until it is given up.
    async fn turn(&mut self, number: u64) {
        let publish = json!({"op": "PUBLISH", "topic": "orders.created", "payload": number, "corr": "p"});
        self.0.send(&publish).await.unwrap();
        let deliveries = if number.is_multiple_of(2) { 2 } else { 1 };
        let (mut settled, mut published) = (0, false);
        while settled < deliveries || !published {
            let frame = self.0.next().await.unwrap();
            published |= frame["corr"] == "p";
            if frame["op"] != "EVENT" {
                continue;
            }
            let is_even = frame["event"]["payload"].as_u64().unwrap().is_multiple_of(2);
            let op = if is_even { "NACK" } else { "ACK" };
            let settle =
                json!({"op": op, "topic": "orders.created", "group": "mail", "id": frame["event"]["id"]});
            self.0.send(&settle).await.unwrap();
            settled += 1;
        }
    }
}

async fn scrape(hub: &Hub, accept: Option<&str>) -> (String, String) {
    let mut request = reqwest::Client::new().get(format!("{}metrics", hub.http()));
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    let answer = request.send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (kind, answer.text().await.unwrap())
}

#[test]
fn promtool_finds_nothing_but_the_units_of_the_contract() {
    let place = Place::new();
    let hub = start(&place);
    let text = clients(async {
        let mut consumer = Consumer::open(&hub).await;
        for number in 1..=2 {
            consumer.turn(number).await;
        }
        let (kind, text) = scrape(&hub, None).await;
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        let (kind, open) = scrape(&hub, Some("application/openmetrics-text")).await;
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(open.ends_with("# EOF\n"), "{open}");
        text
    });
    let (_, printed) = promtool(&["check", "metrics"], &text).unwrap();
    let is_contract = |line: &&str| {
        CONTRACT_UNITS
            .iter()
            .any(|name| *line == format!("{name} metric names should not contain abbreviated units"))
    };
    let other: Vec<&str> = printed.lines().filter(|line| !is_contract(line)).collect();
    assert!(other.is_empty(), "{other:#?}\n{text}");
    assert!(printed.contains("delivery_latency_ms"), "promtool has read the metrics: {printed}");
    hub.stop();
}

/// The queries of all panels, with the variables of Grafana filled in.
fn panel_queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array();
        assert!(targets.is_some() || panel["type"] == "row", "{title} asks for nothing");
        for target in targets.into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "30s").replace("$instance", ".*");
            assert!(!query.contains('$'), "{title}: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    assert!(queries.len() > 20);
    queries
}

#[test]
fn every_panel_of_the_dashboard_has_data_on_a_real_prometheus() {
    let place = Place::new();
    let hub = start(&place);
    clients(async {
        let mut consumer = Consumer::open(&hub).await;
        let target = hub.http().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let prometheus = Prometheus::start(target, Some(&operations("prometheus/alerts.yml"))).await.unwrap();
        let url = format!("http://{}/api/v1/query", prometheus.address());
        let (http, deadline) = (reqwest::Client::new(), Instant::now() + PATIENCE);
        let mut left = panel_queries();
        let mut number = 0;
        while !left.is_empty() {
            assert!(Instant::now() < deadline, "no data for {left:#?}");
            number += 1;
            consumer.turn(number).await;
            let mut empty = Vec::new();
            for (title, query) in left {
                let asked = reqwest::Url::parse_with_params(&url, [("query", &query)]).unwrap();
                let answer = http.get(asked).send().await.unwrap();
                let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                assert_eq!(answer["status"], "success", "{title}: {query}: {answer}");
                let series = answer["data"]["result"].as_array().unwrap();
                let is_number = |series: &Value| series["value"][1] != "NaN";
                if !series.iter().any(is_number) {
                    empty.push((title, query));
                }
            }
            left = empty;
            // Prometheus scrapes once a second.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let rules = format!("http://{}/api/v1/rules", prometheus.address());
        let rules = http.get(rules).send().await.unwrap().text().await.unwrap();
        let rules: Value = serde_json::from_str(&rules).unwrap();
        let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
        assert!(rules.len() > 10, "{rules:?}");
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:#?}");
    });
    hub.stop();
}

#[test]
fn the_alert_rules_pass_their_tests() {
    let rules = operations("prometheus/alerts.yml");
    let (good, printed) = promtool(&["check", "rules", rules.to_str().unwrap()], "").unwrap();
    assert!(good, "{printed}");
    let tests = operations("prometheus/alerts_test.yml");
    let (good, printed) = promtool(&["test", "rules", tests.to_str().unwrap()], "").unwrap();
    assert!(good, "{printed}");
}

#[test]
fn alert_rules_ask_for_metrics_that_a_hub_has() {
    let place = Place::new();
    let hub = start(&place);
    let (_, text) = clients(async {
        let mut consumer = Consumer::open(&hub).await;
        for number in 1..=2 {
            consumer.turn(number).await;
        }
        scrape(&hub, None).await
    });
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut known: BTreeSet<&str> = described.filter_map(|line| line.split(' ').next()).collect();
    // Made by Prometheus itself; and counted only once there is something to count.
    known.extend(["up", "task_panics_total"]);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for rule in RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: ")) {
        let words = rule.split(|letter| !is_name(letter)).filter(|word| word.contains('_') || *word == "up");
        let words = words.map(|word| word.trim_end_matches("_bucket"));
        let metrics: Vec<&str> =
            words.filter(|word| !["histogram_quantile", "no_members"].contains(word)).collect();
        assert!(!metrics.is_empty(), "{rule}");
        for metric in metrics {
            assert!(known.contains(metric), "{metric} of {rule} is not among {known:#?}");
        }
    }
    hub.stop();
}
