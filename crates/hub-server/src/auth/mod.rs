//! Who is on the other end: tokens in, identities out.

use crate::acl::Policy;
use hub_core::Millis;
use std::sync::Arc;

/// Somebody whose token holds.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The token's `sub`.
    pub subject: Option<Arc<str>>,
    /// When the token runs out, on the wall clock; `None`: never.
    pub expires: Option<Millis>,
    /// What it may do, by its own claims; the hub's rules come before that, see [`Settings`](crate::Settings).
    pub policy: Policy,
    /// The static token of a development hub: the hub's own rules do not bind it.
    pub is_static: bool,
}

/// Knows whose tokens hold. Clones share keys.
#[derive(Clone, Debug)]
pub struct Authenticator {}

impl Authenticator {
    /// Who a token speaks for. `None` is a request without one.
    ///
    /// # Errors
    /// `no_token`, `jwt_invalid`, `token_expired`; `unavailable` if keys have to be fetched and cannot be.
    pub async fn identify(&self, token: Option<&str>) -> hub_proto::Result<Identity> {
        let _ = token;
        Err(hub_proto::Error::internal("not built yet"))
    }
}
