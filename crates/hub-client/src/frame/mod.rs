//! Frames as text: what is sent, and what comes.

#[cfg(test)]
mod fixtures;
mod incoming;
mod outgoing;

pub(crate) use incoming::{Delivery, Incoming, Of, fast_event, read};
pub(crate) use outgoing::Outgoing;
