//! Endpoints that the hub must not reach.

use super::endpoint::{Endpoint, definition, pushing_world, put, settled, until};
use crate::http::world::STATIC;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let world = pushing_world().await;
    for url in [
        "http://127.0.0.1/",
        "http://127.1:8080/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://0.0.0.0:80/",
        "http://10.0.0.1/",
        "http://172.16.9.9/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://100.100.100.200/",
        "http://169.254.169.254/latest/meta-data/",
        "http://168.63.129.16/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[ff02::1]/",
        "http://[64:ff9b::7f00:1]/",
        "https://127.0.0.1/",
        "http://１２７.０.０.１/",
    ] {
        let put = definition(url, &json!({"allowPrivate": false})).to_string();
        let got = world.ask("PUT", "/push/crm", STATIC, &put).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{url}");
        assert!(got.json["error"].as_str().unwrap().contains("no public address"), "{url}: {}", got.json);
    }
    assert_eq!(world.get("/push").await.ok(), json!({"endpoints": []}));
}

#[tokio::test]
async fn other_schemes_and_credentials_are_refused() {
    let world = pushing_world().await;
    for (url, says) in [
        ("ftp://example.com/", "neither http:// nor https://"),
        ("file:///etc/passwd", "neither http:// nor https://"),
        ("gopher://example.com/", "neither http:// nor https://"),
        ("https://me:hunter2@example.com/", "credentials"),
        ("https://me@example.com/", "credentials"),
        ("example.com", "cannot be read"),
        ("http://", "cannot be read"),
        ("http://example.com:0/", "port 0"),
    ] {
        let got = world.ask("PUT", "/push/crm", STATIC, &definition(url, &json!({})).to_string()).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{url}");
        let error = got.json["error"].as_str().unwrap();
        assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
    }
    let long = format!("http://example.com/{}", "x".repeat(3000));
    let got = world.ask("PUT", "/push/crm", STATIC, &definition(&long, &json!({})).to_string()).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_not_connected_to() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    let url = format!("http://localhost:{}/hook", endpoint.address.port());
    put(&world, "crm", &definition(&url, &json!({"allowPrivate": false}))).await;
    world.fill("t", 1).await;
    let error = until(async || {
        let shown = world.get("/push/crm").await.ok();
        shown["lastFailure"]["error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(error.contains("no public address"), "{error}");
    assert!(endpoint.so_far().is_empty());
    // The same with the right to.
    put(&world, "crm", &definition(&url, &json!({}))).await;
    settled(&world, "push.crm", 1).await;
    assert_eq!(endpoint.so_far().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (world, inside) = (pushing_world().await, Endpoint::taking_all().await);
    let location = inside.url();
    let endpoint = Endpoint::new(move |_, _| {
        let location = location.clone();
        async move { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response() }
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 2}))).await;
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    assert_eq!((endpoint.so_far().len(), inside.so_far().len()), (2, 0));
}
