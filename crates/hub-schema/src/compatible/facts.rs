//! What is known of a value, in one place: a schema with everything that it refers to in place.

use super::{At, Known};
use crate::node::{ArrayRules, Kinds, NumberRules, ObjectRules, StringRules};
use crate::value::Value;

/// Alternatives of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    AnyOf,
    OneOf,
    If,
}

/// See the module.
pub(super) struct Facts<'s> {
    /// The value matches all of these.
    pub nodes: Vec<At<'s>>,
    pub kinds: Kinds,
}

impl<'s> Facts<'s> {
    pub fn of(known: &Known<'s>) -> Self {
        let (mut nodes, mut kinds) = (Vec::<At<'s>>::new(), known.kinds);
        let mut open: Vec<At<'s>> = known.nodes.clone();
        while let Some(at) = open.pop() {
            if nodes.iter().any(|there| there.key() == at.key()) {
                continue;
            }
            let node = at.node();
            kinds = kinds.and(node.kinds);
            open.extend(node.reference.iter().chain(&node.all_of).map(|id| at.to(*id)));
            nodes.push(at);
        }
        Self { nodes, kinds }
    }

    /// The values that the value may have, if there are only so many.
    pub fn finite(&self) -> Option<Vec<Value<'static>>> {
        if let Some(values) = self.nodes.iter().find_map(|at| at.node().values.as_ref()) {
            return Some(values.clone());
        }
        Kinds::NULL.or(Kinds::BOOLEAN).has(self.kinds).then(|| {
            vec![Value::Null, Value::Bool(false), Value::Bool(true)]
                .into_iter()
                .filter(|value| self.kinds.has(Kinds::of(value)))
                .collect()
        })
    }

    pub fn numbers(&self) -> impl Iterator<Item = &'s NumberRules> {
        self.nodes.iter().filter_map(|at| at.node().number.as_deref())
    }

    pub fn strings(&self) -> impl Iterator<Item = &'s StringRules> {
        self.nodes.iter().filter_map(|at| at.node().string.as_deref())
    }

    pub fn arrays(&self) -> impl Iterator<Item = (At<'s>, &'s ArrayRules)> {
        self.nodes.iter().filter_map(|at| Some((*at, at.node().array.as_deref()?)))
    }

    pub fn objects(&self) -> impl Iterator<Item = (At<'s>, &'s ObjectRules)> {
        self.nodes.iter().filter_map(|at| Some((*at, at.node().object.as_deref()?)))
    }

    /// The cases of alternatives among which nothing has been chosen yet; each case is what is known in addition.
    pub fn cases(&self, known: &Known<'s>) -> Vec<(At<'s>, Choice, Vec<Vec<At<'s>>>)> {
        let mut cases = Vec::new();
        for at in &self.nodes {
            let node = at.node();
            let list = |ids: &[usize]| ids.iter().map(|id| vec![at.to(*id)]).collect::<Vec<_>>();
            let condition = node.condition.as_ref().map(|condition| {
                let then = [Some(condition.test), condition.then];
                vec![
                    then.into_iter().flatten().map(|id| at.to(id)).collect(),
                    condition.otherwise.into_iter().map(|id| at.to(id)).collect(),
                ]
            });
            let all = [
                (Choice::AnyOf, node.any_of.as_deref().map(list)),
                (Choice::OneOf, node.one_of.as_deref().map(list)),
                (Choice::If, condition),
            ];
            for (choice, branches) in all {
                let (is_old, id) = at.key();
                if let Some(branches) = branches.filter(|_| !known.chosen.contains(&(is_old, id, choice))) {
                    cases.push((*at, choice, branches));
                }
            }
        }
        cases
    }
}
