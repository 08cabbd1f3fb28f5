//! Tokens of hubs, and that nobody else's pass for one.

use super::lab::{NOW, SECRET, code, joined, own, with_secret};
use crate::auth::cluster::is_hubs;
use crate::auth::{ClusterKey, Secret};
use hub_core::store::HubId;
use hub_proto::Code;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

const MILLIS: u64 = NOW * 1000;

fn key() -> ClusterKey {
    ClusterKey::derived(&Secret::new(SECRET))
}

/// A token as a hub makes it, but by `secret` and with other claims.
fn forged(secret: &[u8], from: HubId, to: HubId, others: serde_json::Value) -> String {
    let claims =
        json!({"aud": "event-hub-cluster", "hub": from.to_string(), "to": to.to_string(), "exp": NOW + 60});
    let header = Header { kid: Some("event-hub-cluster".into()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, &joined(claims, others), &EncodingKey::from_secret(secret)).unwrap()
}

#[test]
fn a_hub_is_known_by_its_token() {
    let (from, to) = (HubId::random(), HubId::random());
    let token = key().token(from, to, MILLIS);
    assert!(is_hubs(token.expose()));
    assert_eq!(key().peer(token.expose(), to, MILLIS), Ok(from));
    for now in [MILLIS + 80_000, MILLIS - 50_000] {
        assert_eq!(key().peer(token.expose(), to, now), Ok(from), "clocks may differ");
    }
}

#[test]
fn a_hubs_token_holds_for_one_hub_and_not_for_long() {
    let (from, to) = (HubId::random(), HubId::random());
    let token = key().token(from, to, MILLIS);
    assert!(key().peer(token.expose(), from, MILLIS).is_err(), "for another hub");
    assert!(key().peer(token.expose(), to, MILLIS + 100_000).is_err(), "too late");
    assert!(key().peer(token.expose(), to, MILLIS - 100_000).is_err(), "valid for longer than any is made");
    for other in [ClusterKey::derived(&Secret::new("another")), ClusterKey::new(&Secret::new(SECRET))] {
        let error = other.peer(token.expose(), to, MILLIS).unwrap_err();
        assert_eq!(error.code, Code::JwtInvalid);
        assert!(!error.msg.contains(token.expose()));
    }
}

#[test]
fn whoever_has_only_the_users_secret_makes_no_hubs_token() {
    let (from, to) = (HubId::random(), HubId::random());
    assert!(key().peer(&forged(SECRET.as_bytes(), from, to, json!({})), to, MILLIS).is_err());
    let good = &key().key;
    assert!(key().peer(&forged(good, from, to, json!({})), to, MILLIS).is_ok());
    for others in [
        json!({"aud": "somebody"}),
        json!({"hub": "not a hub"}),
        json!({"to": ""}),
        json!({"exp": 0}),
        json!({"aud": ["event-hub-cluster"]}),
    ] {
        assert!(key().peer(&forged(good, from, to, others.clone()), to, MILLIS).is_err(), "{others}");
    }
    let unsigned = forged(good, from, to, json!({}));
    let unsigned = &unsigned[..=unsigned.rfind('.').unwrap()];
    assert!(key().peer(unsigned, to, MILLIS).is_err());
}

#[tokio::test]
async fn a_hubs_token_is_no_users_and_a_users_is_no_hubs() {
    let (from, to) = (HubId::random(), HubId::random());
    let auth = with_secret(|_| {});
    let token = key().token(from, to, MILLIS);
    assert_eq!(code(auth.identify(Some(token.expose())).await), Some(Code::JwtInvalid));
    let user = own(json!({"hub": from.to_string(), "to": to.to_string(), "aud": "event-hub-cluster"}));
    assert!(!is_hubs(&user));
    assert!(key().peer(&user, to, MILLIS).is_err());
    assert_eq!(auth.identify(Some(&user)).await.unwrap().peer, None);
}

#[test]
fn the_key_is_never_shown() {
    assert_eq!(format!("{:?}", key()), "ClusterKey");
}
