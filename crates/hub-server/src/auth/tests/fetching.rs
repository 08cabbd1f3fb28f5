//! Answers of an issuer that the hub does not take.

use super::endpoint::Endpoint;
use super::keys::Pair;
use crate::auth::fetch::{Source, TIMEOUT};
use axum::http::StatusCode;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

async fn fetched(url: &str) -> Result<usize, String> {
    Source::new(url, TIMEOUT).unwrap().fetch().await.map(|set| set.len())
}

#[tokio::test]
async fn an_answer_may_have_a_mebibyte_and_no_more() {
    let key = Pair::new(Algorithm::EdDSA).jwk(json!({}));
    let issuer = Endpoint::with(std::slice::from_ref(&key)).await;
    let padded = |bytes: usize| {
        let set = json!({ "keys": [key], "pad": "" }).to_string();
        set.replace("\"pad\":\"\"", &format!("\"pad\":\"{}\"", "x".repeat(bytes - set.len())))
    };
    issuer.say(StatusCode::OK, padded(1 << 20));
    assert_eq!(fetched(&issuer.url).await, Ok(1));
    issuer.say(StatusCode::OK, padded((1 << 20) + 1));
    assert!(fetched(&issuer.url).await.unwrap_err().contains("more than 1048576 bytes"));
}

#[tokio::test]
async fn a_set_may_have_a_hundred_keys_and_no_more() {
    let key = Pair::new(Algorithm::EdDSA).jwk(json!({}));
    let issuer = Endpoint::with(&vec![key.clone(); 100]).await;
    assert_eq!(fetched(&issuer.url).await, Ok(100));
    issuer.set(&vec![key; 101]);
    assert!(fetched(&issuer.url).await.unwrap_err().contains("at most 100"));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let issuer = Endpoint::with(&[]).await;
    issuer.hold();
    let source = Source::new(&issuer.url, Duration::from_millis(50)).unwrap();
    let error = source.fetch().await.err().unwrap();
    assert!(error.contains("timed out"), "{error}");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_given_up() {
    let endless = axum::Router::new().fallback(|| async {
        let drops =
            futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(b" ")));
        // One by one, for ever.
        axum::body::Body::from_stream(futures_util::StreamExt::then(drops, |drop| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop
        }))
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, endless).await.unwrap() });
    let source = Source::new(&url, Duration::from_millis(100)).unwrap();
    let error = source.fetch().await.err().unwrap();
    assert!(error.contains("timed out"), "{error}");
    server.abort();
}

#[tokio::test]
async fn redirects_stay_where_the_operator_said() {
    let (issuer, other) = (Endpoint::with(&[]).await, Endpoint::with(&[]).await);
    let port = issuer.url.trim_start_matches("http://127.0.0.1:");
    for elsewhere in [&other.url, &format!("http://localhost:{port}"), &format!("https://127.0.0.1:{port}")] {
        issuer.say(StatusCode::FOUND, elsewhere.as_str());
        let error = fetched(&issuer.url).await.unwrap_err();
        assert!(error.contains("another host, port or scheme"), "{elsewhere}: {error}");
    }
    assert_eq!(other.requests(), 0);
    let before = issuer.requests();
    issuer.say(StatusCode::TEMPORARY_REDIRECT, "/elsewhere");
    assert!(fetched(&issuer.url).await.unwrap_err().contains("too often"));
    assert_eq!(issuer.requests() - before, 4);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_not_believed() {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.into()], key).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(socket).await.is_err()
    });
    let error = fetched(&format!("https://localhost:{port}/keys")).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert!(server.await.unwrap(), "the handshake was broken off");
}

#[tokio::test]
async fn nothing_is_said_of_a_url_but_its_host() {
    let source = Source::new("http://user:hidden@127.0.0.1:1/hidden?key=hidden", TIMEOUT).unwrap();
    let error = source.fetch().await.err().unwrap();
    assert!(!error.contains("hidden") && !source.host().contains("hidden"), "{error}");
    assert_eq!(source.host(), "127.0.0.1");
}

#[test]
fn a_set_that_is_no_set_is_not_quoted() {
    let text = json!({ "keys": Value::String("hidden".into()) }).to_string();
    let error = crate::auth::keys::KeySet::parse(text.as_bytes()).err().unwrap();
    assert!(error.contains("line 1") && !error.contains("hidden"), "{error}");
}
