//! What a schema may cost.

/// Bytes of a schema.
pub const SCHEMA_BYTES: usize = 64 << 10;
/// Nesting of the text of a schema.
pub const SCHEMA_DEPTH: usize = 64;
/// Schemas within a schema.
pub const SUBSCHEMAS: usize = 4096;
/// Schemas that are applied to one and the same value, one by the other: by `$ref`, `allOf`, `anyOf` and the like.
pub const APPLIED_IN_PLACE: usize = 32;
/// Regular expressions of a schema.
pub const PATTERNS: usize = 128;
/// Bytes of a regular expression.
pub const PATTERN_BYTES: usize = 1024;
/// Bytes of memory of a compiled regular expression, and of what it remembers between matches.
pub(crate) const COMPILED_PATTERN_BYTES: usize = 128 << 10;
/// Bytes of the table of a regular expression, which matches a text in one pass. Larger tables are not built.
pub(crate) const PATTERN_TABLE_BYTES: usize = 256 << 10;
/// Bytes of the tables of all regular expressions of a schema.
pub(crate) const PATTERN_TABLES_BYTES: usize = 4 << 20;
/// The longest string that a regular expression is tried on, in bytes.
pub const MATCHED_BYTES: usize = 64 << 10;
/// Topics and patterns that have a schema, over all hubs of a store.
pub const SCHEMAS: usize = 1000;
/// The same, of which one subject stored the newest version.
pub const SCHEMAS_OF_SUBJECT: usize = 250;
/// Versions of a schema that are kept.
pub const VERSIONS: usize = 20;
/// Nesting of a value that is checked. Payloads are at most [`hub_proto::limits::NESTING`] deep.
pub(crate) const VALUE_DEPTH: usize = hub_proto::limits::NESTING + 1;
/// Steps of a new [`Budget`](crate::Budget).
pub(crate) const STEPS: u64 = 50_000;
/// Steps that each value in a payload adds to a budget.
pub(crate) const STEPS_PER_VALUE: u64 = 16;
/// Bytes of a payload that add one step to a budget.
pub(crate) const BYTES_PER_STEP: u64 = 4;
/// Nesting of a check: values within values, times schemas that are applied in place.
pub(crate) const CHECK_DEPTH: usize = 400;
/// Comparisons that are made to find out whether a new version accepts what the old one accepted.
pub(crate) const COMPARISONS: usize = 20_000;
/// Bytes of the text of a violation: with the name of the schema it is a message that a log line can bear.
pub const VIOLATION_BYTES: usize = 320;
