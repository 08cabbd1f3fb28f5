//! Public keys, each bound to the one algorithm it is used for.

use super::{KeyPrint, print, shown};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;

/// A token without a `kid` is tried with each key that fits, so there have to be few.
const MAX_KEYS: usize = 100;

/// The keys of an issuer.
pub(super) struct KeySet {
    keys: Vec<Key>,
}

struct Key {
    kid: Option<String>,
    alg: Algorithm,
    key: DecodingKey,
    /// Of the key as it was written.
    print: KeyPrint,
}

/// Which keys of a set could have signed a token.
pub(super) enum Candidates<'a> {
    /// These.
    Keys(Vec<(&'a DecodingKey, KeyPrint)>),
    /// The token's `kid` is there, and is for another algorithm.
    OtherAlgorithm,
    /// None that this set knows.
    Unknown,
}

impl KeySet {
    /// The keys that the hub can use. One that it cannot is passed over: an issuer may have keys for others too.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Written {
            keys: Vec<Value>,
        }
        // Each is read by itself, so that one with a member of another type does not take the others along.
        let Written { keys } = serde_json::from_slice(body).map_err(|error| {
            format!("no key set, from line {} column {} on", error.line(), error.column())
        })?;
        if keys.len() > MAX_KEYS {
            return Err(format!("{} keys; at most {MAX_KEYS} are allowed", keys.len()));
        }
        let mut usable = Vec::new();
        for key in keys {
            let text =
                |name: &str| key.get(name).and_then(Value::as_str).map_or_else(|| "none".into(), shown);
            let (kid, kty) = (text("kid"), text("kty"));
            match Key::read(key) {
                Ok(key) => usable.push(key),
                Err(NotOurs::ForOthers(why)) => {
                    tracing::debug!(%kid, %kty, why, "passed over a key of the key set");
                }
                Err(NotOurs::Broken(why)) => {
                    tracing::warn!(%kid, %kty, why, "passed over a key of the key set");
                }
            }
        }
        Ok(Self { keys: usable })
    }

    /// Whether it has this key.
    pub(super) fn has(&self, print: &KeyPrint) -> bool {
        self.keys.iter().any(|key| key.print == *print)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys for a token with this `kid` and `alg`.
    pub(super) fn candidates(&self, kid: Option<&str>, alg: Algorithm) -> Candidates<'_> {
        let named = || self.keys.iter().filter(|key| kid.is_none() || key.kid.as_deref() == kid);
        let fitting: Vec<_> = named().filter(|key| key.alg == alg).map(|key| (&key.key, key.print)).collect();
        if !fitting.is_empty() {
            Candidates::Keys(fitting)
        } else if kid.is_some() && named().next().is_some() {
            Candidates::OtherAlgorithm
        } else {
            Candidates::Unknown
        }
    }
}

enum NotOurs {
    ForOthers(&'static str),
    Broken(&'static str),
}

impl Key {
    fn read(written: Value) -> Result<Self, NotOurs> {
        use NotOurs::{Broken, ForOthers};
        let print = print(written.to_string().as_bytes());
        let jwk: Jwk = serde_json::from_value(written).map_err(|_| Broken("a member has a wrong type"))?;
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return Err(ForOthers("its use is not sig"));
        }
        if common.key_operations.as_ref().is_some_and(|can| !can.contains(&KeyOperations::Verify)) {
            return Err(ForOthers("its key_ops are without verify"));
        }
        let alg = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
            AlgorithmParameters::EllipticCurve(_) => return Err(ForOthers("its curve is not P-256")),
            // A secret in a public set is everybody's.
            AlgorithmParameters::OctetKey(_) => return Err(Broken("a symmetric key is no public key")),
            _ => {
                return Err(Broken(
                    "its kty or crv is none of RSA, EC P-256, OKP Ed25519, or a part is missing",
                ));
            }
        };
        if common.key_algorithm.is_some_and(|own| own != KeyAlgorithm::from(alg)) {
            return Err(ForOthers("its alg is none of RS256, ES256, EdDSA, or not that of its kty"));
        }
        let key = DecodingKey::from_jwk(&jwk).map_err(|_| Broken("a part of it is not base64url"))?;
        if !has_right_size(&key, alg) {
            return Err(Broken("its size is wrong: RSA has 2048 to 8192 bits, the curves 256"));
        }
        Ok(Self { kid: jwk.common.key_id, alg, key, print })
    }
}

/// Whether a key has the size that its algorithm asks for; else each signature would fail, and nobody would know why.
fn has_right_size(key: &DecodingKey, alg: Algorithm) -> bool {
    match (key.kind(), alg) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, _) => {
            let leading = n.iter().take_while(|byte| **byte == 0).count();
            (256..=1024).contains(&(n.len() - leading)) && !e.is_empty()
        }
        (DecodingKeyKind::SecretOrDer(point), Algorithm::ES256) => point.len() == 65,
        (DecodingKeyKind::SecretOrDer(point), _) => point.len() == 32,
    }
}
