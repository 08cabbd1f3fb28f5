//! The HTTP API against its own description, by Schemathesis: it makes up requests from `/openapi.json`, and compares every answer with
//! what the document says of it.

use crate::hub::{Hub, Place, run_with};
use crate::socket::Socket;
use hub_core::outbox::{NewRow, OutboxStore};
use hub_outbox_sql::{Options, SqliteOutbox};
use hub_proto::Payload;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Requests that are made up for each operation, beside its examples and the borders of its schemas.
const EXAMPLES: &str = "20";
const SEED: &str = "20";
/// What is checked of every answer. Not `positive_data_acceptance`: a request that fits the document is refused with 400 if it names an unknown
/// group, an unknown event, or two positions.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,\
                      ignored_auth";
/// Streams without an end: Schemathesis would wait for it. `tests/main/http/events.rs`, `live.rs` and `ws.rs` of `hub-server`, and `backup.rs`
/// beside this file, test them.
const ENDLESS: [&str; 4] = ["backup", "events", "gateway", "live"];
/// Operations that take away what others look for. They run last.
const DESTRUCTIVE: [&str; 7] = [
    "cancelJob",
    "deleteGroups",
    "deletePushSubscription",
    "deleteTopic",
    "discardDeadLetters",
    "discardDeadLettersById",
    "revoke",
];

/// Schemathesis leaves out the operation that the document comes from, unless that is named.
const DOCUMENT: &str = "openapi";

/// A hub with an outbox, quotas, events, groups, dead letters, a job and a push subscription.
struct Filled {
    place: Place,
    hub: Hub,
    /// The members of its groups.
    _members: [Socket; 2],
    /// What they run on.
    _runtime: tokio::runtime::Runtime,
}

impl Filled {
    fn new() -> Self {
        let (place, runtime) = (Place::new(), tokio::runtime::Runtime::new().unwrap());
        let outbox = format!("sqlite:{}", place.text("shop.db"));
        let made = run_with(&["outbox", "init", "--apply", "--db", &outbox], &[]);
        assert_eq!(made.code, 0, "{}", made.err);
        let rows = [NewRow::new("no topic", Payload::of(&1).unwrap())];
        runtime.block_on(async {
            let store = SqliteOutbox::open(&outbox, Options::default()).await.unwrap();
            store.add(rows.to_vec()).await.unwrap();
        });
        let config = format!(
            "[[outbox]]\nname = \"shop\"\nurl = {outbox:?}\n\
             [[quota]]\npattern = \"orders.**\"\ntopics = 100000\n"
        );
        let config = place.write("hub.toml", &config);
        let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
        let members = runtime.block_on(join(&hub));
        let filled = Self { place, hub, _members: members, _runtime: runtime };
        filled.post("groups/seek", &json!({"topic": "orders.created", "group": "billing", "to": "earliest"}));
        filled.ask(Method::PUT, "push/crm", &push());
        filled.until("outbox", |shown| shown["outboxes"][0]["parked"] == 1);
        filled
    }

    fn ask(&self, method: Method, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.hub.ask(method, path, Some(self.hub.token()), &body);
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(Method::POST, path, body)
    }

    /// Asks until the answer is as it should be.
    fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.ask(Method::GET, path, &json!(null));
            if holds(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "{path}: {shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Values of parameters that lead to something.
    fn examples(&self) -> Value {
        let letters = self.until("dlq", |shown| shown["letters"][0].is_object());
        let letter = &letters["letters"][0]["id"];
        // So slow that it runs until it is cancelled.
        let job = self.post("dlq/replay", &json!({"topic": "orders.created", "rate": 1, "round": 2}));
        json!({
            "deadLetter": {"id": letter}, "discardDeadLettersById": {"ids": letter},
            "job": {"id": job["job"]}, "cancelJob": {"id": job["job"]},
            "deleteGroups": {"topic": "orders.created"}, "event": {"seq": 1},
        })
    }
}

fn push() -> Value {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    json!({"topic": "orders.*", "url": "http://127.0.0.1:9/", "secrets": secret, "allowPrivate": true})
}

/// Publishes, has a group give up what comes, and stays a member of another one.
async fn join(hub: &Hub) -> [Socket; 2] {
    let mut member = Socket::open(hub.ws(), hub.token()).await;
    for number in 1..=3 {
        let key = format!("order-{number}");
        member
            .ok(json!({"op": "PUBLISH", "topic": "orders.created", "payload": number, "opts": {"key": key}}))
            .await;
    }
    let subscribe = |group: &str, opts: Value| json!({"op": "SUBSCRIBE", "topic": "orders.created", "group": group, "opts": opts});
    member.ok(subscribe("ledger", json!({"from": "earliest", "maxAttempts": 1}))).await;
    let mut failed = 0;
    while failed < 3 {
        let frame = member.next().await.unwrap();
        if frame["op"] == "EVENT" {
            let (id, reason) = (&frame["event"]["id"], "no such account");
            let nack = json!({"op": "NACK", "topic": "orders.created", "group": "ledger", "id": id, "reason": reason});
            member.send(&nack).await.unwrap();
            failed += 1;
        }
    }
    let mut other = Socket::open(hub.ws(), hub.token()).await;
    other.ok(subscribe("billing", json!({"from": "latest"}))).await;
    [member, other]
}

/// Runs Schemathesis; answers the operations that were answered with 200.
fn run(python: &PathBuf, filled: &Filled, examples: &str, more: &[String]) -> BTreeSet<String> {
    let (place, hub) = (&filled.place, &filled.hub);
    let statuses = place.text("statuses");
    let hooks = place.write("hub_hooks.py", include_str!("python/schemathesis_hooks.py"));
    // 431 is for a request whose head is too large, before anybody reads its parameters.
    let config = place.write(
        "schemathesis.toml",
        "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 405, 413, 429, 431]\n",
    );
    let mut command = Command::new(python);
    command.args(["-m", "schemathesis.cli", "--config-file", &config, "run"]);
    command.arg(format!("{}openapi.json", hub.http()));
    command.args(["--header", &format!("Authorization: Bearer {}", hub.token())]);
    command.args(["--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED]);
    command.args(["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--no-color"]);
    command.args(["--continue-on-failure", "--no-shrink", "--warnings", "off"]).args(more);
    command.env("SCHEMATHESIS_HOOKS", hooks).env("HUB_EXAMPLES", examples).env("HUB_STATUSES", &statuses);
    let ran = command.current_dir(place.path("")).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    // A request can be many kilobytes long.
    let short: Vec<String> = out.lines().map(|line| line.chars().take(400).collect()).collect();
    assert!(ran.status.success(), "{}\n{err}", short.join("\n"));
    let statuses = std::fs::read_to_string(statuses).unwrap();
    statuses.lines().filter_map(|line| line.strip_suffix(" 200")).map(str::to_owned).collect()
}

#[test]
fn schemathesis_finds_no_answer_that_the_document_does_not_describe() {
    let Some(python) = hub_testbed::drivers::python_schemathesis().unwrap() else { return };
    let filled = Filled::new();
    let examples = filled.place.write("examples.json", &filled.examples().to_string());
    let flags = |flag: &str, names: &[&str]| {
        let flags = names.iter().flat_map(|name| [flag.to_owned(), (*name).to_owned()]);
        flags.collect::<Vec<String>>()
    };
    let last = [&DESTRUCTIVE[..], &[DOCUMENT]].concat();
    let first = flags("--exclude-operation-id", &[&ENDLESS[..], &last].concat());
    run(&python, &filled, &examples, &first);
    let answered = run(&python, &filled, &examples, &flags("--include-operation-id", &last));
    let document: Value = filled.ask(Method::GET, "openapi.json", &json!(null));
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let names = operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned());
    let expected: BTreeSet<String> = names.filter(|name| !ENDLESS.contains(&name.as_str())).collect();
    assert_eq!(answered, expected, "operations that did what they are for");
    filled.hub.stop();
}
