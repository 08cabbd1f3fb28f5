//! The server over real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "main/audit.rs"]
mod audit;
#[path = "main/before_auth.rs"]
mod before_auth;
#[path = "main/certificates.rs"]
mod certificates;
#[path = "main/cluster.rs"]
mod cluster;
#[path = "main/drain.rs"]
mod drain;
#[path = "main/errors.rs"]
mod errors;
#[path = "main/event_bus.rs"]
mod event_bus;
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
#[path = "main/limits.rs"]
mod limits;
#[path = "main/mtls.rs"]
mod mtls;
#[path = "main/net.rs"]
mod net;
#[path = "main/node.rs"]
mod node;
#[path = "main/ordered.rs"]
mod ordered;
#[path = "main/ownership.rs"]
mod ownership;
#[path = "main/page.rs"]
mod page;
#[path = "main/proxies.rs"]
mod proxies;
#[path = "main/push.rs"]
mod push;
#[path = "main/resuming.rs"]
mod resuming;
#[path = "main/revoked.rs"]
mod revoked;
#[path = "main/rights.rs"]
mod rights;
#[path = "main/slowed_auth.rs"]
mod slowed_auth;
#[path = "main/strangers.rs"]
mod strangers;
#[path = "main/world.rs"]
mod world;
