//! `/healthz`, `/readyz`, `/metrics`.

use super::world::{World, read};
use hub_core::Health;
use hub_server::Settings;
use serde_json::json;

#[tokio::test]
async fn whoever_asks_is_told_that_the_process_runs() {
    let world = World::with(Settings::default()).await;
    assert_eq!(world.ask("GET", "/healthz", "", "").await.ok(), json!({"ok": true}));
    world.hub.draining().cancel();
    assert_eq!(world.ask("GET", "/healthz", "", "").await.ok(), json!({"ok": true}));
}

#[tokio::test]
async fn a_hub_is_ready_while_its_store_takes_commits_and_it_does_not_drain() {
    let world = World::new().await;
    let well = json!({"available": true, "warnings": [], "damaged": 0});
    let ready = world.ask("GET", "/readyz", "", "").await.ok();
    assert_eq!(ready, json!({"ready": true, "store": well, "draining": false}));
    world.store.set_health(|| Health {
        unavailable: Some("the disk is full".into()),
        warnings: vec!["3 records are damaged".into()],
        damaged: 3,
        failed_commits: 1,
    });
    let ill = world.ask("GET", "/readyz", "", "").await;
    assert_eq!(ill.status, 503);
    assert_eq!(
        ill.json,
        json!({"ready": false, "draining": false, "store": {"available": false, "reason": "the disk is full",
            "warnings": ["3 records are damaged"], "damaged": 3}})
    );
    world.store.set_health(Health::default);
    world.hub.draining().cancel();
    let draining = world.ask("GET", "/readyz", "", "").await;
    assert_eq!(draining.status, 503);
    assert_eq!(draining.json, json!({"ready": false, "store": well, "draining": true}));
}

#[tokio::test]
async fn beyond_loopback_only_who_has_a_token_learns_what_is_wrong() {
    let world = World::with(Settings::default()).await;
    world.store.set_health(|| Health {
        unavailable: Some("no space on /data".into()),
        warnings: vec!["3 records are damaged".into()],
        damaged: 3,
        failed_commits: 1,
    });
    let little = json!({"ready": false, "store": {"available": false}, "draining": false});
    for token in ["", "wrong"] {
        let got = world.ask("GET", "/readyz", token, "").await;
        assert_eq!((got.status, &got.json), (503, &little), "{token:?}");
    }
    let got = world.ask("GET", "/readyz", &world.token(&[]), "").await;
    let all = json!({"available": false, "reason": "no space on /data", "warnings": ["3 records are damaged"],
        "damaged": 3});
    assert_eq!((got.status, &got.json["store"]), (503, &all));
    world.hub.draining().cancel();
    let got = world.ask("GET", "/readyz", &world.token(&[]), "").await;
    assert_eq!((&got.json["store"], &got.json["draining"]), (&all, &json!(true)), "also while it stops");
}

#[tokio::test]
async fn a_page_whose_name_leads_to_loopback_sees_neither_metrics_nor_details() {
    let world = World::new().await;
    for (host, status) in [("localhost:8082", 200), ("[::1]", 200), ("evil.example:8082", 401)] {
        let metrics = world.request("GET", "/metrics", "").header("host", host).send().await.unwrap();
        assert_eq!(metrics.status(), status, "{host}");
        let ready = world.request("GET", "/readyz", "").header("host", host).send().await.unwrap();
        let ready = read(ready).await.json;
        assert_eq!(ready["store"].get("damaged").is_some(), status == 200, "{host}: {ready}");
    }
    let token = world.token(&[]);
    let known = world.request("GET", "/metrics", &token).header("host", "hub.example").send().await.unwrap();
    assert_eq!(known.status(), 200, "a token holds under any name");
}

#[tokio::test]
async fn metrics_have_what_the_hub_and_the_bus_count_in_the_format_that_is_asked_for() {
    let world = World::new().await;
    world.fill("t", 3).await;
    let version =
        format!("event_hub_build_info{{version=\"{}\",store=\"memory\"}} 1", env!("CARGO_PKG_VERSION"));
    for (accept, kind, described) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", "# TYPE events_published_total counter"),
        (
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# TYPE events_published counter",
        ),
    ] {
        let answer = world.request("GET", "/metrics", "").header("accept", accept).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], kind);
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(answer.headers()["vary"], "accept");
        let text = answer.text().await.unwrap();
        let counted = [
            "events_published_total{topic=\"t\"} 3",
            "ws_connections 0",
            "store_available 1",
            "revocations 0",
        ];
        for line in counted.into_iter().chain([described, version.as_str()]) {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert_eq!(text.ends_with("# EOF\n"), kind.contains("openmetrics"));
    }
}

#[tokio::test]
async fn revocations_are_counted_in_the_metrics() {
    let world = World::new().await;
    let admin = world.token(&["admin:**"]);
    world.ask("POST", "/revoke", &admin, r#"{"sub":"left-us","jti":"1"}"#).await.ok();
    let text = world.request("GET", "/metrics", "").send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\nrevocations 2\n"), "{text}");
}

#[tokio::test]
async fn metrics_that_are_not_open_need_a_token_and_any_will_do() {
    let world = World::with(Settings::default()).await;
    assert_eq!(world.ask("GET", "/metrics", "", "").await.refusal(), (401, "no_token"));
    assert_eq!(world.ask("GET", "/metrics", &world.token(&[]), "").await.status, 200);
}

#[tokio::test]
async fn one_subject_fills_neither_the_metrics_nor_their_labels() {
    let world = World::new().await;
    let (eve, ada) = (world.token_of("eve", &["publish:eve.**"]), world.token_of("ada", &["publish:ada"]));
    for n in 0..3_000 {
        let topic = format!("eve.junk-{n}");
        world.ask("POST", &format!("/publish/{topic}"), &eve, "1").await.ok();
        let join = world.bus().subscribe(&topic).on_behalf_of("eve").group(&format!("group-{n}"));
        join.open().await.unwrap().close();
    }
    world.ask("POST", "/publish/ada", &ada, "1").await.ok();
    world.bus().subscribe("ada").on_behalf_of("ada").group("g").open().await.unwrap().close();
    let text = world.request("GET", "/metrics", "").send().await.unwrap().text().await.unwrap();
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
    let of_eve = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(of_eve("events_published_total{topic=\"eve."), 100);
    assert_eq!(of_eve("delivery_latency_ms_count{topic=\"eve."), 100);
    assert!(text.contains("events_published_total{topic=\"_other\"} 2900\n"));
    assert!(text.contains("events_published_total{topic=\"ada\"} 1\n"));
    assert!(text.contains("events_delivered_total{topic=\"ada\",group=\"g\"} 0\n"));
}
