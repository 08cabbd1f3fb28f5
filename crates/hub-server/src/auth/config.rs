//! What an operator says about tokens.

use super::MAX_TOKEN_BYTES;
use hub_proto::{Error, Result};
use reqwest::Url;
use serde::Deserialize;
use std::fmt;

/// HS256 is as strong as its secret; a shorter one than its hash can be guessed offline from any one token.
const GOOD_SECRET_BYTES: usize = 32;

/// More tolerance than this hides a clock that should be repaired.
const MAX_LEEWAY_SECS: u64 = 300;

/// Something that must not be shown. It can be read from a file, and not be written to one.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Whose tokens hold. Messages about it use the names of the environment.
#[derive(Clone)]
pub struct AuthConfig {
    /// `JWT_JWKS_URL`: where the public keys are, for tokens with RS256, ES256 and EdDSA. https; plain http is taken as the
    /// operator says, with a warning beyond loopback, because whoever sits in between can then make tokens.
    pub jwks_url: Option<String>,
    /// `JWT_SECRET`: for tokens with HS256.
    pub secret: Option<Secret>,
    /// The hub made the secret for itself, so it is no reason to let others in: [`AuthConfig::is_real`].
    pub secret_is_made: bool,
    /// `JWT_AUD`: a token has to be for one of these. Without any, a token for whomever is taken.
    pub audience: Vec<String>,
    /// `JWT_ISS`: a token has to be by this one. Without it, by whomever has a key.
    pub issuer: Option<String>,
    /// `JWT_CLOCK_TOLERANCE_SEC`: by how much the clocks of hub and issuer may differ.
    pub leeway_secs: u64,
    /// A token without `exp` holds for ever instead of not at all.
    pub allow_no_exp: bool,
    /// The longest that a token may be valid, from its `iat` to its `exp`, or from now on without; `None`: as long as it says.
    pub max_lifetime_secs: Option<u64>,
    /// `WS_TOKEN`: a token that may do everything, for development.
    pub static_token: Option<Secret>,
    /// A token is good only on a connection with a client certificate of the same subject.
    pub certificate_binds_subject: bool,
    /// Others than this machine can reach the hub. Only [`AuthConfig::warnings`] asks.
    pub exposed: bool,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            jwks_url: None,
            secret: None,
            secret_is_made: false,
            audience: Vec::new(),
            issuer: None,
            leeway_secs: 5,
            allow_no_exp: false,
            max_lifetime_secs: None,
            static_token: None,
            certificate_binds_subject: false,
            exposed: false,
        }
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may have a password or a key in it.
        let host =
            self.jwks_url.as_deref().and_then(|url| Url::parse(url).ok()?.host_str().map(str::to_owned));
        f.debug_struct("AuthConfig")
            .field("jwks_host", &host)
            .field("secret", &self.secret)
            .field("secret_is_made", &self.secret_is_made)
            .field("audience", &self.audience)
            .field("issuer", &self.issuer)
            .field("leeway_secs", &self.leeway_secs)
            .field("allow_no_exp", &self.allow_no_exp)
            .field("max_lifetime_secs", &self.max_lifetime_secs)
            .field("static_token", &self.static_token)
            .field("certificate_binds_subject", &self.certificate_binds_subject)
            .finish()
    }
}

impl AuthConfig {
    /// The audiences in a text such as that of `JWT_AUD`: one, or several with commas between.
    pub fn audiences(text: &str) -> Vec<String> {
        text.split(',').map(|one| one.trim().to_owned()).collect()
    }

    /// Whether tokens are signed by somebody else's keys or with a secret that an operator chose.
    pub fn is_real(&self) -> bool {
        self.jwks_url.is_some() || (self.secret.is_some() && !self.secret_is_made)
    }

    /// Whether this can be used.
    ///
    /// # Errors
    /// `bad_request` with the name of the setting and what is allowed.
    pub fn check(&self) -> Result<()> {
        let refuse = |msg: &str| Err(Error::bad_request(msg.to_owned()));
        if self.jwks_url.is_none() && self.secret.is_none() && self.static_token.is_none() {
            return refuse("nobody could get in: set JWT_JWKS_URL, JWT_SECRET or WS_TOKEN");
        }
        if let Some(url) = &self.jwks_url {
            check_url(url)?;
        }
        if self.secret.as_ref().is_some_and(|secret| secret.0.is_empty()) {
            return refuse(
                "JWT_SECRET is empty: anybody could sign tokens; unset it, or use 32 random bytes or more",
            );
        }
        if let Some(token) = &self.static_token {
            if token.0.is_empty() {
                return refuse("WS_TOKEN is empty: unset it, or use a long random text");
            }
            if token.0.len() > MAX_TOKEN_BYTES {
                return refuse("WS_TOKEN is longer than the 16384 bytes that a token may have");
            }
        }
        if self.audience.iter().any(String::is_empty) {
            return refuse("JWT_AUD names an empty audience: write one, or several with commas between");
        }
        if self.issuer.as_ref().is_some_and(String::is_empty) {
            return refuse("JWT_ISS is empty: unset it to take tokens of any issuer whose key is known");
        }
        if self.leeway_secs > MAX_LEEWAY_SECS {
            let found = self.leeway_secs;
            return Err(Error::bad_request(format!(
                "JWT_CLOCK_TOLERANCE_SEC is {found}; 0 to {MAX_LEEWAY_SECS} are allowed"
            )));
        }
        Ok(())
    }

    /// What can be used, but is worth a word at the start.
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.secret.as_ref().is_some_and(|secret| secret.0.len() < GOOD_SECRET_BYTES) {
            warnings.push("JWT_SECRET has fewer than 32 bytes: whoever has one token can guess it");
        }
        if self.static_token.as_ref().is_some_and(|token| token.0.len() < GOOD_SECRET_BYTES) {
            warnings.push("WS_TOKEN has fewer than 32 bytes: it may be guessed, and it may do everything");
        }
        if self.exposed && self.static_token.is_some() {
            warnings.push(
                "WS_TOKEN is set on a hub that other machines can reach: it never runs out, may do everything, and who \
                 has it cannot be told apart",
            );
        }
        if self.jwks_url.as_deref().is_some_and(|url| Url::parse(url).is_ok_and(|url| !is_safe(&url))) {
            warnings.push(
                "JWT_JWKS_URL is plain http to another machine: whoever sits in between can make tokens",
            );
        }
        if self.allow_no_exp {
            warnings.push("tokens without exp are taken: they hold until their key is gone");
        }
        warnings
    }
}

fn check_url(text: &str) -> Result<()> {
    // The text is not shown: it may carry a password.
    let refuse = |what: &str| {
        Err(Error::bad_request(format!("JWT_JWKS_URL {what}: it is like https://issuer.example/jwks.json")))
    };
    match Url::parse(text) {
        Err(error) => refuse(&format!("is no URL ({error})")),
        Ok(url) if !matches!(url.scheme(), "https" | "http") => refuse("is neither https nor http"),
        Ok(_) => Ok(()),
    }
}

fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(url)
}

/// Whether the host of a URL is this machine, by its name or its number.
pub(super) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || number.is_ok_and(|number| number.is_loopback())
}
