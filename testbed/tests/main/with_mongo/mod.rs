//! Tests that run MongoDB.

mod ends;
mod proxy;
mod replica_set;
mod sharded;
mod shared;
