//! The client against hubs that do what the test says.
#![allow(clippy::unwrap_used)]

#[path = "main/client.rs"]
mod client;
#[path = "main/closing.rs"]
mod closing;
#[path = "main/ends.rs"]
mod ends;
#[path = "main/hub.rs"]
mod hub;
#[path = "main/ordered.rs"]
mod ordered;
#[path = "main/requests.rs"]
mod requests;
#[path = "main/resubscribing.rs"]
mod resubscribing;
#[path = "main/subscriptions.rs"]
mod subscriptions;
#[path = "main/tls.rs"]
mod tls;
#[path = "main/tokens.rs"]
mod tokens;
