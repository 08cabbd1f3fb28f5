//! Who may do what over a socket, and what happens when that changes.

use crate::world::{ALL, STATIC, World, ruled, signed, token};
use hub_core::Position;
use hub_server::Settings;
use hub_server::acl::Policy;
use serde_json::{Value, json};

/// `publish T`, `read T`, `read T as GROUP`, `list T,T`, `list T,T as GROUP`.
fn request(words: &str) -> Value {
    let (what, group) = words.split_once(" as ").map_or((words, None), |(what, group)| (what, Some(group)));
    let (op, topic) = what.split_once(' ').unwrap();
    let mut frame = match op {
        "publish" => json!({"op": "PUBLISH", "topic": topic, "payload": 1}),
        "read" => json!({"op": "SUBSCRIBE", "topic": topic}),
        "list" => {
            let topics: Vec<_> = topic.split(',').collect();
            json!({"op": "SUBSCRIBE", "topic": "label", "opts": {"topics": topics}})
        }
        _ => panic!("{op}"),
    };
    if let Some(group) = group {
        frame["group"] = json!(group);
    }
    frame
}

fn rule(effect: &str, action: &str, topics: &[&str]) -> Value {
    json!({"effect": effect, "action": action, "topics": topics})
}

#[tokio::test]
async fn what_a_token_allows_is_done_and_nothing_else() {
    let world = World::new().await;
    let seeds = token(&["publish:heartbeat.*", "subscribe:process.**"]);
    let but_secrets = ruled(&json!([rule("deny", "subscribe", &["secret.**"]), rule("allow", "*", &["**"])]));
    let ops = ruled(&json!([
        {"effect": "allow", "action": "subscribe", "topics": ["process.**"], "groups": ["ops"]},
        {"effect": "allow", "action": "subscribe", "topics": ["open"], "groups": ["*"]},
    ]));
    let hole = ruled(&json!([
        rule("allow", "subscribe", &["a.b.c"]),
        rule("deny", "subscribe", &["a.b.**"]),
        rule("allow", "subscribe", &["a.**"]),
    ]));
    let pieces = token(&["subscribe:a", "subscribe:a.*.**", "publish"]);
    let nothing = token(&[]);
    let table: &[(&str, &str, &str, &str)] = &[
        ("seeds", &seeds, "publish heartbeat.one", "OK"),
        ("seeds", &seeds, "publish heartbeat", "forbidden"),
        ("seeds", &seeds, "publish heartbeat.one.two", "forbidden"),
        ("seeds", &seeds, "publish process.state", "forbidden"),
        ("seeds", &seeds, "read process", "OK"),
        ("seeds", &seeds, "read process.state as g", "OK"),
        ("seeds", &seeds, "read process.** as g", "OK"),
        ("seeds", &seeds, "read process.*.x as g", "OK"),
        ("seeds", &seeds, "read ** as g", "forbidden"),
        ("seeds", &seeds, "read *.state as g", "forbidden"),
        ("seeds", &seeds, "read heartbeat.one", "forbidden"),
        ("seeds", &seeds, "list process.a,process.b as g2", "OK"),
        ("seeds", &seeds, "list process.a,heartbeat.one as g3", "forbidden"),
        ("but secrets", &but_secrets, "publish secret.x", "OK"),
        ("but secrets", &but_secrets, "read secret.x", "forbidden"),
        ("but secrets", &but_secrets, "read secret as g", "forbidden"),
        ("but secrets", &but_secrets, "read ** as g", "forbidden"),
        ("but secrets", &but_secrets, "read *.x as g", "forbidden"),
        ("but secrets", &but_secrets, "read other.** as g", "OK"),
        ("but secrets", &but_secrets, "list other,secret.x as g", "forbidden"),
        ("ops", &ops, "read process.state as ops", "OK"),
        ("ops", &ops, "read process.** as ops", "OK"),
        ("ops", &ops, "read process.state as dev", "forbidden"),
        ("ops", &ops, "read process.state", "forbidden"),
        ("ops", &ops, "read open as whoever", "OK"),
        ("ops", &ops, "read open", "forbidden"),
        ("ops", &ops, "publish open", "forbidden"),
        ("hole", &hole, "read a.b.c", "OK"),
        ("hole", &hole, "read a.b.d", "forbidden"),
        ("hole", &hole, "read a.b", "forbidden"),
        ("hole", &hole, "read a.c", "OK"),
        ("hole", &hole, "read a.* as g", "forbidden"),
        ("hole", &hole, "read a.c.* as g", "OK"),
        ("pieces", &pieces, "read a", "OK"),
        ("pieces", &pieces, "read a.b.c", "OK"),
        ("pieces", &pieces, "read a.** as g", "forbidden"),
        ("pieces", &pieces, "publish anything.at.all", "OK"),
        ("nothing", &nothing, "publish a", "forbidden"),
        ("nothing", &nothing, "read a", "forbidden"),
        ("nothing", &nothing, "read a as g", "forbidden"),
        ("the static one", STATIC, "publish a", "OK"),
        ("the static one", STATIC, "read ** as everything", "OK"),
    ];
    for (whose, token, words, expected) in table {
        let mut client = world.client_with(token).await;
        let answer = client.ask(request(words)).await;
        let got = if answer["op"] == "OK" { &answer["op"] } else { &answer["code"] };
        assert_eq!(got, expected, "{whose}: {words}: {answer}");
    }
    assert!(!world.bus().has_topic("heartbeat") && world.bus().group("secret.x", "g").is_none());
}

#[tokio::test]
async fn in_a_batch_only_what_is_forbidden_is_refused() {
    let world = World::new().await;
    let mut client = world.client(&["publish:mine"]).await;
    let event = |topic: &str| json!({"topic": topic, "payload": 1});
    let batch = json!({"op": "PUBLISH", "events": [event("mine"), event("yours"), event("mine")]});
    let answer = client.ok(batch).await;
    let results = answer["results"].as_array().unwrap();
    let told: Vec<_> = results.iter().map(|one| (one["seq"].as_u64(), one["code"].as_str())).collect();
    assert_eq!(told, [(Some(1), None), (None, Some("forbidden")), (Some(2), None)]);
    assert!(!world.bus().has_topic("yours"));
}

#[tokio::test]
async fn a_right_that_a_renewed_token_lacks_is_gone_at_once_and_settles_nothing() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    let subscribe = |topic: &str, group: &str| json!({"op": "SUBSCRIBE", "topic": topic, "group": group, "opts": {"from": "earliest"}});
    for (topic, group) in [("lost", "g"), ("kept", "g"), ("lost.*", "h")] {
        client.ok(subscribe(topic, group)).await;
    }
    client.ok(json!({"op": "SUBSCRIBE", "topic": "lost"})).await;
    client.ok(request("publish lost")).await;
    let mut seen: Vec<_> =
        [client.next().await, client.next().await].map(|event| event["group"].clone()).into();
    seen.sort_by_key(Value::to_string);
    assert_eq!(seen, [json!("g"), Value::Null], "held, and seen by the reader without a group");

    client.ok(json!({"op": "AUTH", "token": token(&["publish:kept", "subscribe:kept"])})).await;
    let mut ended = Vec::new();
    for _ in 0..3 {
        let frame = client.next().await;
        assert_eq!((&frame["op"], &frame["code"]), (&json!("ERR"), &json!("forbidden")), "{frame}");
        assert!(frame.get("corr").is_none(), "{frame}");
        ended.push(json!([frame["topic"], frame["group"]]).to_string());
    }
    ended.sort();
    assert_eq!(ended, [r#"["lost","g"]"#, r#"["lost",null]"#, r#"["lost.*","h"]"#]);
    assert_eq!(
        client.err(request("publish lost")).await,
        "forbidden",
        "also the topic that it published to last"
    );
    let ack =
        json!({"op": "ACK", "topic": "lost", "group": "g", "id": "018f4e9a-0000-7000-8000-000000000000"});
    assert_eq!(client.err(ack).await, "not_subscribed");

    // Another member gets it, as the second attempt and not as a failure: with one allowed, a failure would be its last.
    assert_eq!(world.bus().group("lost", "g").unwrap().floor, 0);
    let mut other = world.client(ALL).await;
    let mut again = subscribe("lost", "g");
    again["opts"]["maxAttempts"] = json!(1);
    other.ok(again).await;
    let event = other.next().await;
    assert_eq!((&event["event"]["seq"], &event["ctx"]["attempt"]), (&json!(1), &json!(2)), "{event}");

    // What it may still read goes on.
    client.ok(request("publish kept")).await;
    assert_eq!(client.next().await["event"]["topic"], "kept");
}

#[tokio::test]
async fn other_rules_of_the_hub_bind_open_sessions_but_not_the_static_token() {
    let world = World::new().await;
    let (mut user, mut root) = (world.client(ALL).await, world.client_with(STATIC).await);
    for client in [&mut user, &mut root] {
        client.ok(json!({"op": "SUBSCRIBE", "topic": "secret.*"})).await;
    }
    user.ok(request("publish secret.x")).await;
    assert_eq!(user.next().await["event"]["seq"], 1);

    let rules = json!({"rules": [rule("deny", "*", &["secret.**"])]});
    let policy = Policy::from_rules(&rules).unwrap();
    world.hub.apply(Settings { policy, ..Settings::default() });
    let ended = user.next().await;
    assert_eq!((&ended["code"], &ended["topic"]), (&json!("forbidden"), &json!("secret.*")), "{ended}");
    assert_eq!(user.err(request("publish secret.x")).await, "forbidden");
    assert_eq!(user.err(request("read secret.x")).await, "forbidden");
    root.ok(request("publish secret.x")).await;
    assert_eq!(
        (root.next().await["event"]["seq"].clone(), root.next().await["event"]["seq"].clone()),
        (json!(1), json!(2))
    );

    world.hub.apply(Settings::default());
    user.ok(request("read secret.*")).await;
    user.ok(request("publish secret.x")).await;
    assert_eq!(user.next().await["event"]["seq"], 3, "a right that came back");
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_old_token_in_force() {
    let world = World::new().await;
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let (bad, other) = (json!("no token at all"), json!(signed(Some("bob"), ALL)));
    for (token, code) in [
        (bad, "jwt_invalid"),
        (other, "jwt_invalid"),
        (json!(token(ALL)), "jwt_invalid"),
        (json!(STATIC), "jwt_invalid"),
        (Value::Null, "no_token"),
        (json!(7), "bad_request"),
    ] {
        let answer = client.ask(json!({"op": "AUTH", "token": token})).await;
        assert_eq!(answer["code"], code, "{answer}");
        let publish = client.ok(request("publish t")).await;
        assert_eq!(client.next().await["event"]["id"], publish["id"]);
    }
    let fewer = client.ok(json!({"op": "AUTH", "token": signed(Some("ada"), &[])})).await;
    assert_eq!(fewer["sub"], "ada");
    assert_eq!(client.err(request("publish t")).await, "forbidden");
}

#[tokio::test]
async fn before_auth_nothing_is_done() {
    let world = World::new().await;
    let mut client = world.stranger().await;
    let id = "018f4e9a-0000-7000-8000-000000000000";
    for frame in [
        request("publish t"),
        request("read t as g"),
        json!({"op": "PUBLISH", "events": []}),
        json!({"op": "UNSUBSCRIBE", "topic": "t"}),
        json!({"op": "ACK", "topic": "t", "group": "g", "id": id}),
        json!({"op": "NACK", "topic": "t", "group": "g", "id": id}),
        json!({"op": "MODACK", "topic": "t", "group": "g", "id": id, "extend_ms": 1}),
        json!({"op": "PAUSE", "topic": "t"}),
    ] {
        assert_eq!(client.err(frame.clone()).await, "unauthorized", "{frame}");
    }
    assert!(world.bus().topics().is_empty());
    client.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    client.ok(request("publish t")).await;
    assert_eq!(world.bus().scan("t", Position::Earliest, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_list_changes_only_for_who_may_read_what_it_has() {
    let world = World::new().await;
    let list = |label: &str, topics: &[&str]| json!({"op": "SUBSCRIBE", "topic": label, "group": "billing", "opts": {"topics": topics}});
    let mut owner = world.client(ALL).await;
    owner.ok(json!({"op": "PUBLISH", "topic": "orders.new", "payload": 1})).await;
    owner.ok(list("mine", &["orders.new", "x"])).await;
    owner.ok(json!({"op": "UNSUBSCRIBE", "topic": "mine", "group": "billing"})).await;
    owner.ok(json!({"op": "SUBSCRIBE", "topic": "orders.**", "group": "billing"})).await;
    owner.ok(json!({"op": "UNSUBSCRIBE", "topic": "orders.**", "group": "billing"})).await;

    let mut stranger = world.client(&["subscribe:x"]).await;
    assert_eq!(stranger.err(list("orders.**", &["x"])).await, "bad_request");
    let refusal = stranger.ask(list("mine", &["x"])).await;
    assert_eq!(refusal["code"], "forbidden", "{refusal}");
    assert!(!refusal["msg"].as_str().unwrap().contains("orders"), "{refusal}");
    assert_eq!(world.bus().subscription("mine", "billing").unwrap().topics.len(), 2);
    assert!(world.bus().subscription("orders.**", "billing").unwrap().topics.is_empty());
    assert!(world.bus().group("orders.new", "billing").is_some());

    let mut reader = world.client(&["subscribe:x", "subscribe:orders.*"]).await;
    reader.ok(list("mine", &["x"])).await;
    assert_eq!(world.bus().subscription("mine", "billing").unwrap().topics.len(), 1);
}
