//! What the system topic says.

use super::{SchemaOrigin, SchemaTarget, SchemaVersion, TopicSchema};
use crate::Schema;
use crate::bounds::VERSIONS;
use hub_core::SystemEntry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All stored schemas.
#[derive(Default)]
pub(super) struct Stored {
    targets: BTreeMap<String, Versions>,
}

/// What is stored of one target.
#[derive(Default)]
struct Versions {
    all: BTreeMap<u64, SchemaVersion>,
    /// Up to this version all are deleted.
    deleted_upto: u64,
    /// The newest, compiled.
    current: Option<Arc<TopicSchema>>,
}

/// The key of a version's entry. Targets have no slash in them.
pub(super) fn version_key(target: &str, version: u64) -> String {
    format!("version/{target}/{version}")
}

/// The entry of a version. The schema is a text in it: a value would round its numbers.
pub(super) fn to_entry(target: &SchemaTarget, version: &SchemaVersion) -> SystemEntry {
    SystemEntry {
        key: version_key(target.as_str(), version.version).into(),
        value: Some(json!({
            "schema": &*version.text, "at": version.at, "by": version.by.as_deref(), "forced": version.forced,
        })),
    }
}

/// The entry of a deletion.
pub(super) fn to_deletion(target: &SchemaTarget, upto: u64) -> SystemEntry {
    SystemEntry { key: format!("deleted/{target}").into(), value: Some(json!({ "upto": upto })) }
}

fn read_version(version: u64, value: &Value) -> Option<SchemaVersion> {
    Some(SchemaVersion {
        version,
        at: value["at"].as_u64().unwrap_or(0),
        by: value["by"].as_str().map(Arc::from),
        forced: value["forced"].as_bool().unwrap_or(false),
        text: value["schema"].as_str()?.into(),
    })
}

impl Versions {
    fn newest(&self) -> Option<&SchemaVersion> {
        self.all.last_key_value().map(|(_, version)| version)
    }

    /// The number of the newest version that there is or was.
    fn newest_number(&self) -> u64 {
        self.newest().map_or(0, |newest| newest.version).max(self.deleted_upto)
    }

    /// Compiles the newest version, if it is another one than before. Answers whether it is.
    fn settle(&mut self, target: &SchemaTarget) -> bool {
        let deleted = self.deleted_upto;
        self.all.retain(|version, _| *version > deleted);
        let newest = self.newest().cloned();
        if self.current.as_ref().map(|current| &current.current) == newest.as_ref() {
            return false;
        }
        self.current = newest.map(|current| {
            let compiled = Schema::compile(current.text.as_bytes()).map(Arc::new);
            Arc::new(TopicSchema { target: target.clone(), origin: SchemaOrigin::Stored, current, compiled })
        });
        true
    }
}

impl Stored {
    /// Those that there are, by target.
    pub fn current(&self) -> impl Iterator<Item = (&str, &Arc<TopicSchema>)> {
        self.targets
            .iter()
            .filter_map(|(target, versions)| Some((target.as_str(), versions.current.as_ref()?)))
    }

    pub fn get(&self, target: &str) -> Option<&Arc<TopicSchema>> {
        self.targets.get(target)?.current.as_ref()
    }

    /// The versions of a target, the newest first.
    pub fn versions(&self, target: &str) -> Vec<SchemaVersion> {
        let versions = self.targets.get(target);
        versions.into_iter().flat_map(|versions| versions.all.values().rev().cloned()).collect()
    }

    /// The number of the next version of a target.
    pub fn next_version(&self, target: &str) -> u64 {
        self.targets.get(target).map_or(0, Versions::newest_number) + 1
    }

    /// The keys of versions beyond those that are kept.
    pub fn overdue(&self, target: &str) -> Vec<String> {
        let versions = self.versions(target);
        versions.iter().skip(VERSIONS).map(|version| version_key(target, version.version)).collect()
    }

    /// Takes note of an entry. Answers whether a topic is checked against something else now.
    pub fn learn(&mut self, entry: &SystemEntry) -> bool {
        let Some(target) = self.note(entry) else { return false };
        self.targets.get_mut(target.as_str()).is_some_and(|versions| versions.settle(&target))
    }

    /// Takes note of all entries: what is not among them is over. They were read a moment ago, and somebody may have told of a newer
    /// version since: numbers only rise, so one beyond all that were read is such a version.
    pub fn relearn(&mut self, entries: &[SystemEntry]) -> bool {
        let mut read = Self::default();
        for entry in entries {
            read.note(entry);
        }
        for (target, before) in std::mem::take(&mut self.targets) {
            let versions = read.targets.entry(target).or_default();
            let newest = versions.newest_number();
            versions.all.extend(before.all.into_iter().filter(|(version, _)| *version > newest));
            versions.deleted_upto = versions.deleted_upto.max(before.deleted_upto);
            versions.current = before.current;
        }
        self.targets = read.targets;
        let mut has_changed = false;
        for (target, versions) in &mut self.targets {
            if let Ok(target) = SchemaTarget::parse(target) {
                has_changed |= versions.settle(&target);
            }
        }
        has_changed
    }

    /// Answers the target that an entry is about.
    fn note(&mut self, entry: &SystemEntry) -> Option<SchemaTarget> {
        let (kind, rest) = entry.key.split_once('/')?;
        let (target, version) = match kind {
            "version" => {
                let (target, version) = rest.rsplit_once('/')?;
                (target, version.parse::<u64>().ok()?)
            }
            "deleted" => (rest, 0),
            _ => return None,
        };
        let parsed = SchemaTarget::parse(target).ok()?;
        let versions = self.targets.entry(target.to_owned()).or_default();
        match (kind, &entry.value) {
            ("deleted", value) => {
                let upto = value.as_ref().and_then(|value| value["upto"].as_u64()).unwrap_or(0);
                versions.deleted_upto = versions.deleted_upto.max(upto);
            }
            (_, Some(value)) => drop(versions.all.insert(version, read_version(version, value)?)),
            (_, None) => drop(versions.all.remove(&version)),
        }
        Some(parsed)
    }
}
