//! Rules for objects.

use super::{Check, Checked, Marks, Stop, cost};
use crate::node::{NodeId, ObjectRules};
use crate::value::Value;
use crate::violation::{Step, counted, quoted};
use std::borrow::Cow;

/// Which members of an object have been looked at.
#[derive(Clone, Default)]
pub(super) struct Members {
    /// By their places in the text; those behind the end have not.
    seen: Vec<bool>,
}

impl Members {
    pub fn merge(&mut self, other: Self) {
        if self.seen.len() < other.seen.len() {
            self.seen.resize(other.seen.len(), false);
        }
        self.seen.iter_mut().zip(other.seen).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub fn merge_steps(&self) -> u64 {
        cost::marks(self.seen.len())
    }

    fn mark(&mut self, at: usize) {
        if self.seen.len() <= at {
            self.seen.resize(at + 1, false);
        }
        self.seen[at] = true;
    }

    fn is_marked(&self, at: usize) -> bool {
        self.seen.get(at).is_some_and(|seen| *seen)
    }
}

impl<'s, 'v> Check<'s, 'v, '_> {
    pub(super) fn check_object(
        &mut self,
        rules: &'s ObjectRules,
        value: &'v Value<'v>,
        members: &'v [(Cow<'v, str>, Value<'v>)],
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        let count = members.len() as u64;
        if count < rules.min_members {
            return self.broken(|| {
                format!(
                    "the object has {}, fewer than minProperties {}",
                    counted(members.len(), "member"),
                    rules.min_members
                )
            });
        }
        if let Some(most) = rules.max_members.filter(|most| count > *most) {
            return self.broken(|| {
                format!("the object has {}, more than maxProperties {most}", counted(members.len(), "member"))
            });
        }
        match rules.visits_members {
            true => self.visit_members(rules, members, marks.as_deref_mut())?,
            false => self.check_required(rules, value, members)?,
        }
        self.check_names(rules, value, members, marks)
    }

    /// Searches for each of a few required names, if the schema has no other rule about members.
    fn check_required(
        &mut self,
        rules: &'s ObjectRules,
        value: &'v Value<'v>,
        members: &'v [(Cow<'v, str>, Value<'v>)],
    ) -> Checked {
        if rules.required == 0 {
            return Ok(());
        }
        for name in rules.required() {
            self.take(cost::search(members.len(), name))?;
            if value.get(name).is_none() {
                return self.broken(|| missing(rules, members));
            }
        }
        Ok(())
    }

    fn visit_members(
        &mut self,
        rules: &'s ObjectRules,
        members: &'v [(Cow<'v, str>, Value<'v>)],
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        self.take(cost::visit(members.len(), rules.patterns.len()))?;
        // Members mostly come in the order of the schema.
        let (mut hint, mut required) = (0, 0);
        for (at, (name, member)) in members.iter().enumerate() {
            if name.len() > cost::COMPARED_PER_STEP {
                self.take((name.len() / cost::COMPARED_PER_STEP) as u64)?;
            }
            let slot = rules.slot(name, hint).map(|found| {
                hint = found + 1;
                &rules.slots[found]
            });
            required += usize::from(slot.is_some_and(|slot| slot.is_required));
            let property = slot.and_then(|slot| slot.node);
            let mut is_evaluated = property.is_some();
            if let Some(node) = property {
                self.check_within(Step::Member(name), node, member)?;
            }
            for (pattern, node) in &rules.patterns {
                if self.does_match(pattern, name)? {
                    is_evaluated = true;
                    self.check_within(Step::Member(name), *node, member)?;
                }
            }
            if let Some(additional) = rules.additional.filter(|_| !is_evaluated) {
                is_evaluated = true;
                self.check_additional(additional, name, member)?;
            }
            if let Some(marks) = marks.as_deref_mut().filter(|_| is_evaluated) {
                marks.members.mark(at);
            }
        }
        match required < rules.required {
            true => self.broken(|| missing(rules, members)),
            false => Ok(()),
        }
    }

    fn check_additional(&mut self, additional: NodeId, name: &'v str, member: &'v Value<'v>) -> Checked {
        match self.schema.node(additional).never {
            true => self.broken(|| {
                format!("the member {} is not allowed: the schema does not name it", quoted(name))
            }),
            false => self.check_within(Step::Member(name), additional, member),
        }
    }

    /// What is said about names, and what depends on them.
    fn check_names(
        &mut self,
        rules: &'s ObjectRules,
        value: &'v Value<'v>,
        members: &'v [(Cow<'v, str>, Value<'v>)],
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        if let Some(names) = rules.names {
            for (name, _) in members {
                self.take(1)?;
                if !self.matches_name(names, name)? {
                    return self.broken(|| format!("the name {} does not match propertyNames", quoted(name)));
                }
            }
        }
        for (name, needed) in &rules.dependent_required {
            self.take(cost::search(members.len(), name))?;
            if value.get(name).is_none() {
                continue;
            }
            for needed in needed {
                self.take(cost::search(members.len(), needed))?;
                if value.get(needed).is_none() {
                    return self.broken(|| format!("{} is required beside {}", quoted(needed), quoted(name)));
                }
            }
        }
        for (name, node) in &rules.dependent_schemas {
            self.take(cost::search(members.len(), name))?;
            if value.get(name).is_some() {
                self.check(*node, value, marks.as_deref_mut())?;
            }
        }
        Ok(())
    }

    fn matches_name(&mut self, node: NodeId, name: &str) -> Result<bool, Stop> {
        let value = Value::String(Cow::Borrowed(name));
        let mut check = Check {
            schema: self.schema,
            budget: self.budget,
            depth: self.depth,
            explains: false,
            path: Vec::new(),
        };
        check.matches(node, &value, None).or_else(|stop| match stop {
            // The check of the name has no path of its own.
            Stop::TooCostly(violation) => self.too_costly(violation.rule()),
            broken => Err(broken),
        })
    }

    pub(super) fn check_rest_of_members(
        &mut self,
        node: NodeId,
        members: &'v [(Cow<'v, str>, Value<'v>)],
        marks: &mut Members,
    ) -> Checked {
        self.take(cost::marks(members.len()))?;
        for (at, (name, member)) in members.iter().enumerate() {
            if !marks.is_marked(at) {
                self.check_additional(node, name, member)?;
                marks.mark(at);
            }
        }
        Ok(())
    }
}

/// Which required names no member has: one visit of the members, however many names are required.
fn missing(rules: &ObjectRules, members: &[(Cow<'_, str>, Value<'_>)]) -> String {
    const SHOWN: usize = 4;
    let mut is_present = vec![false; rules.slots.len()];
    for (name, _) in members {
        if let Some(at) = rules.slot(name, 0) {
            is_present[at] = true;
        }
    }
    let slots = rules.slots.iter().zip(is_present);
    let missing =
        slots.filter(|(slot, is_present)| slot.is_required && !is_present).map(|(slot, _)| &slot.name);
    let names: Vec<String> = missing.take(SHOWN + 1).map(|name| quoted(name)).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more} {are} required and missing", names[..names.len().min(SHOWN)].join(", "))
}
