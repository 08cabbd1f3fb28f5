//! Setting a client up.

use std::sync::Arc;
use std::time::Duration;

use super::credentials::{BoxError, Credentials};
use super::{Client, task};
use crate::{Error, ErrorKind, Result, Target};

/// How a client behaves; [`Client::builder`] makes one.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) targets: Vec<Target>,
    pub(super) credentials: Option<Credentials>,
    pub(super) backoff: (Duration, Duration),
    pub(super) reconnect_within: Duration,
    pub(super) unacknowledged: (usize, usize),
    pub(super) publish_timeout: Duration,
    pub(super) close_timeout: Duration,
}

impl Builder {
    pub(super) fn new(target: Target) -> Self {
        Self {
            targets: vec![target],
            credentials: None,
            backoff: (Duration::from_millis(100), Duration::from_secs(10)),
            reconnect_within: Duration::from_secs(3),
            unacknowledged: (10_000, 64 << 20),
            publish_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(5),
        }
    }

    /// Another hub over the same store: the next to be tried when one is away.
    #[must_use]
    pub fn also(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// The token. When it runs out, so does the client.
    #[must_use]
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.credentials = Some(Credentials::Token(token.into()));
        self
    }

    /// Where to get a token: asked for every connection, and again before a token runs out. It has 30 s.
    #[must_use]
    pub fn token_from<F, Fut>(mut self, make: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.credentials = Some(Credentials::Function(Arc::new(move || Box::pin(make()))));
        self
    }

    /// The certificate of each [`Target`](Target::client_certificate) says who the client is; there is no token.
    #[must_use]
    pub fn by_certificate(mut self) -> Self {
        self.credentials = Some(Credentials::Certificate);
        self
    }

    /// The first try after a connection has ended comes at random within this time (3 s unless set), because a hub that
    /// stops or is lost has all its clients looking for another one in the same moment.
    #[must_use]
    pub fn reconnect_within(mut self, spread: Duration) -> Self {
        self.reconnect_within = spread;
        self
    }

    /// How long to wait between tries to connect: at random up to `first` (100 ms unless set), then up to twice that, and so
    /// on up to `longest` (10 s unless set). The first try is set by [`Builder::reconnect_within`].
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = (first, longest);
        self
    }

    /// How many events without an answer are kept, and how many bytes of payload (10,000 and 64 MiB unless set). Beyond,
    /// [`Client::publish`] waits.
    #[must_use]
    pub fn unacknowledged(mut self, events: usize, bytes: usize) -> Self {
        self.unacknowledged = (events.max(1), bytes.max(1));
        self
    }

    /// How long an event is sent again and again (60 s unless set).
    #[must_use]
    pub fn publish_timeout(mut self, timeout: Duration) -> Self {
        self.publish_timeout = timeout;
        self
    }

    /// How long [`Client::close`] waits for answers (5 s unless set).
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Connects for the first time. What goes wrong here is told at once; later the client tries again.
    ///
    /// # Errors
    /// Why the hub cannot be reached, or does not take the token. `Usage` if neither a token nor a certificate was named.
    pub async fn connect(self) -> Result<Client> {
        let Some(credentials) = self.credentials.clone() else {
            let text =
                "a client needs a token: give one with `token` or `token_from`, or say `by_certificate`";
            return Err(Error::new(ErrorKind::Usage, text));
        };
        task::start(self, credentials).await
    }
}
