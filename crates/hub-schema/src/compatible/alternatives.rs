//! Rules that are made of other schemas for the same value: `anyOf`, `oneOf`, `not`, `if`.

use super::facts::Facts;
use super::{At, Known, Proof, Proved, Refusal, refused};
use crate::node::{Condition, Kinds, NodeId};

impl Proof {
    pub(super) fn alternatives_follow(
        &mut self,
        known: &Known<'_>,
        facts: &Facts<'_>,
        goal: At<'_>,
    ) -> Proved {
        let node = goal.node();
        if let Some(branches) = &node.any_of {
            self.any_of_follows(known, goal, branches)?;
        }
        if let Some(branches) = &node.one_of {
            self.one_of_follows(known, facts, goal, branches)?;
        }
        if let Some(not) = node.not {
            self.not_follows(known, facts, goal, goal.to(not))?;
        }
        match &node.condition {
            Some(condition) => self.condition_follows(known, facts, goal, condition),
            None => Ok(()),
        }
    }

    fn any_of_follows(&mut self, known: &Known<'_>, goal: At<'_>, branches: &[NodeId]) -> Proved {
        for branch in branches {
            if self.proves(known, goal.to(*branch))? {
                return Ok(());
            }
        }
        Err(refused(goal, "anyOf", "none of these accepts all that was accepted".to_owned()))
    }

    fn one_of_follows(
        &mut self,
        known: &Known<'_>,
        facts: &Facts<'_>,
        goal: At<'_>,
        branches: &[NodeId],
    ) -> Proved {
        // The same list, in the same order.
        for fact in &facts.nodes {
            let Some(before) = fact.node().one_of.as_ref().filter(|before| before.len() == branches.len())
            else {
                continue;
            };
            let mut is_same = true;
            for (before, branch) in before.iter().zip(branches) {
                is_same = is_same && self.is_same(fact.to(*before), goal.to(*branch))?;
            }
            if is_same {
                return Ok(());
            }
        }
        for (at, branch) in branches.iter().enumerate() {
            if !self.proves(known, goal.to(*branch))? {
                continue;
            }
            for (_, other) in branches.iter().enumerate().filter(|(beside, _)| *beside != at) {
                if !self.is_empty(&known.with([goal.to(*other)]), 0)? {
                    let place = &goal.to(*other).node().at;
                    let rule =
                        "values that another schema of oneOf accepts may match this one as well".to_owned();
                    return Err(Refusal::new(place, rule));
                }
            }
            return Ok(());
        }
        Err(refused(goal, "oneOf", "none of these accepts all that was accepted".to_owned()))
    }

    fn not_follows(&mut self, known: &Known<'_>, facts: &Facts<'_>, goal: At<'_>, not: At<'_>) -> Proved {
        if self.is_empty(&known.with([not]), 0)? {
            return Ok(());
        }
        for fact in &facts.nodes {
            // What was excluded is at least what is excluded now.
            if let Some(before) = fact.node().not
                && self.proves(&Known::of(vec![not]), fact.to(before))?
            {
                return Ok(());
            }
        }
        Err(refused(goal, "not", "what it excludes may have been accepted".to_owned()))
    }

    fn condition_follows(
        &mut self,
        known: &Known<'_>,
        facts: &Facts<'_>,
        goal: At<'_>,
        condition: &Condition,
    ) -> Proved {
        let (then, otherwise) =
            (condition.then.map(|id| goal.to(id)), condition.otherwise.map(|id| goal.to(id)));
        // The same test as before decides the same way.
        let same = facts.nodes.iter().filter_map(|fact| Some((*fact, fact.node().condition.as_ref()?)));
        for (fact, before) in same.collect::<Vec<_>>() {
            if !self.is_same(fact.to(before.test), goal.to(condition.test))? {
                continue;
            }
            let case = |node: Option<NodeId>| known.with(node.map(|id| fact.to(id)));
            let mut meets = |known: &Known<'_>, branch: Option<At<'_>>| match branch {
                Some(branch) => self.follows(known, branch),
                None => Ok(()),
            };
            meets(&case(before.then), then)?;
            return meets(&case(before.otherwise), otherwise);
        }
        let test = goal.to(condition.test);
        if !self.is_empty(&known.with([test]), 0)?
            && let Some(then) = then
        {
            self.follows(&known.with([test]), then)?;
        }
        match otherwise {
            Some(otherwise) if !self.proves(known, test)? => self.follows(known, otherwise),
            _ => Ok(()),
        }
    }

    /// Proves a claim for each case of what is known: of an alternative, or of the kinds of values.
    pub(super) fn follows_by_cases(
        &mut self,
        known: &Known<'_>,
        facts: &Facts<'_>,
        goal: At<'_>,
    ) -> Result<bool, Refusal> {
        for (at, choice, branches) in facts.cases(known) {
            let (is_old, id) = at.key();
            let cases = branches.into_iter().map(|branch| {
                let mut case = known.with(branch);
                case.chosen.push((is_old, id, choice));
                case
            });
            if self.all_cases_follow(cases, goal)? {
                return Ok(true);
            }
        }
        // Only alternatives tell kinds of values apart.
        let node = goal.node();
        if node.any_of.is_none() && node.one_of.is_none() {
            return Ok(false);
        }
        let kinds: Vec<Kinds> =
            (0..7).map(|bit| Kinds(1 << bit)).filter(|kind| facts.kinds.has(*kind)).collect();
        if kinds.len() < 2 {
            return Ok(false);
        }
        self.all_cases_follow(kinds.into_iter().map(|kinds| Known { kinds, ..known.clone() }), goal)
    }

    fn all_cases_follow<'s>(
        &mut self,
        cases: impl Iterator<Item = Known<'s>>,
        goal: At<'_>,
    ) -> Result<bool, Refusal> {
        let since = self.order.len();
        let mut proved = true;
        for case in cases {
            if !self.proves(&case, goal)? {
                proved = false;
                break;
            }
        }
        if !proved {
            self.attempt(since, |_| Err(Refusal::new("", String::new()))).ok();
        }
        Ok(proved)
    }
}
