//! How many steps work takes whose amount depends on the payload. A step stands for some 20 ns.

use crate::value::Value;

/// Numbers of at most this many bytes are parsed within the step of the schema that is applied.
const SHORT_NUMBER_BYTES: usize = 20;
/// Bytes of a number that are parsed in a step.
const PARSED_PER_STEP: usize = 8;
/// Steps to compare a number that is no plain integer with a bound.
pub(super) const DECIMAL_COMPARISON: u64 = 2;
/// Bytes of strings that are compared or hashed in a step.
pub(super) const COMPARED_PER_STEP: usize = 64;
/// Members that are looked up in the names of a schema in a step.
const LOOKUPS_PER_STEP: usize = 4;
/// Members that a search for one name passes in a step.
const SEARCHED_PER_STEP: usize = 8;
/// Marks of members that are merged or read in a step.
const MARKS_PER_STEP: usize = 32;

/// Of looking up every member of an object in the names of a schema, and of beginning to match each name against `patterns` patterns.
pub(super) fn visit(members: usize, patterns: usize) -> u64 {
    (members / LOOKUPS_PER_STEP + members * patterns / 2) as u64
}

/// Of a search for one name among all members of an object.
pub(super) fn search(members: usize, name: &str) -> u64 {
    1 + (members * (1 + name.len() / COMPARED_PER_STEP) / SEARCHED_PER_STEP) as u64
}

/// Of merging or reading the marks of `count` members.
pub(super) fn marks(count: usize) -> u64 {
    (count / MARKS_PER_STEP) as u64
}

/// Of parsing a number.
pub(super) fn number(text: &str) -> u64 {
    match text.len() {
        0..=SHORT_NUMBER_BYTES => 0,
        bytes => (bytes / PARSED_PER_STEP) as u64,
    }
}

/// Of bringing a value into its canonical form, or of comparing that with another one.
pub(super) fn canonical(value: &Value<'_>) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number { text, .. } => 1 + number(text),
        Value::String(text) => 1 + (text.len() / COMPARED_PER_STEP) as u64,
        Value::Array(items) => 1 + items.iter().map(canonical).sum::<u64>(),
        Value::Object(members) => {
            // The members are sorted.
            let per_name = 1 + log2(members.len()) / 4;
            let of_member = |name: &str, value: &Value<'_>| {
                canonical(value) + per_name * (1 + (name.len() / COMPARED_PER_STEP) as u64)
            };
            1 + members.iter().map(|(name, value)| of_member(name, value)).sum::<u64>()
        }
    }
}

/// The logarithm of a number of values, by which the steps of sorting and of searching values rise.
pub(super) fn log2(count: usize) -> u64 {
    u64::from(count.max(1).ilog2())
}
