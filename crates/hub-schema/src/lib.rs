//! JSON Schema (2020-12) for topics.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what a schema may cost | [`bounds`] |
//! | from text to nodes; references; what is refused | `schema` |
//! | checking a payload | `check`, [`Violation`] |
//! | numbers and patterns | `number`, `pattern` |
//! | whether a new version accepts what the old one accepted | [`check_compatible`] |
//! | which topics have which schema, on all hubs of a store | [`Schemas`] |
//!
//! The validator is the hub's own: its work is bounded by steps, so that no schema and no payload holds up a session; it compares
//! numbers as the decimals that they are; and it reads the text of a payload without building a tree of owned values.
//! `docs/adr/0017-schemas-are-checked-by-a-validator-of-our-own.md` says more.

pub mod bounds;
mod check;
mod compatible;
mod node;
mod number;
mod pattern;
mod registry;
mod schema;
mod value;
mod violation;

pub use compatible::{Incompatible, check_compatible};
pub use registry::{Put, SchemaOrigin, SchemaTarget, SchemaVersion, Schemas, TopicSchema};
pub use schema::Schema;
pub use violation::Violation;
