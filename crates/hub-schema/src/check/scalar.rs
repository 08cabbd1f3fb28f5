//! Rules for values without parts.

use super::{Check, Checked};
use crate::bounds::MATCHED_BYTES;
use crate::node::{NumberRules, StringRules};
use crate::number::Number;
use crate::pattern::Pattern;
use crate::value::Value;
use crate::violation::{quoted, shown};

/// Bytes that an expression is matched against in the time of a step, about.
const MATCHED_PER_STEP: usize = 16;

impl<'v> Check<'_, 'v> {
    pub(super) fn check_allowed(&mut self, values: &[Value<'static>], value: &'v Value<'v>) -> Checked {
        self.take(u64::from(values.len().max(1).ilog2()) / 4)?;
        let is_in = |value: &Value<'_>| values.binary_search_by(|there| there.cmp_canonical(value)).is_ok();
        let is_allowed = match value {
            // Only those with names in them may be in another order.
            Value::Array(_) | Value::Object(_) => {
                self.take(size(value))?;
                is_in(&value.to_canonical())
            }
            value => is_in(value),
        };
        match is_allowed {
            true => Ok(()),
            false => self.broken(|| format!("{} is not {}", shown(value), allowed(values))),
        }
    }

    pub(super) fn check_number(&mut self, rules: &NumberRules, text: &str) -> Checked {
        let number = Number::parse(text);
        for bound in &rules.minimum {
            let is_below = if bound.is_exclusive { number <= bound.number } else { number < bound.number };
            if is_below {
                let than = if bound.is_exclusive { "not above" } else { "below" };
                return self
                    .broken(|| format!("{} is {than} the minimum {}", shown(&number_of(text)), bound.text));
            }
        }
        for bound in &rules.maximum {
            let is_above = if bound.is_exclusive { number >= bound.number } else { number > bound.number };
            if is_above {
                let than = if bound.is_exclusive { "not below" } else { "above" };
                return self
                    .broken(|| format!("{} is {than} the maximum {}", shown(&number_of(text)), bound.text));
            }
        }
        match &rules.multiple_of {
            Some((divisor, of)) if !number.is_multiple_of(divisor) => {
                self.broken(|| format!("{} is not a multiple of {of}", shown(&number_of(text))))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_string(&mut self, rules: &StringRules, text: &str) -> Checked {
        if rules.min_length > 0 || rules.max_length.is_some_and(|most| text.len() as u64 > most) {
            self.take((text.len() / MATCHED_PER_STEP) as u64)?;
            let length = text.chars().count() as u64;
            if length < rules.min_length {
                let least = rules.min_length;
                return self.broken(|| {
                    format!("{} has {length} characters, fewer than minLength {least}", quoted(text))
                });
            }
            if let Some(most) = rules.max_length.filter(|most| length > *most) {
                return self.broken(|| {
                    format!("{} has {length} characters, more than maxLength {most}", quoted(text))
                });
            }
        }
        match &rules.pattern {
            Some(pattern) if !self.does_match(pattern, text)? => self
                .broken(|| format!("{} does not match the pattern {}", quoted(text), quoted(pattern.text()))),
            _ => Ok(()),
        }
    }

    /// Whether an expression matches a text.
    pub(super) fn does_match(&mut self, pattern: &Pattern, text: &str) -> Result<bool, super::Stop> {
        if text.len() > MATCHED_BYTES {
            return self.too_costly(&format!(
                "a string has {} bytes; patterns are tried on at most {MATCHED_BYTES}",
                text.len()
            ));
        }
        self.take((text.len() / MATCHED_PER_STEP) as u64)?;
        Ok(pattern.is_match(text))
    }
}

fn number_of(text: &str) -> Value<'_> {
    Value::Number(text.into())
}

/// What would be allowed, if it is not much.
fn allowed(values: &[Value<'static>]) -> String {
    const FEW: usize = 8;
    match values {
        [] => "allowed: the list of values is empty".to_owned(),
        [one] => shown(one),
        _ => {
            let few: Vec<String> = values.iter().take(FEW).map(shown).collect();
            let more = if values.len() > FEW { ", …" } else { "" };
            format!("one of {}{more}", few.join(", "))
        }
    }
}

/// How many values a value is made of.
pub(super) fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(members) => 1 + members.iter().map(|(_, value)| size(value)).sum::<u64>(),
        _ => 1,
    }
}
