//! Tokens that nobody thought of.

use super::lab::{NOW, code, own, with_secret};
use crate::auth::{Authenticator, Identity};
use hub_proto::{Code, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Nothing is fetched here, so a token is decided at once.
fn identify(hub: &Authenticator, token: &str) -> Result<Identity> {
    futures_util::FutureExt::now_or_never(hub.identify(Some(token))).expect("no waiting")
}

fn value() -> impl Strategy<Value = Value> {
    let near = (NOW - 20..NOW + 20).prop_map(Value::from);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        near,
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,5}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_not_signed_never_holds(token in prop_oneof!["\\PC{1,200}", "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,43}"]) {
        prop_assert_eq!(code(identify(&with_secret(|_| {}), &token)), Some(Code::JwtInvalid));
    }

    #[test]
    fn a_signed_time_decides_as_it_says(exp in prop_oneof![
        any::<f64>().prop_filter("JSON has no others", |exp| exp.is_finite()),
        (-10_000..10_000_i64).prop_map(|ms| NOW as f64 + ms as f64 / 1000.0),
    ]) {
        let holds = exp * 1000.0 > (NOW * 1000 - 5000) as f64;
        // Closer than half a millisecond is for the rounding to decide.
        prop_assume!(((exp - NOW as f64 + 5.0) * 1000.0).abs() >= 0.5);
        let expected = (!holds).then_some(Code::TokenExpired);
        prop_assert_eq!(code(identify(&with_secret(|_| {}), &own(json!({ "exp": exp })))), expected);
    }

    #[test]
    fn any_claims_that_are_signed_are_taken_or_refused(claims in prop::collection::hash_map(
        prop::sample::select(vec!["exp", "nbf", "iat", "sub", "aud", "iss", "scope", "scopes", "policy", "else"]), value(), 0..6,
    )) {
        let hub = with_secret(|config| config.audience = vec!["hub".into()]);
        let claims: Value = claims.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        match identify(&hub, &own(claims.clone())) {
            Ok(identity) => {
                prop_assert!(identity.expires.is_some_and(|expires| expires > NOW * 1000), "{}", claims);
                prop_assert!(claims["aud"] == "hub" || claims["aud"].as_array().is_some_and(|all| all.contains(&"hub".into())));
            }
            Err(error) => prop_assert!(matches!(error.code, Code::JwtInvalid | Code::TokenExpired), "{}", error),
        }
    }
}
