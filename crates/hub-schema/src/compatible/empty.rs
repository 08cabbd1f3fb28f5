//! Whether no value at all is left by what is known.

use super::facts::Facts;
use super::{At, Known, Proof, Refusal};
use crate::node::Kinds;

/// How far down it is looked: members of members.
const LEVELS: usize = 6;

impl Proof {
    /// Whether no value matches everything that is known. `false` says nothing.
    pub(super) fn is_empty(&mut self, known: &Known<'_>, level: usize) -> Result<bool, Refusal> {
        let Some(first) = known.nodes.first() else { return Ok(known.kinds.is_empty()) };
        self.spend(1, *first)?;
        let facts = Facts::of(known);
        if facts.kinds.is_empty() || facts.nodes.iter().any(|at| at.node().never) {
            return Ok(true);
        }
        if let Some(values) = facts.finite() {
            self.spend(values.len(), *first)?;
            let is_refused = |at: &At<'_>, value| at.schema.accepts(at.id, value) == Some(false);
            return Ok(values.iter().all(|value| facts.nodes.iter().any(|at| is_refused(at, value))));
        }
        if level == LEVELS {
            return Ok(false);
        }
        if Kinds::OBJECT.has(facts.kinds) && self.misses_a_member(&facts, level)? {
            return Ok(true);
        }
        for (at, choice, branches) in facts.cases(known) {
            let (is_old, id) = at.key();
            let mut is_left = false;
            for branch in branches {
                let mut case = known.with(branch);
                case.chosen.push((is_old, id, choice));
                if !self.is_empty(&case, level + 1)? {
                    is_left = true;
                    break;
                }
            }
            if !is_left {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an object needs a member that cannot be.
    fn misses_a_member(&mut self, facts: &Facts<'_>, level: usize) -> Result<bool, Refusal> {
        let mut required: Vec<&str> = facts.objects().flat_map(|(_, rules)| rules.required()).collect();
        required.sort_unstable();
        required.dedup();
        for name in required {
            let member = member(facts, name);
            if !member.nodes.is_empty() && self.is_empty(&member, level + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is known of a member.
pub(super) fn member<'s>(facts: &Facts<'s>, name: &str) -> Known<'s> {
    let nodes = facts.objects().flat_map(|(at, rules)| {
        let nodes: Vec<At<'s>> = rules.of_member(name).map(|id| at.to(id)).collect();
        nodes
    });
    Known::of(nodes.collect())
}
