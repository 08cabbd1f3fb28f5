//! Rules of values without parts.

use super::facts::Facts;
use super::{At, Known, Proof, Proved, refused};
use crate::node::{Bound, Kinds};
use crate::number::Number;
use crate::value::Value;
use crate::violation::{quoted, shown};
use std::cmp::Ordering;

impl Proof {
    /// Proves that each of these values is accepted if it was.
    pub(super) fn all_accepted(
        &mut self,
        known: &Known<'_>,
        values: &[Value<'static>],
        goal: At<'_>,
    ) -> Proved {
        self.spend(values.len(), goal)?;
        for value in values {
            let was_refused = known.nodes.iter().any(|at| at.schema.accepts(at.id, value) == Some(false));
            if was_refused || goal.schema.accepts(goal.id, value) == Some(true) {
                continue;
            }
            let has_list = goal.node().values.is_some();
            return Err(match has_list {
                true => refused(goal, "enum", format!("removed from enum: {}", shown(value))),
                false => super::Refusal::new(&goal.node().at, format!("{} was accepted", shown(value))),
            });
        }
        Ok(())
    }

    pub(super) fn numbers_follow(&mut self, facts: &Facts<'_>, goal: At<'_>) -> Proved {
        let Some(rules) = goal.node().number.as_deref() else { return Ok(()) };
        if facts.kinds.and(Kinds::NUMBER).is_empty() {
            return Ok(());
        }
        for bound in &rules.minimum {
            let follows = |known: &Bound| is_within(known, bound, Ordering::Greater);
            if !facts.numbers().flat_map(|rules| &rules.minimum).any(follows) {
                return Err(refused(
                    goal,
                    &bound_name("Minimum", bound),
                    format!("raised to {}", bound.text),
                ));
            }
        }
        for bound in &rules.maximum {
            let follows = |known: &Bound| is_within(known, bound, Ordering::Less);
            if !facts.numbers().flat_map(|rules| &rules.maximum).any(follows) {
                return Err(refused(
                    goal,
                    &bound_name("Maximum", bound),
                    format!("lowered to {}", bound.text),
                ));
            }
        }
        if let Some((divisor, text)) = &rules.multiple_of {
            let is_whole =
                facts.kinds.and(Kinds::FRACTION).is_empty() && Number::Int(1).is_multiple_of(divisor);
            let follows = facts
                .numbers()
                .filter_map(|rules| rules.multiple_of.as_ref())
                .any(|(known, _)| known.number().is_multiple_of(divisor));
            if !is_whole && !follows {
                return Err(refused(goal, "multipleOf", format!("not every value was a multiple of {text}")));
            }
        }
        Ok(())
    }

    pub(super) fn strings_follow(&mut self, facts: &Facts<'_>, goal: At<'_>) -> Proved {
        let Some(rules) = goal.node().string.as_deref() else { return Ok(()) };
        if !facts.kinds.has(Kinds::STRING) {
            return Ok(());
        }
        let least = facts.strings().map(|rules| rules.min_length).max().unwrap_or(0);
        if rules.min_length > least {
            return Err(refused(goal, "minLength", format!("raised from {least} to {}", rules.min_length)));
        }
        if let Some(most) = rules.max_length {
            let before = facts.strings().filter_map(|rules| rules.max_length).min();
            if before.is_none_or(|before| before > most) {
                let before = before.map_or("no limit".to_owned(), |before| before.to_string());
                return Err(refused(goal, "maxLength", format!("lowered from {before} to {most}")));
            }
        }
        if let Some(pattern) = &rules.pattern {
            let is_known = |text: &str| text == pattern.text();
            let mut patterns = facts.strings().filter_map(|rules| rules.pattern.as_ref());
            if !patterns.any(|pattern| is_known(pattern.text())) {
                return Err(refused(goal, "pattern", format!("new pattern {}", quoted(pattern.text()))));
            }
        }
        Ok(())
    }
}

/// Whether a known bound keeps values within another. `beyond`: on which side of the other it may be.
fn is_within(known: &Bound, bound: &Bound, beyond: Ordering) -> bool {
    match known.number.cmp(&bound.number) {
        Ordering::Equal => known.is_exclusive || !bound.is_exclusive,
        order => order == beyond,
    }
}

fn bound_name(name: &str, bound: &Bound) -> String {
    match bound.is_exclusive {
        true => format!("exclusive{name}"),
        false => name.to_lowercase(),
    }
}
