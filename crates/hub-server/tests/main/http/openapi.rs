//! `/openapi.json`: every request that it describes is answered as it says, and whatever else is sent never ends in a 500.

use super::world::{STATIC, World};
use serde_json::{Value, json};
use std::collections::BTreeSet;
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

impl Operation<'_> {
    fn parameters(&self, place: &str) -> impl Iterator<Item = &Value> {
        let all = self.about["parameters"].as_array().into_iter().flatten();
        all.filter(move |parameter| parameter["in"] == place)
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
    assert!(operations.len() >= 40, "{}", operations.len());
    let names: BTreeSet<&str> =
        operations.iter().map(|operation| operation.about["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len());
    for operation in &operations {
        let in_path = operation.path.matches('{').count();
        assert_eq!(operation.parameters("path").count(), in_path, "{}", operation.path);
        let examples = operation.about["requestBody"]["content"].as_object().into_iter().flatten();
        for (kind, body) in examples.filter(|(kind, _)| *kind == "application/json") {
            let found = mismatch(&document, &body["schema"], &body["example"]);
            assert_eq!(found, None, "the example of {} {kind}", operation.path);
        }
    }
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

/// A value for a parameter: one that its schema allows, or something else.
fn value(rng: &mut Rng, schema: &Value) -> String {
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

fn url(rng: &mut Rng, operation: &Operation<'_>) -> String {
    let mut url = operation.path.to_owned();
    for parameter in operation.parameters("path") {
        let name = parameter["name"].as_str().unwrap();
        // An empty segment is another path.
        let value =
            Some(value(rng, &parameter["schema"])).filter(|value| !value.is_empty() && !value.contains(".."));
        url = url.replace(&format!("{{{name}}}"), &value.unwrap_or_else(|| "t".into()).replace('/', "%2F"));
    }
    let mut separator = '?';
    for parameter in operation.parameters("query") {
        let is_required = parameter["required"] == true;
        if rng.chance(if is_required { 95 } else { 40 }) {
            let name = parameter["name"].as_str().unwrap();
            url += &format!("{separator}{name}={}", value(rng, &parameter["schema"]));
            separator = '&';
        }
    }
    url
}

fn body(rng: &mut Rng, operation: &Operation<'_>) -> String {
    let content = &operation.about["requestBody"]["content"]["application/json"];
    match content["example"].is_null() || rng.chance(50) {
        true => (*rng.pick(BODIES)).to_owned(),
        false => content["example"].to_string(),
    }
}

/// What does not fit a schema, for the part of JSON Schema that the document uses.
fn mismatch(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/components/schemas/");
        return mismatch(document, &document["components"]["schemas"][name], value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let mismatches: Vec<String> =
            any.iter().filter_map(|schema| mismatch(document, schema, value)).collect();
        return (mismatches.len() == any.len()).then(|| mismatches.join(" | "));
    }
    let fits = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => panic!("type {other}"),
    };
    if !fits {
        return Some(format!("{value} is not {}", schema["type"]));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return Some(format!("{name} is missing in {value}"));
        }
    }
    if let (Some(fields), Some(schemas)) = (value.as_object(), schema["properties"].as_object()) {
        return fields.iter().find_map(|(name, field)| mismatch(document, schemas.get(name)?, field));
    }
    let items = value.as_array().filter(|_| schema["items"].is_object());
    items.into_iter().flatten().find_map(|item| mismatch(document, &schema["items"], item))
}

#[tokio::test]
async fn generated_requests_are_answered_as_the_document_says() {
    let world = World::new().await;
    let document = document(&world).await;
    let operations = operations(&document);
    let tokens = [
        STATIC.to_owned(),
        STATIC.to_owned(),
        world.token(&["subscribe:t"]),
        world.token(&[]),
        String::new(),
    ];
    let mut rng = Rng(20);
    let mut statuses = BTreeSet::new();
    for number in 0..REQUESTS {
        if number % 500 == 0 {
            // Requests delete topics and groups, too.
            world.fill("t", 3).await;
            world.fill("orders.created", 3).await;
            world.group("t", "g").await;
        }
        let operation = rng.pick(&operations);
        let (url, token) = (url(&mut rng, operation), rng.pick(&tokens));
        let mut request = world.request(&operation.method, &url, token);
        if operation.method != "GET" {
            request = request.body(body(&mut rng, operation));
        }
        let name = format!("request {number}: {} {url}", operation.method);
        let answer = request.send().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let status = answer.status().as_u16();
        let described = &operation.about["responses"][status.to_string()];
        statuses.insert((operation.about["operationId"].as_str().unwrap(), status));
        assert!(described.is_object(), "{name}: {status} is not described: {:?}", answer.text().await);
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        if kind.as_deref() != Some("application/json") {
            continue;
        }
        let text = tokio::time::timeout(Duration::from_secs(60), answer.bytes()).await.unwrap().unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let schema = &described["content"]["application/json"]["schema"];
        let found = mismatch(&document, schema, &json);
        assert_eq!(found, None, "{name}: {status} {json}");
    }
    let answered = |status: u16| statuses.iter().filter(|(_, found)| *found == status).count();
    assert!(answered(200) > 25 && answered(400) > 25 && answered(401) > 25, "{statuses:?}");
    assert_eq!(world.post("/publish/t", "1").await.ok()["durable"], json!("memory"), "the hub still works");
}
