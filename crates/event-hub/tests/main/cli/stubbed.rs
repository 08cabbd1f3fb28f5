//! `replay`, `dlq` and `event` against answers that are written down here: what a real hub cannot be brought to answer at will.

use super::objects;
use super::stub::Stub;
use crate::hub::{Place, run_with};
use crate::world::Ran;
use serde_json::{Value, json};

fn run(hub: &Stub, args: &[&str]) -> Ran {
    run_with(&[args, &["--ops-url", &hub.url, "--token", "x"]].concat(), &[])
}

/// The requests with a body, as JSON.
fn bodies(hub: &Stub) -> Vec<Value> {
    let bodies = hub.requests().into_iter().filter(|(_, body)| !body.is_empty());
    bodies.map(|(_, body)| serde_json::from_str(&body).unwrap()).collect()
}

#[test]
fn a_replay_goes_from_page_to_page_and_prints_events_as_they_are() {
    let hub = Stub::json(&[
        (
            "GET /replay?topic=t&limit=1000&from=earliest",
            200,
            r#"{"topic":"t","count":2,"events":[{"seq":1,"payload":1.50},{"seq":2,"payload":2}],"next":2}"#,
        ),
        (
            "GET /replay?topic=t&limit=1000&from=afterSeq&afterSeq=2",
            200,
            r#"{"topic":"t","count":0,"events":[],"next":40}"#,
        ),
        (
            "GET /replay?topic=t&limit=1000&from=afterSeq&afterSeq=40",
            200,
            r#"{"topic":"t","count":1,"events":[{"seq":41,"payload":3}],"next":null}"#,
        ),
        (
            "GET /replay?topic=t&limit=1&from=ts&ts=5&correlationId=a%26b&traceId=4bf92f3577b34da6a3ce929d0e0e4736",
            200,
            r#"{"topic":"t","count":1,"events":[{"seq":7}],"next":7}"#,
        ),
    ]);
    let ran = run(&hub, &["replay", "t"]);
    ran.ends_with(0);
    assert_eq!(
        ran.out,
        "{\"seq\":1,\"payload\":1.50}\n{\"seq\":2,\"payload\":2}\n{\"seq\":41,\"payload\":3}\n"
    );
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let words = ["--from", "ts:5", "--limit", "1", "--correlation-id", "a&b", "--trace-id", trace];
    let ran = run(&hub, &[&["replay", "t"], &words[..]].concat());
    assert_eq!(ran.ends_with(0).out, "{\"seq\":7}\n");
}

const LETTERS: &str = r#"{"letters":[{"id":"d-1","topic":"t","group":"billing","seq":1,"originalId":"o-1","originalSeq":4,"key":"k","err":"no such customer","attempts":5,"ts":951827696000}],"next":"1"}"#;
const MORE: &str = r#"{"letters":[{"id":"d-2","topic":"t","group":"mail","seq":2,"originalId":"o-2","originalSeq":5,"err":"bounced","attempts":3,"ts":951827697000,"replayed":951827698000}]}"#;

#[test]
fn dead_letters_are_listed_over_all_pages() {
    let hub = Stub::json(&[
        ("GET /dlq?topic=t&limit=100&after=1", 200, MORE),
        ("GET /dlq?topic=t&limit=99&after=1", 200, MORE),
        ("GET /dlq?topic=t&limit=1", 200, LETTERS),
        ("GET /dlq?topic=t&group=g&err=e+e&key=k&limit=", 200, r#"{"letters":[]}"#),
    ]);
    let ran = run(&hub, &["dlq", "ls", "dlq.t"]);
    ran.ends_with(0).says("ID GROUP KEY ATTEMPTS GIVEN UP (UTC) REPLAYED ERROR");
    ran.says("d-1 billing k 5 2000-02-29 12:34:56 - no such customer");
    ran.says("d-2 mail - 3 2000-02-29 12:34:57 2000-02-29 12:34:58 bounced");
    assert_eq!(objects(&run(&hub, &["dlq", "ls", "t", "--json"]).out).len(), 2);
    run(&hub, &["dlq", "ls", "t", "--limit", "1"]).ends_with(0).says("and more; --limit 10");
    run(&hub, &["dlq", "ls", "t", "--group", "g", "--err", "e e", "--key", "k"]).ends_with(0);
}

#[test]
fn a_dead_letter_is_shown() {
    let hub = Stub::json(&[(
        "GET /dlq/show?topic=t&id=d-1",
        200,
        r#"{"id":"d-1","original":{"payload":{"n":1}}}"#,
    )]);
    let ran = run(&hub, &["dlq", "show", "t", "d-1"]);
    ran.ends_with(0).says("\"id\": \"d-1\"");
    assert_eq!(run(&hub, &["dlq", "show", "t", "d-1", "--json"]).json()["original"]["payload"]["n"], 1);
}

#[test]
fn dead_letters_are_counted_replayed_and_edited() {
    let hub = Stub::start(|(_, body), socket| {
        let asked: Value = serde_json::from_str(body).unwrap();
        let answer = match (asked["dryRun"] == true, &asked["after"]) {
            (true, _) => json!({"matched": 4, "skipped": 1, "complete": true}),
            (_, Value::Null) => json!({"replayed": 2, "skipped": 0, "failed": 0, "next": "2"}),
            _ => {
                json!({"replayed": 0, "skipped": 1, "failed": 1, "failures": [{"id": "d-9", "code": "too_large", "error": "payload"}]})
            }
        };
        super::stub::respond(socket, 200, &answer.to_string());
    });
    let dry = run(&hub, &["dlq", "replay", "t", "--group", "g", "--dry-run"]);
    assert_eq!(
        dry.ends_with(0).out,
        "t: 3 dead letters (1 more were replayed before, see --round) would be replayed\n"
    );
    let asked = run(&hub, &["dlq", "replay", "t"]);
    asked.ends_with(2);
    assert!(
        asked.err.contains("Replay 3 dead letters (1 more were replayed before, see --round) of t?")
            && asked.err.contains("--yes"),
        "{}",
        asked.err
    );
    let ran = run(&hub, &["dlq", "replay", "t", "--group", "g", "--err", "e", "--yes"]);
    assert_eq!(ran.ends_with(1).out, "t: 2 events replayed, 1 skipped, 1 failed\n");
    assert_eq!(ran.err, "d-9: too_large: payload\n");
    let all = bodies(&hub);
    assert_eq!(all[0], json!({"topic": "t", "group": "g", "dryRun": true}));
    assert_eq!(
        all[2..],
        [
            json!({"topic": "t", "group": "g", "err": "e"}),
            json!({"topic": "t", "group": "g", "err": "e", "after": "2"}),
        ]
    );

    let place = Place::new();
    let file = place.write("payload", "{\"n\": 1.50}");
    run(&hub, &["dlq", "replay", "t", "--id", "d-1", "--edit", &file, "--yes"]);
    let last = hub.requests()[4].1.clone();
    assert_eq!(last, r#"{"ids":["d-1"],"topic":"t","payload":{"n": 1.50}}"#, "as it was written");
    let bad = place.write("bad", "{oops");
    let ran = run(&hub, &["dlq", "replay", "t", "--id", "d-1", "--edit", &bad, "--yes"]);
    ran.ends_with(2);
    assert!(ran.err.contains("is not JSON"), "{}", ran.err);
}

#[test]
fn a_replay_at_a_rate_is_a_job_that_is_followed_and_cancelled() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let looks = AtomicU64::new(0);
    let hub = Stub::start(move |(request, body), socket| {
        let answer = match request.split(' ').next() {
            Some("POST") => {
                assert_eq!(serde_json::from_str::<Value>(body).unwrap()["rate"], 10);
                r#"{"job":"j-1","total":2}"#
            }
            Some("DELETE") => r#"{"job":"j-1","state":"cancelled","replayed":1,"skipped":0,"failed":0}"#,
            _ => match looks.fetch_add(1, Ordering::Relaxed) {
                0 => r#"{"job":"j-1","state":"running","total":2,"replayed":1,"skipped":0,"failed":0}"#,
                1 => r#"{"job":"j-1","state":"done","total":2,"replayed":2,"skipped":0,"failed":0}"#,
                _ => r#"{"job":"j-1","state":"running","total":2,"replayed":1,"skipped":0,"failed":0}"#,
            },
        };
        super::stub::respond(socket, 200, answer);
    });
    let ran = run(&hub, &["dlq", "replay", "t", "--rate", "10", "--yes"]);
    assert_eq!(ran.ends_with(0).out, "t: 2 events replayed, 0 skipped, 0 failed\n");
    // The next one never ends by itself.
    let args = ["dlq", "replay", "t", "--rate", "10", "--yes", "--ops-url", &hub.url, "--token", "x"];
    let mut process = crate::hub::Running::start(&args, &[]);
    while hub.requests().iter().filter(|(request, _)| request.starts_with("GET /jobs/j-1")).count() < 4 {
        std::thread::yield_now();
    }
    process.signal("INT");
    assert_eq!(process.line(), "t: 1 event replayed, 0 skipped, 0 failed\n");
    assert_eq!(process.ended(), 1);
    assert!(process.last_log().contains("cancelled; what was replayed stays so"));
    assert!(hub.requests().iter().any(|(request, _)| request == "DELETE /jobs/j-1"));
}

#[test]
fn dead_letters_are_removed_by_id_and_by_filter() {
    let hub = Stub::json(&[
        ("GET /dlq?topic=t&group=billing&limit=1000&after=1", 200, r#"{"letters":[]}"#),
        ("GET /dlq?topic=t&group=billing&limit=1000", 200, LETTERS),
        ("POST /dlq/delete", 200, r#"{"topic":"t","discarded":1}"#),
    ]);
    let ran = run(&hub, &["dlq", "rm", "t", "d-1", "--yes"]);
    assert_eq!(ran.ends_with(0).out, "t: 1 dead letter removed\n");
    let ran = run(&hub, &["dlq", "rm", "t", "d-1", "d-9", "--yes"]);
    ran.ends_with(1);
    assert!(ran.err.contains("1 dead letter of those that were named are not there"), "{}", ran.err);
    run(&hub, &["dlq", "rm", "t", "--group", "billing", "--yes"]).ends_with(0);
    assert_eq!(bodies(&hub).last().unwrap(), &json!({"topic": "t", "ids": ["d-1"]}));
    run(&hub, &["dlq", "rm", "t", "d-1"]).ends_with(2);
}

#[test]
fn an_event_is_shown_with_where_it_went() {
    let hub = Stub::json(&[(
        "GET /event?topic=t&id=0190a1b2-0000-7000-8000-000000000001",
        200,
        r#"{"topic":"t","event":{"id":"0190a1b2-0000-7000-8000-000000000001","topic":"t","seq":3,"ts":951827696000,"payload":{"n":1.50}},"seq":3,"committed":951827697000,"groups":[{"group":"billing","state":"settled"},{"group":"mail","state":"leased","attempts":2,"failures":1,"member":7},{"group":"audit","state":"dead_lettered","letter":{"id":"d-1","err":"no such\u001b[2J customer","ts":951827696000}}]}"#,
    )]);
    let show = ["event", "show", "0190a1b2-0000-7000-8000-000000000001", "--topic", "t"];
    let ran = run(&hub, &show);
    ran.ends_with(0).says("seq 3").says("committed (UTC) 2000-02-29 12:34:57").says("payload {\"n\":1.50}");
    ran.says("billing settled - -").says("mail leased 2 1 member 7");
    ran.says("dead letter of audit err no such·[2J customer id d-1 ts 2000-02-29 12:34:56 UTC");
    assert_eq!(run(&hub, &[&show[..], &["--json"]].concat()).json()["groups"][1]["attempts"], 2);
}
