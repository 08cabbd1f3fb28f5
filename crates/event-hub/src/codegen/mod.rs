//! Types for programs, from the schemas of a hub.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what a schema says about types | `model` |
//! | names of types, fields and modules | `names` |
//! | comments from descriptions | `comments` |
//! | TypeScript: types, and the map of topics | `typescript`, `topics_map` |
//! | Rust | `rust` |
//!
//! What types cannot say is left out: a type accepts everything that the schema accepts, and more. The same schemas give the same
//! text.

mod comments;
mod model;
mod names;
pub mod rust;
mod topics_map;
pub mod typescript;

use hub_proto::Pattern;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// The schema of a topic or of a pattern.
pub struct Source {
    pub target: Pattern,
    pub schema: Value,
}
