//! What hubs of one cluster show each other.
//!
//! A hub that serves a member of a group that another one owns says who it is with a token of its own: HS256 with a key
//! that no user has, under a `kid` of its own, for one hub and a minute. A user's token is never tried with that key, and
//! a hub's token never with those of users, so neither can pass for the other, whatever claims it has.

use super::{Secret, invalid};
use aws_lc_rs::hmac;
use hub_core::Millis;
use hub_core::store::HubId;
use hub_proto::Result;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The `kid` of hubs' tokens. It decides which key a token is tried with, and with no other.
const KID: &str = "event-hub-cluster";
/// Whom they are for.
const AUDIENCE: &str = "event-hub-cluster";
/// How long they are valid: they are used at once.
const HOLDS: Millis = 30_000;
/// By how much the clocks of hubs may differ, both ways. A token is valid for this longer.
const TOLERANCE: Millis = 60_000;

/// The key that the hubs of a cluster share. It is derived, so it is never that of users' tokens, whatever it comes from.
#[derive(Clone)]
pub struct ClusterKey {
    pub(super) key: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    /// Who speaks.
    hub: String,
    /// To whom.
    to: String,
    exp: u64,
}

impl ClusterKey {
    /// From `JWT_SECRET`: hubs that take the same users' tokens know each other.
    pub fn derived(jwt_secret: &Secret) -> Self {
        Self::from(jwt_secret, b"event-hub cluster key of JWT_SECRET")
    }

    /// From a secret that is the hubs' alone.
    pub fn new(secret: &Secret) -> Self {
        Self::from(secret, b"event-hub cluster key")
    }

    fn from(secret: &Secret, label: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let tag = hmac::sign(&key, label);
        let mut key = [0; 32];
        key.copy_from_slice(tag.as_ref());
        Self { key }
    }

    /// What the hub `from` shows to the hub `to`.
    pub(crate) fn token(&self, from: HubId, to: HubId, now: Millis) -> Secret {
        let claims = Claims {
            aud: AUDIENCE.to_owned(),
            hub: from.to_string(),
            to: to.to_string(),
            exp: (now + HOLDS) / 1000,
        };
        let header = Header { kid: Some(KID.to_owned()), ..Header::new(Algorithm::HS256) };
        let token = encode(&header, &claims, &EncodingKey::from_secret(&self.key));
        Secret::new(token.expect("claims are JSON, and HMAC takes any key"))
    }

    /// Which hub shows this token to the hub `me`.
    ///
    /// # Errors
    /// `jwt_invalid`, with the reason.
    pub(crate) fn peer(&self, token: &str, me: HubId, now: Millis) -> Result<HubId> {
        let mut validation = Validation::new(Algorithm::HS256);
        // The signature only, in constant time; the rest is below.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let key = DecodingKey::from_secret(&self.key);
        let claims = decode::<Claims>(token, &key, &validation)
            .map_err(|_| invalid("not a token of this cluster: do its hubs have the same secret?"))?
            .claims;
        if claims.aud != AUDIENCE {
            return Err(invalid("a hub's token has the aud event-hub-cluster"));
        }
        if claims.exp.saturating_mul(1000).saturating_add(TOLERANCE) <= now {
            return Err(invalid("the hub's token ran out: do the clocks differ by minutes?"));
        }
        if claims.exp.saturating_mul(1000) > now.saturating_add(HOLDS + TOLERANCE) {
            return Err(invalid("the hub's token is from the future: do the clocks differ by minutes?"));
        }
        if HubId::parse(&claims.to) != Some(me) {
            return Err(invalid("the hub's token is for another hub, which was here before"));
        }
        HubId::parse(&claims.hub).ok_or_else(|| invalid("the hub's token names no hub"))
    }
}

/// Whether a token says that it is a hub's. Then it is nothing else.
pub(crate) fn is_hubs(token: &str) -> bool {
    decode_header(token).is_ok_and(|header| header.kid.as_deref() == Some(KID))
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}
