//! The `Topics` of TypeScript: a key for each topic, and an index signature for each pattern.
//!
//! A payload has to match every schema whose target matches its topic, so a key has all of their types. An index signature covers
//! more topics than its pattern, because `${string}` takes dots as well; where it covers another key that its pattern does not
//! match, its type is one of both. That also is what the compiler asks for: the type of a key has to fit the index signatures that
//! cover it.

use super::model::{Type, both, union};
use hub_proto::Pattern;
use std::collections::BTreeMap;

/// Stands for `${string}` in a key: no name of a topic has it.
const ANY: char = '*';
/// Wildcards `**` of a pattern that are written out as "nothing or something".
const EXPANDED: usize = 3;

/// A key of the map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// As TypeScript writes it.
    pub fn text(&self) -> String {
        match self.0.as_str() {
            "*" => "[topic: string]".to_owned(),
            text if text.contains(ANY) => format!("[topic: `{}`]", text.replace(ANY, "${string}")),
            text => format!("{text:?}"),
        }
    }

    fn is_template(&self) -> bool {
        self.0.contains(ANY)
    }

    /// Whether every text that the other key stands for is one that this one stands for.
    fn covers(&self, other: &Self) -> bool {
        matches(self.0.as_bytes(), other.0.as_bytes())
    }
}

/// Whether a text matches, in which a star takes anything, stars included.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == text[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    at = place + 1;
                    read = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The keys that stand for a target: `**` is nothing, or something between dots.
fn keys_of(target: &Pattern) -> Vec<Key> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    let mut expanded = 0;
    for segment in target.as_str().split('.') {
        let without = (segment == "**" && expanded < EXPANDED).then(|| all.clone());
        expanded += usize::from(segment == "**");
        let segment = if segment.starts_with('*') { "*" } else { segment };
        all.iter_mut().for_each(|key| key.push(segment));
        all.extend(without.into_iter().flatten());
    }
    let mut keys: Vec<Key> =
        all.into_iter().filter(|key| !key.is_empty()).map(|key| Key(key.join("."))).collect();
    if target.as_str() == "**" {
        keys = vec![Key("*".into())];
    }
    keys.sort();
    keys.dedup();
    // Not what another key of the target covers, such as `a.*` beside `a.*.*`.
    let covered = |key: &Key| keys.iter().any(|other| other != key && other.covers(key));
    keys.iter().filter(|key| !covered(key)).cloned().collect()
}

/// The map: each key with its type, topics before patterns.
pub fn topics_map(targets: &[(Pattern, Type)]) -> Vec<(Key, Type)> {
    // What is checked for all topics that a key stands for.
    let mut checked: BTreeMap<Key, Vec<Type>> = BTreeMap::new();
    let mut owners: BTreeMap<Key, Vec<&Pattern>> = BTreeMap::new();
    for (target, _) in targets {
        for key in keys_of(target) {
            owners.entry(key.clone()).or_default().push(target);
            let types = checked.entry(key.clone()).or_default();
            let stands_for = Pattern::parse(&key.0).ok().filter(|_| !key.is_template());
            for (other, of) in targets {
                let applies = match &stands_for {
                    Some(topic) => other.contains(topic),
                    None => other.contains(target),
                };
                if applies && !types.contains(of) {
                    types.push(of.clone());
                }
            }
        }
    }
    let own: BTreeMap<Key, Type> = checked.into_iter().map(|(key, types)| (key, both(types))).collect();
    let mut map: Vec<(Key, Type)> = Vec::new();
    for (key, of) in &own {
        let covered = own.iter().filter(|(other, _)| *other != key && key.is_template() && key.covers(other));
        let mut types = vec![of.clone()];
        types.extend(covered.map(|(_, of)| of.clone()));
        // Partly covered keys share topics with this one, and the compiler asks nothing about them.
        map.push((key.clone(), union(types)));
    }
    map.sort_by_key(|(key, _)| (key.is_template(), key.clone()));
    map
}
