//! Rules for arrays.

use super::{Check, Checked, cost};
use crate::canonical::Canonical;
use crate::node::{ArrayRules, NodeId};
use crate::value::Value;
use crate::violation::{Step, counted};
use std::collections::BTreeSet;

/// Which items of an array have been looked at.
#[derive(Clone, Default)]
pub(super) struct Items {
    /// All before this one.
    upto: usize,
    /// And these, by `contains`.
    more: BTreeSet<usize>,
}

impl Items {
    pub fn merge(&mut self, other: Self) {
        self.upto = self.upto.max(other.upto);
        self.more.extend(other.more);
    }

    pub fn merge_steps(&self) -> u64 {
        self.more.len() as u64
    }
}

impl<'s, 'v> Check<'s, 'v, '_> {
    pub(super) fn check_array(
        &mut self,
        rules: &'s ArrayRules,
        items: &'v [Value<'v>],
        marks: Option<&mut Items>,
    ) -> Checked {
        let count = items.len() as u64;
        if count < rules.min_items {
            return self.broken(|| {
                format!(
                    "the array has {}, fewer than minItems {}",
                    counted(items.len(), "item"),
                    rules.min_items
                )
            });
        }
        if let Some(most) = rules.max_items.filter(|most| count > *most) {
            return self.broken(|| {
                format!("the array has {}, more than maxItems {most}", counted(items.len(), "item"))
            });
        }
        let looked_at = if rules.items.is_some() { items.len() } else { rules.prefix.len().min(items.len()) };
        for (at, item) in items[..looked_at].iter().enumerate() {
            if let Some(node) = rules.item(at) {
                self.check_within(Step::Item(at), node, item)?;
            }
        }
        let mut found = Vec::new();
        if let Some(contains) = &rules.contains {
            for (at, item) in items.iter().enumerate() {
                if self.matches(contains.node, item, None)? {
                    found.push(at);
                }
            }
            let count = found.len() as u64;
            if count < contains.min {
                return self.broken(|| {
                    format!(
                        "{} of the array match contains, fewer than {}",
                        counted(found.len(), "item"),
                        contains.min
                    )
                });
            }
            if let Some(most) = contains.max.filter(|most| count > *most) {
                return self.broken(|| {
                    format!("{} of the array match contains, more than {most}", counted(found.len(), "item"))
                });
            }
        }
        if rules.unique && items.len() > 1 {
            self.check_unique(items)?;
        }
        if let Some(marks) = marks {
            marks.upto = marks.upto.max(looked_at);
            self.take(found.len() as u64)?;
            marks.more.extend(found);
        }
        Ok(())
    }

    #[inline(never)]
    fn check_unique(&mut self, items: &'v [Value<'v>]) -> Checked {
        let sorting = 1 + cost::log2(items.len()) / 4;
        self.take(items.iter().map(cost::canonical).sum::<u64>() * sorting)?;
        let mut sorted: Vec<(Canonical<'_>, usize)> =
            items.iter().enumerate().map(|(at, item)| (Canonical::of(item), at)).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => {
                self.broken(|| format!("items {} and {} are equal (uniqueItems)", pair[0].1, pair[1].1))
            }
            None => Ok(()),
        }
    }

    pub(super) fn check_rest_of_items(
        &mut self,
        node: NodeId,
        items: &'v [Value<'v>],
        marks: &mut Items,
    ) -> Checked {
        self.take(cost::marks(items.len().saturating_sub(marks.upto)) + marks.merge_steps())?;
        for (at, item) in items.iter().enumerate().skip(marks.upto) {
            if !marks.more.contains(&at) {
                self.check_within(Step::Item(at), node, item)?;
            }
        }
        marks.upto = items.len();
        Ok(())
    }
}
