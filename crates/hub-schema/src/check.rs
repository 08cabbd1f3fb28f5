//! Checking a payload against a schema: one walk over both, with a bound on its steps.

mod array;
mod cost;
mod object;
mod scalar;

use crate::bounds::CHECK_DEPTH;
use crate::node::{Kinds, Node, NodeId};
use crate::schema::Schema;
use crate::value::Value;
use crate::violation::{Step, shown};
use crate::{Budget, Violation};
use array::Items;
use object::Members;

impl Schema {
    /// Checks a payload: JSON text, as it was published.
    ///
    /// # Errors
    /// The first rule that it breaks, and where; or that the check takes more steps than a [`Budget`] has.
    pub fn check(&self, payload: &[u8]) -> Result<(), Violation> {
        self.check_within(payload, &mut Budget::default())
    }

    /// Checks a payload within a budget that other checks share.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn check_within(&self, payload: &[u8], budget: &mut Budget) -> Result<(), Violation> {
        self.check_value(&read(payload, budget)?, budget)
    }

    /// Checks a value that was [`read`].
    pub(crate) fn check_value(&self, value: &Value<'_>, budget: &mut Budget) -> Result<(), Violation> {
        match Check::new(self, budget, true).check(self.root(), value, None) {
            Ok(()) => Ok(()),
            Err(Stop::Broken(Some(violation)) | Stop::TooCostly(violation)) => Err(*violation),
            Err(Stop::Broken(None)) => Err(Violation::new(&[], "it does not match the schema".to_owned())),
        }
    }

    /// Whether a value is accepted by one of the schemas in this one; `None` if that cannot be found out within bounds.
    pub(crate) fn accepts(&self, node: NodeId, value: &Value<'_>) -> Option<bool> {
        match Check::new(self, &mut Budget::default(), false).check(node, value, None) {
            Ok(()) => Some(true),
            Err(Stop::Broken(_)) => Some(false),
            Err(Stop::TooCostly(_)) => None,
        }
    }
}

/// Reads a payload, and adds its steps to the budget.
pub(crate) fn read<'p>(payload: &'p [u8], budget: &mut Budget) -> Result<Value<'p>, Violation> {
    let text = std::str::from_utf8(payload)
        .map_err(|_| Violation::new(&[], "the payload is not UTF-8".to_owned()))?;
    let (value, count) = Value::read(text).map_err(|why| Violation::new(&[], why.to_string()))?;
    budget.add_payload(payload.len(), count);
    Ok(value)
}

/// Why a check ends.
enum Stop {
    /// A rule is broken; which one, if that was asked for.
    Broken(Option<Box<Violation>>),
    /// It would take too long to find out.
    TooCostly(Box<Violation>),
}

type Checked = Result<(), Stop>;

/// What has been looked at of a value, for `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Clone, Default)]
struct Marks {
    members: Members,
    items: Items,
}

impl Marks {
    fn merge(&mut self, other: Self) {
        self.members.merge(other.members);
        self.items.merge(other.items);
    }

    /// Steps that it takes to merge these into others.
    fn merge_steps(&self) -> u64 {
        self.members.merge_steps() + self.items.merge_steps()
    }
}

/// One walk.
struct Check<'s, 'v, 'b> {
    schema: &'s Schema,
    budget: &'b mut Budget,
    depth: usize,
    /// Whether it is to be said what is wrong.
    explains: bool,
    path: Vec<Step<'v>>,
}

impl<'s, 'v, 'b> Check<'s, 'v, 'b> {
    fn new(schema: &'s Schema, budget: &'b mut Budget, explains: bool) -> Self {
        Self { schema, budget, depth: 0, explains, path: Vec::new() }
    }

    /// A rule is broken.
    fn broken<T>(&self, rule: impl FnOnce() -> String) -> Result<T, Stop> {
        Err(Stop::Broken(self.explains.then(|| Box::new(Violation::new(&self.path, rule())))))
    }

    fn too_costly<T>(&self, why: &str) -> Result<T, Stop> {
        Err(Stop::TooCostly(Box::new(Violation::new(&self.path, why.to_owned()))))
    }

    /// Takes steps. Callers take the steps before they do the work that the steps stand for.
    #[inline]
    fn take(&mut self, steps: u64) -> Checked {
        match self.budget.take(steps) {
            true => Ok(()),
            false => self.out_of_budget(),
        }
    }

    #[cold]
    fn out_of_budget<T>(&self) -> Result<T, Stop> {
        self.too_costly(&format!(
            "the check takes too many steps, more than the budget of {}: send less at once, or have the schema simplified",
            self.budget.granted()
        ))
    }

    /// Checks a value within the one that is looked at.
    fn check_within(&mut self, step: Step<'v>, node: NodeId, value: &'v Value<'v>) -> Checked {
        self.path.push(step);
        let checked = self.check(node, value, None);
        self.path.pop();
        checked
    }

    /// Checks a value. What is looked at of it is marked if somebody wants to know.
    fn check(&mut self, id: NodeId, value: &'v Value<'v>, marks: Option<&mut Marks>) -> Checked {
        self.take(1)?;
        self.depth += 1;
        if self.depth > CHECK_DEPTH {
            return self.too_costly("the check goes too deep: nest less, or have the schema simplified");
        }
        let schema = self.schema;
        let node = schema.node(id);
        let checked = match node.has_unevaluated() {
            false => self.check_node(node, value, marks),
            true => self.check_with_own_marks(node, value, marks),
        };
        self.depth -= 1;
        checked
    }

    #[inline(never)]
    fn check_with_own_marks(
        &mut self,
        node: &'s Node,
        value: &'v Value<'v>,
        marks: Option<&mut Marks>,
    ) -> Checked {
        let mut own = Marks::default();
        self.check_node(node, value, Some(&mut own))?;
        self.check_unevaluated(node, value, &mut own)?;
        if let Some(marks) = marks {
            self.take(own.merge_steps())?;
            marks.merge(own);
        }
        Ok(())
    }

    #[inline(never)]
    fn check_unevaluated(&mut self, node: &'s Node, value: &'v Value<'v>, marks: &mut Marks) -> Checked {
        match value {
            Value::Array(items) => match node.array.as_ref().and_then(|rules| rules.unevaluated) {
                Some(rest) => self.check_rest_of_items(rest, items, &mut marks.items),
                None => Ok(()),
            },
            Value::Object(members) => match node.object.as_ref().and_then(|rules| rules.unevaluated) {
                Some(rest) => self.check_rest_of_members(rest, members, &mut marks.members),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_node(&mut self, node: &'s Node, value: &'v Value<'v>, mut marks: Option<&mut Marks>) -> Checked {
        if node.never {
            return self.broken(|| format!("{} is not allowed here", shown(value)));
        }
        if node.kinds != Kinds::ALL && !node.kinds.has(Kinds::of(value)) {
            return self.broken(|| format!("{} is not of type {}", shown(value), node.kinds.names()));
        }
        if let Some(values) = &node.values {
            self.check_allowed(values, &node.canonical_values, value)?;
        }
        match value {
            Value::Number { text, .. } => {
                if let Some(rules) = &node.number {
                    self.check_number(rules, text)?;
                }
            }
            Value::String(text) => {
                if let Some(rules) = &node.string {
                    self.check_string(rules, text)?;
                }
            }
            Value::Array(items) => {
                if let Some(rules) = &node.array {
                    self.check_array(rules, items, marks.as_deref_mut().map(|marks| &mut marks.items))?;
                }
            }
            Value::Object(members) => {
                if let Some(rules) = &node.object {
                    self.check_object(rules, value, members, marks.as_deref_mut())?;
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.check_in_place(node, value, marks)
    }

    /// Applies what other schemas say about the same value.
    fn check_in_place(
        &mut self,
        node: &'s Node,
        value: &'v Value<'v>,
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        if let Some(reference) = node.reference {
            self.check(reference, value, marks.as_deref_mut())?;
        }
        for part in &node.all_of {
            self.check(*part, value, marks.as_deref_mut())?;
        }
        if let Some(branches) = &node.any_of {
            self.check_any_of(branches, value, marks.as_deref_mut())?;
        }
        if let Some(branches) = &node.one_of {
            self.check_one_of(branches, value, marks.as_deref_mut())?;
        }
        if let Some(not) = node.not
            && self.matches(not, value, None)?
        {
            return self.broken(|| format!("{} matches a schema that it must not match (not)", shown(value)));
        }
        if let Some(condition) = &node.condition {
            let branch = match self.matches(condition.test, value, marks.as_deref_mut())? {
                true => condition.then,
                false => condition.otherwise,
            };
            if let Some(branch) = branch {
                self.check(branch, value, marks)?;
            }
        }
        Ok(())
    }

    /// Whether a value matches; marks count only if it does.
    fn matches(
        &mut self,
        node: NodeId,
        value: &'v Value<'v>,
        marks: Option<&mut Marks>,
    ) -> Result<bool, Stop> {
        let explains = std::mem::replace(&mut self.explains, false);
        let (depth, path) = (self.depth, self.path.len());
        let mut own = marks.is_some().then(Marks::default);
        let checked = self.check(node, value, own.as_mut());
        self.explains = explains;
        self.depth = depth;
        self.path.truncate(path);
        match checked {
            Ok(()) => {
                if let (Some(marks), Some(own)) = (marks, own) {
                    self.take(own.merge_steps())?;
                    marks.merge(own);
                }
                Ok(true)
            }
            Err(Stop::Broken(_)) => Ok(false),
            Err(costly) => Err(costly),
        }
    }

    fn check_any_of(
        &mut self,
        branches: &[NodeId],
        value: &'v Value<'v>,
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        let mut matched = false;
        for branch in branches {
            matched |= self.matches(*branch, value, marks.as_deref_mut())?;
            // Each of them may mark something.
            if matched && marks.is_none() {
                return Ok(());
            }
        }
        match matched {
            true => Ok(()),
            false => self.broken_alternatives("anyOf", branches, value),
        }
    }

    fn check_one_of(
        &mut self,
        branches: &[NodeId],
        value: &'v Value<'v>,
        mut marks: Option<&mut Marks>,
    ) -> Checked {
        let mut matched = None;
        for (at, branch) in branches.iter().enumerate() {
            if !self.matches(*branch, value, marks.as_deref_mut())? {
                continue;
            }
            if let Some(before) = matched.replace(at) {
                return self
                    .broken(|| format!("{} matches both oneOf/{before} and oneOf/{at}", shown(value)));
            }
        }
        match matched {
            Some(_) => Ok(()),
            None => self.broken_alternatives("oneOf", branches, value),
        }
    }

    /// None of several schemas matches. What the only one for this kind of value says is the most useful.
    fn broken_alternatives(&mut self, keyword: &str, branches: &[NodeId], value: &'v Value<'v>) -> Checked {
        if self.explains {
            let kind = Kinds::of(value);
            let schema = self.schema;
            let mut fitting = branches.iter().filter(|branch| schema.node(**branch).kinds.has(kind));
            if let (Some(only), None) = (fitting.next(), fitting.next()) {
                match self.check(*only, value, None) {
                    // The value matches no schema, also if the budget is too small to explain why.
                    Err(Stop::TooCostly(_)) | Ok(()) => {}
                    broken => return broken,
                }
            }
        }
        self.broken(|| {
            format!("{} matches none of the {} schemas of {keyword}", shown(value), branches.len())
        })
    }
}

#[cfg(test)]
mod tests;
