//! What the tests share: time that is held still, and a hub's secret.

use crate::auth::{AuthConfig, Authenticator, Identity, Secret};
use hub_core::{Clock, Millis};
use hub_proto::{Code, Result};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Some day in 2026, in seconds.
pub(super) const NOW: u64 = 1_780_000_000;

pub(super) const SECRET: &str = "a secret of more than thirty-two bytes";

/// A clock that a test sets.
#[derive(Debug, Default)]
pub(super) struct Held(AtomicU64);

impl Held {
    pub(super) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, SeqCst);
    }
}

impl Clock for Held {
    fn wall(&self) -> Millis {
        NOW * 1000 + self.steady()
    }

    fn steady(&self) -> Millis {
        self.0.load(SeqCst)
    }
}

/// A hub that knows [`SECRET`], with other settings as a test wants.
pub(super) fn with_secret(set: impl FnOnce(&mut AuthConfig)) -> Authenticator {
    let mut config = AuthConfig { secret: Some(Secret::new(SECRET)), ..AuthConfig::default() };
    set(&mut config);
    Authenticator::with_clock(config, Arc::<Held>::default()).unwrap()
}

/// An object with the members of another on top.
pub(super) fn joined(mut object: Value, others: Value) -> Value {
    let Value::Object(mut others) = others else { panic!("no object: {others}") };
    object.as_object_mut().unwrap().append(&mut others);
    object
}

/// Claims that hold, with others on top; "absent" takes one away.
pub(super) fn claims(others: Value) -> Value {
    let mut claims = joined(json!({ "sub": "ada", "exp": NOW + 60 }), others);
    claims.as_object_mut().unwrap().retain(|_, value| value != "absent");
    claims
}

/// A token with HS256 by [`SECRET`].
pub(super) fn own(others: Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(others), &key).unwrap()
}

pub(super) fn code(answer: Result<Identity>) -> Option<Code> {
    answer.err().map(|error| error.code)
}
