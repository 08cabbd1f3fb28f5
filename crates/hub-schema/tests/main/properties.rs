//! What must hold for every schema and every value.

use crate::generated::{changed, schema, value};
use hub_schema::{Schema, check_compatible};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::Value;

fn compiled(schema: &Value) -> Option<Schema> {
    // Those that are applied to themselves in place are refused; everything else that is generated is a schema.
    match Schema::compile(schema.to_string().as_bytes()) {
        Ok(schema) => Some(schema),
        Err(error) if error.msg.contains("refers to itself") => None,
        Err(error) => panic!("{schema}: {error}"),
    }
}

fn accepts(schema: &Schema, value: &Value) -> bool {
    schema.check(value.to_string().as_bytes()).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn another_validator_says_the_same(schema in schema(), values in prop::collection::vec(value(), 8)) {
        if let Some(ours) = compiled(&schema) {
            let theirs = jsonschema::draft202012::new(&schema).expect("a schema");
            for value in values {
                prop_assert_eq!(accepts(&ours, &value), theirs.is_valid(&value), "{} on {}", schema, value);
            }
        }
    }

    #[test]
    fn a_schema_is_compatible_with_itself_unless_it_is_too_complex(schema in schema()) {
        if let Some(ours) = compiled(&schema) {
            let again = compiled(&schema).expect("it was one");
            prop_assert_eq!(check_compatible(&ours, &again), Ok(()));
        }
    }

    /// The one that matters: nothing that was accepted is refused by a version that is taken for compatible.
    #[test]
    fn what_is_compatible_refuses_nothing_that_was_accepted(
        (old, new) in schema().prop_flat_map(|old| (Just(old.clone()), changed(old))),
        values in prop::collection::vec(value(), 24),
    ) {
        if let (Some(before), Some(after)) = (compiled(&old), compiled(&new))
            && check_compatible(&before, &after).is_ok()
        {
            let theirs = jsonschema::draft202012::new(&new).expect("a schema");
            for value in values.iter().filter(|value| accepts(&before, value)) {
                prop_assert!(accepts(&after, value) && theirs.is_valid(value), "{old} to {new} on {value}");
            }
        }
    }

    /// The same for two schemas that have nothing to do with each other.
    #[test]
    fn unrelated_schemas_are_compared_soundly(
        old in schema(),
        new in schema(),
        values in prop::collection::vec(value(), 24),
    ) {
        if let (Some(before), Some(after)) = (compiled(&old), compiled(&new))
            && check_compatible(&before, &after).is_ok()
        {
            for value in values.iter().filter(|value| accepts(&before, value)) {
                prop_assert!(accepts(&after, value), "{old} to {new} on {value}");
            }
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,200}", schema in schema()) {
        let _ = Schema::compile(text.as_bytes());
        if let Some(schema) = compiled(&schema) {
            let _ = schema.check(text.as_bytes());
        }
    }
}

/// The comparison is of no use if it refuses everything.
#[test]
fn many_changes_are_proved_compatible() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let pairs = schema().prop_flat_map(|old| (Just(old.clone()), changed(old)));
    let (mut compared, mut compatible) = (0, 0);
    for _ in 0..500 {
        let (old, new) = pairs.new_tree(&mut runner).expect("a pair").current();
        if let (Some(old), Some(new)) = (compiled(&old), compiled(&new)) {
            compared += 1;
            compatible += u32::from(check_compatible(&old, &new).is_ok());
        }
    }
    assert!(compatible * 4 > compared, "{compatible} of {compared}");
}
