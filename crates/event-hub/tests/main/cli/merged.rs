//! `replay`, `dlq`, `event` and dry runs, against a hub that runs.

use super::{Cli, objects};
use crate::socket::{Socket, clients};
use serde_json::{Value, json};

/// Lets a group give up every event of the topic that it gets, `count` of them.
pub fn give_up(cli: &Cli, topic: &str, group: &str, count: u64) {
    clients(async {
        let mut socket = Socket::open(cli.hub.ws(), cli.hub.token()).await;
        let opts = json!({"from": "earliest", "maxAttempts": 1});
        socket
            .send(&json!({"op": "SUBSCRIBE", "topic": topic, "group": group, "opts": opts, "corr": "s"}))
            .await
            .unwrap();
        let mut left = count;
        while left > 0 {
            let frame = socket.next().await.unwrap();
            if frame["op"] == "EVENT" {
                let (id, reason) =
                    (&frame["event"]["id"], format!("no customer {}", frame["event"]["payload"]));
                let nack = json!({"op": "NACK", "topic": topic, "group": group, "id": id, "reason": reason});
                socket.send(&nack).await.unwrap();
                left -= 1;
            }
        }
        // Answered behind the nacks.
        socket.send(&json!({"op": "PING", "corr": "p"})).await.unwrap();
        while socket.next().await.unwrap()["corr"] != "p" {}
    });
    let path = format!("dlq?topic={topic}");
    while (cli.get(&path)["letters"].as_array().unwrap().len() as u64) < count {
        std::thread::yield_now();
    }
}

fn letters(cli: &Cli, args: &[&str]) -> Vec<Value> {
    let ran = cli.run(&[&["dlq", "ls", "t", "--json"], args].concat());
    ran.ends_with(0);
    objects(&ran.out)
}

#[test]
fn a_replay_prints_what_an_export_has() {
    let cli = Cli::new();
    cli.publish("t", 1..=2500);
    cli.run(&["publish", "t", "{\"n\":1.50}", "--header", "x-correlation-id=order 17"]).ends_with(0);
    let whole = cli.run(&["export", "t"]).out;
    let replayed = cli.run(&["replay", "t"]);
    assert!(replayed.ends_with(0).out == whole, "{} lines", replayed.out.lines().count());
    let seqs = |args: &[&str]| -> Vec<u64> {
        let ran = cli.run(&[&["replay", "t"], args].concat());
        ran.ends_with(0);
        objects(&ran.out).iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["--after-seq", "2499"]), [2500, 2501]);
    assert_eq!(seqs(&["--from", "after-seq:7", "--limit", "2"]), [8, 9]);
    assert_eq!(seqs(&["--from", "ago:1h", "--limit", "1200"]), (1..=1200).collect::<Vec<_>>());
    assert_eq!(seqs(&["--correlation-id", "order 17"]), [2501]);
    let id = objects(&whole)[1]["id"].as_str().unwrap().to_owned();
    assert_eq!(seqs(&["--from", &format!("after-id:{id}"), "--limit", "1"]), [3]);
    let missing = cli.run(&["replay", "nothing"]);
    missing.ends_with(1);
    assert!(missing.err.contains("topic nothing does not exist; `event-hub topics ls`"), "{}", missing.err);
    cli.stop();
}

#[test]
fn dead_letters_are_found_replayed_to_their_group_and_removed() {
    let cli = Cli::new();
    cli.publish("t", 1..=3);
    give_up(&cli, "t", "billing", 3);
    cli.run(&["dlq", "ls"]).ends_with(0).says("t 3");
    cli.run(&["dlq", "ls", "t"]).ends_with(0).says("billing - 1").says("no customer 2");
    let found = letters(&cli, &["--contains", "customer 2"]);
    assert_eq!(found.len(), 1);
    assert_eq!(letters(&cli, &["--err", "no customer 3"]).len(), 1);
    assert_eq!(letters(&cli, &["--group", "mail"]).len(), 0);
    let id = found[0]["id"].as_str().unwrap();
    assert_eq!(cli.run(&["dlq", "show", "t", id, "--json"]).json()["original"]["payload"], 2);

    let dry = cli.run(&["dlq", "replay", "t", "--contains", "customer 2", "--dry-run"]);
    assert_eq!(dry.ends_with(0).out, "t: 1 dead letter would be replayed\n");
    cli.run(&["dlq", "replay", "t"]).ends_with(2);
    let replay = |args: &[&str]| cli.run(&[&["dlq", "replay", "t", "--yes"], args].concat());
    assert_eq!(replay(&["--id", id]).ends_with(0).out, "t: 1 event replayed, 0 skipped, 0 failed\n");
    assert_eq!(replay(&[]).ends_with(0).out, "t: 2 events replayed, 1 skipped, 0 failed\n");
    let mut again = Vec::new();
    let args = ["subscribe", "t", "--group", "billing", "--count", "3", "--json"];
    for event in objects(&cli.run(&args).ends_with(0).out) {
        again.push(event["payload"].as_u64().unwrap());
    }
    assert_eq!(again, [2, 1, 3]);
    let edit = cli.place.write("edit", "{\"n\":1.50}");
    assert_eq!(
        replay(&["--id", id, "--round", "2", "--edit", &edit]).ends_with(0).out.split(',').next(),
        Some("t: 1 event replayed")
    );
    let edited = cli.run(&["subscribe", "t", "--group", "billing", "--count", "1", "--json"]);
    assert!(edited.ends_with(0).out.contains("{\"n\":1.50}"), "{}", edited.out);
    // As a job: followed to its end.
    let job = replay(&["--round", "3", "--rate", "1000"]);
    assert_eq!(job.ends_with(0).out, "t: 3 events replayed, 0 skipped, 0 failed\n");

    cli.run(&["dlq", "rm", "t", id]).ends_with(2);
    assert_eq!(cli.run(&["dlq", "rm", "t", id, "--yes"]).ends_with(0).out, "t: 1 dead letter removed\n");
    assert_eq!(letters(&cli, &[]).len(), 2);
    assert_eq!(
        cli.run(&["dlq", "rm", "t", "--all", "--yes"]).ends_with(0).out,
        "t: 2 dead letters removed\n"
    );
    assert_eq!(letters(&cli, &[]).len(), 0);
    assert_eq!(replay(&[]).ends_with(0).out, "t: 0 events replayed, 0 skipped, 0 failed\n");
    cli.stop();
}

#[test]
fn dead_letters_of_every_topic_are_counted_then_replayed_and_removed_topic_by_topic() {
    let cli = Cli::new();
    for topic in ["a", "b", "c"] {
        cli.publish(topic, 1..=2);
        give_up(&cli, topic, "billing", 2);
    }
    let all = |args: &[&str]| cli.run(&[&["dlq", "replay", "--all-topics"], args].concat());
    let dry = all(&["--contains", "customer 2", "--dry-run"]);
    assert_eq!(
        dry.ends_with(0).out,
        ["a", "b", "c"].map(|topic| format!("{topic}: 1 dead letter would be replayed\n")).concat()
    );
    // Each topic is named in the question that has to be answered.
    let asked = all(&["--contains", "customer 2"]);
    asked.ends_with(2);
    assert!(
        asked.err.contains("b: 1 dead letter") && asked.err.contains("3 dead letters of 3 topics"),
        "{}",
        asked.err
    );
    // A topic that the token may not administrate is told of, and keeps no other one from it.
    let token = cli.token(&["subscribe:**", "subscribe:dlq.**", "admin:a", "admin:c"]);
    let args = ["dlq", "replay", "--all-topics", "--contains", "customer 2", "--yes", "--rate", "100"];
    let some =
        crate::hub::run_with(&[&args[..], &["--ops-url", cli.hub.http(), "--token", &token]].concat(), &[]);
    assert_eq!(
        some.ends_with(1).out,
        "a: 1 event replayed, 0 skipped, 0 failed\nc: 1 event replayed, 0 skipped, 0 failed\n",
        "{}",
        some.err
    );
    assert!(some.err.contains("error: b: ") && some.err.contains("admin:b"), "{}", some.err);
    let rest = all(&["--yes", "--json"]);
    let done = objects(&rest.ends_with(0).out);
    assert_eq!(done.len(), 3);
    assert_eq!(done[1], json!({"topic": "b", "replayed": 2, "skipped": 0, "failed": 0}));
    assert_eq!(done[0]["replayed"], 1);
    all(&["--yes"]).ends_with(0);

    let remove = |args: &[&str]| cli.run(&[&["dlq", "rm", "--all-topics"], args].concat());
    remove(&["--yes"]).ends_with(2);
    remove(&["--all"]).ends_with(2);
    assert_eq!(
        remove(&["--contains", "customer 2", "--dry-run"]).ends_with(0).out,
        ["a", "b", "c"].map(|topic| format!("{topic}: 1 dead letter would be removed\n")).concat()
    );
    assert_eq!(
        remove(&["--all", "--yes"]).ends_with(0).out,
        ["a", "b", "c"].map(|topic| format!("{topic}: 2 dead letters removed\n")).concat()
    );
    remove(&["--all", "--yes"]).ends_with(0);
    for args in
        [&["dlq", "replay"][..], &["dlq", "replay", "a", "--all-topics"], &["dlq", "rm", "a", "--all-topics"]]
    {
        cli.run(args).ends_with(2);
    }
    cli.stop();
}

#[test]
fn jobs_are_listed_shown_and_cancelled() {
    let cli = Cli::new();
    cli.publish("t", 1..=20);
    give_up(&cli, "t", "billing", 20);
    let begun = cli.post("dlq/replay", &json!({"topic": "t", "rate": 1}));
    let id = begun["job"].as_str().unwrap();
    cli.run(&["jobs", "ls"]).ends_with(0).says("running");
    assert_eq!(objects(&cli.run(&["jobs", "ls", "--json"]).ends_with(0).out)[0]["job"], id);
    cli.run(&["jobs", "show", id]).ends_with(0).says("state running").says("total 20");
    // One that cannot be cancelled keeps no other one from it.
    let ran = cli.run(&["jobs", "cancel", &uuid(1), id]);
    assert!(ran.ends_with(1).out.starts_with("t: cancelled, "), "{}", ran.out);
    assert!(ran.err.contains(&uuid(1)), "{}", ran.err);
    assert_eq!(cli.run(&["jobs", "show", id, "--json"]).ends_with(0).json()["state"], "cancelled");
    cli.run(&["jobs", "show", &uuid(1)]).ends_with(1);
    cli.run(&["jobs", "cancel"]).ends_with(2);
    cli.stop();
}

#[test]
fn push_endpoints_are_stored_listed_resumed_and_deleted() {
    let cli = Cli::new();
    let definition = json!({
        "topic": "orders.*", "url": "https://hooks.example/", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    });
    let file = cli.place.write("crm.json", &definition.to_string());
    cli.run(&["push", "put", "crm", &file]).ends_with(0).says("crm: stored");
    cli.run(&["push", "ls"]).ends_with(0).says("crm orders.* push.crm");
    assert_eq!(objects(&cli.run(&["push", "ls", "--json"]).ends_with(0).out)[0]["name"], "crm");
    let shown = cli.run(&["push", "show", "crm"]);
    shown.ends_with(0);
    assert!(shown.out.contains("\"url\"") && !shown.out.contains("whsec"), "{}", shown.out);
    cli.run(&["push", "resume", "crm"]).ends_with(0).says("crm: resumed");
    cli.run(&["push", "rm", "crm"]).ends_with(2);
    cli.run(&["push", "rm", "crm", "--yes"]).ends_with(0).says("its group push.crm stays");
    cli.run(&["push", "show", "crm"]).ends_with(1);
    let bad = cli.place.write("bad.json", "{");
    for args in [&["push", "put", "crm", &bad][..], &["push", "show", "../topics"], &["push", "resume", ".."]]
    {
        cli.run(args).ends_with(2);
    }
    cli.stop();
}

#[test]
fn events_are_found_by_their_headers_in_every_topic() {
    let cli = Cli::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    cli.publish("a", 1..=3);
    for topic in ["a", "b"] {
        let header = format!("traceparent={parent}");
        cli.run(&["publish", topic, "1", "--header", &header, "--header", "x-correlation-id=order 17"])
            .ends_with(0);
    }
    let find = |args: &[&str]| cli.run(&[&["event", "find", "--json"], args].concat());
    let places = |ran: &crate::world::Ran| {
        objects(&ran.ends_with(0).out)
            .iter()
            .map(|event| (event["topic"].clone(), event["seq"].clone()))
            .collect::<Vec<_>>()
    };
    let both = vec![(json!("a"), json!(4)), (json!("b"), json!(1))];
    for args in [
        &["--traceparent", parent][..],
        &["--trace-id", "4bf92f3577b34da6a3ce929d0e0e4736", "--from-ts", "ago:1h"],
        &["--correlation-id", "order 17"],
    ] {
        assert_eq!(places(&find(args)), both, "{args:?}");
    }
    cli.run(&["event", "find", "--traceparent", parent]).ends_with(0).says("b 1");
    find(&["--correlation-id", "nobody"]).ends_with(1);
    find(&["--traceparent", parent, "--to-ts", "ago:1h"]).ends_with(1);
    find(&["--trace-id", "x"]).ends_with(1);
    for args in [&[][..], &["--trace-id", "x", "--correlation-id", "y"]] {
        find(args).ends_with(2);
    }
    // An event by its place.
    cli.run(&["event", "show", "--topic", "b", "--seq", "1"]).ends_with(0).says("seq 1").says("payload 1");
    cli.run(&["event", "show", "--seq", "1"]).ends_with(2);
    cli.stop();
}

#[test]
fn dead_letters_that_are_named_and_not_there_are_told_of() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    give_up(&cli, "t", "billing", 1);
    let (there, gone) = (letters(&cli, &[])[0]["id"].as_str().unwrap().to_owned(), uuid(1));
    for (args, replayed) in [
        (&["--id", &gone, "--dry-run"][..], "t: 0 dead letters would be replayed\n"),
        (&["--id", &gone, "--id", &there, "--dry-run"], "t: 1 dead letter would be replayed\n"),
        (&["--id", &gone, "--yes"], ""),
        (&["--id", &gone], ""),
        (
            &["--id", &there, "--id", &gone, "--id", &there, "--yes"],
            "t: 1 event replayed, 0 skipped, 0 failed\n",
        ),
    ] {
        let ran = cli.run(&[&["dlq", "replay", "t"], args].concat());
        assert_eq!(ran.ends_with(1).out, replayed, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("dead letter"), "{args:?}: {}", ran.err);
    }
    // The same id twice is one dead letter.
    cli.run(&["dlq", "replay", "t", "--id", &there, "--id", &there, "--yes"]).ends_with(0);
    let removed = cli.run(&["dlq", "rm", "t", &there, &there, "--yes"]);
    assert_eq!(removed.ends_with(0).out, "t: 1 dead letter removed\n", "{}", removed.err);
    cli.stop();
}

fn uuid(n: u64) -> String {
    format!("0190a1b2-0000-7000-8000-{n:012}")
}

#[test]
fn removing_dead_letters_is_tried_first_and_what_is_removed_is_counted_no_more() {
    let cli = Cli::new();
    cli.publish("t", 1..=3);
    give_up(&cli, "t", "billing", 3);
    let lint = || cli.run(&["topics", "lint"]).out;
    assert!(lint().contains("dead-letters: t"), "{}", lint());
    for (args, says) in [
        (&["--all", "--dry-run"][..], "t: 3 dead letters would be removed\n"),
        (&["--contains", "customer 2", "--dry-run"], "t: 1 dead letter would be removed\n"),
    ] {
        assert_eq!(cli.run(&[&["dlq", "rm", "t"], args].concat()).ends_with(0).out, says);
    }
    let json = cli.run(&["dlq", "rm", "t", "--all", "--dry-run", "--json"]).json();
    assert_eq!(json, json!({"topic": "t", "matched": 3}));
    assert_eq!(letters(&cli, &[]).len(), 3, "nothing was removed");
    assert_eq!(cli.run(&["topics", "show", "t", "--json"]).json()["deadLetters"], 3);
    let topics = || objects(&cli.run(&["dlq", "ls", "--json"]).ends_with(0).out);
    assert_eq!((&topics()[0]["topic"], &topics()[0]["letters"]), (&json!("t"), &json!(3)));
    cli.run(&["dlq", "rm", "t", "--all", "--yes"]).ends_with(0);
    assert_eq!(topics(), Vec::<Value>::new());
    assert_eq!(cli.run(&["topics", "show", "t", "--json"]).json()["deadLetters"], 0);
    assert!(!lint().contains("dead-letters"), "{}", lint());
    // The right that is missing is the one that is named.
    let token = cli.token(&["admin:t"]);
    let args = ["dlq", "rm", "t", "--all", "--yes", "--ops-url", cli.hub.http(), "--token", &token];
    let refused = crate::hub::run_with(&args, &[]);
    refused.ends_with(1);
    assert!(refused.err.contains("the scope subscribe:dlq.t"), "{}", refused.err);
    cli.stop();
}

#[test]
fn a_replay_at_a_rate_is_cancelled_by_an_interrupt() {
    let cli = Cli::new();
    cli.publish("t", 1..=20);
    give_up(&cli, "t", "g", 20);
    let mut replay = cli.start(&["dlq", "replay", "t", "--yes", "--rate", "1"]);
    // The first one is replayed: the job runs, and the command follows it.
    while cli.get("topics")["topics"]
        .as_array()
        .unwrap()
        .iter()
        .all(|topic| topic["name"] != "t" || topic["last"] == 20)
    {
        std::thread::yield_now();
    }
    replay.signal("INT");
    assert_eq!(replay.ended(), 1);
    assert!(replay.last_log().contains("cancelled"), "{}", replay.last_log());
    let jobs = cli.get("jobs");
    assert_eq!(jobs["jobs"][0]["state"], "cancelled", "{jobs}");
    cli.stop();
}

#[test]
fn a_person_is_told_how_many_dead_letters_are_replayed() {
    let cli = Cli::new();
    cli.publish("t", 1..=2);
    give_up(&cli, "t", "g", 2);
    for (answer, code, says) in [("n\n", 1, "not replayed"), ("y\n", 0, "2 events replayed")] {
        let mut terminal = cli.pty(&["dlq", "replay", "t"], &[]);
        terminal.shows("Replay 2 dead letters of t? [y/N] ");
        terminal.press(answer);
        terminal.shows(says);
        assert_eq!(terminal.ended().0, code);
    }
    cli.stop();
}

#[test]
fn an_event_is_followed_to_its_groups_and_its_dead_letter() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    cli.group("t", "mail", 1);
    give_up(&cli, "t", "billing", 1);
    let id = objects(&cli.run(&["export", "t"]).out)[0]["id"].as_str().unwrap().to_owned();
    let shown = cli.run(&["event", "show", &id, "--topic", "t"]);
    shown.ends_with(0).says("seq 1").says("payload 1").says("billing dead_lettered").says("mail settled");
    shown.says("dead letter of billing").says("err no customer 1");
    let json = cli.run(&["event", "show", &id, "--topic", "t", "--json"]).json();
    assert_eq!((&json["event"]["payload"], &json["groups"][1]["state"]), (&json!(1), &json!("settled")));
    let missing = cli.run(&["event", "show", "0190a1b2-0000-7000-8000-000000000001", "--topic", "t"]);
    missing.ends_with(1);
    assert!(missing.err.contains("unknown_id"), "{}", missing.err);

    // Without a topic, the hub finds it.
    assert_eq!(cli.run(&["event", "show", &id]).ends_with(0).out, shown.out);
    assert_eq!(cli.run(&["event", "show", &id, "--json"]).json(), json);
    // A copy keeps the id.
    let whole = cli.run(&["export", "t"]).out;
    cli.pipe(&["import", "copy"], whole.as_bytes()).ends_with(0);
    let both = cli.run(&["event", "show", &id]);
    both.ends_with(0).says("topic copy").says("topic t").says("billing dead_lettered");
    let both = objects(&cli.run(&["event", "show", &id, "--json"]).ends_with(0).out);
    assert_eq!((&both[0]["topic"], &both[1]["topic"]), (&json!("copy"), &json!("t")));
    let missing = cli.run(&["event", "show", &uuid(1)]);
    assert_eq!(missing.ends_with(1).out, "");
    assert!(missing.err.contains("in the 3 topics that this token may read"), "{}", missing.err);
    cli.run(&["event", "show", "nonsense"]).ends_with(2);
    cli.stop();
}

#[test]
fn a_dry_run_of_a_seek_says_where_the_group_would_go() {
    let cli = Cli::new();
    cli.publish("t", 1..=9);
    cli.group("t", "g", 4);
    let dry = cli.run(&["groups", "seek", "t", "g", "--to", "after-seq:7", "--dry-run"]);
    let expected = "would place group g of t after seq 7 (it was 4: up to 3 events are passed over)\n";
    assert_eq!(dry.ends_with(0).out, expected);
    assert_eq!(cli.get("groups")["groups"][0]["floor"], 4);
    let mut terminal = cli.pty(&["groups", "seek", "t", "g", "--to", "after-seq:1"], &[]);
    terminal.shows("Place group g of t after seq 1 (it was 4: up to 3 events settled come again)? [y/N] ");
    terminal.press("n\n");
    assert_eq!(terminal.ended().0, 1);
    assert_eq!(cli.get("groups")["groups"][0]["floor"], 4);
    cli.stop();
}

#[test]
fn rates_of_the_hub_are_shown() {
    let cli = Cli::new();
    cli.publish("t", 1..=600);
    cli.group("t", "g", 600);
    let rate = || {
        let listed = cli.run(&["topics", "ls"]).out;
        let row = listed.lines().nth(1).unwrap().to_owned();
        // The third from the end: the time of the newest event has two words.
        row.split_whitespace().rev().nth(2).unwrap().to_owned()
    };
    while rate() == "0" || rate() == "-" {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    cli.run(&["groups", "show", "t", "g"]).ends_with(0).says("ms for half of the events");
    cli.stop();
}
