//! `export` and `import`, against a hub that runs.

use super::{Cli, objects};
use serde_json::{Value, json};
use std::fs;

/// The records of a topic, but for where they are.
fn contents(text: &str) -> Vec<Value> {
    let mut records = objects(text);
    for record in &mut records {
        let record = record.as_object_mut().unwrap();
        record.remove("topic");
        record.remove("seq");
    }
    records
}

fn export(cli: &Cli, topic: &str) -> String {
    let ran = cli.run(&["export", topic]);
    ran.ends_with(0);
    assert_eq!(ran.err, "", "quiet in a pipe");
    ran.out
}

#[test]
fn what_is_exported_is_imported_with_everything_that_it_has() {
    let cli = Cli::new();
    let id = "0190a1b2-0000-7000-8000-000000000001";
    let publish =
        ["publish", "orders", r#"{"n":1.50}"#, "--id", id, "--key", "k", "--header", "h=v", "--tag", "red"];
    cli.run(&publish).ends_with(0);
    cli.run(&["publish", "orders", "null", "--key", "k"]).ends_with(0);
    let whole = export(&cli, "orders");
    // A record as another hub may have written it: members in another order, a header of the hub, causes and a session.
    let foreign = format!(
        r#"{{"seq":9,"payload":[1],"topic":"orders","ts":5,"id":"0190a1b2-0000-7000-8000-000000000002","sid":"s","caused_by":["{id}"],"headers":{{"x-hub-derived":"1","a":"b"}}}}"#
    );
    let input = format!("{whole}\n{foreign}\n");
    let imported = cli.pipe(&["import", "copy"], input.as_bytes());
    imported.ends_with(0);
    assert_eq!(imported.json(), json!({"published": 3, "duplicates": 0, "bad": 0, "failed": 0}));
    let copied = export(&cli, "copy");
    let records = contents(&copied);
    assert_eq!(records[..2], contents(&whole)[..]);
    assert!(copied.contains("1.50"), "numbers stay as they were written");
    let last = json!({"id": "0190a1b2-0000-7000-8000-000000000002", "ts": 5, "sid": "s", "caused_by": [id],
        "headers": {"a": "b"}, "payload": [1]});
    assert_eq!(records[2], last);

    // Again: nothing is stored twice.
    let again = cli.pipe(&["import", "copy"], input.as_bytes());
    assert_eq!(again.ends_with(0).json()["duplicates"], 3);
    assert_eq!(export(&cli, "copy"), copied);
    let new = cli.pipe(&["import", "copy", "--new-ids"], whole.as_bytes());
    assert_eq!(new.ends_with(0).json(), json!({"published": 2, "duplicates": 0, "bad": 0, "failed": 0}));
    assert_eq!(export(&cli, "copy").lines().count(), 5);
    cli.stop();
}

#[test]
fn an_export_to_a_file_goes_on_where_it_was_cut() {
    let cli = Cli::new();
    cli.publish("t", 1..=500);
    let (file, packed) = (cli.place.text("t.ndjson"), cli.place.text("t.gz"));
    let first = cli.run(&["export", "t", "-o", &file]);
    first.ends_with(0);
    assert!(
        first.out.starts_with(&format!("{file}: 500 events, ")) && first.out.ends_with(", up to seq 500\n"),
        "{}",
        first.out
    );
    cli.run(&["export", "t", "-o", &packed, "--gzip"]).ends_with(0);
    let whole = fs::read(&file).unwrap();
    assert_eq!(whole, export(&cli, "t").as_bytes());

    // As a crash leaves it: in the middle of a line.
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    cli.publish("t", 501..=600);
    let resumed = cli.run(&["export", "t", "-o", &file, "--json"]);
    resumed.ends_with(0);
    let after = resumed.json()["resumedAfter"].as_u64().unwrap();
    assert!((200..300).contains(&after), "{after}");
    assert_eq!(resumed.json()["events"], 600 - after);
    assert!(resumed.err.contains("ended in the middle of an event"), "{}", resumed.err);
    assert!(
        resumed.err.contains(&format!("has events up to seq {after}; going on behind it")),
        "{}",
        resumed.err
    );
    let whole = export(&cli, "t");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    // Once more: there is nothing to do.
    let nothing = cli.run(&["export", "t", "-o", &file]);
    assert!(nothing.ends_with(0).out.contains("0 further events"), "{}", nothing.out);
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);

    // The compressed one goes on, too, and an import recognises it.
    cli.run(&["export", "t", "-o", &packed, "--gzip"]).ends_with(0);
    assert!(fs::metadata(&packed).unwrap().len() < whole.len() as u64 / 2);
    let imported = cli.run(&["import", "copy", &packed]);
    assert_eq!(imported.ends_with(0).json()["published"], 600);
    assert_eq!(contents(&export(&cli, "copy")), contents(&whole));

    let other = cli.run(&["export", "copy", "-o", &file]);
    other.ends_with(2);
    assert!(other.err.contains("has events of topic t"), "{}", other.err);
    cli.run(&["export", "copy", "-o", &file, "--overwrite"]).ends_with(0);
    assert_eq!(contents(&fs::read_to_string(&file).unwrap()), contents(&whole));
    cli.stop();
}

#[test]
fn a_part_of_a_topic_is_exported() {
    let cli = Cli::new();
    cli.publish("t", 1..=9);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let ran = cli.run(&[&["export", "t"], args].concat());
        ran.ends_with(0);
        objects(&ran.out).iter().map(|record| record["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["--after-seq", "7"]), [8, 9]);
    assert_eq!(seqs(&["--to-ts", "5"]), [0_u64; 0]);
    assert_eq!(seqs(&["--from-ts", "ago:1h"]).len(), 9);
    let beyond = cli.run(&["export", "t", "--after-seq", "99"]);
    beyond.ends_with(1);
    assert!(beyond.err.contains("beyond the end"), "{}", beyond.err);
    cli.stop();
}

#[test]
fn bad_lines_are_named_and_stop_an_import_or_are_passed_over() {
    let cli = Cli::new();
    let record = |n: u64| format!("{{\"id\":\"0190a1b2-0000-7000-8000-{n:012}\",\"payload\":{n}}}\n");
    let input = [record(1), "{oops\n".into(), record(2), "[1]\n".into(), record(3)].concat();
    let stopped = cli.pipe(&["import", "t"], input.as_bytes());
    stopped.ends_with(1);
    assert!(
        stopped.err.contains("line 2: not JSON: ") && stopped.err.contains("--skip-bad"),
        "{}",
        stopped.err
    );
    assert_eq!(stopped.json(), json!({"published": 1, "duplicates": 0, "bad": 1, "failed": 0}));
    let skipped = cli.pipe(&["import", "t", "--skip-bad"], input.as_bytes());
    skipped.ends_with(0);
    assert!(
        skipped.err.contains("line 2: ") && skipped.err.contains("line 4: not a JSON object"),
        "{}",
        skipped.err
    );
    assert_eq!(skipped.json(), json!({"published": 2, "duplicates": 1, "bad": 2, "failed": 0}));

    // The same id with another payload is refused by the hub; the others are not.
    let conflict = [record(1).replace("\"payload\":1", "\"payload\":7"), record(4)].concat();
    let failed = cli.pipe(&["import", "t"], conflict.as_bytes());
    failed.ends_with(1);
    assert!(failed.err.contains("line 1: the hub answered id_conflict"), "{}", failed.err);
    assert_eq!(failed.json(), json!({"published": 1, "duplicates": 0, "bad": 0, "failed": 1}));

    let nameless = b"{\"payload\":1}\n";
    let refused = cli.pipe(&["import", "t"], nameless);
    refused.ends_with(1);
    assert!(refused.err.contains("line 1: not a record: it has no id; --new-ids"), "{}", refused.err);
    assert_eq!(cli.pipe(&["import", "t", "--new-ids"], nameless).ends_with(0).json()["published"], 1);

    let many = "no record\n".repeat(30);
    let told = cli.pipe(&["import", "t", "--skip-bad"], many.as_bytes());
    assert_eq!(told.ends_with(0).json()["bad"], 30);
    assert_eq!(told.err.lines().count(), 11, "{}", told.err);

    let derived = cli.pipe(&["import", "dlq.t"], input.as_bytes());
    derived.ends_with(1);
    assert!(derived.err.contains("forbidden"), "{}", derived.err);
    let token = cli.token(&["subscribe:**"]);
    let refused = cli.pipe(&["import", "t", "--token", &token], input.as_bytes());
    refused.ends_with(1);
    assert!(refused.err.contains("it needs the scope publish:t"), "{}", refused.err);
    cli.stop();
}

/// Records with these numbers as payloads.
fn records(numbers: std::ops::RangeInclusive<u64>) -> String {
    numbers.map(|n| format!("{{\"id\":\"0190a1b2-0000-7000-8000-{n:012}\",\"payload\":{n}}}\n")).collect()
}

fn payloads(text: &str) -> Vec<u64> {
    objects(text).iter().map(|record| record["payload"].as_u64().unwrap()).collect()
}

#[test]
fn an_import_outlives_a_hub_that_is_killed_and_keeps_the_order() {
    let mut cli = Cli::new();
    let file = cli.place.write("many", &records(1..=60_000));
    let mut import = cli.start(&["import", "t", &file]);
    while cli.get("topics")["topics"][0]["last"].as_u64().is_none_or(|last| last < 1000) {
        assert!(import.log().is_empty(), "{}", import.log());
        std::thread::yield_now();
    }
    cli.hub.process.signal("KILL");
    cli.hub.process.ended();
    let data = cli.place.path("data");
    cli.hub.start_again(&data);
    let sum: Value = serde_json::from_str(&import.line()).unwrap();
    assert_eq!(import.ended(), 0, "{}", import.last_log());
    assert_eq!(sum["published"].as_u64().unwrap() + sum["duplicates"].as_u64().unwrap(), 60_000, "{sum}");
    assert_eq!(payloads(&export(&cli, "t")), (1..=60_000).collect::<Vec<_>>());
    cli.stop();
}

#[test]
fn a_limit_of_the_hub_slows_an_import_down_and_changes_no_order() {
    let place = crate::hub::Place::new();
    let file = place.write("hub.toml", "[limits]\nconnection_rate = 40\n");
    let hub = crate::hub::Hub::start(&place.path("data"), &["--config", &file], &[]);
    let cli = Cli { hub, data: place.text("data"), place };
    let imported = cli.pipe(&["import", "t"], records(1..=100).as_bytes());
    assert_eq!(imported.ends_with(0).json()["published"], 100);
    assert_eq!(payloads(&export(&cli, "t")), (1..=100).collect::<Vec<_>>());
    cli.stop();
}

#[test]
fn a_pipe_from_an_export_to_an_import_copies_a_topic_from_hub_to_hub() {
    let (from, to) = (Cli::new(), Cli::new());
    from.publish("t", 1..=3000);
    let exported = export(&from, "t");
    to.pipe(&["import", "t"], exported.as_bytes()).ends_with(0);
    assert_eq!(export(&to, "t"), exported, "also the seqs are the same in a new topic");
    from.stop();
    to.stop();
}

#[test]
fn a_reader_that_has_seen_enough_ends_an_export_quietly() {
    let cli = Cli::new();
    cli.publish("t", 1..=20_000);
    let mut command = crate::hub::program(&cli.args(&["export", "t"]), &[]);
    use std::process::Stdio;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    cli.stop();
}

#[test]
fn an_export_that_cannot_begin_leaves_the_file_that_it_was_to_overwrite() {
    let cli = Cli::new();
    cli.publish("t", 1..=3);
    let file = cli.place.text("file");
    cli.run(&["export", "t", "--output", &file]).ends_with(0);
    let before = fs::read_to_string(&file).unwrap();
    let away =
        ["export", "t", "--output", &file, "--overwrite", "--ops-url", "http://127.0.0.1:1/", "--token", "x"];
    crate::hub::run_with(&away, &[]).ends_with(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "no hub answered");
    cli.run(&["export", "nothing", "--output", &file, "--overwrite"]).ends_with(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "there is no such topic");
    cli.run(&["export", "t", "--output", &file, "--overwrite", "--after-seq", "2"]).ends_with(0);
    assert_eq!(objects(&fs::read_to_string(&file).unwrap()).len(), 1);
    // One that has nothing to write empties it.
    cli.run(&["export", "t", "--output", &file, "--overwrite", "--after-seq", "3"]).ends_with(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    cli.stop();
}

#[test]
fn dead_letters_that_were_replayed_are_not_imported_as_new_events() {
    let cli = Cli::new();
    cli.publish("t", 1..=2);
    super::merged::give_up(&cli, "t", "billing", 2);
    cli.run(&["dlq", "replay", "t", "--yes"]).ends_with(0);
    let whole = export(&cli, "t");
    assert_eq!(whole.lines().count(), 4, "the log has the replays, for one group");
    let imported = cli.pipe(&["import", "copy"], whole.as_bytes());
    let expected = json!({"published": 2, "duplicates": 0, "bad": 0, "failed": 0, "replays": 2});
    assert_eq!(imported.ends_with(0).json(), expected);
    assert_eq!(export(&cli, "copy").lines().count(), 2, "every group would get the others twice");
    cli.stop();
}
