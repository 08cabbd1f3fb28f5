//! The server over real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "main/gateway.rs"]
mod gateway;
#[path = "main/http.rs"]
mod http;
#[path = "main/net.rs"]
mod net;
#[path = "main/world.rs"]
mod world;
