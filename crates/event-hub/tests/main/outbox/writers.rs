//! Rows that programs in other languages write: those of `examples/outbox`, which `docs/outbox.md` shows.
//!
//! A program calls the example many times at once, and some of it is refused in the middle of a transaction. What was
//! committed is published, in the order of each key, and nothing else is.

use super::Outbox;
use crate::hub::Place;
use hub_core::outbox::{Drainer, DrainerOptions, RowStatus};
use hub_core::{Bus, MemoryStore, Position};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/outbox")
}

/// A program that calls an example, and where it lies.
pub struct Program {
    command: Command,
    _place: Place,
}

/// A program in Node; nothing if there is no Node here, which was said.
pub fn node(example: &str, program: &str) -> Option<Program> {
    let modules = hub_testbed::drivers::node().unwrap()?;
    let place = Place::new();
    // Modules are looked for beside the program, and NODE_PATH is not asked.
    std::os::unix::fs::symlink(modules, place.path("node_modules")).unwrap();
    let mut command = Command::new("node");
    command.arg(beside(&place, example, "main.mjs", program));
    Some(Program { command, _place: place })
}

/// A program in Python; nothing if there is no Python here, which was said.
pub fn python(example: &str, program: &str) -> Option<Program> {
    let python = hub_testbed::drivers::python().unwrap()?;
    let place = Place::new();
    let mut command = Command::new(python);
    command.arg(beside(&place, example, "main.py", program));
    Some(Program { command, _place: place })
}

/// Puts an example and a program that calls it into one directory.
fn beside(place: &Place, example: &str, name: &str, program: &str) -> String {
    std::fs::copy(examples().join(example), place.path(example)).unwrap();
    place.write(name, program)
}

/// Runs a program while a drainer is at work, and compares what it says was committed with what is published.
///
/// The program gets the address of the database and prints a line for each call: `{"sku", "remaining"}`, or `{"refused"}`.
pub fn check(outbox: &Outbox, program: Program) {
    let (bus, stop) =
        (outbox.runtime.block_on(Bus::builder(MemoryStore::new()).open()).unwrap(), CancellationToken::new());
    let drainer = Drainer::new(outbox.store.clone(), Arc::new(bus.clone()), DrainerOptions::default());
    let drainer = outbox.runtime.spawn(drainer.run(stop.clone()));
    let Program { mut command, _place } = program;
    let output = command.arg(&outbox.url).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let (refused, mut committed): (Vec<Value>, Vec<Value>) = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .partition(|it: &Value| it["refused"].is_string());
    outbox.drained();
    stop.cancel();
    let drained = outbox.runtime.block_on(drainer).unwrap();
    let events = outbox.runtime.block_on(bus.scan("shop.stock", Position::Earliest, None)).unwrap();

    println!("{} committed, {} refused, {} published", committed.len(), refused.len(), events.len());
    assert!(!committed.is_empty() && !refused.is_empty(), "{said}");
    let mut published: Vec<Value> =
        events.iter().map(|event| serde_json::from_slice(event.payload()).unwrap()).collect();
    let mut remaining: BTreeMap<&str, i64> = BTreeMap::new();
    for (event, payload) in events.iter().zip(&published) {
        let key: &str = event.key().unwrap();
        assert_eq!(payload["sku"], key);
        let now = payload["remaining"].as_i64().unwrap();
        if let Some(before) = remaining.insert(key, now) {
            assert!(now < before, "{now} of {key} comes after {before}");
        }
    }
    for list in [&mut published, &mut committed] {
        list.sort_by_key(|it| (it["sku"].as_str().unwrap().to_owned(), it["remaining"].as_i64()));
    }
    assert_eq!(published, committed);
    assert_eq!((drained.sent, drained.parked, drained.retried), (events.len() as u64, 0, 0));
    let rows = outbox.get(outbox.store.list(None, 1000));
    assert!(rows.iter().all(|row| row.status == RowStatus::Sent), "{rows:?}");
    let ids: BTreeSet<String> = rows.into_iter().map(|row| row.id).collect();
    assert_eq!(
        ids,
        events.iter().map(|event| event.id().to_string()).collect(),
        "the event's id is the row's"
    );
}

#[test]
fn the_examples_are_on_the_page_as_they_are() {
    let page = examples().join("../../docs/outbox.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut found = 0;
    for example in std::fs::read_dir(examples()).unwrap() {
        let path = example.unwrap().path();
        let language = match path.extension().and_then(|ending| ending.to_str()) {
            Some("mjs") => "js",
            Some("py") => "python",
            Some("go") => "go",
            other => panic!("{other:?} of {}", path.display()),
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let block = format!("\n```{language}\n{text}```\n");
        assert!(page.contains(&block), "docs/outbox.md has {} not as it is:\n{block}", path.display());
        found += 1;
    }
    assert_eq!(found, 6);
}
