//! Tokens that the hub makes itself: for development, and for those who share its secret.

use super::Secret;
use hub_core::{Clock, Millis, SystemClock};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use std::time::Duration;

/// What a token shall say.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Whom it speaks for.
    pub sub: Option<String>,
    /// What it may do, such as `publish:heartbeat.*`.
    pub scopes: Vec<String>,
    /// The same as rules, `{"rules": […]}`; then the scopes do not count.
    pub policy: Option<serde_json::Value>,
    /// Its own id, by which it can be revoked.
    pub jti: Option<String>,
    /// For which hubs, see `JWT_AUD`.
    pub aud: Vec<String>,
    /// By whom, see `JWT_ISS`.
    pub iss: Option<String>,
    /// How long it holds, in whole seconds; `None`: for ever, which a hub takes only if told to.
    pub ttl: Option<Duration>,
}

/// As it is written.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    aud: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<&'a str>,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
}

/// A token with these claims, signed with HS256.
///
/// ```
/// use hub_server::auth::{AuthConfig, Authenticator, Secret, mint::{Claims, mint}};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let secret = Secret::new("0123456789abcdef0123456789abcdef");
/// let ttl = Some(std::time::Duration::from_secs(3600));
/// let token = mint(&secret, &Claims { sub: Some("ada".into()), ttl, ..Claims::default() });
///
/// let auth = Authenticator::new(AuthConfig { secret: Some(secret), ..AuthConfig::default() })?;
/// assert_eq!(auth.identify(Some(&token)).await?.subject.as_deref(), Some("ada"));
/// # Ok::<_, hub_proto::Error>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn mint(secret: &Secret, claims: &Claims) -> String {
    mint_at(secret, claims, SystemClock::new().wall())
}

/// As [`mint`], issued at `now`.
pub fn mint_at(secret: &Secret, claims: &Claims, now: Millis) -> String {
    let iat = now / 1000;
    let written = Written {
        sub: claims.sub.as_deref(),
        scopes: &claims.scopes,
        policy: claims.policy.as_ref(),
        aud: &claims.aud,
        iss: claims.iss.as_deref(),
        jti: claims.jti.as_deref(),
        iat,
        exp: claims.ttl.map(|ttl| iat.saturating_add(ttl.as_secs())),
    };
    let key = EncodingKey::from_secret(secret.expose().as_bytes());
    encode(&Header::new(Algorithm::HS256), &written, &key).expect("claims are JSON, and HMAC takes any key")
}
