//! JSON Schema (2020-12) for topics.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what a schema may cost | [`bounds`] |
//! | from text to nodes; references; what is refused | `schema` |
//! | checking a payload | `check`, [`Violation`] |
//! | the bound on the work of checks | [`Budget`], `check::cost` |
//! | numbers and patterns | `number`, `pattern` |
//! | whether a new version accepts what the old one accepted | [`check_compatible`] |
//! | which topics have which schema, on all hubs of a store | [`Schemas`] |
//!
//! The validator is the hub's own. A check takes steps from a [`Budget`] before it does work whose amount depends on the payload, so
//! the time that a payload holds up a session is bounded for every schema. It compares numbers as the decimals that they are, and it
//! reads the text of a payload without building a tree of owned values.
//! `docs/adr/0017-schemas-are-checked-by-a-validator-of-our-own.md` says more.

pub mod bounds;
mod budget;
mod canonical;
mod check;
mod compatible;
mod node;
mod number;
mod pattern;
mod registry;
mod schema;
mod value;
mod violation;

pub use budget::Budget;
pub use compatible::{Incompatible, check_compatible};
pub use registry::{Put, SchemaOrigin, SchemaTarget, SchemaVersion, Schemas, TopicSchema};
pub use schema::Schema;
pub use violation::Violation;
