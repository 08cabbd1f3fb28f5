//! The testbed, tested: what it starts works, and what it started is gone.
#![allow(clippy::unwrap_used)]

#[path = "main/ends.rs"]
mod ends;
#[path = "main/proxy.rs"]
mod proxy;
#[path = "main/with_mongo/mod.rs"]
mod with_mongo;
#[path = "main/with_postgres/mod.rs"]
mod with_postgres;
