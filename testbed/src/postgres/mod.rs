//! PostgreSQL, as a test uses it.
//!
//! - [`database`] is what most tests want: a database of their own on a server that all test processes share.
//! - [`Postgres`] is a server of the test's own, which can be killed, frozen and restarted.
//! - [`query`] asks a server something, for tests that have no driver at hand.
//!
//! Servers take anybody on loopback who says that they are the user `postgres`, and write to disk as a real one does
//! (`fsync` is on). Where the programs come from is told in [`programs`]. As PostgreSQL does not run as root, it runs as
//! `nobody` where tests are root's.
//!
//! Tests that need it live in a module `with_postgres`: that is how `cargo xtask test --quick` leaves them out.

mod database;
mod package;
pub mod programs;
mod server;
mod shared;
mod wire;

pub use database::{Database, database, database_on};
pub use programs::Programs;
pub use server::{Postgres, USER};
pub use shared::{URL_VARIABLE, url};
pub use wire::{Row, query};
