//! What the answers of an endpoint mean.

use super::endpoint::{Endpoint, dead_letters, definition, in_state, pushing_world, put, settled, until};
use crate::http::world::STATIC;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test]
async fn any_2xx_settles_an_event() {
    for status in [200, 201, 202, 204, 299] {
        let world = pushing_world().await;
        let answer = move |_, _| async move { StatusCode::from_u16(status).unwrap().into_response() };
        let endpoint = Endpoint::new(answer).await;
        put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
        world.fill("t", 1).await;
        settled(&world, "push.crm", 1).await;
        assert_eq!(endpoint.so_far().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn any_other_answer_is_a_failure_and_the_last_one_makes_a_dead_letter() {
    for (status, says) in [
        (301, "answered 301; redirects are not followed"),
        (400, "answered 400"),
        (401, "answered 401"),
        (404, "answered 404"),
        (500, "answered 500"),
        (501, "answered 501"),
    ] {
        let world = pushing_world().await;
        let answer = move |_, _| async move { StatusCode::from_u16(status).unwrap().into_response() };
        let endpoint = Endpoint::new(answer).await;
        put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 3}))).await;
        world.fill("t", 1).await;
        settled(&world, "push.crm", 1).await;
        assert_eq!(endpoint.so_far().len(), 3, "{status}");
        let letters = dead_letters(&world).await;
        assert_eq!((letters.len(), &letters[0]["attempts"]), (1, &json!(3)), "{status}");
        assert!(letters[0]["err"].as_str().unwrap().contains(says), "{}", letters[0]);
    }
}

#[tokio::test]
async fn a_failed_event_comes_again_and_others_do_not_wait_for_it() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|before, received: super::endpoint::Received| async move {
        let is_first_try = before < 3 && received.data() == json!(2);
        (if is_first_try { StatusCode::BAD_REQUEST } else { StatusCode::OK }).into_response()
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 1}))).await;
    world.fill("t", 3).await;
    settled(&world, "push.crm", 3).await;
    let sent: Vec<_> = endpoint.so_far().iter().map(|received| received.data()).collect();
    assert_eq!(sent.iter().filter(|data| **data == json!(2)).count(), 2, "{sent:?}");
    assert_eq!(sent.len(), 4);
    assert!(dead_letters(&world).await.is_empty());
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_paused_until_somebody_resumes_it() {
    let (world, endpoint) = (pushing_world().await, Endpoint::answering(&[410, 200]).await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 1, "concurrency": 1}))).await;
    world.fill("t", 3).await;
    let shown = in_state(&world, "crm", "paused").await;
    assert_eq!(shown["reason"], "the endpoint answered 410 (gone)");
    assert!(shown["pausedAt"].as_u64().is_some());
    let reason = until(async || {
        let groups = world.get("/groups?topic=t").await.ok();
        groups["groups"][0]["reason"].as_str().map(str::to_owned)
    });
    assert_eq!(reason.await, "paused");
    // It is stored, so a hub that starts now does not deliver either.
    let stored = until(async || {
        let entries = world.bus().system_entries(hub_core::SystemTopic::Push).await.unwrap();
        entries.into_iter().find(|entry| &*entry.key == "paused/crm")
    });
    stored.await;
    assert_eq!(endpoint.so_far().len(), 1, "nothing more is sent");
    let resumed = world.ask("POST", "/push/crm/resume", STATIC, "").await.ok();
    assert_eq!((&resumed["name"], resumed.get("pausedAt")), (&json!("crm"), None));
    settled(&world, "push.crm", 3).await;
    assert_eq!(endpoint.so_far()[1].data(), json!(1), "the event that it did not take comes again");
    assert!(dead_letters(&world).await.is_empty(), "it has not failed");
    in_state(&world, "crm", "active").await;
}

#[tokio::test]
async fn retry_after_is_obeyed_and_counts_no_failure() {
    for status in [429, 503] {
        let world = pushing_world().await;
        let endpoint = Endpoint::new(move |before, _| async move {
            let status = StatusCode::from_u16(if before == 0 { status } else { 200 }).unwrap();
            (status, [(header::RETRY_AFTER, "1")]).into_response()
        })
        .await;
        put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 1, "concurrency": 1}))).await;
        world.fill("t", 2).await;
        endpoint.received(1).await;
        let since = Instant::now();
        let shown = in_state(&world, "crm", "deferred").await;
        assert_eq!(shown["reason"], "rate_limited");
        let groups = world.get("/groups?topic=t").await.ok();
        assert_eq!(groups["groups"][0]["reason"], "rate_limited");
        endpoint.received(2).await;
        assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
        settled(&world, "push.crm", 2).await;
        assert!(dead_letters(&world).await.is_empty());
    }
}

#[tokio::test]
async fn a_date_in_retry_after_is_obeyed_and_resuming_ends_the_wait() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|before, _| async move {
        let answer: Response = match before {
            0 => {
                let at = std::time::SystemTime::now() + Duration::from_secs(3600);
                (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, httpdate::fmt_http_date(at))])
                    .into_response()
            }
            _ => StatusCode::OK.into_response(),
        };
        answer
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 1}))).await;
    world.fill("t", 2).await;
    in_state(&world, "crm", "deferred").await;
    world.ask("POST", "/push/crm/resume", STATIC, "").await.ok();
    let received = endpoint.received(3).await;
    assert_eq!([&received[1], &received[2]].map(|one| one.data()), [json!(1), json!(2)]);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_a_failure() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, _| std::future::pending::<Response>()).await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 2, "timeoutMs": 100}))).await;
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    let letters = dead_letters(&world).await;
    assert!(letters[0]["err"].as_str().unwrap().contains("did not answer within 100 ms"), "{}", letters[0]);
    let shown = world.get("/push/crm").await.ok();
    assert_eq!(shown["lastFailure"]["error"], "the endpoint did not answer within 100 ms");
}

#[tokio::test]
async fn a_large_or_endless_answer_is_not_read_to_its_end() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, _| async {
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 64 << 10]));
        axum::body::Body::from_stream(endless).into_response()
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    world.fill("t", 3).await;
    settled(&world, "push.crm", 3).await;
    assert_eq!(endpoint.so_far().len(), 3);
}

#[tokio::test]
async fn metrics_count_deliveries_by_outcome() {
    let (world, endpoint) = (pushing_world().await, Endpoint::answering(&[404, 200]).await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 1}))).await;
    world.fill("t", 2).await;
    settled(&world, "push.crm", 2).await;
    let metrics = world.request("GET", "/metrics", "").send().await.unwrap().text().await.unwrap();
    for line in [
        "push_deliveries_total{endpoint=\"crm\",outcome=\"delivered\"} 2",
        "push_deliveries_total{endpoint=\"crm\",outcome=\"refused\"} 1",
        "push_duration_seconds_count{endpoint=\"crm\"} 3",
        "push_breaker_open{endpoint=\"crm\"} 0",
        "push_paused{endpoint=\"crm\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}
