//! What a handler answers when an event is to come again.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Why a handler did not handle an event, and when the event comes again. Any error becomes one by `?`; then the event has failed, and
/// comes again after the group's backoff.
///
/// ```
/// use hub_handler::Failure;
/// use std::time::Duration;
///
/// fn handle(text: &str) -> Result<(), Failure> {
///     let number: u32 = text.parse()?;
///     match number {
///         0 => Err(Failure::retry_after(Duration::from_secs(60), "not before the next minute")),
///         1 => Err(Failure::give_back(Duration::from_secs(5))), // the database is down; nobody's fault
///         _ => Ok(()),
///     }
/// }
/// assert_eq!(handle("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) delay: Option<Duration>,
    /// False: the event has not failed.
    pub(crate) counts: bool,
}

impl Failure {
    /// The event has failed, and comes again after the group's backoff.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), delay: None, counts: true }
    }

    /// The event has failed, and comes again after `delay`.
    pub fn retry_after(delay: Duration, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { delay: Some(delay), ..Self::new(reason) }
    }

    /// The event has not failed, and comes again after `delay`: a dependency is down, for instance.
    pub fn give_back(delay: Duration) -> Self {
        Self { reason: "given back".into(), delay: Some(delay), counts: false }
    }

    /// What an error of a handler means.
    pub(crate) fn of<E: fmt::Display + 'static>(error: &E) -> Self {
        let this = (error as &dyn Any).downcast_ref::<Self>();
        this.cloned().unwrap_or_else(|| Self::new(error.to_string()))
    }
}

/// So that `?` takes every error. Because of this a `Failure` is no [`std::error::Error`] itself.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
