//! Which tokens hold.

use super::claims::{self, Claims};
use super::{AuthConfig, Identity, invalid};
use aws_lc_rs::{constant_time, digest};
use hub_core::Clock;
use hub_proto::Result;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

/// All that is needed to tell whether a token holds.
pub(super) struct Verifier {
    config: AuthConfig,
    static_token: Option<digest::Digest>,
    secret: Option<DecodingKey>,
}

impl Verifier {
    pub(super) fn new(config: AuthConfig) -> Result<Self> {
        config.check()?;
        for warning in config.warnings() {
            tracing::warn!("{warning}");
        }
        let static_token = config.static_token.as_ref().map(|token| hash(token.expose()));
        let secret =
            config.secret.as_ref().map(|secret| DecodingKey::from_secret(secret.expose().as_bytes()));
        Ok(Self { static_token, secret, config })
    }

    pub(super) fn config(&self) -> &AuthConfig {
        &self.config
    }

    /// Whether this is the static token. Hashes are compared, so that time tells nothing, not even a length.
    pub(super) fn is_static(&self, token: &str) -> bool {
        let Some(expected) = &self.static_token else { return false };
        constant_time::verify_slices_are_equal(expected.as_ref(), hash(token).as_ref()).is_ok()
    }

    /// Whom a JWT speaks for.
    pub(super) async fn identify(&self, token: &str, clock: &dyn Clock) -> Result<Identity> {
        let header = decode_header(token).map_err(|error| invalid(refusal(error.kind())))?;
        if header.crit.is_some() {
            return Err(invalid("the token's header has a crit: the hub knows no extensions"));
        }
        let claims = match header.alg {
            Algorithm::HS256 => {
                let secret = self.secret.as_ref();
                let secret = secret
                    .ok_or_else(|| invalid("the token has alg HS256, and this hub has no JWT_SECRET"))?;
                signed(token, secret, Algorithm::HS256)?
            }
            other => {
                return Err(invalid(format!("alg {other:?} is not allowed: RS256, ES256, EdDSA, HS256 are")));
            }
        };
        claims::identity(&claims, &self.config, clock.wall())
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
