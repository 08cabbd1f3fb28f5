//! How a client is doing.

use crate::Error;

/// What a client is about.
#[derive(Clone, Debug)]
pub enum State {
    /// There is no connection; it is being looked for.
    Connecting {
        /// Tries since there was one.
        tries: u32,
    },
    /// There is a connection, and the hub knows who this is.
    Connected,
    /// [`close`](super::Client::close) was called: what is under way is waited for, nothing new is taken.
    Closing,
    /// It is over.
    Closed(Error),
}

impl State {
    /// Whether there is no news in the other one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Connecting { tries }, Self::Connecting { tries: others }) => tries == others,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Whether it is over.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}
