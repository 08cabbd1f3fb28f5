//! What the claims of a token whose signature holds have to say.

use super::revoked::MAX_JTI_BYTES;
use super::{AuthConfig, Identity, invalid, shown};
use crate::acl::Policy;
use hub_core::Millis;
use hub_proto::{Code, Error, Result};
use serde_json::{Map, Value};

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// A subject is a key of rate limits and a word in logs.
pub(crate) const MAX_SUBJECT_BYTES: usize = 256;

/// The end of the year 9999. Times beyond it mean as much, and sums with them cannot overflow.
const FAR_FUTURE: Millis = 253_402_300_799_000;

/// Who the claims speak for, `now` on the wall clock.
///
/// jsonwebtoken can check some of this, but by the system's clock, and it passes over an `iss` or `aud` of another type.
pub(super) fn identity(claims: &Claims, config: &AuthConfig, now: Millis) -> Result<Identity> {
    let leeway = config.leeway_secs * 1000;
    audience(claims, &config.audience)?;
    issuer(claims, config.issuer.as_deref())?;
    let issued = time(claims, "iat")?;
    if let Some(begin) = time(claims, "nbf")?
        && now + leeway < begin
    {
        return Err(invalid(format!("the token holds only in {} s (nbf)", (begin - now).div_ceil(1000))));
    }
    let exp = time(claims, "exp")?;
    if exp.is_none() && !config.allow_no_exp {
        return Err(invalid("the token has no exp: this hub takes only tokens that run out"));
    }
    let expires = exp.map(|exp| exp + leeway);
    if let (Some(exp), Some(expires)) = (exp, expires)
        && now >= expires
    {
        let ago = (now - exp) / 1000;
        return Err(Error::new(Code::TokenExpired, format!("the token ran out {ago} s ago: send a new one")));
    }
    if let Some(max) = config.max_lifetime_secs {
        let begin = issued.filter(|issued| *issued <= now).unwrap_or(now);
        let lifetime = exp.map(|exp| exp.saturating_sub(begin) / 1000);
        if lifetime.is_none_or(|lifetime| lifetime > max) {
            let found = lifetime.map_or_else(|| "for ever".into(), |lifetime| format!("for {lifetime} s"));
            return Err(invalid(format!("the token is valid {found}; this hub takes at most {max} s")));
        }
    }
    let subject = subject(claims)?.map(Into::into);
    Ok(Identity {
        subject,
        expires,
        exp: exp.map(|exp| exp / 1000),
        issued,
        jti: jti(claims)?.map(Into::into),
        policy: Policy::from_claims(claims)?,
        is_static: false,
        key: None,
        certificate: None,
        peer: None,
    })
}

/// A claim that is a time in seconds, whole or not.
fn time(claims: &Claims, name: &str) -> Result<Option<Millis>> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite());
    let seconds = seconds.ok_or_else(|| invalid(format!("the token's {name} is not a number of seconds")))?;
    // A cast of a float saturates: before 1970 is 0.
    Ok(Some(((seconds * 1000.0).round() as Millis).min(FAR_FUTURE)))
}

fn audience(claims: &Claims, allowed: &[String]) -> Result<()> {
    if allowed.is_empty() {
        return Ok(());
    }
    let is_allowed =
        |value: &Value| value.as_str().is_some_and(|one| allowed.iter().any(|allowed| allowed == one));
    let fits = match claims.get("aud") {
        Some(Value::Array(several)) => several.iter().any(is_allowed),
        Some(one) => is_allowed(one),
        None => false,
    };
    if fits { Ok(()) } else { Err(invalid("the token's aud does not name this hub (JWT_AUD)")) }
}

fn issuer(claims: &Claims, allowed: Option<&str>) -> Result<()> {
    let Some(allowed) = allowed else { return Ok(()) };
    match claims.get("iss") {
        Some(Value::String(found)) if found == allowed => Ok(()),
        Some(Value::String(found)) => {
            Err(invalid(format!("the token's iss is {}, which is not this hub's (JWT_ISS)", shown(found))))
        }
        Some(_) => Err(invalid("the token's iss is not a string")),
        None => Err(invalid("the token has no iss, and this hub asks for one (JWT_ISS)")),
    }
}

/// A `jti` that is no string, or a very long one, could not be revoked.
fn jti(claims: &Claims) -> Result<Option<&str>> {
    match claims.get("jti") {
        None => Ok(None),
        Some(Value::String(jti)) if jti.len() <= MAX_JTI_BYTES => Ok(Some(jti)),
        Some(_) => Err(invalid(format!("the token's jti is not a string of at most {MAX_JTI_BYTES} bytes"))),
    }
}

fn subject(claims: &Claims) -> Result<Option<&str>> {
    match claims.get("sub") {
        None => Ok(None),
        Some(Value::String(sub)) if sub.len() <= MAX_SUBJECT_BYTES => Ok(Some(sub)),
        Some(Value::String(sub)) => Err(invalid(format!(
            "the token's sub has {} bytes; at most {MAX_SUBJECT_BYTES} are allowed",
            sub.len()
        ))),
        Some(_) => Err(invalid("the token's sub is not a string")),
    }
}
