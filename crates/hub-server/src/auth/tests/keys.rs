//! Real keys, and tokens that say one thing and are signed with another.

use super::lab::{claims, joined};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, crypto};
use rcgen::PublicKeyData;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// A key pair of an issuer.
pub(super) struct Pair {
    pub(super) alg: Algorithm,
    pub(super) private: EncodingKey,
    /// Its public part as a JWK, without `kid`, `alg` or `use`.
    pub(super) public: Value,
    /// Its public part in all forms that somebody might take for a secret.
    pub(super) forms: Vec<Vec<u8>>,
}

/// RSA is slow to make: one for all tests.
pub(super) static RSA: LazyLock<Pair> = LazyLock::new(|| Pair::new(Algorithm::RS256));

impl Pair {
    pub(super) fn new(alg: Algorithm) -> Self {
        let kind = match alg {
            Algorithm::RS256 => &rcgen::PKCS_RSA_SHA256,
            Algorithm::ES256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Algorithm::ES384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            _ => &rcgen::PKCS_ED25519,
        };
        let pair = rcgen::KeyPair::generate_for(kind).unwrap();
        let (pem, raw) = (pair.serialize_pem(), pair.der_bytes().to_vec());
        let (private, public) = match alg {
            Algorithm::RS256 => (EncodingKey::from_rsa_pem(pem.as_bytes()), DecodingKey::from_rsa_der(&raw)),
            Algorithm::ES256 | Algorithm::ES384 => {
                (EncodingKey::from_ec_pem(pem.as_bytes()), DecodingKey::from_ec_der(&raw))
            }
            _ => (EncodingKey::from_ed_pem(pem.as_bytes()), DecodingKey::from_ed_der(&raw)),
        };
        let private = private.unwrap();
        let jwk =
            Jwk::from_encoding_key(&private, alg).or_else(|_| Jwk::from_decoding_key(&public, Some(alg)));
        let mut public = serde_json::to_value(jwk.unwrap()).unwrap();
        public.as_object_mut().unwrap().remove("alg");
        let mut forms = vec![raw, pair.subject_public_key_info(), pair.public_key_pem().into_bytes()];
        forms.push(forms[2].trim_ascii().to_vec());
        forms.push(public.to_string().into_bytes());
        for part in ["n", "x"] {
            forms.extend(public[part].as_str().map(|part| part.as_bytes().to_vec()));
        }
        Self { alg, private, public, forms }
    }

    /// The public part with members on top, `kid` and whatever.
    pub(super) fn jwk(&self, members: Value) -> Value {
        joined(self.public.clone(), members)
    }

    /// A token of this key, with `kid` in its header or without.
    pub(super) fn token(&self, kid: Option<&str>, others: Value) -> String {
        let header = json!({ "alg": name(self.alg), "kid": kid });
        forged(&header, &claims(others), &self.private, self.alg)
    }
}

/// A token whose header says `header`, signed with `key` as for `alg`.
pub(super) fn forged(header: &Value, claims: &Value, key: &EncodingKey, alg: Algorithm) -> String {
    let message = unsigned(header, claims);
    let signature = crypto::sign(message.as_bytes(), key, alg).unwrap();
    format!("{message}.{signature}")
}

/// Header and claims, before the second dot.
pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()))
}

pub(super) fn name(alg: Algorithm) -> String {
    format!("{alg:?}")
}

/// Base64url without padding.
pub(super) fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for at in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    text
}
