//! The hub as a service: what a stranger on a socket can use and cannot hurt.
//!
//! | to know about | look at |
//! | --- | --- |
//! | how a connection comes in: TLS, how many, how slow | [`net`] |
//! | who it is | [`auth`] |
//! | what it may do | [`acl`] |
//! | how much | [`limits`] |
//! | who was refused, and what administrators did | [`audit`] |
//! | WebSocket: a session per connection | [`gateway`] |
//! | members of groups that another hub owns | `edge` |
//! | CloudEvents, in and out | `cloudevents` |
//! | HTTP: publish, export, groups, health, metrics | [`http`] |
//! | work that goes on behind a request | `jobs` |
//! | the outboxes of services that are drained here | [`outboxes`] |
//! | groups that the hub delivers by HTTP POST | [`push`] |
//! | which connections are open | `connections` |
//! | what they share, and how all of it stops | [`Hub`] |
//!
//! It knows no store by name: whoever starts it hands in a [`hub_core::Bus`].

pub mod acl;
pub mod audit;
pub mod auth;
mod cloudevents;
mod connections;
mod edge;
pub mod gateway;
mod host;
pub mod http;
mod hub;
mod jobs;
pub mod limits;
pub mod net;
pub mod outboxes;
mod peer;
pub mod push;
mod quota_metrics;
mod settings;

pub use hub::{Hub, HubBuilder};
pub use settings::{Origins, Settings};
