//! Rules for objects.

use super::{Check, Checked, Marks};
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

impl<'s, 'v> Check<'s, 'v> {
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
        // Members mostly come in the order of the schema.
        let (mut hint, mut required) = (0, 0);
        for (at, (name, member)) in members.iter().enumerate() {
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
        if required < rules.required {
            return self.broken(|| missing(rules, value));
        }
        self.check_names(rules, value, members, marks)
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
            self.take((members.len() / 8) as u64)?;
            if value.get(name).is_none() {
                continue;
            }
            self.take((members.len() * needed.len() / 8) as u64)?;
            if let Some(missing) = needed.iter().find(|needed| value.get(needed).is_none()) {
                return self.broken(|| format!("{} is required beside {}", quoted(missing), quoted(name)));
            }
        }
        for (name, node) in &rules.dependent_schemas {
            self.take((members.len() / 8) as u64)?;
            if value.get(name).is_some() {
                self.check(*node, value, marks.as_deref_mut())?;
            }
        }
        Ok(())
    }

    fn matches_name(&mut self, node: NodeId, name: &str) -> Result<bool, super::Stop> {
        let value = Value::String(Cow::Borrowed(name));
        let mut check = Check {
            schema: self.schema,
            steps: self.steps,
            depth: self.depth,
            explains: false,
            path: Vec::new(),
        };
        let matches = check.matches(node, &value, None);
        let steps = check.steps;
        let matches = match matches {
            Ok(matches) => Ok(matches),
            Err(_) => self.too_costly("the check of the names takes too many steps"),
        };
        self.steps = steps;
        matches
    }

    pub(super) fn check_rest_of_members(
        &mut self,
        node: NodeId,
        members: &'v [(Cow<'v, str>, Value<'v>)],
        marks: &mut Members,
    ) -> Checked {
        for (at, (name, member)) in members.iter().enumerate() {
            if !marks.is_marked(at) {
                self.check_additional(node, name, member)?;
                marks.mark(at);
            }
        }
        Ok(())
    }
}

fn missing(rules: &ObjectRules, value: &Value<'_>) -> String {
    let missing: Vec<&str> = rules.required().filter(|name| value.get(name).is_none()).collect();
    let first: Vec<String> = missing.iter().take(4).map(|name| quoted(name)).collect();
    let more = if missing.len() > first.len() { ", …" } else { "" };
    let are = if missing.len() == 1 { "is" } else { "are" };
    format!("{}{more} {are} required and missing", first.join(", "))
}
