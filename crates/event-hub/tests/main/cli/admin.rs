//! `topics`, `groups` and `revoke`.

use super::{Cli, objects};
use serde_json::json;

#[test]
fn topics_are_listed_and_shown_with_their_groups() {
    let cli = Cli::new();
    cli.publish("orders.new", 1..=5);
    cli.publish("orders.new0", 1..=1);
    cli.publish("mail", 1..=2);
    cli.group("orders.new", "billing", 2);
    let listed = cli.run(&["topics", "ls"]);
    listed.ends_with(0).says("TOPIC EVENTS SIZE LAST GROUPS PER SECOND NEWEST (UTC)").says("mail 2");
    assert!(!listed.out.contains('\x1b'), "no colours in a pipe: {:?}", listed.out);
    let names = |args: &[&str]| -> Vec<_> {
        let ran = cli.run(&[&["topics", "ls", "--json"], args].concat());
        ran.ends_with(0);
        objects(&ran.out).iter().map(|topic| topic["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&[]), ["mail", "orders.new", "orders.new0"]);
    assert_eq!(names(&["orders.*"]), ["orders.new", "orders.new0"]);

    let shown = cli.run(&["topics", "show", "orders.new"]);
    shown.ends_with(0).says("events 5").says("seqs 1 to 5").says("orders.new billing 3");
    let shown = cli.run(&["topics", "show", "orders.new", "--json"]).json();
    assert_eq!((&shown["name"], &shown["events"]), (&json!("orders.new"), &json!(5)));
    assert_eq!((&shown["groups"][0]["group"], &shown["deadLetters"]), (&json!("billing"), &json!(null)));
    let missing = cli.run(&["topics", "show", "orders.ne"]);
    missing.ends_with(1);
    assert!(
        missing.err.contains("there is no topic orders.ne") && missing.err.contains("topics ls"),
        "{}",
        missing.err
    );
    cli.stop();
}

#[test]
fn a_group_is_listed_shown_placed_and_deleted() {
    let cli = Cli::new();
    cli.publish("t", 1..=9);
    cli.group("t", "g", 4);
    cli.group("t", "h", 9);
    cli.publish("other", 1..=1);
    cli.group("other", "g", 1);
    let listed = cli.run(&["groups", "ls"]);
    listed.ends_with(0).says("TOPIC GROUP LAG IN FLIGHT PARKED MEMBERS PER SECOND REASON").says("t g 5 0");
    let names = |args: &[&str]| -> Vec<_> {
        let groups = objects(&cli.run(&[&["groups", "ls", "--json"], args].concat()).out);
        groups
            .iter()
            .map(|group| format!("{}/{}", group["topic"].as_str().unwrap(), group["group"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(names(&[]), ["other/g", "t/g", "t/h"]);
    assert_eq!(names(&["t"]), ["t/g", "t/h"]);
    assert_eq!(names(&["--stuck"]), ["t/g"], "only what has events and gets none");

    let shown = cli.run(&["groups", "show", "t", "g"]);
    shown.ends_with(0).says("settled up to seq 4").says("behind 5 events").says("reason no_members");
    shown.says("No consumer is connected with this group");
    assert_eq!(cli.run(&["groups", "show", "t", "g", "--json"]).json()["cursor"]["seq"], 4);
    let missing = cli.run(&["groups", "show", "t", "nobody"]);
    missing.ends_with(1);
    assert!(missing.err.contains("topic t has no group nobody"), "{}", missing.err);

    let floor = || cli.get("groups?topic=t")["groups"][0]["floor"].as_u64().unwrap();
    let seek = |to: &str| cli.run(&["groups", "seek", "t", "g", "--yes", "--to", to]);
    assert_eq!(
        seek("after-seq:7").ends_with(0).out,
        "placed group g of t after seq 7 (it was 4: up to 3 events are passed over)\n"
    );
    assert_eq!(floor(), 7);
    assert_eq!(
        seek("earliest").out,
        "placed group g of t after seq 0 (it was 7: up to 7 events settled come again)\n"
    );
    assert_eq!(seek("ago:1h").out, "placed group g of t after seq 0 (where it was)\n");
    assert_eq!(seek("latest").ends_with(0).out.split(" (").next(), Some("placed group g of t after seq 9"));
    assert_eq!(floor(), 9);
    let json = cli.run(&["groups", "seek", "t", "g", "--yes", "--to", "after-seq:1", "--json"]).json();
    assert_eq!(json["seq"], 1);
    let refused = cli.run(&["groups", "seek", "t", "g", "--yes", "--to", "tomorrow"]);
    refused.ends_with(2);
    assert!(refused.err.contains("earliest, latest"), "{}", refused.err);

    let asked = cli.run(&["groups", "rm", "t", "g"]);
    asked.ends_with(2);
    assert!(asked.err.contains("no terminal to ask on") && asked.err.contains("--yes"), "{}", asked.err);
    assert_eq!(cli.run(&["groups", "rm", "t", "g", "--yes"]).ends_with(0).out, "g deleted: 1 group\n");
    assert_eq!(names(&["t"]), ["t/h"]);
    cli.run(&["groups", "rm", "t", "g", "--yes"]).ends_with(1);
    cli.stop();
}

#[test]
fn the_groups_of_a_pattern_are_deleted_together() {
    let cli = Cli::new();
    cli.publish("a.x", 1..=1);
    cli.publish("a.y", 1..=1);
    cli.group("a.*", "g", 2);
    let removed = cli.run(&["groups", "rm", "a.*", "g", "--yes", "--json"]);
    removed.ends_with(0);
    assert_eq!(removed.json()["deleted"], 2);
    assert_eq!(cli.run(&["groups", "ls", "--json"]).out, "");
    cli.stop();
}

#[test]
fn a_revoked_token_is_refused_from_then_on() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    let token = cli.token(&["subscribe:**"]);
    let with = |args: &[&str]| {
        let hub = ["--ops-url", cli.hub.http(), "--token", &token];
        crate::hub::run_with(&[args, &hub].concat(), &[])
    };
    with(&["topics", "ls"]).ends_with(0);
    let refused = with(&["revoke", "--sub", "developer", "--yes"]);
    refused.ends_with(1);
    assert!(refused.err.contains("forbidden") && refused.err.contains("scope admin:**"), "{}", refused.err);
    cli.run(&["revoke", "--yes"]).ends_with(2);
    cli.run(&["revoke", "--sub", "developer"]).ends_with(2);

    let about: serde_json::Value = claims(&token);
    let sub = about["sub"].as_str().unwrap();
    let revoked = cli.run(&["revoke", "--sub", sub, "--yes"]);
    revoked.ends_with(0);
    assert_eq!(revoked.out, format!("revoked: all tokens of {sub:?} issued until now\n"));
    let refused = with(&["topics", "ls"]);
    refused.ends_with(1);
    assert!(
        refused.err.contains("token_revoked") && refused.err.contains("EVENT_HUB_TOKEN"),
        "{}",
        refused.err
    );
    assert!(!refused.err.contains(&token), "no token in a message");
    cli.hub.stop();
}

/// The claims of a token, which nobody encrypts.
fn claims(token: &str) -> serde_json::Value {
    let payload = token.split('.').nth(1).unwrap();
    let mut bits = (0_u32, 0);
    let mut bytes = Vec::new();
    for c in payload.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            _ => 63,
        };
        bits = ((bits.0 << 6 | u32::from(value)) & 0xffff, bits.1 + 6);
        if bits.1 >= 8 {
            bits.1 -= 8;
            bytes.push((bits.0 >> bits.1) as u8);
        }
    }
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn lint_finds_names_that_are_easily_mixed_up_and_fails_if_it_is_strict() {
    let cli = Cli::new();
    cli.publish("orders", 1..=1);
    let clean = cli.run(&["topics", "lint", "--strict"]);
    assert_eq!(clean.ends_with(0).out, "1 topic, 0 groups: 0 findings\n");
    cli.publish("shop.New_orders", 1..=1);
    cli.publish("shop.new-orders", 1..=1);
    let found = cli.run(&["topics", "lint"]);
    found
        .ends_with(0)
        .says("similar-names: shop.New_orders, shop.new-orders")
        .says("1 finding")
        .says("do: decide for one");
    cli.run(&["topics", "lint", "--strict"]).ends_with(1);
    let json = cli.run(&["topics", "lint", "--json"]).json();
    assert_eq!((&json["code"], &json["topics"][1]), (&json!("similar-names"), &json!("shop.new-orders")));
    cli.stop();
}
