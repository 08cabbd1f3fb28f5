//! `event-hub policy check`, on the files of docs/policies.md and on worse ones.

use crate::world::{Ran, run};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../../docs/policies.md");

/// A directory with a file in it.
struct Place(TempDir);

impl Place {
    fn with(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write(name, bytes);
        place
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }

    fn check(&self, name: &str, question: &[&str]) -> Ran {
        let path = self.0.path().join(name);
        run(&[&["policy", "check", path.to_str().unwrap()], question].concat())
    }
}

/// Runs a line of a terminal in a directory.
fn typed(line: &str, directory: &Path) -> (String, i32) {
    let args = line.strip_prefix("event-hub ").unwrap().split(' ');
    let output =
        Command::new(env!("CARGO_BIN_EXE_event-hub")).args(args).current_dir(directory).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (text, output.status.code().unwrap())
}

#[test]
fn the_page_shows_what_the_program_prints() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut consoles = Vec::new();
    for block in PAGE.split("```").skip(1).step_by(2) {
        let (info, text) = block.split_once('\n').unwrap();
        match info.split_once(' ') {
            Some((_, name)) => place.write(name, text),
            None if info == "console" => consoles.push(text),
            None => {}
        }
    }
    let mut commands = 0;
    for console in consoles {
        let mut code = 0;
        for (at, part) in format!("\n{console}").split("\n$ ").skip(1).enumerate() {
            let (line, expected) = part.split_once('\n').unwrap_or((part, ""));
            if line == "echo $?" {
                assert_eq!(expected.trim(), code.to_string(), "{at}");
                continue;
            }
            let (printed, ended) = typed(line, place.0.path());
            assert_eq!(printed.trim_end(), expected.trim_end(), "{line}");
            code = ended;
            commands += 1;
        }
    }
    assert!(commands >= 4, "{commands}");
}

#[test]
fn the_exit_code_says_the_answer() {
    let place = Place::with("p.sib", "(deny subscribe \"a.b\")\n(allow * \"a.*\")\n(allow admin \"c\")");
    for (question, code) in [
        (&["--action", "publish", "--topic", "a.b"][..], 0),
        (&["--action", "publish", "--topic", "b"], 1),
        (&["--action", "subscribe", "--topic", "a.c"], 0),
        (&["--action", "subscribe", "--topic", "a.*"], 1),
        (&["--action", "subscribe", "--topic", "a.c", "--group", "g"], 0),
        (&["--action", "admin", "--topic", "c"], 0),
        (&["--action", "admin", "--topic", "a.c"], 1),
        (&["--action", "admin", "--topic", "*"], 1),
    ] {
        let ran = place.check("p.sib", question);
        ran.ends_with(code).says(if code == 0 { "allowed: " } else { "denied: " });
        assert_eq!(ran.err, "");
    }
}

#[test]
fn rules_before_the_one_that_decides_say_why_they_did_not() {
    let place = Place::with(
        "p.sib",
        r#"(allow subscribe "a.b")
(allow subscribe "a.**" :groups "ops")
(deny subscribe "b.**")
(allow subscribe "a.*")
(allow publish "never.asked")"#,
    );
    place
        .check("p.sib", &["--action", "subscribe", "--topic", "a.*", "--group", "dev"])
        .ends_with(0)
        .says(r#"line 1: (allow subscribe "a.b") does not contain a.*: a.b is only a part of it line 2:"#)
        .says(r#"line 2: (allow subscribe "a.**" :groups ["ops"]) is not about group dev line 3:"#)
        .says(r#"line 3: (deny subscribe "b.**") does not intersect a.* line 4:"#)
        .says(r#"line 4: (allow subscribe "a.*") decides: a.* contains a.* allowed: subscribe a.* with group dev, by line 4"#);
    let ran = place.check("p.sib", &["--action", "subscribe", "--topic", "a.*", "--group", "ops"]);
    ran.ends_with(0).says("by line 2");
    assert!(!ran.out.contains("line 3"), "nobody asks further: {}", ran.out);
}

#[test]
fn a_file_that_cannot_be_understood_is_told_with_line_and_column() {
    let question = &["--action", "publish", "--topic", "a"];
    let rules = |rule: &str| format!(r#"{{"rules":[{rule}]}}"#);
    for (name, bytes, expected) in [
        ("p.sib", "(allow publish\n  \"a..b\")".into(), ":2:3: pattern \"a..b\": segment \"\" is neither"),
        ("p.sib", "(allow publish \"a\"".into(), ":1:1: this ( is never closed"),
        ("p.sib", " ".repeat((1 << 20) + 1), ":1:1: the file has 1048577 bytes or more"),
        ("p.json", "{\"rules\":\n  [}".into(), ":2:4: expected value"),
        ("p.json", "[]".into(), ":1:1: an object with \"rules\""),
        ("p.json", "{\"sub\":\"a\"}".into(), ":1:1: an object with \"rules\""),
        (
            "p.json",
            rules(r#"{"effect":"allow","action":"read","topics":["a"]}"#),
            ": rule 1: action \"read\"",
        ),
        ("p.json", "{\"scopes\":[\"publish:\"]}".into(), "scope \"publish:\" has an empty pattern"),
        ("p.json", " ".repeat((1 << 20) + 1), ": the file has more than 1048576 bytes"),
    ] {
        let place = Place::with(name, bytes);
        let ran = place.check(name, question);
        ran.ends_with(2);
        assert!(ran.err.contains(&format!("{name}{expected}")) || ran.err.contains(expected), "{}", ran.err);
        assert!(ran.err.contains(name) && ran.out.is_empty(), "{}", ran.err);
    }
    let place = Place::with("p.sib", b"; \xc3\xa9\n\xff");
    let ran = place.check("p.sib", question);
    ran.ends_with(2);
    assert!(ran.err.contains("p.sib:2:1: this is not UTF-8 text"), "{}", ran.err);
    let ran = place.check("nowhere.sib", question);
    ran.ends_with(2);
    assert!(ran.err.contains("nowhere.sib cannot be read"), "{}", ran.err);
}

#[test]
fn json_has_rules_scopes_or_the_claims_of_a_token() {
    let question = &["--action", "publish", "--topic", "a.b"];
    for json in [
        r#"{"rules":[{"effect":"allow","action":"publish","topics":["a.*"]}]}"#,
        r#"{"policy":{"rules":[{"effect":"allow","action":"publish","topics":["a.*"]}]},"sub":"x","exp":1}"#,
        r#"{"scopes":["publish:a.*"]}"#,
        r#"{"scope":"openid publish:a.*"}"#,
    ] {
        let place = Place::with("p.json", json);
        place
            .check("p.json", question)
            .ends_with(0)
            .says(r#"rule 1: (allow publish "a.*") decides: a.* matches a.b"#);
    }
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let place = Place::with("p.sib", "(allow * \"**\")");
    for (question, expected) in [
        (&["--action", "publish", "--topic", "a.*"][..], "--topic a.* is a pattern"),
        (&["--action", "publish", "--topic", "a", "--group", "g"], "--group goes with --action subscribe"),
        (&["--action", "read", "--topic", "a"], "publish, subscribe, admin"),
        (&["--action", "publish", "--topic", "a..b"], "segment \"\" is neither"),
        (&["--action", "subscribe", "--topic", "a", "--group", "a b"], "group name \"a b\""),
        (&["--action", "publish"], "--topic"),
        (&["--topic", "a"], "--action"),
    ] {
        let ran = place.check("p.sib", question);
        ran.ends_with(2);
        assert!(ran.err.contains(expected), "{question:?}: {}", ran.err);
    }
}
