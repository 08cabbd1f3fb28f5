//! The outbox on SQLite and PostgreSQL: the conformance suite, transactions, strangers, plans, and databases that go away.
#![allow(clippy::unwrap_used)]

#[path = "main/hub.rs"]
mod hub;
#[path = "main/sqlite/mod.rs"]
mod sqlite;
#[path = "main/with_postgres/mod.rs"]
mod with_postgres;
