//! The testbed, tested: what it starts works, and what it started is gone.
#![allow(clippy::unwrap_used)]

#[path = "main/proxy.rs"]
mod proxy;
#[path = "main/with_mongo/mod.rs"]
mod with_mongo;
