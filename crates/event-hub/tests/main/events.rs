//! `event-hub publish` and `event-hub subscribe` against a hub that runs.

use crate::hub::{Hub, Place, Running, program, run_with};
use crate::world::Ran;
use reqwest::Method;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

struct Pair {
    hub: Hub,
    data: String,
    _place: Place,
}

impl Pair {
    fn new() -> Self {
        let place = Place::new();
        let hub = Hub::start(&place.path("data"), &[], &[]);
        Self { hub, data: place.text("data"), _place: place }
    }

    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        [args, &["--url", self.hub.ws(), "--data", &self.data]].concat()
    }

    fn run(&self, args: &[&str]) -> Ran {
        run_with(&self.args(args), &[])
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::start(&self.args(args), &[])
    }

    fn pipe(&self, args: &[&str], input: &str) -> Ran {
        let mut command = program(&self.args(args), &[]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
        let write = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        write.join().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn what_is_published_is_answered_and_read_again() {
    let pair = Pair::new();
    let id = "0190a1b2-0000-7000-8000-000000000001";
    let publish = [
        "publish",
        "orders.new",
        r#"{"n":1}"#,
        "--key",
        "k-1",
        "--id",
        id,
        "--header",
        "source=test",
        "--tag",
        "red",
    ];
    let ran = pair.run(&publish);
    ran.ends_with(0);
    let answer = ran.json();
    assert_eq!(
        (answer["id"].as_str(), answer["seq"].as_u64(), answer["durable"].as_str()),
        (Some(id), Some(1), Some("fsync"))
    );
    assert!(answer.get("op").is_none() && answer.get("corr").is_none(), "{answer}");
    assert_eq!(pair.run(&publish).json()["duplicate"], true);
    pair.pipe(&["publish", "orders.new", "-"], " {\"n\": 2}\n").ends_with(0);

    let ran = pair.run(&["subscribe", "orders.new", "--from", "earliest", "--count", "2", "--json"]);
    ran.ends_with(0);
    let events: Vec<_> = ran.out.lines().map(json).collect();
    assert_eq!(events[0]["headers"]["source"], "test");
    assert_eq!(
        (&events[0]["key"], &events[0]["tags"][0], &events[1]["payload"]["n"]),
        (&Value::from("k-1"), &Value::from("red"), &Value::from(2))
    );

    let ran = pair.run(&["subscribe", "orders.*", "--group", "g", "--from", "earliest", "--count", "1"]);
    ran.ends_with(0);
    assert!(ran.out.contains("  orders.new  1  k-1  {\"n\":1}"), "{}", ran.out);
    // The first one was acked, so the group goes on behind it.
    let ran = pair.run(&["subscribe", "orders.*", "--group", "g", "--count", "1", "--json"]);
    ran.ends_with(0);
    assert_eq!(json(&ran.out)["seq"], 2);
    pair.hub.stop();
}

#[test]
fn lines_are_published_in_their_order_and_bad_ones_are_told() {
    let pair = Pair::new();
    let input: String =
        (1..=3000).map(|n| if n == 1500 { "{oops\n".into() } else { format!("{{\"n\":{n}}}\n") }).collect();
    let ran = pair.pipe(&["publish", "many", "--lines", "--key", "k"], &input);
    ran.ends_with(1);
    assert_eq!(ran.json(), serde_json::json!({"published": 2999, "duplicates": 0, "failed": 1}));
    assert!(ran.err.contains("line 1500: not JSON"), "{}", ran.err);
    let ran = pair.run(&["subscribe", "many", "--from", "after-seq:2000", "--count", "999", "--json"]);
    let numbers: Vec<_> = ran.out.lines().map(|line| json(line)["payload"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (2002..=3000).collect::<Vec<_>>());
    pair.pipe(&["publish", "many", "--lines"], "1\n2\n").ends_with(0);
    pair.hub.stop();
}

#[test]
fn a_tail_shows_what_matches_and_ends_with_the_signal() {
    let pair = Pair::new();
    pair.run(&["publish", "t.a", "0", "--tag", "red"]).ends_with(0);
    let filters = ["--filter", "tag=red", "--filter", "header.h=v"];
    let mut tail =
        pair.start(&[&["subscribe", "t.a", "--json", "--from", "earliest"], &filters[..]].concat());
    pair.run(&["publish", "t.a", "1", "--tag", "red"]).ends_with(0);
    pair.run(&["publish", "t.a", "2", "--tag", "red", "--header", "h=v"]).ends_with(0);
    assert_eq!(json(&tail.line())["payload"], 2);
    tail.signal("INT");
    assert_eq!(tail.ended(), 0);
    pair.hub.stop();
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    let pair = Pair::new();
    let input: String = (0..200).map(|n| format!("{n}\n")).collect();
    pair.pipe(&["publish", "t", "--lines"], &input).ends_with(0);
    let mut command = program(&pair.args(&["subscribe", "t", "--from", "earliest", "--json"]), &[]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    pair.hub.stop();
}

/// Runs it with nobody who reads its output.
fn unread(args: &[&str], input: Stdio) -> i32 {
    let mut command = program(args, &[]);
    let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code().unwrap()
}

#[test]
fn a_failure_stays_one_when_nobody_reads_the_output() {
    let place = Place::new();
    let policy = place.write("p.sib", "(allow publish \"a\")");
    let check =
        |topic| unread(&["policy", "check", &policy, "--action", "publish", "--topic", topic], Stdio::null());
    assert_eq!((check("a"), check("b")), (0, 1));
    let file = place.write("hub.toml", "[server]\nws_prot = 1\n");
    assert_eq!(unread(&["config", "check", &file], Stdio::null()), 1);
    assert_eq!(unread(&["config", "default"], Stdio::null()), 0);
    let pair = Pair::new();
    let lines = place.write("lines", "1\nno JSON\n");
    let lines = std::fs::File::open(lines).unwrap();
    assert_eq!(unread(&pair.args(&["publish", "t", "--lines"]), lines.into()), 1);
    pair.hub.stop();
}

#[test]
fn the_static_token_of_a_hub_goes_to_this_machine_only() {
    let place = Place::new();
    let data = place.text("data");
    let hub = Hub::start(&place.path("data"), &[], &[("WS_TOKEN", "hunter2")]);
    let environment = [("WS_TOKEN", "hunter2")];
    let none = place.text("none");
    run_with(&["publish", "t", "1", "--url", hub.ws(), "--data", &none], &environment).ends_with(0);
    // A documentation address: nothing must be sent there.
    let url = "ws://me:pass@192.0.2.1:1/";
    let ran = run_with(&["publish", "t", "1", "--url", url, "--data", &data], &environment);
    ran.ends_with(2);
    assert!(ran.err.contains("no token for ws://192.0.2.1:1/"), "{}", ran.err);
    hub.stop();
}

#[test]
fn a_line_that_no_frame_can_hold_is_refused_and_the_others_are_not() {
    let pair = Pair::new();
    let input = format!("1\n\"{}\"\n3\n", "x".repeat(5 << 20));
    let ran = pair.pipe(&["publish", "t", "--lines"], &input);
    ran.ends_with(1);
    assert!(ran.err.contains("line 2: ") && ran.err.contains("4 MiB of a frame"), "{}", ran.err);
    assert_eq!(json(&ran.out)["published"], 2);
    pair.hub.stop();
}

#[test]
fn a_batch_that_never_fits_a_rate_is_sent_in_parts() {
    let place = Place::new();
    let file = place.write("hub.toml", "[limits]\nconnection_rate = 20\n");
    let hub = Hub::start(&place.path("data"), &["--config", &file], &[]);
    let pair = Pair { hub, data: place.text("data"), _place: place };
    let input: String = (0..60).map(|n| format!("{n}\n")).collect();
    let ran = pair.pipe(&["publish", "t", "--lines"], &input);
    ran.ends_with(0);
    assert_eq!(json(&ran.out)["published"], 60);
    pair.hub.stop();
}

#[test]
fn what_the_hub_refuses_is_told_and_ends_with_1() {
    let pair = Pair::new();
    let token = run_with(&["token", "--data", &pair.data, "--scope", "publish:a"], &[]).out;
    let with =
        |args: &[&str]| run_with(&[args, &["--url", pair.hub.ws(), "--token", token.trim()]].concat(), &[]);
    with(&["publish", "a", "1"]).ends_with(0);
    for args in [&["publish", "b", "1"][..], &["subscribe", "a"], &["subscribe", "a", "--group", "g"]] {
        let ran = with(args);
        ran.ends_with(1);
        assert!(ran.err.contains("the hub answered forbidden"), "{args:?}: {}", ran.err);
    }
    let ran = run_with(&["publish", "a", "1", "--url", pair.hub.ws(), "--token", "nonsense"], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains("the hub answered jwt_invalid"), "{}", ran.err);
    assert!(!ran.err.contains("nonsense"), "{}", ran.err);
    // The other port, no hub, no token, no JSON.
    let http = pair.hub.http().replace("http://", "ws://");
    for (args, expected) in [
        (&["publish", "a", "1", "--url", &http][..], "is no WebSocket of a hub"),
        (&["publish", "a", "1", "--url", "ws://127.0.0.1:1/"], "no hub at ws://127.0.0.1:1/"),
        (
            &["publish", "a", "1", "--url", "ws://hub.invalid/"],
            "the development secret are for hubs on this machine only",
        ),
        (&["publish", "a", "like this"], "the payload is not JSON"),
        (&["publish", "a", "1", "--header", "x"], "NAME=VALUE"),
        (&["publish", "a..b", "1"], "a..b"),
        (&["subscribe", "a", "--from", "yesterday"], "earliest, latest"),
        (&["subscribe", "a", "--filter", "x"], "key=K, tag=T or header.NAME=VALUE"),
    ] {
        let ran = run_with(&[args, &["--data", &pair.data]].concat(), &[]);
        ran.ends_with(2);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    let ran = run_with(&["publish", "a", "1", "--data", "no-such-directory"], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains("no token"), "{}", ran.err);
    pair.hub.stop();
}

#[test]
fn a_stop_of_the_hub_is_told_to_who_follows_it() {
    let pair = Pair::new();
    let mut tail = pair.start(&["subscribe", "t", "--from", "earliest", "--group", "g"]);
    pair.run(&["publish", "t", "1"]).ends_with(0);
    tail.line();
    assert_eq!(pair.hub.ask(Method::GET, "healthz", None, "").0, 200);
    pair.hub.stop();
    assert_eq!(tail.ended(), 2);
    tail.logs("1012");
}
