//! Schemas against a second opinion, and on a bus.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "main/generated.rs"]
mod generated;
#[path = "main/properties.rs"]
mod properties;
#[path = "main/registry.rs"]
mod registry;
