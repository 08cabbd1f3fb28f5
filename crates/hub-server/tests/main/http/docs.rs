//! docs/http.md: its examples, run in their order.

use super::world::{STATIC, World};
use flate2::read::GzDecoder;
use hub_core::outbox::{Drainer, DrainerOptions, MemoryOutbox, NewRow, OutboxStore};
use hub_core::{EventId, Position};
use hub_proto::Payload;
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PAGE: &str = include_str!("../../../../../docs/http.md");

/// A block of the page: what its fence says, and what is in it.
struct Block<'a> {
    fence: &'a str,
    text: String,
}

fn blocks() -> Vec<Block<'static>> {
    let (mut blocks, mut open): (_, Option<Block<'_>>) = (Vec::new(), None);
    for line in PAGE.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(fence), None) => open = Some(Block { fence, text: String::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// The words of a command, as a shell would see them: quotes, continued lines and our two variables.
fn words(command: &str, hub: &str) -> Vec<String> {
    let command = command.replace("\\\n", " ").replace("$HUB", hub).replace("$TOKEN", STATIC);
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.trim().chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => word.push(letter),
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter.is_whitespace() => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            None => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// Does what curl does with these words. A stream (`-N`) is read as far as `shown` goes.
async fn curl(world: &World, words: &[String], shown: &str) -> (u16, String) {
    let (mut method, mut url, mut headers, mut body) = (None, None, Vec::new(), None);
    let mut is_stream = false;
    let mut words = words.iter().map(String::as_str);
    assert_eq!(words.next(), Some("curl"));
    while let Some(word) = words.next() {
        match word {
            "-X" => method = words.next(),
            "-H" => headers.extend(words.next().unwrap().split_once(": ")),
            "-d" => body = words.next(),
            "-N" => is_stream = true,
            "--compressed" => headers.push(("Accept-Encoding", "gzip")),
            option if option.starts_with('-') => panic!("curl {option}"),
            address => url = Some(address),
        }
    }
    let method = method.unwrap_or(if body.is_some() { "POST" } else { "GET" });
    let mut request = world.http.request(method.parse().unwrap(), url.unwrap());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut answer = request.body(body.unwrap_or_default().to_owned()).send().await.unwrap();
    let (status, is_packed) = (answer.status().as_u16(), answer.headers().contains_key("content-encoding"));
    if is_stream {
        let mut text = String::new();
        while text.lines().count() < shown.lines().count() {
            text += std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap();
        }
        return (status, text);
    }
    let bytes = answer.bytes().await.unwrap();
    let mut text = String::new();
    match is_packed {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap(),
        false => (&bytes[..]).read_to_string(&mut text).unwrap(),
    };
    (status, text)
}

/// Whether two answers are the same, but for ids that the hub makes, times, and sizes.
fn alike(name: &str, shown: &Value, found: &Value) -> bool {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => {
            shown.len() == found.len()
                && shown
                    .iter()
                    .all(|(name, value)| found.get(name).is_some_and(|other| alike(name, value, other)))
        }
        (Value::Array(shown), Value::Array(found)) => {
            shown.len() == found.len()
                && shown.iter().zip(found).all(|(shown, found)| alike(name, shown, found))
        }
        (Value::String(shown), Value::String(found)) => {
            let is_made = |text: &str| {
                EventId::parse(text).is_ok_and(|id| id.to_bytes()[6] >> 4 == 7)
                    && !text.starts_with("018bcfe5")
            };
            let is_ticket = |text: &str| name == "ticket" && text.len() == 64;
            shown == found
                || is_made(shown) && is_made(found)
                || is_ticket(shown) && is_ticket(found)
                || name == "time" && shown.starts_with("2026-05")
                || name == "version"
        }
        (Value::Number(_), Value::Number(_))
            if [
                "lagMs",
                "bytes",
                "ts",
                "firstTs",
                "lastTs",
                "originalTs",
                "committed",
                "lastCommitted",
                "oldestAgeMs",
                "ageMs",
                "since",
                "started",
                "n",
                "published",
            ]
            .contains(&name) =>
        {
            true
        }
        _ => shown == found,
    }
}

fn check(command: &str, shown: &str, found: &str) {
    let [shown_json, found_json] = [shown, found].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert!(alike("", &shown_json, &found_json), "{command}\nthe page has\n{shown}\nbut it is\n{found}");
}

/// An outbox with a row that can never be published, and one behind it. It was drained, and is not any more.
async fn drain_outbox(world: &World) {
    let outbox = MemoryOutbox::default();
    let row = |n: u64, topic: &str| {
        let id = format!("018bcfe5-6800-7000-8000-{n:012}").parse().unwrap();
        NewRow { id, at: n, ..NewRow::new(topic, Payload::of(&n).unwrap()).key("order-18") }
    };
    outbox.add(vec![row(2, "shop orders"), row(3, "shop.orders")]).await.unwrap();
    let stop = CancellationToken::new();
    let drainer =
        Drainer::new(Arc::new(outbox.clone()), Arc::new(world.bus().clone()), DrainerOptions::default());
    world.hub.outboxes().set("shop", |shop| {
        shop.store = Some(Arc::new(outbox.clone()));
        shop.progress = drainer.progress();
    });
    let running = tokio::spawn(drainer.run(stop.clone()));
    while outbox.counts().await.unwrap().errors == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    running.await.unwrap();
}

/// A payment that its group has given up.
async fn bury_payment(world: &World) {
    let payload = Payload::from_json(r#"{"amount":9007199254740993}"#).unwrap();
    let id = "018bcfe5-6800-7000-8000-000000000010".parse().unwrap();
    let payment = world.bus().publish("payments", payload).key("order-18").id(id);
    payment.header("x-correlation-id", "basket-7").await.unwrap();
    let ledger = world.bus().subscribe("payments").group("ledger").from(Position::Earliest).max_attempts(1);
    let mut ledger = ledger.open().await.unwrap();
    ledger.recv().await.unwrap().nack("no such account").unwrap();
    while world.bus().group("payments", "ledger").unwrap().floor == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ledger.close();
}

#[tokio::test]
async fn the_examples_of_the_page_give_what_it_says() {
    let world = World::new().await;
    world.group("orders.created", "billing").await;
    world.group("shop.payments", "ledger").await;
    drain_outbox(&world).await;
    let blocks = blocks();
    let mut run = 0;
    for pair in blocks.windows(2).filter(|pair| pair[0].text.contains("curl ")) {
        let (command, shown) = (&pair[0].text, &pair[1]);
        assert_eq!(pair[0].fence, "sh");
        if command.contains("payments")
            && !command.contains("shop.payments")
            && !world.bus().has_topic("payments")
        {
            bury_payment(&world).await;
        }
        let (status, found) =
            curl(&world, &words(command, &format!("http://{}", world.at)), &shown.text).await;
        let (kind, expected) = shown.fence.split_once(' ').unwrap_or((shown.fence, "200"));
        assert_eq!(status.to_string(), expected, "{command}{found}");
        match kind {
            "json" => check(command, &shown.text, &found),
            "ndjson" => {
                assert_eq!(shown.text.lines().count(), found.lines().count());
                shown.text.lines().zip(found.lines()).for_each(|(shown, found)| check(command, shown, found));
            }
            "text" => shown.text.lines().for_each(|line| {
                assert!(found.lines().any(|found| found == line), "{line} is not in\n{found}");
            }),
            "sse" => {
                for (shown, found) in shown.text.lines().zip(found.lines()) {
                    match (shown.strip_prefix("data: "), found.strip_prefix("data: ")) {
                        (Some(shown), Some(found)) => check(command, shown, found),
                        _ if shown.starts_with("retry: ") => assert!(found.starts_with("retry: "), "{found}"),
                        _ => assert_eq!(shown, found, "{command}"),
                    }
                }
            }
            other => panic!("{other} behind {command}"),
        }
        run += 1;
    }
    assert_eq!(run, PAGE.matches("\ncurl ").count(), "every example has its answer");
    assert!(run >= 15);
}
