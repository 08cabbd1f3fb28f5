//! Tests that run PostgreSQL.

mod drivers;
mod ends;
mod proxy;
mod server;
mod shared;
