//! The embedded store: the conformance suite, and what it does when the disk does not play along.
#![allow(clippy::unwrap_used)]

#[path = "main/conformance.rs"]
mod conformance;
#[path = "main/kill.rs"]
mod kill;
