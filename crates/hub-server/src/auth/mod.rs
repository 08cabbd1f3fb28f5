//! Who is on the other end: tokens in, identities out.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what an operator sets | [`config`] |
//! | which tokens hold, and why not | `jwt.rs` |
//! | what the claims of a signed token have to say | `claims.rs` |
//! | the issuer's keys: kept, fetched, read | `jwks.rs`, `fetch.rs`, `keys.rs` |
//! | how tokens of the hub's own secret are made | [`mint`] |
//! | clients that show a certificate | `certificate.rs` |
//! | how hubs know each other | `cluster.rs` |
//! | tokens that were taken back | `revoked.rs` |
//! | what stands for a token, once, where no header can be sent | `tickets.rs` |
//!
//! A token is tried as the static one first. If it is not, it is a JWT, and the algorithm in its header says who
//! could have signed it: RS256, ES256 and EdDSA a key of the issuer's set, HS256 whoever has the secret. No key is ever
//! used for another algorithm than its own.
//!
//! What a token holds is never logged, and of what it claims an error shows only what its holder can read anyway.

mod certificate;
mod claims;
pub(crate) mod cluster;
pub mod config;
mod fetch;
mod jwks;
mod jwt;
mod keys;
pub mod mint;
pub(crate) mod revoked;
#[cfg(test)]
mod tests;
pub(crate) mod tickets;

pub(crate) use claims::MAX_SUBJECT_BYTES;
pub use cluster::ClusterKey;
pub use config::{AuthConfig, Secret};
pub use revoked::Revoked;

use crate::acl::Policy;
use crate::net::ClientCertificate;
use aws_lc_rs::digest;
use hub_core::store::HubId;
use hub_core::{Clock, Millis, SystemClock};
use hub_proto::{Code, Error, Result};
use jwt::Verifier;
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;

/// A token is at most this long.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Somebody whose token holds, or whose certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The token's `sub`.
    pub subject: Option<Arc<str>>,
    /// From when on the token does not hold, on the wall clock: its `exp` and the tolerance on top. `None`: never.
    pub expires: Option<Millis>,
    /// The token's `exp` as it says, in seconds.
    pub exp: Option<u64>,
    /// When the token was issued: its `iat`, if there is one.
    pub issued: Option<Millis>,
    /// The token's own id (`jti`), if it has one.
    pub jti: Option<Arc<str>>,
    /// What it may do, by its own claims; the hub's rules come before that, see [`Settings`](crate::Settings).
    pub policy: Policy,
    /// The static token of a development hub: the hub's own rules do not bind it.
    pub is_static: bool,
    /// The hash of the key that the token was checked with.
    pub(crate) key: Option<KeyPrint>,
    /// The client certificate, if that says who it is and no token does.
    pub(crate) certificate: Option<ClientCertificate>,
    /// Another hub of the cluster. No token that [`Authenticator::identify`] takes makes one.
    pub(crate) peer: Option<HubId>,
}

impl Identity {
    /// Another hub of the cluster: it has checked what its users may do.
    pub(crate) fn of_hub(hub: HubId) -> Self {
        Self {
            subject: None,
            expires: None,
            exp: None,
            issued: None,
            jti: None,
            policy: Policy::open(),
            is_static: false,
            key: None,
            certificate: None,
            peer: Some(hub),
        }
    }
}

/// Why a token was not accepted.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub error: Error,
    /// Whose token it is, if its signature holds.
    pub identity: Option<Box<Identity>>,
}

impl Rejected {
    pub fn of(identity: Identity, error: Error) -> Self {
        Self { error, identity: Some(Box::new(identity)) }
    }
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Self {
        Self { error, identity: None }
    }
}

/// Knows whose tokens hold. Clones share keys.
#[derive(Clone)]
pub struct Authenticator {
    shared: Arc<Shared>,
}

/// What [`Authenticator::prepare`] has made of a configuration.
#[must_use = "nothing changes until it is committed"]
pub struct Prepared(Verifier);

struct Shared {
    // Replaced as a whole by a reload; whoever verifies at that moment ends with what it began with.
    verifier: RwLock<Arc<Verifier>>,
}

impl Authenticator {
    /// Knows those whom `config` says. Nothing is fetched before the first token needs it.
    ///
    /// # Errors
    /// Those of [`AuthConfig::check`].
    pub fn new(config: AuthConfig) -> Result<Self> {
        Self::with_clock(config, Arc::new(SystemClock::new()))
    }

    /// As [`Authenticator::new`], by another clock.
    ///
    /// # Errors
    /// Those of [`AuthConfig::check`].
    pub fn with_clock(config: AuthConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let verifier = Verifier::new(config, clock)?;
        verifier.begin();
        let verifier = RwLock::new(Arc::new(verifier));
        Ok(Self { shared: Arc::new(Shared { verifier }) })
    }

    /// Goes by `config` from now on, in all clones. Identities that were given out stay what they are. The issuer's keys are
    /// asked for again before they are next used, so this also lets go of a key that was withdrawn.
    ///
    /// # Errors
    /// Those of [`AuthConfig::check`]; then everything stays as it was.
    pub fn reload(&self, config: AuthConfig) -> Result<()> {
        self.prepare(config).map(|prepared| self.commit(prepared))
    }

    /// The part of a [`reload`](Self::reload) that can fail. Nothing changes yet.
    ///
    /// # Errors
    /// Those of [`AuthConfig::check`].
    pub fn prepare(&self, config: AuthConfig) -> Result<Prepared> {
        self.verifier().reloaded(config).map(Prepared)
    }

    /// The part of a [`reload`](Self::reload) that cannot fail.
    pub fn commit(&self, prepared: Prepared) {
        prepared.0.begin();
        *self.shared.verifier.write() = Arc::new(prepared.0);
    }

    /// Whether tokens are signed by somebody else's keys or with a secret that an operator chose. A secret that the hub made
    /// for itself and a static token are for one machine.
    pub fn has_real_auth(&self) -> bool {
        self.verifier().config().is_real()
    }

    /// Who a token speaks for. `None` is a request without one.
    ///
    /// # Errors
    /// `no_token`, `jwt_invalid`, `token_expired`; `unavailable` if keys have to be fetched and cannot be.
    pub async fn identify(&self, token: Option<&str>) -> Result<Identity> {
        let token = token.filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| Error::new(Code::NoToken, "no token: send one, see `event-hub token`"))?;
        if token.len() > MAX_TOKEN_BYTES {
            let found = token.len();
            return Err(invalid(format!("a token of {found} bytes; at most {MAX_TOKEN_BYTES} are allowed")));
        }
        let verifier = self.verifier();
        if verifier.is_static(token) {
            return Ok(Identity {
                subject: None,
                expires: None,
                exp: None,
                issued: None,
                jti: None,
                policy: Policy::open(),
                is_static: true,
                key: Some(print(token.as_bytes())),
                certificate: None,
                peer: None,
            });
        }
        verifier.identify(token).await
    }

    /// The steady clock by which tokens are checked.
    pub(crate) fn steady(&self) -> Millis {
        self.verifier().steady()
    }

    /// The identity of a connection: that of its token, or without one that of its client certificate.
    ///
    /// # Errors
    /// Those of [`Authenticator::identify`]; `jwt_invalid` for a token that is not of the certificate's subject, if it has to be.
    pub(crate) async fn identify_with(
        &self,
        token: Option<&str>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Identity> {
        let verifier = self.verifier();
        if let (None, Some(certificate)) = (token, certificate) {
            return certificate::identity(certificate, verifier.now());
        }
        let identity = self.identify(token).await?;
        self.check_bound(&identity, certificate)?;
        Ok(identity)
    }

    /// Refuses an identity on a connection that does not show a certificate of its subject, if it has to.
    ///
    /// # Errors
    /// `jwt_invalid`.
    pub(crate) fn check_bound(
        &self,
        identity: &Identity,
        certificate: Option<&ClientCertificate>,
    ) -> Result<()> {
        match self.verifier().config().certificate_binds_subject {
            true => certificate::check_bound(identity, certificate),
            false => Ok(()),
        }
    }

    /// Whether the key that a token was checked with is still one of those that count, and the authority of a certificate.
    pub(crate) fn covers(&self, identity: &Identity) -> bool {
        identity.key.is_none_or(|key| self.verifier().has_key(&key))
            && identity.certificate.as_ref().is_none_or(ClientCertificate::is_trusted)
    }

    /// The longest that a token may be valid, the tolerance included, in milliseconds.
    pub(crate) fn max_lifetime(&self) -> Option<Millis> {
        let verifier = self.verifier();
        let AuthConfig { max_lifetime_secs, leeway_secs, .. } = verifier.config();
        max_lifetime_secs.map(|seconds| (seconds + leeway_secs) * 1000)
    }

    fn verifier(&self) -> Arc<Verifier> {
        self.shared.verifier.read().clone()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(self.0.config()).finish()
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("config", self.verifier().config()).finish_non_exhaustive()
    }
}

/// The SHA-256 of a key, by which it is known without being shown.
pub(crate) type KeyPrint = [u8; 32];

fn print(key: &[u8]) -> KeyPrint {
    let mut print = [0; 32];
    print.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
    print
}

fn invalid(msg: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Code::JwtInvalid, msg)
}

/// A value from a token for an error message: quoted, escaped, and short.
fn shown(value: &str) -> String {
    let end = value.floor_char_boundary(48);
    let more = if end < value.len() { "…" } else { "" };
    format!("{:?}{more}", &value[..end])
}
