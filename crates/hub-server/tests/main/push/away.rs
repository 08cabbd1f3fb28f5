//! Endpoints that are away, and come back.

use super::endpoint::{Endpoint, dead_letters, definition, in_state, pushing_world, put, settled, until};
use crate::http::world::STATIC;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::net::{TcpListener, TcpSocket};

/// A port that nobody listens on, and that stays this test's.
fn reserved_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

#[tokio::test]
async fn an_endpoint_that_is_away_for_a_while_loses_nothing_and_makes_no_dead_letters() {
    let (world, socket) = (pushing_world().await, reserved_port());
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    put(&world, "crm", &definition(&url, &json!({"maxAttempts": 1}))).await;
    world.fill("t", 50).await;
    let shown = in_state(&world, "crm", "failing").await;
    assert_eq!(shown["reason"], "endpoint_failing");
    assert!(shown["lastFailure"]["error"].as_str().unwrap().contains("could not be reached"), "{shown}");
    let groups = world.get("/groups?topic=t").await.ok();
    assert_eq!(groups["groups"][0]["reason"], "endpoint_failing");
    let metrics = world.request("GET", "/metrics", "").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("push_breaker_open{endpoint=\"crm\"} 1"), "{metrics}");
    // Several probes fail.
    let unreachable = |text: &str| {
        let line = text.lines().find(|line| line.contains("outcome=\"unreachable\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap()
    };
    let before = unreachable(&metrics);
    until(async || {
        let metrics = world.request("GET", "/metrics", "").send().await.unwrap().text().await.unwrap();
        (unreachable(&metrics) >= before + 4).then_some(())
    })
    .await;
    let endpoint = Endpoint::at(socket.listen(64).unwrap(), |_, _| async { StatusCode::OK.into_response() });
    settled(&world, "push.crm", 50).await;
    let received: BTreeSet<u64> =
        endpoint.so_far().iter().map(|received| received.data().as_u64().unwrap()).collect();
    assert_eq!(received, (1..=50).collect());
    assert_eq!(endpoint.so_far().len(), 50, "and doubles nothing");
    assert!(dead_letters(&world).await.is_empty());
    in_state(&world, "crm", "active").await;
}

#[tokio::test]
async fn somebody_who_knows_that_the_endpoint_is_well_need_not_wait_for_a_probe() {
    let world = crate::http::world::World::new().await;
    let times = hub_server::push::ProbeTimes { first: 3_600_000, longest: 3_600_000 };
    world.hub.push().set_probe_times(times);
    world.hub.start_push();
    let socket = reserved_port();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    put(&world, "crm", &definition(&url, &json!({}))).await;
    world.fill("t", 10).await;
    in_state(&world, "crm", "failing").await;
    let endpoint = Endpoint::at(socket.listen(64).unwrap(), |_, _| async { StatusCode::OK.into_response() });
    world.ask("POST", "/push/crm/resume", STATIC, "").await.ok();
    endpoint.received(1).await;
    in_state(&world, "crm", "active").await;
}

#[tokio::test]
async fn an_endpoint_that_answers_with_server_errors_is_tried_one_by_one() {
    let world = pushing_world().await;
    let is_well = Arc::new(AtomicBool::new(false));
    let well = is_well.clone();
    let endpoint = Endpoint::new(move |_, _| {
        let status = if well.load(SeqCst) { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        async move { status.into_response() }
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 4, "maxAttempts": 50}))).await;
    world.fill("t", 100).await;
    in_state(&world, "crm", "failing").await;
    // At most what was under way when it opened, and probes: not every event has been tried.
    assert!(endpoint.so_far().len() < 30, "{}", endpoint.so_far().len());
    is_well.store(true, SeqCst);
    settled(&world, "push.crm", 100).await;
    assert!(dead_letters(&world).await.is_empty());
}

#[tokio::test]
async fn an_event_that_its_endpoint_cannot_take_stops_no_others() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, received: super::endpoint::Received| async move {
        let is_poison = received.data() == json!(1);
        (if is_poison { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }).into_response()
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 1, "maxAttempts": 8}))).await;
    // Alone, it opens the breaker; it is given up all the same.
    world.fill("t", 1).await;
    in_state(&world, "crm", "failing").await;
    for n in 2..=20 {
        world.bus().publish("t", json!(n)).await.unwrap();
    }
    settled(&world, "push.crm", 20).await;
    let letters = dead_letters(&world).await;
    assert_eq!((letters.len(), &letters[0]["original"]["payload"]), (1, &json!(1)));
    in_state(&world, "crm", "active").await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_a_failure() {
    let world = pushing_world().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let hangs_up = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = [0; 64];
            tokio::io::AsyncReadExt::read(&mut socket, &mut head).await.unwrap();
        }
    });
    put(&world, "crm", &definition(&url, &json!({"maxAttempts": 2}))).await;
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    let letters = dead_letters(&world).await;
    assert!(
        letters[0]["err"].as_str().unwrap().contains("connection to the endpoint broke"),
        "{}",
        letters[0]
    );
    hangs_up.abort();
}
