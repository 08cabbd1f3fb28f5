//! Rules of objects.

use super::empty::member;
use super::facts::Facts;
use super::{At, Known, Proof, Proved, refused};
use crate::node::{Kinds, ObjectRules};
use crate::value::Value;
use crate::violation::quoted;
use std::borrow::Cow;
use std::collections::BTreeSet;

impl Proof {
    pub(super) fn objects_follow(&mut self, known: &Known<'_>, facts: &Facts<'_>, goal: At<'_>) -> Proved {
        let Some(rules) = goal.node().object.as_deref() else { return Ok(()) };
        if !facts.kinds.has(Kinds::OBJECT) {
            return Ok(());
        }
        let is_required = |name: &str| facts.objects().any(|(_, rules)| rules.requires(name));
        if let Some(name) = rules.required().find(|name| !is_required(name)) {
            return Err(refused(goal, "required", format!("new required: {}", quoted(name))));
        }
        self.counts_follow(facts, goal, rules)?;
        if rules.unevaluated.is_some() {
            return Err(refused(
                goal,
                "unevaluatedProperties",
                "it can only be compared if nothing around it changes".to_owned(),
            ));
        }
        self.members_follow(facts, goal, rules)?;
        self.names_follow(facts, goal, rules)?;
        self.dependents_follow(known, facts, goal, rules)
    }

    fn counts_follow(&mut self, facts: &Facts<'_>, goal: At<'_>, rules: &ObjectRules) -> Proved {
        let required: BTreeSet<&str> = facts.objects().flat_map(|(_, rules)| rules.required()).collect();
        let least =
            facts.objects().map(|(_, rules)| rules.min_members).max().unwrap_or(0).max(required.len() as u64);
        if rules.min_members > least {
            return Err(refused(
                goal,
                "minProperties",
                format!("raised from {least} to {}", rules.min_members),
            ));
        }
        let Some(max) = rules.max_members else { return Ok(()) };
        let closed =
            facts.objects().filter_map(|(at, rules)| closed(at, rules)).map(|names| names.len() as u64);
        let most = facts.objects().filter_map(|(_, rules)| rules.max_members).chain(closed).min();
        if most.is_none_or(|most| most > max) {
            let before = most.map_or("no limit".to_owned(), |most| most.to_string());
            return Err(refused(goal, "maxProperties", format!("lowered from {before} to {max}")));
        }
        Ok(())
    }

    /// Name by name, as far as names are known, and then all others.
    fn members_follow(&mut self, facts: &Facts<'_>, goal: At<'_>, rules: &ObjectRules) -> Proved {
        let known = facts.objects().map(|(_, rules)| rules).chain([rules]);
        let names: BTreeSet<&str> =
            known.flat_map(|rules| rules.slots.iter().map(|slot| &*slot.name)).collect();
        for name in names {
            self.spend(1, goal)?;
            let before = member(facts, name);
            for id in rules.of_member(name) {
                let after = goal.to(id);
                if after.node().never && !self.is_empty(&before, 0)? {
                    let rule = format!("the member {} was allowed", quoted(name));
                    return Err(super::Refusal::new(&after.node().at, rule));
                }
                self.within(&before, after)?;
            }
        }
        for (pattern, id) in &rules.patterns {
            let same = facts.objects().find_map(|(at, known)| {
                let found = known.patterns.iter().find(|(there, _)| there.text() == pattern.text());
                found.map(|(_, id)| at.to(*id))
            });
            if let Some(same) = same
                && self.proves_within(&Known::of(vec![same]), goal.to(*id))?
            {
                continue;
            }
            self.other_members_follow(facts, goal.to(*id), &[])?;
        }
        match rules.additional {
            Some(additional) => {
                let named: Vec<&str> = rules.patterns.iter().map(|(pattern, _)| pattern.text()).collect();
                self.other_members_follow(facts, goal.to(additional), &named)
            }
            None => Ok(()),
        }
    }

    /// Proves that members with names that nobody spells out match a schema. Names that match one of the `other` patterns are not
    /// meant.
    fn other_members_follow(&mut self, facts: &Facts<'_>, goal: At<'_>, other: &[&str]) -> Proved {
        let mut refusal = None;
        for (at, rules) in facts.objects() {
            let patterns = rules.patterns.iter().filter(|(pattern, _)| !other.contains(&pattern.text()));
            // Such a member matches one of the patterns, or is additional.
            let mut alternatives: Vec<Known<'_>> =
                patterns.map(|(_, id)| Known::of(vec![at.to(*id)])).collect();
            alternatives.push(Known::of(rules.additional.iter().map(|id| at.to(*id)).collect()));
            let proved = alternatives.iter().try_for_each(|known| self.within(known, goal));
            match proved {
                Ok(()) => return Ok(()),
                Err(error) if error.is_final => return Err(error),
                Err(error) => refusal = Some(error),
            }
        }
        match self.within(&Known::of(Vec::new()), goal) {
            Ok(()) => Ok(()),
            Err(error) => Err(match goal.node().never {
                true => {
                    super::Refusal::new(&goal.node().at, "members with other names were allowed".to_owned())
                }
                false => refusal.unwrap_or(error),
            }),
        }
    }

    fn names_follow(&mut self, facts: &Facts<'_>, goal: At<'_>, rules: &ObjectRules) -> Proved {
        let Some(names) = rules.names.map(|id| goal.to(id)) else { return Ok(()) };
        for (at, known) in facts.objects() {
            let closed = closed(at, known);
            let accepts = |name: &&str| {
                names.schema.accepts(names.id, &Value::String(Cow::Borrowed(name))) == Some(true)
            };
            if closed.is_some_and(|all| all.iter().all(accepts)) {
                return Ok(());
            }
            if let Some(id) = known.names
                && self.proves_within(&a_string(vec![at.to(id)]), names)?
            {
                return Ok(());
            }
        }
        match self.proves(&a_string(Vec::new()), names)? {
            true => Ok(()),
            false => Err(refused(goal, "propertyNames", "other names were allowed".to_owned())),
        }
    }

    fn dependents_follow(
        &mut self,
        known: &Known<'_>,
        facts: &Facts<'_>,
        goal: At<'_>,
        rules: &ObjectRules,
    ) -> Proved {
        for (name, needed) in &rules.dependent_required {
            let before = member(facts, name);
            if self.is_empty(&before, 0)? {
                continue;
            }
            let was_needed = |needed: &str| {
                facts.objects().any(|(_, rules)| {
                    let dependent = |(there, all): &(Box<str>, Vec<Box<str>>)| {
                        there == name && all.iter().any(|one| **one == *needed)
                    };
                    rules.requires(needed) || rules.dependent_required.iter().any(dependent)
                })
            };
            if let Some(new) = needed.iter().find(|needed| !was_needed(needed)) {
                let rule = format!("new required beside {}: {}", quoted(name), quoted(new));
                return Err(refused(goal, "dependentRequired", rule));
            }
        }
        for (name, id) in &rules.dependent_schemas {
            let before = member(facts, name);
            if self.is_empty(&before, 0)? {
                continue;
            }
            let also: Vec<At<'_>> = facts
                .objects()
                .flat_map(|(at, rules)| {
                    let there = rules.dependent_schemas.iter().filter(|(there, _)| there == name);
                    there.map(move |(_, id)| at.to(*id))
                })
                .collect();
            self.follows(&known.with(also), goal.to(*id))?;
        }
        Ok(())
    }
}

fn a_string(nodes: Vec<At<'_>>) -> Known<'_> {
    Known { kinds: Kinds::STRING, ..Known::of(nodes) }
}

/// The names that members may have, if no others are allowed.
fn closed<'s>(at: At<'s>, rules: &'s ObjectRules) -> Option<Vec<&'s str>> {
    let is_closed = rules.patterns.is_empty() && rules.additional.is_some_and(|id| at.to(id).node().never);
    let is_possible = |id: usize| !at.to(id).node().never;
    is_closed.then(|| {
        let slots = rules.slots.iter().filter(|slot| slot.node.is_some_and(is_possible));
        slots.map(|slot| &*slot.name).collect()
    })
}
