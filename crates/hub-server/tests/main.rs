//! The server over real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "main/errors.rs"]
mod errors;
#[path = "main/expiry.rs"]
mod expiry;
#[path = "main/fixtures.rs"]
mod fixtures;
#[path = "main/gateway.rs"]
mod gateway;
#[path = "main/http.rs"]
mod http;
#[path = "main/lagged.rs"]
mod lagged;
#[path = "main/net.rs"]
mod net;
#[path = "main/node.rs"]
mod node;
#[path = "main/page.rs"]
mod page;
#[path = "main/rights.rs"]
mod rights;
#[path = "main/world.rs"]
mod world;
