//! `event-hub topics`, and deletions that survive `kill -9`.

use crate::hub::{Hub, Place, run_with};
use reqwest::Method;

fn publish(hub: &Hub, topic: &str, payload: &str) -> serde_json::Value {
    let (status, answer) = hub.ask(Method::POST, &format!("publish/{topic}"), Some(hub.token()), payload);
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_topic_that_was_deleted_stays_so_after_a_kill() {
    let place = Place::new();
    let mut hub = Hub::start(&place.path("data"), &[], &[]);
    for n in 1..=3 {
        publish(&hub, "junk.t", &n.to_string());
    }
    publish(&hub, "kept", "1");
    let data = place.text("data");
    let topics = |hub: &Hub, args: &[&str]| {
        let url = hub.http().to_owned();
        let mut all = vec!["topics"];
        all.extend(args);
        all.extend(["--ops-url", &url, "--data", &data]);
        run_with(&all, &[])
    };
    let listed = topics(&hub, &["ls"]);
    listed.ends_with(0);
    assert!(listed.out.contains("junk.t") && listed.out.contains("kept"), "{}", listed.out);
    let asked = topics(&hub, &["rm", "junk.t"]);
    asked.ends_with(2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    let removed = topics(&hub, &["rm", "--yes", "junk.t"]);
    removed.ends_with(0);
    assert_eq!(removed.out, "junk.t deleted: 1 topic, 0 groups, 3 events\n");
    let again = topics(&hub, &["rm", "--yes", "junk.t"]);
    again.ends_with(1);
    assert!(again.err.contains("junk.t"), "{}", again.err);
    hub.process.signal("KILL");
    hub.process.ended();
    hub.start_again(&place.path("data"));
    let listed = topics(&hub, &["ls", "--json"]);
    assert_eq!(listed.json()["name"], "kept");
    assert_eq!(publish(&hub, "junk.t", "4")["seq"], 4, "the numbering continues");
    hub.stop();
}

#[test]
fn a_hub_that_is_not_there_is_told_of() {
    let ran = run_with(&["topics", "ls", "--ops-url", "http://127.0.0.1:1/", "--token", "x"], &[]);
    ran.ends_with(1);
    assert!(ran.err.contains("no hub answers") && ran.err.contains("--ops-url"), "{}", ran.err);
    let ran = run_with(&["topics", "ls", "--ops-url", "ftp://x/", "--token", "x"], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains("http://"), "{}", ran.err);
}
