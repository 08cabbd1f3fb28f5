//! Services for tests: a real MongoDB and a real PostgreSQL, gotten and run by this crate, and gone when the test is.
//!
//! - [`mongo`] and [`database`] are what most tests want: a database of their own on a server that all test processes of
//!   this machine share.
//! - [`ReplicaSet`] is a set of the test's own, whose nodes can be killed, frozen and restarted; [`Sharded`] a cluster;
//!   [`Standalone`] a server without a set.
//! - [`postgres`] is all that about PostgreSQL; [`drivers`] has the databases' drivers for other languages.
//! - [`prometheus`] has a Prometheus that scrapes a hub, and `promtool`; [`chromium`] a browser.
//!
//! Servers listen on loopback alone, and no server outlives its users, however those end: a watchdog sees to it.
//! Where the programs come from is told in [`programs`]. Errors are [`anyhow`]'s, as nobody but a person reads them.
//!
//! Tests that need MongoDB live in a module `with_mongo`: that is how `cargo xtask test --quick` leaves them out.

mod admin;
mod apt;
mod cache;
pub mod chromium;
mod database;
mod download;
pub mod drivers;
mod family;
mod lease;
mod node;
mod ports;
pub mod postgres;
mod program;
pub mod programs;
pub mod prometheus;
mod proxy;
mod replica_set;
mod scratch;
mod server;
mod sharded;
mod shared;
mod standalone;
mod user;
mod watchdog;

pub use mongodb;

pub use database::{TestDatabase, database, database_on};
pub use node::Node;
pub use proxy::Proxy;
pub use replica_set::ReplicaSet;
pub use sharded::Sharded;
pub use shared::{URI_VARIABLE, mongo};
pub use standalone::Standalone;
