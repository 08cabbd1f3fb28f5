//! Tokens and secrets stay where they are.

use super::endpoint::Endpoint;
use super::keys::{Pair, RSA, forged};
use super::lab::{NOW, SECRET, claims, joined, own};
use crate::auth::Secret;
use axum::http::StatusCode;
use jsonwebtoken::{Algorithm, EncodingKey};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io::{Result, Write};
use std::sync::Arc;

/// Lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        self.0.lock().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_error_and_no_log_line_shows_a_token_or_a_secret() {
    const STATIC: &str = "a static token that nobody sees";
    // With one subscriber alive, tracing asks only the thread that comes to a log line first whether anybody listens, and
    // that may be the thread of another test. With two it asks both.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _log = tracing::subscriber::set_default(log);

    let ed = Pair::new(Algorithm::EdDSA);
    let oct = json!({ "kty": "oct", "k": "a-secret-in-a-set", "kid": "oct" });
    let issuer = Endpoint::with(&[ed.jwk(json!({ "kid": "ed" })), oct]).await;
    let (hub, clock) = issuer.hub(|config| {
        config.jwks_url = Some(issuer.url.replace("http://", "http://user:a-password@") + "?key=a-query");
        config.secret = Some(Secret::new(SECRET));
        config.static_token = Some(Secret::new(STATIC));
        config.audience = vec!["hub".into()];
    });
    let aud = |others: Value| joined(json!({ "aud": "hub" }), others);
    let header = json!({ "alg": "HS256" });
    let by_another = EncodingKey::from_secret(b"another");
    let good = own(aud(json!({})));
    let mut tokens = vec![
        good.clone(),
        good[..good.len() - 1].into(),
        format!("{good}x"),
        format!("{STATIC}x"),
        STATIC.into(),
        own(json!({})),
        own(aud(json!({ "exp": NOW - 60 }))),
        own(aud(json!({ "exp": "soon" }))),
        own(aud(json!({ "nbf": NOW + 60 }))),
        own(aud(json!({ "sub": [1] }))),
        own(aud(json!({ "sub": "x".repeat(300) }))),
        own(aud(json!({ "scopes": "all" }))),
        own(aud(json!({ "scopes": ["publish:a b"] }))),
        own(aud(json!({ "policy": { "rules": "all" } }))),
        forged(&header, &claims(aud(json!({}))), &by_another, Algorithm::HS256),
        ed.token(Some("ed"), aud(json!({}))),
        ed.token(Some("ed"), json!({})),
        ed.token(Some("two"), aud(json!({}))),
        ed.token(None, aud(json!({ "exp": 1 }))),
        RSA.token(Some("ed"), aud(json!({}))),
        RSA.token(None, aud(json!({}))),
        "y".repeat(20_000),
    ];
    for at in (0..good.len()).step_by(7) {
        tokens.push(format!("{}.{}", &good[..at], &good[at..]));
    }
    let mut said = format!("{hub:?}\n");
    for round in 0..3 {
        for token in &tokens {
            match hub.identify(Some(token)).await {
                Ok(identity) => said += &format!("{identity:?}\n"),
                Err(error) => said += &format!("{error} {error:?}\n"),
            }
        }
        clock.advance(10);
        if round == 1 {
            issuer.say(StatusCode::OK, "a-secret-in-a-set");
        }
    }
    let log = String::from_utf8(lines.0.lock().clone()).unwrap();
    for heard in ["passed over a key", "could not fetch the key set"] {
        assert!(log.contains(heard), "the log is not heard: {log}");
    }
    for place in [said, log] {
        let hidden = [SECRET, STATIC, "a-secret-in-a-set", "a-password", "a-query"];
        for hidden in hidden.iter().copied().chain(tokens.iter().map(String::as_str)) {
            assert!(!place.contains(hidden), "{hidden} shows in {place}");
        }
        // Nor the parts that make a token one.
        for token in &tokens {
            for part in token.split('.').skip(1).filter(|part| part.len() > 20) {
                assert!(!place.contains(part), "{part} shows in {place}");
            }
        }
    }
}
