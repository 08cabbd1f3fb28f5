//! Which tokens hold.

use super::claims::{self, Claims};
use super::jwks::{self, Jwks};
use super::keys::{Candidates, KeySet};
use super::{AuthConfig, Identity, KeyPrint, invalid, print, shown};
use aws_lc_rs::{constant_time, digest};
use hub_core::{Clock, Millis};
use hub_proto::Result;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use std::sync::Arc;

/// All that is needed to tell whether a token holds.
pub(super) struct Verifier {
    config: AuthConfig,
    static_token: Option<digest::Digest>,
    secret: Option<(DecodingKey, KeyPrint)>,
    jwks: Option<Arc<Jwks>>,
    clock: Arc<dyn Clock>,
}

impl Verifier {
    pub(super) fn new(config: AuthConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        config.check()?;
        let jwks = config.jwks_url.as_ref().map(|url| Jwks::new(url, clock.clone())).transpose()?;
        Ok(Self::with_jwks(config, clock, jwks.map(Arc::new)))
    }

    /// One with another configuration. Keys of the same issuer stay.
    pub(super) fn reloaded(&self, config: AuthConfig) -> Result<Self> {
        let kept = self.jwks.as_ref().filter(|_| config.jwks_url == self.config.jwks_url);
        let Some(jwks) = kept else { return Self::new(config, self.clock.clone()) };
        config.check()?;
        Ok(Self::with_jwks(config, self.clock.clone(), Some(jwks.clone())))
    }

    fn with_jwks(config: AuthConfig, clock: Arc<dyn Clock>, jwks: Option<Arc<Jwks>>) -> Self {
        let static_token = config.static_token.as_ref().map(|token| hash(token.expose()));
        let secret = config.secret.as_ref().map(|secret| {
            let secret = secret.expose().as_bytes();
            (DecodingKey::from_secret(secret), print(secret))
        });
        Self { static_token, secret, jwks, config, clock }
    }

    /// From now on it counts: says what is weak, and has keys asked for again before they are next used.
    pub(super) fn begin(&self) {
        for warning in self.config.warnings() {
            tracing::warn!("{warning}");
        }
        if let Some(jwks) = &self.jwks {
            jwks.expire();
        }
    }

    pub(super) fn config(&self) -> &AuthConfig {
        &self.config
    }

    pub(super) fn steady(&self) -> Millis {
        self.clock.steady()
    }

    /// The wall clock.
    pub(super) fn now(&self) -> Millis {
        self.clock.wall()
    }

    /// Whether this is the static token. Hashes are compared, so that time tells nothing, not even a length.
    pub(super) fn is_static(&self, token: &str) -> bool {
        let Some(expected) = &self.static_token else { return false };
        constant_time::verify_slices_are_equal(expected.as_ref(), hash(token).as_ref()).is_ok()
    }

    /// Whom a JWT speaks for.
    pub(super) async fn identify(&self, token: &str) -> Result<Identity> {
        let header = decode_header(token).map_err(|error| invalid(refusal(error.kind())))?;
        if header.crit.is_some() {
            return Err(invalid("the token's header has a crit: the hub knows no extensions"));
        }
        let (claims, key) = match (header.alg, &self.jwks, &self.secret) {
            (Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA, Some(jwks), _) => {
                by_issuer(token, &header, jwks).await?
            }
            (Algorithm::HS256, _, Some((secret, print))) => {
                (signed(token, secret, Algorithm::HS256)?, *print)
            }
            (alg, jwks, secret) => {
                let allowed = match (jwks, secret) {
                    (Some(_), Some(_)) => "RS256, ES256, EdDSA and HS256",
                    (Some(_), None) => "RS256, ES256 and EdDSA",
                    (None, Some(_)) => "HS256",
                    (None, None) => "no JWT",
                };
                return Err(invalid(format!("the token's alg is {alg:?}; this hub takes {allowed}")));
            }
        };
        let identity = claims::identity(&claims, &self.config, self.clock.wall())?;
        Ok(Identity { key: Some(key), ..identity })
    }

    /// Whether tokens that were checked with this key still count.
    pub(super) fn has_key(&self, key: &KeyPrint) -> bool {
        let is_static = self.static_token.as_ref().is_some_and(|print| print.as_ref() == key);
        is_static
            || self.secret.as_ref().is_some_and(|(_, print)| print == key)
            || self.jwks.as_ref().is_some_and(|jwks| jwks.has_key(key))
    }
}

/// The claims of a token that a key of the issuer has signed. What else the header says of keys (`jwk`, `jku`, `x5c`)
/// is the sender's word and not asked.
async fn by_issuer(token: &str, header: &Header, jwks: &Jwks) -> Result<(Claims, KeyPrint)> {
    if let Some(claims) = by_set(token, header, &*jwks.current().await?)? {
        return Ok(claims);
    }
    let newer = jwks.newer().await?;
    match (by_set(token, header, &newer.set)?, &header.kid) {
        (Some(claims), _) => Ok(claims),
        (None, _) if !newer.is_fresh => Err(jwks::out_of_reach()),
        (None, Some(kid)) => Err(invalid(format!("the token's kid {} is no key of the issuer", shown(kid)))),
        (None, None) => Err(invalid("the token has no kid, and no key of the issuer has signed it")),
    }
}

/// The claims of a token that a key of `set` has signed; `None` if its key may be one that `set` does not have.
fn by_set(token: &str, header: &Header, set: &KeySet) -> Result<Option<(Claims, KeyPrint)>> {
    match set.candidates(header.kid.as_deref(), header.alg) {
        Candidates::Unknown => Ok(None),
        Candidates::OtherAlgorithm => Err(invalid("the token's alg is not that of its key")),
        Candidates::Keys(keys) => {
            let mut refused = None;
            for (key, print) in keys {
                match signed(token, key, header.alg) {
                    Ok(claims) => return Ok(Some((claims, print))),
                    Err(error) => refused = Some(error),
                }
            }
            // With a kid it had to be that key. Without one it may be a key that is yet to come.
            refused.filter(|_| header.kid.is_some()).map_or(Ok(None), Err)
        }
    }
}

/// The claims of a token that `key` has signed with `alg`.
fn signed(token: &str, key: &DecodingKey, alg: Algorithm) -> Result<Claims> {
    let mut validation = Validation::new(alg);
    // The signature only: claims.rs does the rest.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let token = decode::<Claims>(token, key, &validation).map_err(|error| invalid(refusal(error.kind())))?;
    Ok(token.claims)
}

/// Why jsonwebtoken refused a token. Its own words may quote from the token.
fn refusal(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidSignature => "the token's signature does not hold",
        ErrorKind::Json(_) | ErrorKind::Utf8(_) => {
            "the token's header or claims are no JSON object, or alg is none of RS256, ES256, EdDSA, HS256"
        }
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => "the token's alg is not that of its key",
        _ => "not a JWT: it has three parts in base64url with dots between",
    }
}

fn hash(text: &str) -> digest::Digest {
    digest::digest(&digest::SHA256, text.as_bytes())
}
