//! `[[quota]]`: what one subject, or the topics of one pattern, may use.

use super::mistakes::{Mistakes, Origin};
use super::value::Value;
use hub_core::{Quota, QuotaOf};
use hub_server::limits::{SubjectQuota, TopicQuota};

/// A `[[quota]]` as it was written.
pub struct Written {
    pub values: Vec<(&'static str, Value)>,
    pub origin: Origin,
}

/// What the bus and the gateway keep.
#[derive(Default)]
pub struct Quotas {
    /// Of what is kept.
    pub kept: Vec<Quota>,
    /// Of what subjects have open, send and are sent.
    pub open: Vec<SubjectQuota>,
    /// Of the bytes that topics take and give.
    pub topics: Vec<TopicQuota>,
}

/// What was written; beyond loopback, behind it, what every subject has that no quota names.
pub fn read(written: &[Written], loopback: bool, mistakes: &mut Mistakes) -> Quotas {
    let mut quotas = Quotas::default();
    for written in written {
        match one(written) {
            Ok((kept, Rates::Subject(open))) => {
                quotas.kept.push(kept);
                quotas.open.push(open);
            }
            Ok((kept, Rates::Topics(topics))) => {
                quotas.kept.push(kept);
                quotas.topics.push(topics);
            }
            Err(text) => mistakes.add(Some(written.origin.clone()), text),
        }
    }
    if !loopback {
        let kept = Quota {
            of: QuotaOf::EverySubject,
            topics: Some(1_000),
            groups: Some(10_000),
            stored_bytes: None,
        };
        quotas.kept.push(kept);
        quotas.open.push(SubjectQuota {
            subject: None,
            connections: Some(1_000),
            subscriptions: Some(20_000),
            bytes_in: Some(64 << 20),
            bytes_out: Some(256 << 20),
        });
    }
    quotas
}

/// What the gateway keeps of one quota.
enum Rates {
    Subject(SubjectQuota),
    Topics(TopicQuota),
}

fn one(written: &Written) -> Result<(Quota, Rates), String> {
    let (mut subject, mut pattern) = (None, None);
    let (mut topics, mut groups, mut stored_bytes) = (None, None, None);
    let (mut connections, mut subscriptions, mut bytes_in, mut bytes_out) = (None, None, None, None);
    let count = |number: u64| usize::try_from(number).ok();
    for (name, value) in written.values.iter().cloned() {
        match (name, value) {
            ("quota.subject", Value::Text(text)) => subject = Some(text),
            ("quota.pattern", Value::Pattern(value)) => pattern = Some(value),
            ("quota.topics", Value::Number(number)) => topics = count(number),
            ("quota.groups", Value::Number(number)) => groups = count(number),
            ("quota.stored_bytes", Value::Number(number)) => stored_bytes = Some(number),
            ("quota.connections", Value::Number(number)) => connections = count(number),
            ("quota.subscriptions", Value::Number(number)) => subscriptions = count(number),
            ("quota.bytes_in", Value::Number(number)) => bytes_in = u32::try_from(number).ok(),
            ("quota.bytes_out", Value::Number(number)) => bytes_out = u32::try_from(number).ok(),
            _ => {}
        }
    }
    let of = match (subject.as_deref(), pattern) {
        (Some("*"), None) => QuotaOf::EverySubject,
        (Some(subject), None) => QuotaOf::Subject(subject.to_owned()),
        (None, Some(_)) if [connections, subscriptions].iter().any(Option::is_some) => {
            return Err("quota.connections and quota.subscriptions are of subjects; leave them out with quota.pattern".into());
        }
        (None, Some(pattern)) => QuotaOf::Topics(pattern),
        (Some(_), Some(_)) => {
            return Err("quota.subject and quota.pattern are both set; leave one out".into());
        }
        (None, None) => {
            return Err("a [[quota]] without `subject` or `pattern`: one of them says whose it is".into());
        }
    };
    let rates = match &of {
        QuotaOf::Topics(pattern) => {
            Rates::Topics(TopicQuota { pattern: pattern.clone(), bytes_in, bytes_out })
        }
        _ => Rates::Subject(SubjectQuota {
            subject: subject.filter(|subject| subject != "*"),
            connections,
            subscriptions,
            bytes_in,
            bytes_out,
        }),
    };
    Ok((Quota { of, topics, groups, stored_bytes }, rates))
}
