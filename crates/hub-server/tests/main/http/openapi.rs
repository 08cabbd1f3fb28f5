//! `/openapi.json`: every request that it describes is answered as it says, and whatever else is sent never ends in a 500.

use super::openapi_world::FilledWorld;
use super::schema::{Places, Schemas};
use super::sse::Reader;
use super::world::{STATIC, World};
use crate::cluster::nodes::{self, Cluster, subscribe};
use crate::push::endpoint::{Endpoint, definition, in_state, pushing_world, put};
use hub_core::{Health, Position};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Requests that are made up.
const REQUESTS: usize = 10_000;

async fn document(world: &World) -> Value {
    let answer = world.request("GET", "/openapi.json", "").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// One method of one path.
struct Operation<'a> {
    method: String,
    path: &'a str,
    about: &'a Value,
}

impl<'a> Operation<'a> {
    fn name(&self) -> &'a str {
        self.about["operationId"].as_str().unwrap()
    }

    fn parameters(&self, place: &str) -> impl Iterator<Item = &'a Value> {
        let all = self.about["parameters"].as_array().into_iter().flatten();
        all.filter(move |parameter| parameter["in"] == place)
    }

    /// Whether a request is one for this operation.
    fn is_asked_by(&self, method: &str, url: &str) -> bool {
        let path = url.split('?').next().unwrap_or_default();
        let alike = |(ours, theirs): (&str, &str)| ours.starts_with('{') || ours == theirs;
        self.method == method
            && self.path.split('/').count() == path.split('/').count()
            && self.path.split('/').zip(path.split('/')).all(alike)
    }

    /// What it answers, by status.
    fn responses(&self, document: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let all = self.about["responses"].as_object().unwrap().iter();
        all.map(|(status, response)| (status.as_str(), Schemas(document).resolve(response).1))
    }
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, about)| Operation { method: method.to_uppercase(), path, about })
    });
    methods.collect()
}

#[tokio::test]
async fn the_document_is_whole_and_names_each_operation_once() {
    let world = World::new().await;
    let document = document(&world).await;
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    assert!(operations.len() >= 39, "{}", operations.len());
    let names: BTreeSet<&str> = operations.iter().map(Operation::name).collect();
    assert_eq!(names.len(), operations.len());
    for operation in &operations {
        let in_path = operation.path.matches('{').count();
        assert_eq!(operation.parameters("path").count(), in_path, "{}", operation.path);
        for (status, response) in operation.responses(&document) {
            assert!(response["description"].is_string(), "{} {status}", operation.name());
        }
    }
}

/// What has a schema: a parameter, a header, or a body in one content type.
struct Described<'a> {
    place: String,
    about: &'a Value,
}

/// Everything in the document that has a schema, but for its components.
fn described(document: &Value) -> Vec<Described<'_>> {
    let mut found = Vec::new();
    for operation in operations(document) {
        let name = operation.name();
        for about in operation.about["parameters"].as_array().into_iter().flatten() {
            let place = format!("{name} parameter {}", about["name"].as_str().unwrap());
            found.push(Described { place, about });
        }
        for (kind, about) in operation.about["requestBody"]["content"].as_object().into_iter().flatten() {
            found.push(Described { place: format!("{name} request {kind}"), about });
        }
        for (status, response) in operation.responses(document) {
            for part in ["content", "headers"] {
                for (kind, about) in response[part].as_object().into_iter().flatten() {
                    found.push(Described { place: format!("{name} {status} {kind}"), about });
                }
            }
        }
    }
    found
}

/// The JSON values in a text of a content type with several of them.
fn items(kind: &str, text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| match kind.ends_with("text/event-stream") {
        true => line.strip_prefix("data: "),
        false => Some(line),
    });
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_example_fits_its_schema_and_every_body_has_one() {
    let world = World::new().await;
    let document = document(&world).await;
    let schemas = Schemas(&document);
    let check = |schema, value: &Value, place: &str| {
        let found = schemas.check(schema, value, place);
        assert!(found.is_ok(), "the example of {place}: {}", found.unwrap_err());
    };
    let mut count = 0;
    for Described { place, about } in described(&document) {
        let examples = about["examples"].as_object().into_iter().flatten();
        let examples: Vec<&Value> =
            examples.map(|(_, example)| &example["value"]).chain(about.get("example")).collect();
        let is_body = !place.contains(" parameter ") && about.get("required").is_none();
        assert!(!is_body || !examples.is_empty(), "{place} has no example");
        for example in examples {
            check(&about["schema"], example, &place);
            if let Some(schema) = about.get("x-itemSchema") {
                let items = items(&place, example.as_str().unwrap());
                assert!(!items.is_empty(), "{place}");
                items.iter().for_each(|item| check(schema, item, &place));
            }
            count += 1;
        }
    }
    assert!(count > 300, "{count}");
}

/// Where any JSON value is allowed: what a publisher sends, and the parts of an OpenAPI document, which OpenAPI describes.
const ANY_JSON: &[&str] = &[
    "Payload",
    "openapi 200 application/json.components.responses{}",
    "openapi 200 application/json.components.schemas{}",
    "openapi 200 application/json.components.securitySchemes{}",
    "openapi 200 application/json.paths{}{}",
];
/// Where the payload of an event is.
const PAYLOADS: &[&str] = &[
    "CloudEvent.data",
    "DeadLetter.payload",
    "Event.payload",
    "NewCloudEvent.data",
    "publish request application/json",
    "replayDeadLetters request application/json.payload",
];

#[tokio::test]
async fn schemas_are_closed_and_only_payloads_are_anything() {
    let world = World::new().await;
    let document = document(&world).await;
    let schemas = Schemas(&document);
    let (mut open, mut payloads, mut named) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut visit = |place: &str, schema: &Value| {
        if let (Some(name), _) = schemas.resolve(schema) {
            named.insert(name.to_owned());
            if name == "Payload" {
                payloads.insert(place.to_owned());
            }
            return;
        }
        let has = |word: &str| schema.get(word).is_some();
        let is_open = match schema["type"].as_str() {
            Some("object") => !has("additionalProperties"),
            Some("array") => !has("items"),
            Some(_) => false,
            None => !["anyOf", "allOf", "type", "enum", "const", "properties"].into_iter().any(has),
        };
        if is_open {
            open.insert(place.to_owned());
        }
    };
    let components = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in components {
        schemas.within(schema, name, &mut visit);
    }
    for Described { place, about } in described(&document) {
        schemas.within(&about["schema"], &place, &mut visit);
        if let Some(schema) = about.get("x-itemSchema") {
            schemas.within(schema, &place, &mut visit);
        }
    }
    assert_eq!(open.iter().collect::<Vec<_>>(), ANY_JSON);
    assert_eq!(payloads.iter().collect::<Vec<_>>(), PAYLOADS);
    let components: BTreeSet<String> = components.keys().cloned().collect();
    assert_eq!(named, components, "every component is used");
}

#[test]
fn the_checker_finds_what_does_not_fit() {
    let document = json!({"components": {"schemas": {
        "Point": {
            "type": "object", "required": ["x"], "additionalProperties": false,
            "properties": {"x": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"type": "string"}}},
        },
        "Names": {"type": "object", "additionalProperties": {"type": "string"}},
    }}});
    let check = |schema: Value, value: Value| Schemas(&document).check(&schema, &value, "here");
    let point = || json!({"$ref": "#/components/schemas/Point"});
    let found = check(point(), json!({"x": 1, "tags": ["a"]})).unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["Point.tags", "Point.tags[]", "Point.x"]);
    for bad in
        [json!({}), json!({"x": -1}), json!({"x": 1, "y": 1}), json!({"x": 1, "tags": [1]}), json!([1])]
    {
        assert!(check(point(), bad.clone()).is_err(), "{bad}");
        assert!(check(json!({"anyOf": [point(), {"type": "null"}]}), bad.clone()).is_err(), "{bad}");
        assert!(check(json!({"allOf": [point(), {}]}), bad.clone()).is_err(), "{bad}");
    }
    assert!(check(json!({"$ref": "#/components/schemas/Names"}), json!({"a": 1})).is_err());
    assert!(check(json!({"type": "string", "format": "uuid"}), json!("018bcfe5")).is_err());
    assert!(check(json!({"type": "string", "maxLength": 2}), json!("abc")).is_err());
    assert!(check(json!({"type": "array", "items": {"type": "null"}, "minItems": 1}), json!([])).is_err());
    assert!(check(json!({"type": ["string", "null"], "enum": ["a"]}), json!("b")).is_err());
}

#[tokio::test]
async fn the_document_is_open_where_metrics_are() {
    let world = World::with(hub_server::Settings::default()).await;
    assert_eq!(world.ask("GET", "/openapi.json", "", "").await.refusal(), (401, "no_token"));
    assert_eq!(world.get("/openapi.json").await.status, 200);
}

#[tokio::test]
async fn handlers_take_the_parameters_that_the_document_names_and_no_others() {
    let world = World::new().await;
    let document = document(&world).await;
    for operation in operations(&document).iter().filter(|operation| operation.path != "/ws") {
        let path = operation.path.replace("{topic}", "t").replace("{name}", "n").replace("{id}", "i");
        let named: BTreeSet<&str> =
            operation.parameters("query").map(|parameter| parameter["name"].as_str().unwrap()).collect();
        let got = world.ask(&operation.method, &format!("{path}?no-such=1"), STATIC, "").await;
        let name = format!("{} {}", operation.method, operation.path);
        assert_eq!(got.refusal(), (400, "bad_request"), "{name}: {}", got.json);
        let error = got.json["error"].as_str().unwrap();
        let allowed = error.split_once("allowed: ").map_or("", |(_, names)| names);
        let allowed: BTreeSet<&str> = allowed.split(", ").filter(|name| !name.is_empty()).collect();
        assert_eq!(allowed, named, "{name}: {error}");
    }
}

/// Numbers that look random, from a seed.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 27)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.next()).unwrap_or_default() % from.len()]
    }
}

/// What a stranger may write anywhere.
const HOSTILE: &[&str] = &[
    "",
    "%",
    "%00",
    "%ff",
    "%E2%80%AE",
    "..",
    "a/b",
    "*",
    "**",
    "a.**.b",
    "-1",
    "0",
    "1",
    "18446744073709551615",
    "18446744073709551616",
    "1e3",
    "null",
    "NaN",
    "true",
    "%7B%22a%22%3A1%7D",
    "dlq.t",
    "t.snapshot",
    "_hub.revoked",
    "%27%20OR%201%3D1",
    "018bcfe5-6800-7000-8000-000000000001",
    "018bcfe5",
];
const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "1",
    "\"",
    "{",
    "{\"topic\":1}",
    "{\"topic\":\"t\"}",
    "{\"topic\":\"t\",\"group\":\"g\",\"to\":{}}",
    "{\"outbox\":[]}",
    "{\"sub\":\"\"}",
    "{\"topic\":\"t\",\"ids\":[\"x\"]}",
    "{\"topic\":\"t\",\"rate\":-1}",
    "{\"topic\":\"t\",\"payload\":{}}",
    "{\"topic\":\"t\",\"url\":\"file:///etc/passwd\"}",
    "{\"topic\":\"t\",\"url\":\"http://127.0.0.1:9/\"}",
];

/// A value for a parameter: one of the world, one that its schema allows, or something else.
fn value(rng: &mut Rng, schema: &Value, known: Option<&Vec<String>>) -> String {
    if let Some(known) = known.filter(|known| !known.is_empty() && rng.chance(70)) {
        return rng.pick(known).clone();
    }
    if rng.chance(30) {
        let long = "x".repeat(600);
        return if rng.chance(5) { long } else { (*rng.pick(HOSTILE)).to_owned() };
    }
    if let Some(words) = schema["enum"].as_array() {
        return rng.pick(words).as_str().unwrap().to_owned();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => {
            let (least, most) = (schema["minimum"].as_u64().unwrap(), schema["maximum"].as_u64().unwrap());
            rng.pick(&[least, least.saturating_add(1).min(most), 3.clamp(least, most), most]).to_string()
        }
        (_, Some("uuid")) => "018bcfe5-6800-7000-8000-000000000001".into(),
        _ => (*rng.pick(&["t", "g", "orders.created", "k"])).to_owned(),
    }
}

/// Values of parameters that lead to something, by name.
type Known = BTreeMap<String, Vec<String>>;

fn url(rng: &mut Rng, operation: &Operation<'_>, known: &Known) -> String {
    let mut url = operation.path.to_owned();
    for parameter in operation.parameters("path") {
        let name = parameter["name"].as_str().unwrap();
        // An empty segment is another path.
        let value = Some(value(rng, &parameter["schema"], known.get(name)))
            .filter(|value| !value.is_empty() && !value.contains(".."));
        url = url.replace(&format!("{{{name}}}"), &value.unwrap_or_else(|| "t".into()).replace('/', "%2F"));
    }
    let mut separator = '?';
    for parameter in operation.parameters("query") {
        let is_required = parameter["required"] == true;
        if rng.chance(if is_required { 95 } else { 25 }) {
            let name = parameter["name"].as_str().unwrap();
            url += &format!("{separator}{name}={}", value(rng, &parameter["schema"], known.get(name)));
            separator = '&';
        }
    }
    url
}

/// A body and its content type: an example of the document, or something else.
fn body(rng: &mut Rng, operation: &Operation<'_>) -> (String, String) {
    let kinds: Vec<_> = operation.about["requestBody"]["content"].as_object().into_iter().flatten().collect();
    if kinds.is_empty() || rng.chance(50) {
        return ("application/json".into(), (*rng.pick(BODIES)).to_owned());
    }
    let (kind, content) = rng.pick(&kinds);
    let examples: Vec<_> = content["examples"].as_object().unwrap().values().collect();
    ((*kind).clone(), rng.pick(&examples)["value"].to_string())
}

/// What a client may say that it reads.
const ACCEPTED: &[&str] = &[
    "*/*",
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/openmetrics-text",
];

/// Met by another test of this file.
const OTHER_WORLDS: &str = "answers_of_other_worlds_are_as_the_document_says";

/// The hub of the test is on the memory store.
const NO_FILES: &str = "a memory store has no files: backup.rs of event-hub";

/// The hub of the test does not know where requests come from.
const NO_ADDRESSES: &str = "a hub that knows addresses: connections.rs, audit.rs";

/// Places in answers that nothing in the test's world has, each with where it is met instead, or why it is not.
const NOT_MET: &[(&str, &str)] = &[
    ("AuditEntry.jti", "tokens with an id: audit.rs"),
    ("AuditEntry.peer", NO_ADDRESSES),
    ("Connection.address", NO_ADDRESSES),
    ("EventInGroup.saved", OTHER_WORLDS),
    ("Group.owner", OTHER_WORLDS),
    ("GroupDetail.owner", OTHER_WORLDS),
    ("Hub.address", OTHER_WORLDS),
    ("Hub.id", OTHER_WORLDS),
    ("Hub.started", OTHER_WORLDS),
    ("Hub.this", OTHER_WORLDS),
    ("Hub.version", OTHER_WORLDS),
    ("Job.reason", "a job that ends early: dlq.rs"),
    ("LastFailure.at", OTHER_WORLDS),
    ("LastFailure.error", OTHER_WORLDS),
    ("LastFailure.status", OTHER_WORLDS),
    (
        "OutboxRow.behind",
        "rows of databases that number and claim them; parked rows are neither claimed nor behind others",
    ),
    (
        "OutboxRow.claimedBy",
        "rows of databases that number and claim them; parked rows are neither claimed nor behind others",
    ),
    (
        "OutboxRow.ord",
        "rows of databases that number and claim them; parked rows are neither claimed nor behind others",
    ),
    ("Problem.failing", OTHER_WORLDS),
    ("Problem.name", OTHER_WORLDS),
    ("Problem.state", OTHER_WORLDS),
    ("Problem.warning", OTHER_WORLDS),
    ("PushSubscription.lastFailure", OTHER_WORLDS),
    ("PushSubscription.owner", "several hubs that push: push/hubs.rs"),
    ("PushSubscription.pausedAt", OTHER_WORLDS),
    ("PushSubscription.reason", OTHER_WORLDS),
    ("Readiness.store.reason", OTHER_WORLDS),
    ("Readiness.store.warnings[]", OTHER_WORLDS),
    ("RowOfEvent.error", "a parked row of an event: event.rs"),
    ("backup.bytes", NO_FILES),
    ("backup.commit", NO_FILES),
    ("backup.directory", NO_FILES),
    ("backup.manifest", NO_FILES),
    ("backup.nonce", NO_FILES),
    ("backup.segment", NO_FILES),
    ("deadLetterSummary.next", "needs more than 20,000 letters"),
    ("discardDeadLetters.next", "needs more than 1,000 letters"),
    ("discardDeadLettersById.next", "needs more than 1,000 letters"),
    ("events.code", "ends of streams: sse.rs"),
    ("events.error", "ends of streams: sse.rs"),
    ("events.missed", "ends of streams: sse.rs"),
    ("findEvent.next", "needs more than 1,000 topics: event.rs"),
    ("hubs.hubs[]", OTHER_WORLDS),
    ("live.code", "ends of streams: live.rs"),
    ("live.error", "ends of streams: live.rs"),
    ("live.reset", "needs more keys than a stream keeps: live.rs"),
    ("openapi.security[]{}[]", "the scopes of a token scheme, of which there are none"),
    ("replayDeadLetters.next", "needs more than 1,000 letters"),
    ("searchEvents.next", "needs more than 50,000 events: event.rs"),
];

/// The places of all answers with 200 that carry JSON.
fn places_of_answers(document: &Value) -> Places {
    let (schemas, mut places, mut named) = (Schemas(document), Places::new(), Vec::new());
    let mut visit = |place: &str, schema: &Value| {
        if place.ends_with("[]") || place.contains('.') {
            places.insert(place.to_owned());
        }
        if let Some(name) = schemas.resolve(schema).0 {
            named.push(name.to_owned());
        }
    };
    for operation in operations(document) {
        for (_, response) in operation.responses(document).filter(|(status, _)| *status == "200") {
            for (_, content) in response["content"].as_object().unwrap() {
                let schema = content.get("x-itemSchema").unwrap_or(&content["schema"]);
                schemas.within(schema, operation.name(), &mut visit);
            }
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = named.pop() {
        if seen.insert(name.clone()) {
            let mut visit = |place: &str, schema: &Value| {
                if place != name {
                    places.insert(place.to_owned());
                }
                named.extend(schemas.resolve(schema).0.map(str::to_owned));
            };
            schemas.within(&document["components"]["schemas"][&name], &name, &mut visit);
        }
    }
    places
}

/// What was answered so far.
struct Answers<'a> {
    document: &'a Value,
    statuses: BTreeSet<(&'a str, u16)>,
    /// Places of schemas that answers with 200 had.
    met: Places,
}

impl<'a> Answers<'a> {
    /// Sends a request, and checks its answer against the document.
    async fn check(&mut self, operation: &Operation<'a>, request: reqwest::RequestBuilder, name: &str) {
        let schemas = Schemas(self.document);
        let answer = request.send().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let status = answer.status().as_u16();
        self.statuses.insert((operation.name(), status));
        let described = schemas.resolve(&operation.about["responses"][status.to_string()]).1;
        assert!(described.is_object(), "{name}: {status} is not described: {:?}", answer.text().await);
        let Some(kind) = answer.headers().get("content-type") else {
            assert!(described.get("content").is_none(), "{name}: {status} has no content type");
            return;
        };
        let kind = kind.to_str().unwrap().split(';').next().unwrap().to_owned();
        let content = &described["content"][&kind];
        assert!(content.is_object(), "{name}: {status} has {kind}, which is not described");
        if kind == "text/event-stream" {
            return;
        }
        let text = tokio::time::timeout(Duration::from_secs(60), answer.text()).await.unwrap().unwrap();
        let (schema, values) = match content.get("x-itemSchema") {
            Some(schema) => (schema, items(&kind, &text)),
            None if kind.ends_with("json") => {
                (&content["schema"], vec![serde_json::from_str(&text).unwrap()])
            }
            None => return,
        };
        for value in values {
            let found = schemas.check(schema, &value, operation.name());
            let places = found.unwrap_or_else(|error| panic!("{name}: {status} {value}\n{error}"));
            if status == 200 {
                self.met.extend(places);
            }
        }
    }
}

/// Reads a stream that is open until its messages had all of these places; answers all that they had.
async fn places_of_stream(document: &Value, reader: &mut Reader, wanted: &[&str]) -> Places {
    let operations = operations(document);
    let operation = operations.iter().find(|operation| operation.name() == "live").unwrap();
    let responses: BTreeMap<&str, &Value> = operation.responses(document).collect();
    let schema = &responses["200"]["content"]["text/event-stream"]["x-itemSchema"];
    let mut met = Places::new();
    while !wanted.iter().all(|place| met.contains(*place)) {
        let data = reader.next().await.data;
        let found = Schemas(document).check(schema, &data, "live");
        met.extend(found.unwrap_or_else(|error| panic!("{data}\n{error}\nwanted {wanted:?}, had {met:?}")));
    }
    met
}

/// Opens a stream of each view, has everything happen that they show, and reads it.
async fn places_of_streams(filled: &mut FilledWorld, document: &Value) -> Places {
    let views = [
        (
            "overview",
            &["Problem.lastTs", "Problem.oldestAgeMs", "Problem.oldestUnsettled", "LiveSample.handlerMs"][..],
        ),
        ("topics", &["LiveTopic.rates", "live.gone[]"]),
        ("topic&topic=t", &["TailRow.key", "TailRow.tags[]", "live.initial"]),
        ("groups", &["LiveGroup.oldestUnsettled", "LiveGroup.since", "live.gone[][]"]),
        ("group&topic=t&group=g", &["GroupDetail.blocking"]),
        ("state&topic=t", &["StateRow.deleted"]),
    ];
    let mut readers = Vec::new();
    for (view, wanted) in views {
        let mut reader = Reader::open(&filled.world, &format!("/live?view={view}"), STATIC).await;
        places_of_stream(document, &mut reader, &["LiveSample.ts"]).await;
        readers.push((reader, wanted));
    }
    filled.world.hub.outboxes().set("crm", |crm| crm.counts.oldest_age = Some(5));
    // What has delivered nothing for a while is a problem.
    filled.world.clock.jump(10_000);
    filled.fill().await;
    let bus = filled.world.bus();
    let mut member = bus.subscribe("t").group("quick").from(Position::Earliest).open().await.unwrap();
    member.recv().await.unwrap().ack().unwrap();
    member.close();
    bus.publish("brief", json!(1)).await.unwrap();
    let mut met = Places::new();
    let mut is_seen = false;
    while !is_seen {
        let (topics, _) = &mut readers[1];
        let frame = topics.next().await;
        is_seen = frame.data.to_string().contains("brief");
    }
    bus.delete_topic("brief").await.unwrap();
    bus.delete_group("t", "quick").await.unwrap();
    for (reader, wanted) in &mut readers {
        met.extend(places_of_stream(document, reader, wanted).await);
    }
    met
}

#[tokio::test]
async fn generated_requests_are_answered_as_the_document_says() {
    let mut filled = FilledWorld::new().await;
    let document = document(&filled.world).await;
    let operations = operations(&document);
    let all = &["publish:**", "subscribe:**", "admin:**"];
    let tokens = [
        STATIC.to_owned(),
        filled.world.token_of("eve", all),
        filled.world.token(&["subscribe:t"]),
        filled.world.token(&[]),
        filled
            .world
            .ruled(&json!([{"effect": "allow", "action": "subscribe", "topics": ["t"], "groups": ["g"]}])),
        String::new(),
    ];
    let parameters =
        operations.iter().flat_map(|operation| operation.about["parameters"].as_array()).flatten();
    let parameters: BTreeSet<&str> =
        parameters.map(|parameter| parameter["name"].as_str().unwrap()).collect();
    let mut rng = Rng(20);
    let mut answers = Answers { document: &document, statuses: BTreeSet::new(), met: Places::new() };
    for (method, path, kind, body) in filled.pointed_requests().await {
        let operation = operations.iter().find(|operation| operation.is_asked_by(method, &path)).unwrap();
        let request =
            filled.world.request(method, &path, STATIC).header("accept", "application/cloudevents+json");
        let request = if body.is_empty() { request } else { request.header("content-type", kind).body(body) };
        answers.check(operation, request, &format!("{method} {path}")).await;
    }
    answers.met.extend(places_of_streams(&mut filled, &document).await);
    let mut known = Known::new();
    for number in 0..REQUESTS {
        if number % 100 == 0 {
            // Requests delete topics and groups, too.
            filled.fill().await;
            for name in &parameters {
                known.insert((*name).to_owned(), filled.values(name).await);
            }
        }
        let operation = rng.pick(&operations);
        let (url, token) = (url(&mut rng, operation, &known), rng.pick(&tokens));
        let mut request =
            filled.world.request(&operation.method, &url, token).header("accept", *rng.pick(ACCEPTED));
        if operation.method != "GET" {
            let (kind, body) = body(&mut rng, operation);
            request = request.header("content-type", kind).body(body);
        }
        answers.check(operation, request, &format!("request {number}: {} {url}", operation.method)).await;
    }
    let Answers { statuses, met, .. } = answers;
    let answered = |status: u16| statuses.iter().filter(|(_, found)| *found == status).count();
    assert!(answered(400) > 25 && answered(401) > 25, "{statuses:?}");
    let documented = places_of_answers(&document);
    let not_met: Vec<&str> = documented.difference(&met).map(String::as_str).collect();
    let expected: Vec<&str> = NOT_MET.iter().map(|(place, _)| *place).collect();
    assert_eq!(not_met, expected, "places of answers that no answer has");
    let without_answer =
        operations.iter().map(Operation::name).filter(|name| !statuses.contains(&(name, 200)));
    assert_eq!(
        without_answer.collect::<Vec<_>>(),
        ["backup", "gateway"],
        "operations that never did what they are for"
    );
    let works = filled.world.post("/publish/t", "1").await.ok();
    assert_eq!(works["durable"], json!("memory"), "the hub still works");
}

#[tokio::test]
async fn answers_of_other_worlds_are_as_the_document_says() {
    let world = pushing_world().await;
    let document = document(&world).await;
    let (schemas, operations, mut met) = (Schemas(&document), operations(&document), Places::new());
    let mut check = |path: &str, status: u16, answer: &Value| {
        let operation = operations.iter().find(|operation| operation.is_asked_by("GET", path)).unwrap();
        let described = schemas.resolve(&operation.about["responses"][status.to_string()]).1;
        let schema = &described["content"]["application/json"]["schema"];
        let found = schemas.check(schema, answer, operation.name());
        met.extend(found.unwrap_or_else(|error| panic!("{path}: {answer}\n{error}")));
    };
    // An endpoint that fails, then one that is gone.
    let endpoint = Endpoint::answering(&[500, 410]).await;
    let definition = definition(&endpoint.url(), &json!({"concurrency": 1}));
    put(&world, "crm", &definition).await;
    world.fill("t", 1).await;
    let paused = in_state(&world, "crm", "paused").await;
    check("/push/crm", 200, &paused);
    // A store that does not answer.
    world.store.set_health(|| Health {
        unavailable: Some("the disk is full".into()),
        warnings: vec!["3 records are damaged".into()],
        damaged: 3,
        failed_commits: 1,
    });
    let ill = world.get("/readyz").await;
    check("/readyz", ill.status, &ill.json);
    let mut overview = Reader::open(&world, "/live?view=overview", STATIC).await;
    // A group that fails, and fails again.
    let member = world.bus().subscribe("t").group("f").from(Position::Earliest).max_attempts(1000);
    let mut member = member.open().await.unwrap();
    for _ in 0..3 {
        member.recv().await.unwrap().nack("no").unwrap();
    }
    let wanted = ["Problem.failing", "Problem.state", "Problem.warning"];
    let problems = places_of_stream(&document, &mut overview, &wanted).await;
    // Two hubs, of which one serves the group.
    let cluster = Cluster::new();
    let (owner, other) = (cluster.node().await, cluster.node().await);
    owner.owns("g").await;
    owner.publish("t", 1..=3).await;
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({"from": "earliest"}))).await;
    owner.bus().flush().await.unwrap();
    nodes::until("the other hub knows the topic", || other.bus().has_topic("t")).await;
    for path in ["/hubs", "/groups", "/groups/detail?topic=t&group=g", "/event?topic=t&seq=3"] {
        let (status, answer) = other.get(path).await;
        check(path, status, &answer);
    }
    let expected: Vec<&str> =
        NOT_MET.iter().filter(|(_, by)| *by == OTHER_WORLDS).map(|(place, _)| *place).collect();
    met.extend(problems);
    let missing: Vec<&&str> = expected.iter().filter(|place| !met.contains(**place)).collect();
    assert!(missing.is_empty(), "not met: {missing:?}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_as_the_document_says() {
    let node = Cluster::new().node().await;
    let url = format!("http://{}/topics?q={}", node.ops, "x".repeat(60 << 10));
    let answer = reqwest::Client::new().get(url).bearer_auth(STATIC).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (431, ""));
    let world = World::new().await;
    let document = document(&world).await;
    for operation in operations(&document) {
        let (_, described) = operation.responses(&document).find(|(status, _)| *status == "431").unwrap();
        assert!(described.get("content").is_none(), "{}", operation.name());
    }
}
