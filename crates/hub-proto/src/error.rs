//! What can go wrong, as a code for programs and a sentence for people.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::EventId;

/// `Result` with the hub's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the hub. `code` is part of the contract; `msg` is for people and may change.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{code}: {msg}")]
pub struct Error {
    /// The kind of error; what a program decides by.
    pub code: Code,
    /// What was wrong, the value (shortened), what is allowed.
    pub msg: Cow<'static, str>,
    /// The event it is about. After `unavailable` the outcome is unknown, and resending this id is safe.
    pub id: Option<EventId>,
    /// When to try again, with `rate_limited`.
    pub retry_after_ms: Option<u64>,
}

/// One constructor per code that this crate and the core raise in many places.
macro_rules! constructors {
    ($($name:ident => $code:ident),+ $(,)?) => {
        $(
            #[doc = concat!("An error with [`Code::", stringify!($code), "`].")]
            pub fn $name(msg: impl Into<Cow<'static, str>>) -> Self {
                Self::new(Code::$code, msg)
            }
        )+
    };
}

impl Error {
    /// An error about no event in particular.
    pub fn new(code: Code, msg: impl Into<Cow<'static, str>>) -> Self {
        Self { code, msg: msg.into(), id: None, retry_after_ms: None }
    }

    constructors! {
        bad_json => BadJson,
        bad_request => BadRequest,
        forbidden => Forbidden,
        quota_exceeded => QuotaExceeded,
        too_large => TooLarge,
        unavailable => Unavailable,
        unknown_id => UnknownId,
        group_conflict => GroupConflict,
        id_conflict => IdConflict,
        internal => Internal,
    }

    /// Names the event the error is about.
    #[must_use]
    pub fn with_id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn with_retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Text that is no JSON is `bad_json`; JSON of another shape than asked for is `bad_request`.
    pub(crate) fn from_json_error(what: &str, err: &serde_json::Error) -> Self {
        let code = if err.is_data() { Code::BadRequest } else { Code::BadJson };
        // serde quotes the offending string in full, which may be the whole frame.
        let text = err.to_string();
        let cut = Shortened { text: &text, max: 200 };
        Self::new(code, format!("{what}: {cut}"))
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// The kind of an [`Error`]. On the wire it is a name in snake case, see [`Code::as_str`].
        #[non_exhaustive]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $variant),+ }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            ///
            /// ```
            /// assert_eq!(hub_proto::Code::BadJson.as_str(), "bad_json");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

codes! {
    /// Not JSON.
    BadJson = "bad_json",
    /// JSON, but not a request the hub understands; or a limit on names, keys, headers was passed.
    BadRequest = "bad_request",
    /// An `op` the hub does not have.
    UnknownOp = "unknown_op",
    /// No AUTH yet.
    Unauthorized = "unauthorized",
    /// AUTH without a token.
    NoToken = "no_token",
    /// The token does not hold: signature, algorithm, audience, issuer or a missing `exp`.
    JwtInvalid = "jwt_invalid",
    /// The token held once.
    TokenExpired = "token_expired",
    /// The token holds, but does not allow this.
    Forbidden = "forbidden",
    /// The connection has this subscription.
    AlreadySubscribed = "already_subscribed",
    /// The connection has no such subscription.
    NotSubscribed = "not_subscribed",
    /// The group has members and another value for an option.
    GroupConflict = "group_conflict",
    /// No such event, or not leased to the asker.
    UnknownId = "unknown_id",
    /// Too many, too fast; `retry_after_ms` says when to come back.
    RateLimited = "rate_limited",
    /// The token was taken back, or its key was, before it expired.
    TokenRevoked = "token_revoked",
    /// A quota of the subject, of the topic or of the hub is used up, until something is deleted or the quota is raised.
    QuotaExceeded = "quota_exceeded",
    /// The payload does not match the JSON Schema of its topic: the message names the path and the rule.
    SchemaViolation = "schema_violation",
    /// A payload, frame or batch over the limit.
    TooLarge = "too_large",
    /// The topic has this id with another payload or key.
    IdConflict = "id_conflict",
    /// The store is away or the answer took too long: the outcome is unknown.
    Unavailable = "unavailable",
    /// A bug in the hub.
    Internal = "internal",
    /// Between hubs only: another one serves the group.
    NotOwner = "not_owner",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Code {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == name)
            .ok_or_else(|| Error::bad_request(format!("unknown error code {}", shown(name))))
    }
}

/// A value from outside, for an error message: quoted, escaped, and cut to a length a log line can bear.
pub fn shown(value: &str) -> String {
    let cut = Shortened { text: value, max: 48 };
    format!("{:?}", cut.to_string())
}

/// The first `max` bytes or so of a text, with a mark where it was cut.
struct Shortened<'a> {
    text: &'a str,
    max: usize,
}

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.len() <= self.max {
            return f.write_str(self.text);
        }
        write!(f, "{}…", &self.text[..self.text.floor_char_boundary(self.max)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_name() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse::<Code>(), Ok(*code));
        }
        assert_eq!(Code::ALL.len(), 21);
    }

    #[test]
    fn an_unknown_code_is_named_in_the_error() {
        let err = "no_such".parse::<Code>().expect_err("not a code");
        assert_eq!(err.to_string(), "bad_request: unknown error code \"no_such\"");
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let text = shown(&"é".repeat(100));
        assert!(text.len() < 60, "{text}");
        assert!(text.ends_with("…\""));
        assert_eq!(shown("a\nb"), r#""a\nb""#);
    }
}
