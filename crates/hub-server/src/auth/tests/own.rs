//! Tokens of the hub's own secret, and what claims have to say.

use super::lab::{NOW, SECRET, claims, code, own, with_secret};
use crate::acl::{Action, Policy, Target};
use crate::auth::mint::{Claims, mint_at};
use crate::auth::{AuthConfig, MAX_TOKEN_BYTES, Secret};
use hub_proto::Code::{JwtInvalid, NoToken, TokenExpired};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn claims_decide_whether_a_signed_token_holds() {
    type Set = fn(&mut AuthConfig);
    let usual: Set = |_| {};
    let aud: Set = |config| config.audience = vec!["hub".into(), "bus".into()];
    let iss: Set = |config| config.issuer = Some("https://issuer.example".into());
    let no_exp: Set = |config| config.allow_no_exp = true;
    let strict: Set = |config| config.leeway_secs = 0;
    let table: &[(&str, Set, Value, _)] = &[
        ("all is well", usual, json!({}), None),
        ("no sub", usual, json!({ "sub": "absent" }), None),
        ("a sub of 256 bytes", usual, json!({ "sub": "x".repeat(256) }), None),
        ("a sub of 257 bytes", usual, json!({ "sub": "x".repeat(257) }), Some(JwtInvalid)),
        ("a sub that is a number", usual, json!({ "sub": 7 }), Some(JwtInvalid)),
        ("a sub that is null", usual, json!({ "sub": null }), Some(JwtInvalid)),
        ("exp now, within the tolerance", usual, json!({ "exp": NOW }), None),
        ("exp within the tolerance", usual, json!({ "exp": NOW - 4 }), None),
        ("exp a fraction within the tolerance", usual, json!({ "exp": NOW as f64 - 4.9 }), None),
        ("exp at the end of the tolerance", usual, json!({ "exp": NOW - 5 }), Some(TokenExpired)),
        ("exp long ago", usual, json!({ "exp": 1 }), Some(TokenExpired)),
        ("exp before 1970", usual, json!({ "exp": -1 }), Some(TokenExpired)),
        ("exp now, without tolerance", strict, json!({ "exp": NOW }), Some(TokenExpired)),
        ("exp in half a second, without tolerance", strict, json!({ "exp": NOW as f64 + 0.5 }), None),
        ("exp at the end of time", usual, json!({ "exp": 1e300 }), None),
        ("no exp", usual, json!({ "exp": "absent" }), Some(JwtInvalid)),
        ("no exp, which is allowed", no_exp, json!({ "exp": "absent" }), None),
        ("expired, where none is allowed", no_exp, json!({ "exp": 1 }), Some(TokenExpired)),
        ("exp that is a string", usual, json!({ "exp": "1780000060" }), Some(JwtInvalid)),
        ("exp that is null", no_exp, json!({ "exp": null }), Some(JwtInvalid)),
        ("nbf now", usual, json!({ "nbf": NOW }), None),
        ("nbf within the tolerance", usual, json!({ "nbf": NOW + 5 }), None),
        ("nbf beyond the tolerance", usual, json!({ "nbf": NOW + 6 }), Some(JwtInvalid)),
        ("nbf a fraction beyond", usual, json!({ "nbf": NOW as f64 + 5.2 }), Some(JwtInvalid)),
        ("nbf that is a string", usual, json!({ "nbf": "0" }), Some(JwtInvalid)),
        ("iat with a fraction", usual, json!({ "iat": 1.5 }), None),
        ("iat that is a string", usual, json!({ "iat": "0" }), Some(JwtInvalid)),
        ("an aud that nobody asked for", usual, json!({ "aud": "another" }), None),
        ("the aud", aud, json!({ "aud": "bus" }), None),
        ("the aud among others", aud, json!({ "aud": ["another", "hub"] }), None),
        ("another aud", aud, json!({ "aud": "another" }), Some(JwtInvalid)),
        ("other auds", aud, json!({ "aud": ["another", "hu"] }), Some(JwtInvalid)),
        ("no aud among none", aud, json!({ "aud": [] }), Some(JwtInvalid)),
        ("an aud that is an object", aud, json!({ "aud": { "hub": true } }), Some(JwtInvalid)),
        ("no aud", aud, json!({}), Some(JwtInvalid)),
        ("the iss", iss, json!({ "iss": "https://issuer.example" }), None),
        ("another iss", iss, json!({ "iss": "https://issuer.example/" }), Some(JwtInvalid)),
        ("an iss that is a list", iss, json!({ "iss": ["https://issuer.example"] }), Some(JwtInvalid)),
        ("no iss", iss, json!({}), Some(JwtInvalid)),
        ("scopes that are none", usual, json!({ "scopes": 7 }), Some(JwtInvalid)),
        (
            "a policy that is none",
            usual,
            json!({ "policy": { "rules": [{ "effect": "maybe" }] } }),
            Some(JwtInvalid),
        ),
    ];
    for (what, set, others, expected) in table {
        let answer = with_secret(set).identify(Some(&own(others.clone()))).await;
        assert_eq!(code(answer), *expected, "{what}");
    }
}

#[tokio::test]
async fn only_hs256_by_the_secret_holds_without_a_key_set() {
    let auth = with_secret(|_| {});
    let sign = |header: &Header, secret: &str| {
        let key = EncodingKey::from_secret(secret.as_bytes());
        jsonwebtoken::encode(header, &claims(json!({})), &key).unwrap()
    };
    let hs256 = Header::new(Algorithm::HS256);
    assert_eq!(code(auth.identify(Some(&sign(&hs256, SECRET))).await), None);
    assert_eq!(code(auth.identify(Some(&sign(&hs256, "another"))).await), Some(JwtInvalid));
    for alg in [Algorithm::HS384, Algorithm::HS512] {
        assert_eq!(
            code(auth.identify(Some(&sign(&Header::new(alg), SECRET))).await),
            Some(JwtInvalid),
            "{alg:?}"
        );
    }
    let crit = Header { crit: Some(vec!["exp".into()]), ..hs256.clone() };
    assert_eq!(code(auth.identify(Some(&sign(&crit, SECRET))).await), Some(JwtInvalid));
    let kid = Header { kid: Some("whatever".into()), ..hs256 };
    assert_eq!(code(auth.identify(Some(&sign(&kid, SECRET))).await), None);
}

#[tokio::test]
async fn what_is_no_jwt_is_invalid() {
    let auth = with_secret(|_| {});
    let good = own(json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    let mut bad = vec![
        "x".into(),
        ".".into(),
        "..".into(),
        signed.into(),
        format!("{signed}."),
        format!("{good}."),
        format!("{good}="),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{good}.x.y"),
        format!("{header}..{signature}"),
        format!("{payload}.{header}.{signature}"),
        "é.é.é".into(),
        "x".repeat(MAX_TOKEN_BYTES),
        "x".repeat(MAX_TOKEN_BYTES + 1),
    ];
    // Each letter of it counts.
    for at in 0..good.len() {
        let other = if good.as_bytes()[at] == b'A' { "B" } else { "A" };
        bad.push(format!("{}{other}{}", &good[..at], &good[at + 1..]));
    }
    for token in bad {
        assert_eq!(code(auth.identify(Some(&token)).await), Some(JwtInvalid), "{token}");
    }
    assert_eq!(code(auth.identify(Some(&good)).await), None);
    assert_eq!(code(auth.identify(Some("")).await), Some(NoToken));
    assert_eq!(code(auth.identify(None).await), Some(NoToken));
}

#[tokio::test]
async fn a_token_may_be_as_long_as_the_limit_and_no_longer() {
    let auth = with_secret(|_| {});
    let padded = |bytes: usize| own(json!({ "pad": "x".repeat(bytes) }));
    let (short, long) = (padded(12_000), padded(12_300));
    assert!(short.len() <= MAX_TOKEN_BYTES && long.len() > MAX_TOKEN_BYTES);
    assert_eq!(code(auth.identify(Some(&short)).await), None);
    let error = auth.identify(Some(&long)).await.unwrap_err();
    assert!(error.msg.contains("at most 16384"), "{error}");
}

#[tokio::test]
async fn an_identity_is_what_the_claims_say() {
    let auth = with_secret(|_| {});
    let token = own(json!({ "exp": NOW as f64 + 1.5, "scopes": ["publish:a.*"] }));
    let ada = auth.identify(Some(&token)).await.unwrap();
    assert_eq!(ada.subject.as_deref(), Some("ada"));
    assert_eq!((ada.exp, ada.expires), (Some(NOW + 1), Some(NOW * 1000 + 6500)));
    assert!(!ada.is_static);
    assert_eq!(ada.policy, Policy::from_scopes(&["publish:a.*"]).unwrap());
    let nobody = auth.identify(Some(&own(json!({ "sub": "absent" })))).await.unwrap();
    assert_eq!(nobody.subject, None);
    assert!(!nobody.policy.allows(Action::Subscribe, Target::Topic("a"), None));
}

#[tokio::test]
async fn the_static_token_may_do_everything_and_nothing_like_it_does() {
    let auth = with_secret(|config| config.static_token = Some(Secret::new("let me in")));
    let dev = auth.identify(Some("let me in")).await.unwrap();
    assert!(dev.is_static);
    assert_eq!((dev.expires, &dev.policy), (None, &Policy::open()));
    for other in ["let me i", "let me in ", "Let me in", "let me im"] {
        assert_eq!(code(auth.identify(Some(other)).await), Some(JwtInvalid), "{other}");
    }
    // It does not stand in the way of others.
    assert!(!auth.identify(Some(&own(json!({})))).await.unwrap().is_static);
}

#[tokio::test]
async fn a_minted_token_says_what_it_was_told_to() {
    let auth = with_secret(|config| {
        config.audience = vec!["hub".into()];
        config.issuer = Some("me".into());
    });
    let told = Claims {
        sub: Some("bob".into()),
        scopes: vec!["subscribe:a.**".into()],
        aud: vec!["hub".into()],
        iss: Some("me".into()),
        ttl: Some(Duration::from_secs(10)),
        ..Claims::default()
    };
    let secret = Secret::new(SECRET);
    let minted = |told: &Claims| mint_at(&secret, told, NOW * 1000 + 999);
    let bob = auth.identify(Some(&minted(&told))).await.unwrap();
    assert_eq!((bob.subject.as_deref(), bob.exp), (Some("bob"), Some(NOW + 10)));
    assert_eq!(bob.policy, Policy::from_scopes(&["subscribe:a.**"]).unwrap());
    let rules = json!({ "rules": [{ "effect": "allow", "action": "publish", "topics": ["b"] }] });
    let ruled = auth.identify(Some(&minted(&Claims { policy: Some(rules), ..told.clone() }))).await.unwrap();
    assert!(ruled.policy.allows(Action::Publish, Target::Topic("b"), None));
    assert!(!ruled.policy.allows(Action::Subscribe, Target::Topic("a.b"), None));
    for wrong in [
        Claims { aud: Vec::new(), ..told.clone() },
        Claims { iss: None, ..told.clone() },
        Claims { ttl: None, ..told.clone() },
    ] {
        assert_eq!(code(auth.identify(Some(&minted(&wrong))).await), Some(JwtInvalid), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_reload_is_seen_by_every_clone_and_a_bad_one_by_none() {
    let auth = with_secret(|config| config.secret_is_made = true);
    let clone = auth.clone();
    let token = own(json!({}));
    assert!(!clone.has_real_auth());
    let empty = AuthConfig { secret: Some(Secret::new("")), ..AuthConfig::default() };
    assert!(auth.reload(empty).unwrap_err().msg.contains("JWT_SECRET"));
    assert_eq!(code(clone.identify(Some(&token)).await), None);
    auth.reload(AuthConfig { secret: Some(Secret::new("another")), ..AuthConfig::default() }).unwrap();
    assert_eq!(code(clone.identify(Some(&token)).await), Some(JwtInvalid));
    assert!(clone.has_real_auth());
    auth.reload(AuthConfig { static_token: Some(Secret::new("let me in")), ..AuthConfig::default() })
        .unwrap();
    assert_eq!(code(clone.identify(Some("let me in")).await), None);
    assert!(!clone.has_real_auth());
}
