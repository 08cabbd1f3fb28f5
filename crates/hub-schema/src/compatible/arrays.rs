//! Rules of arrays.

use super::facts::Facts;
use super::{At, Known, Proof, Proved, Refusal, refused};
use crate::node::{ArrayRules, Contains, Kinds};

impl Proof {
    pub(super) fn arrays_follow(&mut self, facts: &Facts<'_>, goal: At<'_>) -> Proved {
        let Some(rules) = goal.node().array.as_deref() else { return Ok(()) };
        if !facts.kinds.has(Kinds::ARRAY) {
            return Ok(());
        }
        let least = facts.arrays().map(|(_, rules)| rules.min_items).max().unwrap_or(0);
        let most = facts.arrays().filter_map(|(_, rules)| rules.max_items).min();
        if rules.min_items > least {
            return Err(refused(goal, "minItems", format!("raised from {least} to {}", rules.min_items)));
        }
        if let Some(max) = rules.max_items
            && most.is_none_or(|most| most > max)
        {
            let before = most.map_or("no limit".to_owned(), |most| most.to_string());
            return Err(refused(goal, "maxItems", format!("lowered from {before} to {max}")));
        }
        let was_unique = facts.arrays().any(|(_, rules)| rules.unique) || most.is_some_and(|most| most <= 1);
        if rules.unique && !was_unique {
            return Err(refused(goal, "uniqueItems", "items could be equal".to_owned()));
        }
        if rules.unevaluated.is_some() {
            return Err(refused(
                goal,
                "unevaluatedItems",
                "it can only be compared if nothing around it changes".to_owned(),
            ));
        }
        self.items_follow(facts, goal, rules, most)?;
        match &rules.contains {
            Some(contains) => self.contains_follows(facts, goal, contains, most),
            None => Ok(()),
        }
    }

    /// Item by item, as far as they differ, and then the rest.
    fn items_follow(
        &mut self,
        facts: &Facts<'_>,
        goal: At<'_>,
        rules: &ArrayRules,
        most: Option<u64>,
    ) -> Proved {
        let all = facts.arrays().map(|(_, rules)| rules.prefix.len()).chain([rules.prefix.len()]);
        let differing = all.max().unwrap_or(0);
        // The place behind the last of those stands for all that follow.
        for at in 0..=differing {
            let item = if at == differing { rules.items } else { rules.item(at) };
            let Some(item) =
                item.filter(|_| most.is_none_or(|most| at as u64 <= most.saturating_sub(1) && most > 0))
            else {
                continue;
            };
            let nodes = facts.arrays().filter_map(|(place, rules)| {
                let id = if at == differing { rules.items } else { rules.item(at) };
                id.map(|id| place.to(id))
            });
            self.within(&Known::of(nodes.collect()), goal.to(item))?;
        }
        Ok(())
    }

    fn contains_follows(
        &mut self,
        facts: &Facts<'_>,
        goal: At<'_>,
        contains: &Contains,
        most: Option<u64>,
    ) -> Proved {
        if contains.min > 0
            && !self.any_contains(facts, |proof, place, known| {
                Ok(known.min >= contains.min
                    && proof.proves_within(&Known::of(vec![place.to(known.node)]), goal.to(contains.node))?)
            })?
        {
            return Err(refused(goal, "contains", "an array did not have to contain this".to_owned()));
        }
        let Some(max) = contains.max.filter(|max| most.is_none_or(|most| most > *max)) else { return Ok(()) };
        if !self.any_contains(facts, |proof, place, known| {
            Ok(known.max.is_some_and(|known| known <= max)
                && proof.proves_within(&Known::of(vec![goal.to(contains.node)]), place.to(known.node))?)
        })? {
            return Err(refused(
                goal,
                "maxContains",
                format!("an array could contain more than {max} of these"),
            ));
        }
        Ok(())
    }

    fn any_contains<'s>(
        &mut self,
        facts: &Facts<'s>,
        mut is_enough: impl FnMut(&mut Self, At<'s>, &Contains) -> Result<bool, Refusal>,
    ) -> Result<bool, Refusal> {
        for (place, rules) in facts.arrays() {
            if let Some(known) = &rules.contains
                && is_enough(self, place, known)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
