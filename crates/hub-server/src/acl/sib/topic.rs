//! `(define-topic …)`: settings of topics.

use super::SibError;
use super::reader::{Form, Kind};
use hub_core::{TopicDurability, TopicSettings};

const HOUR: u64 = 60 * 60 * 1000;
const KEYS: &str = ":retention-days, :retention-bytes, :compaction, :tombstone-grace-hours or :durability";

/// Reads what stands behind the topic's name: one map, or keys and values.
pub(super) fn settings(options: &[Form]) -> Result<TopicSettings, SibError> {
    let options = match options {
        [Form { kind: Kind::Map(options), .. }] => options.as_slice(),
        options => options,
    };
    let mut settings = TopicSettings::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = options.iter();
    while let Some(key) = rest.next() {
        let Kind::Keyword(name) = &key.kind else { return Err(key.expected(KEYS)) };
        let name = one_spelling(name);
        if seen.contains(&name) {
            return Err(key.error(format!(":{name} is given twice")));
        }
        seen.push(name);
        let value = rest.next();
        let value = value.ok_or_else(|| key.error(format!("a value is expected behind {}", key.shown())))?;
        match name {
            "retention-days" => {
                let days = u32::try_from(at_least_one(value)?);
                settings.retention_days =
                    Some(days.map_err(|_| value.expected(&format!("a number of days up to {}", u32::MAX)))?);
            }
            "retention-bytes" => settings.retention_bytes = Some(at_least_one(value)?),
            "compaction" => settings.compaction = truth(value)?,
            "tombstone-grace-hours" => {
                let grace = number(value)?.checked_mul(HOUR);
                settings.tombstone_grace = grace
                    .ok_or_else(|| value.expected(&format!("a number of hours up to {}", u64::MAX / HOUR)))?;
            }
            "durability" => settings.durability = durability(value)?,
            _ => return Err(key.expected(KEYS)),
        }
    }
    Ok(settings)
}

/// The key as Lisp spells it, of the one that the configuration of other programs has.
fn one_spelling(name: &str) -> &str {
    match name {
        "retentionDays" => "retention-days",
        "retentionBytes" => "retention-bytes",
        "tombstoneGraceHours" => "tombstone-grace-hours",
        other => other,
    }
}

fn number(form: &Form) -> Result<u64, SibError> {
    match form.kind {
        Kind::Number(number) => Ok(number),
        _ => Err(form.expected("a number")),
    }
}

fn at_least_one(form: &Form) -> Result<u64, SibError> {
    match number(form)? {
        0 => Err(form.expected("a number from 1 on (leave it out to keep everything)")),
        number => Ok(number),
    }
}

fn truth(form: &Form) -> Result<bool, SibError> {
    match &form.kind {
        Kind::Symbol(word) if word == "true" => Ok(true),
        Kind::Symbol(word) if word == "false" => Ok(false),
        _ => Err(form.expected("true or false")),
    }
}

fn durability(form: &Form) -> Result<TopicDurability, SibError> {
    match &form.kind {
        Kind::Text(word) if word == "commit" => Ok(TopicDurability::Commit),
        Kind::Text(word) if word == "interval" => Ok(TopicDurability::Interval),
        _ => Err(form.expected(r#""commit" or "interval""#)),
    }
}
