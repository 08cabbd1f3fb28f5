//! Pages whose claims are tested: the examples of `docs/protocol.md` are parts of fixtures, so they were run, and the tests that
//! `docs/security.md` names are there.

use crate::fixtures::format::{self, Step};
use crate::fixtures::pattern::Bound;
use hub_proto::Code;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// One line of an example.
#[derive(Debug)]
struct Line {
    connection: String,
    sent: bool,
    frame: Value,
}

/// An example: the fixture it is from, and its lines.
struct Example {
    fixture: (String, String),
    lines: Vec<Line>,
}

fn page() -> String {
    std::fs::read_to_string(format::directory().join("../docs/protocol.md")).unwrap()
}

fn examples(page: &str) -> Vec<Example> {
    let mut lines = page.lines();
    let mut mark = None;
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("<!-- fixture: ").and_then(|rest| rest.strip_suffix(" -->")) {
            mark = name.split_once(" / ").map(|(file, name)| (file.to_owned(), name.to_owned()));
        } else if line.starts_with("```") {
            let fixture = mark.take().expect("a fixture is named above every example");
            let lines = lines.by_ref().take_while(|line| !line.starts_with("```")).map(read).collect();
            found.push(Example { fixture, lines });
        }
    }
    found
}

/// `reader > {…}`; without a name it is the client's.
fn read(line: &str) -> Line {
    let (before, frame) = line.split_once(" {").map_or((line, ""), |(before, frame)| (before, frame));
    let frame = serde_json::from_str(&format!("{{{frame}")).unwrap_or_else(|error| panic!("{line}: {error}"));
    let (connection, sign) = before.rsplit_once(' ').unwrap_or(("client", before));
    assert!([">", "<"].contains(&sign), "{line}");
    Line { connection: connection.to_owned(), sent: sign == ">", frame }
}

/// Whether a step of a fixture is this line.
fn is(step: &Step, line: &Line, bound: &mut Bound) -> bool {
    match step {
        Step::Send { from, send } => {
            line.sent && *from == line.connection && bound.matches(send, &line.frame).is_ok()
        }
        Step::Expect { to, expect } => {
            !line.sent && *to == line.connection && bound.matches(expect, &line.frame).is_ok()
        }
        _ => false,
    }
}

#[test]
fn every_example_of_the_page_is_a_part_of_its_fixture() {
    let examples = examples(&page());
    assert!(examples.len() > 15, "{} examples", examples.len());
    for Example { fixture: (file, name), lines } in examples {
        let fixtures = format::file(&file).fixtures;
        let fixture = fixtures.iter().find(|fixture| fixture.name == name);
        let fixture = fixture.unwrap_or_else(|| panic!("{file} has no fixture {name:?}"));
        let mut steps = fixture.steps.iter();
        let mut bound = Bound::of_page();
        for line in lines {
            let found = steps.any(|step| is(step, &line, &mut bound));
            assert!(found, "{file}, {name:?} has no such step, or not in this place: {line:#?}");
        }
    }
}

#[test]
fn the_page_shows_every_op_and_names_every_code() {
    let page = page();
    let lines = examples(&page).into_iter().flat_map(|example| example.lines);
    let shown: BTreeSet<_> = lines.map(|line| line.frame["op"].as_str().unwrap().to_owned()).collect();
    let ops = "AUTH PUBLISH SUBSCRIBE UNSUBSCRIBE ACK NACK MODACK PAUSE RESUME OK ERR EVENT EVENTS";
    for op in ops.split(' ') {
        assert!(shown.contains(op), "{op} has no example");
    }
    for code in Code::ALL {
        assert!(page.contains(&format!("| `{code}` | ")), "{code} is not in the table");
    }
}

/// The text of all Rust sources below a directory.
fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_threat_of_the_security_page_names_tests_that_are_there() {
    let root = format::directory().join("..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut all = String::new();
    sources(&root.join("crates"), &mut all);
    let threats = page.split("\n## Threats\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = threats.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 20, "{rows:#?}");
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = tests.split(", ").map(|name| name.trim_matches('`')).collect();
        for name in names {
            assert!(all.contains(&format!("fn {name}(")), "{name}, of the row {row}");
        }
    }
}
