//! Whether two schemas say the same, word by word.

use super::{At, Proof, Refusal};
use crate::node::{ArrayRules, Node, NodeId, NumberRules, ObjectRules, StringRules};
use std::collections::HashSet;

impl Proof {
    /// Whether two schemas are made of the same rules, and so are those that they refer to.
    pub(super) fn is_same(&mut self, left: At<'_>, right: At<'_>) -> Result<bool, Refusal> {
        let (mut seen, mut open) = (HashSet::new(), vec![(left.id, right.id)]);
        while let Some(pair) = open.pop() {
            if (left.is_old == right.is_old && pair.0 == pair.1) || !seen.insert(pair) {
                continue;
            }
            self.spend(1, right)?;
            let (a, b) = (left.schema.node(pair.0), right.schema.node(pair.1));
            if !pairs(a, b, &mut open) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

type Pairs = Vec<(NodeId, NodeId)>;

/// Whether two nodes have the same rules; `open` gets the pairs of nodes that have to be the same as well.
fn pairs(a: &Node, b: &Node, open: &mut Pairs) -> bool {
    let conditions = match (&a.condition, &b.condition) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            open.push((a.test, b.test));
            both(a.then, b.then, open) && both(a.otherwise, b.otherwise, open)
        }
        _ => false,
    };
    let values = match (&a.values, &b.values) {
        (None, None) => true,
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.cmp_canonical(b).is_eq()),
        _ => false,
    };
    a.never == b.never
        && a.kinds == b.kinds
        && values
        && conditions
        && both(a.reference, b.reference, open)
        && both(a.not, b.not, open)
        && lists(Some(&a.all_of), Some(&b.all_of), open)
        && lists(a.any_of.as_ref(), b.any_of.as_ref(), open)
        && lists(a.one_of.as_ref(), b.one_of.as_ref(), open)
        && numbers(a.number.as_deref(), b.number.as_deref())
        && strings(a.string.as_deref(), b.string.as_deref())
        && arrays(a.array.as_deref(), b.array.as_deref(), open)
        && objects(a.object.as_deref(), b.object.as_deref(), open)
}

fn both(a: Option<NodeId>, b: Option<NodeId>, open: &mut Pairs) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            open.push((a, b));
            true
        }
        _ => false,
    }
}

fn lists(a: Option<&Vec<NodeId>>, b: Option<&Vec<NodeId>>, open: &mut Pairs) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.len() == b.len() => {
            open.extend(a.iter().copied().zip(b.iter().copied()));
            true
        }
        _ => false,
    }
}

fn numbers(a: Option<&NumberRules>, b: Option<&NumberRules>) -> bool {
    let rules = |rules: &NumberRules| {
        let bounds = |bounds: &[crate::node::Bound]| -> Vec<_> {
            bounds.iter().map(|bound| (bound.number.clone(), bound.is_exclusive)).collect()
        };
        let divisor = rules.multiple_of.as_ref().map(|(divisor, _)| divisor.clone());
        (bounds(&rules.minimum), bounds(&rules.maximum), divisor)
    };
    a.map(rules) == b.map(rules)
}

fn strings(a: Option<&StringRules>, b: Option<&StringRules>) -> bool {
    let rules = |rules: &StringRules| {
        (rules.min_length, rules.max_length, rules.pattern.as_ref().map(|pattern| pattern.text().to_owned()))
    };
    a.map(rules) == b.map(rules)
}

fn arrays(a: Option<&ArrayRules>, b: Option<&ArrayRules>, open: &mut Pairs) -> bool {
    let (a, b) = match (a, b) {
        (None, None) => return true,
        (Some(a), Some(b)) => (a, b),
        _ => return false,
    };
    let contains = match (&a.contains, &b.contains) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            open.push((a.node, b.node));
            (a.min, a.max) == (b.min, b.max)
        }
        _ => false,
    };
    contains
        && (a.min_items, a.max_items, a.unique) == (b.min_items, b.max_items, b.unique)
        && lists(Some(&a.prefix), Some(&b.prefix), open)
        && both(a.items, b.items, open)
        && both(a.unevaluated, b.unevaluated, open)
}

fn objects(a: Option<&ObjectRules>, b: Option<&ObjectRules>, open: &mut Pairs) -> bool {
    let (a, b) = match (a, b) {
        (None, None) => return true,
        (Some(a), Some(b)) => (a, b),
        _ => return false,
    };
    let slots = a.slots.len() == b.slots.len()
        && a.slots.iter().all(|slot| {
            b.requires(&slot.name) == slot.is_required
                && b.by_name.contains_key(&slot.name)
                && both(slot.node, b.property(&slot.name), open)
        });
    let patterns = a.patterns.len() == b.patterns.len()
        && a.patterns.iter().zip(&b.patterns).all(|((a, left), (b, right))| {
            open.push((*left, *right));
            a.text() == b.text()
        });
    let dependent = a.dependent_required == b.dependent_required
        && a.dependent_schemas.len() == b.dependent_schemas.len()
        && a.dependent_schemas.iter().zip(&b.dependent_schemas).all(|((a, left), (b, right))| {
            open.push((*left, *right));
            a == b
        });
    slots
        && patterns
        && dependent
        && (a.min_members, a.max_members) == (b.min_members, b.max_members)
        && both(a.additional, b.additional, open)
        && both(a.names, b.names, open)
        && both(a.unevaluated, b.unevaluated, open)
}
