//! The store on MongoDB: the conformance suite, races, lost replies, and what operators do.
#![allow(clippy::unwrap_used)]

#[path = "main/with_mongo/mod.rs"]
mod with_mongo;
