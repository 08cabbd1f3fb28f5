//! What can go wrong between a client and a hub: a kind for programs, a sentence for people, and the cause.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use hub_proto::Code;

/// `Result` with the client's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// What was asked for makes no sense: a URL, a certificate, a request that is no object. Nothing was sent.
    Usage,
    /// The hub cannot be reached: no address, no connection, no TLS.
    Connect,
    /// Something answers there, but it is no hub's WebSocket.
    NotAHub,
    /// There was no answer in time. Whether the hub has carried out the request is not known.
    TimedOut,
    /// The connection is closed. Whether a request that was under way has been carried out is not known.
    Closed,
    /// What came is not what a hub sends.
    Protocol,
    /// There is no room for a request that does not wait for any. Nothing was sent.
    Busy,
    /// The hub does not have what was asked for: it may be an older one. Nothing was sent.
    Unsupported,
    /// There is no token to show to the hub.
    Token,
    /// The hub said no: [`Error::refusal`] has its answer.
    Refused,
}

/// What went wrong: a kind, a text that says everything, and the cause for who wants to look at it. Cloning shares the cause: the end of a connection is the end of all that was under way.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    text: Cow<'static, str>,
    cause: Cause,
}

#[derive(Clone)]
enum Cause {
    None,
    /// What the hub answered, and the code as it was written: a hub may have codes that this client does not know.
    Hub(Arc<(hub_proto::Error, Box<str>)>),
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), cause: Cause::None }
    }

    pub(crate) fn with(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Cause::Other(Arc::new(cause));
        self
    }

    pub(crate) fn with_shared(mut self, cause: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        self.cause = Cause::Other(cause);
        self
    }

    /// What a hub refused; `code` as it stood in the frame.
    pub(crate) fn refused(error: hub_proto::Error, code: &str) -> Self {
        let text = format!("the hub answered {code}: {}", error.msg);
        Self {
            kind: ErrorKind::Refused,
            text: text.into(),
            cause: Cause::Hub(Arc::new((error, code.into()))),
        }
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong, without the cause.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The hub's answer, if it refused.
    pub fn refusal(&self) -> Option<&hub_proto::Error> {
        match &self.cause {
            Cause::Hub(said) => Some(&said.0),
            _ => None,
        }
    }

    /// The code of the hub's answer, if it refused. A code that this client does not know is [`Code::Internal`];
    /// [`Error::code_text`] has its name.
    pub fn code(&self) -> Option<Code> {
        self.refusal().map(|error| error.code)
    }

    pub(crate) fn is_unknown_id(&self) -> bool {
        self.code() == Some(Code::UnknownId)
    }

    /// The code of the hub's answer as it was written.
    pub fn code_text(&self) -> Option<&str> {
        match &self.cause {
            Cause::Hub(said) => Some(&said.1),
            _ => None,
        }
    }
}

/// A request that was wrong before it was sent, found by what the hub would find it by.
impl From<hub_proto::Error> for Error {
    fn from(error: hub_proto::Error) -> Self {
        Self::new(ErrorKind::Usage, error.msg)
    }
}

/// With its cause.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.cause {
            Cause::Other(cause) => write!(f, ": {cause}"),
            // Its words are in ours already.
            Cause::None | Cause::Hub(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.kind).field("text", &self.text);
        match &self.cause {
            Cause::None => {}
            Cause::Hub(said) => drop(shown.field("code", &said.1)),
            Cause::Other(cause) => drop(shown.field("cause", cause)),
        }
        shown.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::None => None,
            Cause::Hub(said) => Some(&said.0),
            Cause::Other(cause) => Some(&**cause),
        }
    }
}
