//! Rules for values without parts.

use super::{Check, Checked, cost};
use crate::bounds::{MATCHED_BYTES, SCHEMA_BYTES};
use crate::canonical::Canonical;
use crate::node::{NumberRules, StringRules};
use crate::number::Number;
use crate::pattern::Pattern;
use crate::value::Value;
use crate::violation::{quoted, shown, shown_number};

/// Bytes of a string whose characters are counted in a step.
const COUNTED_PER_STEP: usize = 16;

impl<'v> Check<'_, 'v, '_> {
    /// Checks `enum` and `const`: `values` as a schema has them, `canonical` as they are searched.
    pub(super) fn check_allowed(
        &mut self,
        values: &[Value<'static>],
        canonical: &[Canonical<'static>],
        value: &'v Value<'v>,
    ) -> Checked {
        let steps = match value {
            // No value of a schema is longer than the schema: a comparison ends there.
            Value::String(text) => 1 + (text.len().min(SCHEMA_BYTES) / cost::COMPARED_PER_STEP) as u64,
            value => cost::canonical(value),
        };
        // The first step is that of the schema that is applied.
        self.take(steps - 1 + steps * cost::log2(canonical.len()) / 4)?;
        match canonical.binary_search(&Canonical::of(value)) {
            Ok(_) => Ok(()),
            Err(_) => self.broken(|| format!("{} is not {}", shown(value), allowed(values))),
        }
    }

    pub(super) fn check_number(&mut self, rules: &NumberRules, text: &str) -> Checked {
        self.take(cost::number(text))?;
        let number = Number::parse(text);
        if let Number::Decimal(_) = number {
            self.take(cost::DECIMAL_COMPARISON * (rules.minimum.len() + rules.maximum.len()) as u64)?;
        }
        if let Some((divisor, _)) = &rules.multiple_of {
            self.take(number.division_steps(divisor))?;
        }
        for bound in &rules.minimum {
            let is_below = if bound.is_exclusive { number <= bound.number } else { number < bound.number };
            if is_below {
                let than = if bound.is_exclusive { "not above" } else { "below" };
                return self
                    .broken(|| format!("{} is {than} the minimum {}", shown_number(text), bound.text));
            }
        }
        for bound in &rules.maximum {
            let is_above = if bound.is_exclusive { number >= bound.number } else { number > bound.number };
            if is_above {
                let than = if bound.is_exclusive { "not below" } else { "above" };
                return self
                    .broken(|| format!("{} is {than} the maximum {}", shown_number(text), bound.text));
            }
        }
        match &rules.multiple_of {
            Some((divisor, of)) if !number.is_multiple_of(divisor) => {
                self.broken(|| format!("{} is not a multiple of {of}", shown_number(text)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_string(&mut self, rules: &StringRules, text: &str) -> Checked {
        if rules.min_length > 0 || rules.max_length.is_some_and(|most| text.len() as u64 > most) {
            self.take((text.len() / COUNTED_PER_STEP) as u64)?;
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
        self.take(pattern.match_steps(text.len()))?;
        Ok(pattern.is_match(text))
    }
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
