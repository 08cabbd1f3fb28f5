//! Tests that run MongoDB.

mod replica_set;
mod shared;
