//! The client against hubs that do what the test says.
#![allow(clippy::unwrap_used)]

#[path = "main/ends.rs"]
mod ends;
#[path = "main/hub.rs"]
mod hub;
#[path = "main/requests.rs"]
mod requests;
#[path = "main/subscriptions.rs"]
mod subscriptions;
