//! Keys that come and go, and an issuer that does.

use super::endpoint::Endpoint;
use super::keys::{Pair, RSA};
use super::lab::{SECRET, code, own};
use crate::auth::{AuthConfig, Authenticator, Secret};
use axum::http::StatusCode;
use hub_proto::Code::{JwtInvalid, Unavailable};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

const MINUTE: u64 = 60;

/// A key that is quick to make, as it stands in a set.
struct Key(Pair, &'static str);

impl Key {
    fn new(kid: &'static str) -> Self {
        Self(Pair::new(Algorithm::EdDSA), kid)
    }

    fn jwk(&self) -> Value {
        self.0.jwk(json!({ "kid": self.1 }))
    }

    /// What a hub says to a token of this key that holds for a day.
    async fn at(&self, hub: &Authenticator) -> Option<hub_proto::Code> {
        let token = self.0.token(Some(self.1), json!({ "exp": super::lab::NOW + 86_400 }));
        code(hub.identify(Some(&token)).await)
    }
}

#[tokio::test]
async fn a_new_key_is_found_at_most_one_request_per_ten_seconds() {
    let (old, new, never) = (Key::new("old"), Key::new("new"), Key::new("never"));
    let issuer = Endpoint::with(&[old.jwk()]).await;
    let (hub, clock) = issuer.hub(|_| {});
    assert_eq!(issuer.requests(), 0);
    assert_eq!((old.at(&hub).await, issuer.requests()), (None, 1));
    issuer.set(&[old.jwk(), new.jwk()]);
    assert_eq!((new.at(&hub).await, issuer.requests()), (Some(JwtInvalid), 1));
    clock.advance(9);
    assert_eq!((new.at(&hub).await, issuer.requests()), (Some(JwtInvalid), 1));
    clock.advance(1);
    assert_eq!((new.at(&hub).await, issuer.requests()), (None, 2));
    assert_eq!((old.at(&hub).await, issuer.requests()), (None, 2));
    for _ in 0..20 {
        assert_eq!(never.at(&hub).await, Some(JwtInvalid));
    }
    assert_eq!(issuer.requests(), 2);
    clock.advance(10);
    for _ in 0..20 {
        assert_eq!(never.at(&hub).await, Some(JwtInvalid));
    }
    assert_eq!(issuer.requests(), 3);
}

#[tokio::test]
async fn a_new_key_without_a_kid_is_found_too() {
    let (old, new) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::ES256));
    let issuer = Endpoint::with(&[old.jwk(json!({}))]).await;
    let (hub, clock) = issuer.hub(|_| {});
    let token = |pair: &Pair| pair.token(None, json!({}));
    assert_eq!(code(hub.identify(Some(&token(&old))).await), None);
    issuer.set(&[new.jwk(json!({}))]);
    clock.advance(10);
    assert_eq!(code(hub.identify(Some(&token(&new))).await), None);
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test]
async fn what_cannot_be_helped_by_a_newer_set_does_not_ask_for_one() {
    let (key, twin) = (Key::new("one"), Key::new("one"));
    let issuer = Endpoint::with(&[key.jwk()]).await;
    let (hub, clock) = issuer.hub(|config| config.secret = Some(Secret::new(SECRET)));
    // Not even a first one.
    assert_eq!(code(hub.identify(Some(&own(json!({})))).await), None);
    assert_eq!(code(hub.identify(Some("x.y.z")).await), Some(JwtInvalid));
    assert_eq!(issuer.requests(), 0);
    assert_eq!(key.at(&hub).await, None);
    clock.advance(10);
    assert_eq!(twin.at(&hub).await, Some(JwtInvalid));
    assert_eq!(code(hub.identify(Some(&RSA.token(Some("one"), json!({})))).await), Some(JwtInvalid));
    assert_eq!(
        code(hub.identify(Some(&own(json!({ "exp": 1 })))).await),
        Some(hub_proto::Code::TokenExpired)
    );
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test]
async fn many_who_wait_share_one_request() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let issuer = Endpoint::with(&[old.jwk()]).await;
    let (hub, clock) = issuer.hub(|_| {});
    for (round, key) in [&old, &new].into_iter().enumerate() {
        issuer.hold();
        let token = key.0.token(Some(key.1), json!({}));
        let all: Vec<_> = (0..50)
            .map(|_| {
                let (hub, token) = (hub.clone(), token.clone());
                tokio::spawn(async move { code(hub.identify(Some(&token)).await) })
            })
            .collect();
        // On one thread: once the request is there, each of the others had its turn.
        issuer.request().await;
        assert!(all.iter().all(|one| !one.is_finished()), "nobody can know before the answer");
        // One who goes away does not take the request along.
        all[0].abort();
        issuer.set(&[old.jwk(), new.jwk()].as_slice()[..=round]);
        issuer.release();
        for (at, one) in all.into_iter().enumerate() {
            match one.await {
                Ok(answer) => assert_eq!(answer, None),
                Err(error) => assert!(error.is_cancelled() && at == 0),
            }
        }
        assert_eq!(issuer.requests(), round + 1);
        clock.advance(10);
    }
}

#[tokio::test]
async fn known_keys_hold_while_the_issuer_is_away() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let issuer = Endpoint::with(&[old.jwk()]).await;
    let (hub, clock) = issuer.hub(|_| {});
    assert_eq!(old.at(&hub).await, None);
    let away: &[(StatusCode, &[u8])] = &[
        (StatusCode::INTERNAL_SERVER_ERROR, b"{\"keys\":[]}"),
        (StatusCode::NOT_FOUND, b""),
        (StatusCode::NO_CONTENT, b""),
        (StatusCode::OK, b""),
        (StatusCode::OK, b"<html>"),
        (StatusCode::OK, b"[]"),
        (StatusCode::OK, b"{}"),
        (StatusCode::OK, b"{\"keys\":{}}"),
        (StatusCode::OK, b"{\"keys\":[]"),
        (StatusCode::OK, b"\xff\xfe"),
    ];
    for (at, (status, body)) in away.iter().enumerate() {
        issuer.say(*status, *body);
        clock.advance(10);
        // Whether this key is one of the issuer's cannot be known now.
        assert_eq!(new.at(&hub).await, Some(Unavailable), "{at}");
        assert_eq!((old.at(&hub).await, issuer.requests()), (None, at + 2), "{at}");
        // Failures are no reason to ask more often.
        assert_eq!((new.at(&hub).await, issuer.requests()), (Some(Unavailable), at + 2), "{at}");
    }
    issuer.set(&[new.jwk()]);
    clock.advance(10);
    assert_eq!((new.at(&hub).await, old.at(&hub).await), (None, Some(JwtInvalid)));
    drop(issuer);
    for _ in 0..3 {
        clock.advance(61 * MINUTE);
        assert_eq!(new.at(&hub).await, None);
    }
}

#[tokio::test]
async fn a_withdrawn_key_is_gone_after_the_set_was_renewed() {
    let (kept, withdrawn) = (Key::new("kept"), Key::new("withdrawn"));
    let issuer = Endpoint::with(&[kept.jwk(), withdrawn.jwk()]).await;
    let (hub, clock) = issuer.hub(|_| {});
    assert_eq!(withdrawn.at(&hub).await, None);
    issuer.set(&[kept.jwk()]);
    clock.advance(10 * MINUTE - 1);
    assert_eq!((withdrawn.at(&hub).await, issuer.requests()), (None, 1));
    clock.advance(1);
    // The first who comes does not wait for the issuer; the set is renewed behind it.
    issuer.request().await;
    issuer.hold();
    assert_eq!(kept.at(&hub).await, None);
    issuer.request().await;
    issuer.release();
    while withdrawn.at(&hub).await.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!((kept.at(&hub).await, issuer.requests()), (None, 2));
}

#[tokio::test]
async fn after_a_long_time_without_visitors_the_set_is_renewed_first() {
    let withdrawn = Key::new("withdrawn");
    let issuer = Endpoint::with(&[withdrawn.jwk()]).await;
    let (hub, clock) = issuer.hub(|_| {});
    assert_eq!(withdrawn.at(&hub).await, None);
    issuer.set(&[]);
    clock.advance(60 * MINUTE);
    assert_eq!(withdrawn.at(&hub).await, Some(JwtInvalid));
}

#[tokio::test]
async fn without_any_set_only_those_with_the_secret_get_in() {
    let key = Key::new("one");
    let issuer = Endpoint::with(&[key.jwk()]).await;
    issuer.say(StatusCode::BAD_GATEWAY, "");
    let (hub, clock) = issuer.hub(|config| config.secret = Some(Secret::new(SECRET)));
    for _ in 0..5 {
        assert_eq!((key.at(&hub).await, issuer.requests()), (Some(Unavailable), 1));
        assert_eq!(code(hub.identify(Some(&own(json!({})))).await), None);
    }
    issuer.set(&[key.jwk()]);
    clock.advance(10);
    assert_eq!((key.at(&hub).await, issuer.requests()), (None, 2));
}

#[tokio::test]
async fn a_reload_asks_the_same_issuer_again_and_forgets_another() {
    let (withdrawn, other) = (Key::new("withdrawn"), Key::new("other"));
    let issuer = Endpoint::with(&[withdrawn.jwk()]).await;
    let (hub, _) = issuer.hub(|_| {});
    let clone = hub.clone();
    assert_eq!((withdrawn.at(&clone).await, clone.has_real_auth()), (None, true));
    // The keys stay if the issuer does not answer.
    issuer.say(StatusCode::BAD_GATEWAY, "");
    hub.reload(issuer.config()).unwrap();
    assert_eq!((withdrawn.at(&clone).await, issuer.requests()), (None, 2));
    issuer.set(&[]);
    hub.reload(issuer.config()).unwrap();
    assert_eq!((withdrawn.at(&clone).await, issuer.requests()), (Some(JwtInvalid), 3));
    // A reload that is refused asks for nothing.
    hub.reload(AuthConfig { leeway_secs: 1000, ..issuer.config() }).unwrap_err();
    assert_eq!((withdrawn.at(&clone).await, issuer.requests()), (Some(JwtInvalid), 3));
    let another = Endpoint::with(&[other.jwk()]).await;
    hub.reload(another.config()).unwrap();
    assert_eq!((other.at(&clone).await, withdrawn.at(&clone).await), (None, Some(JwtInvalid)));
    assert_eq!((issuer.requests(), another.requests()), (3, 1));
}

#[tokio::test]
async fn a_request_ends_with_the_hub_that_made_it() {
    let key = Key::new("one");
    let issuer = Endpoint::with(&[key.jwk()]).await;
    issuer.hold();
    let (hub, _) = issuer.hub(|_| {});
    let asked = hub.clone();
    let asking = tokio::spawn(async move { key.at(&asked).await });
    issuer.request().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(hub);
    // The one that asked, and the request: at their next turn, long before it would be given up.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(tasks() <= before - 2, "{} of {before} tasks are left", tasks());
}

#[tokio::test]
async fn the_answer_to_a_request_from_before_a_reload_does_not_count() {
    let key = Key::new("one");
    let issuer = Endpoint::with(&[key.jwk()]).await;
    let (hub, _) = issuer.hub(|_| {});
    issuer.hold();
    let both = async {
        issuer.request().await;
        hub.reload(issuer.config()).unwrap();
        issuer.request().await;
        issuer.release();
    };
    let both = async { tokio::join!(key.at(&hub), both).0 };
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), both).await;
    assert_eq!((answer.expect("a second request"), issuer.requests()), (None, 2));
}

#[tokio::test]
async fn what_is_prepared_changes_nothing_until_it_is_committed() {
    let hub = super::lab::with_secret(|_| {});
    let other = AuthConfig { secret: Some(Secret::new("another")), ..AuthConfig::default() };
    let prepared = hub.prepare(other).unwrap();
    assert_eq!(code(hub.identify(Some(&own(json!({})))).await), None);
    hub.commit(prepared);
    assert_eq!(code(hub.identify(Some(&own(json!({})))).await), Some(JwtInvalid));
}
