//! The file: strict TOML. Everything that is wrong with it is told at once, with its line.

use super::mistakes::{Mistakes, Origin};
use super::outbox::Written;
use super::settings::{OUTBOX, PUSH, QUOTA, SCHEMA, SETTINGS, Setting, TOPIC};
use super::value::{Value, shown};
use super::{Found, Topic};
use hub_core::{TopicDurability, TopicSettings};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const HOUR: u64 = 60 * 60 * 1000;

/// Reads a file's text into `found`.
pub fn read(path: &Path, text: &str, found: &mut Found, mistakes: &mut Mistakes) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut file = File { path, text, base: path.parent().unwrap_or(Path::new("")), mistakes };
    if !errors.is_empty() {
        // What follows a slip of syntax can be anything, so nothing more is said about it.
        for error in errors.iter().take(10) {
            let at = error.span().map_or(0, |span| span.start);
            file.tell(at, format!("not TOML: {}", error.message().lines().collect::<Vec<_>>().join("; ")));
        }
        return;
    }
    let before = file.mistakes.0.len();
    for (name, value) in table.get_ref() {
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("topics", DeValue::Array(topics)) => {
                for topic in topics {
                    file.topic(topic, found);
                }
            }
            ("topics", _) => {
                file.tell(name.span().start, "topics is a list: write each as [[topics]]".into());
            }
            ("outbox", DeValue::Array(outboxes)) => {
                for outbox in outboxes {
                    file.outbox(outbox, found);
                }
            }
            ("quota", DeValue::Array(quotas)) => {
                for quota in quotas {
                    if let Some(values) = file.entry("quota", QUOTA, quota) {
                        let origin = file.origin(quota.span().start);
                        found.quotas.push(super::quota::Written { values, origin });
                    }
                }
            }
            ("push", DeValue::Array(endpoints)) => {
                for endpoint in endpoints {
                    if let Some(values) = file.entry("push", PUSH, endpoint) {
                        let origin = file.origin(endpoint.span().start);
                        found.endpoints.push(super::push::Written { values, origin });
                    }
                }
            }
            ("schema", DeValue::Array(schemas)) => {
                for schema in schemas {
                    if let Some(values) = file.entry("schema", SCHEMA, schema) {
                        let origin = file.origin(schema.span().start);
                        found.schemas.push(super::schema::Written { values, origin });
                    }
                }
            }
            ("schema", _) => {
                file.tell(name.span().start, "schema is a list: write each as [[schema]]".into());
            }
            ("push", _) => {
                file.tell(name.span().start, "push is a list: write each as [[push]]".into());
            }
            ("quota", _) => {
                file.tell(name.span().start, "quota is a list: write each as [[quota]]".into());
            }
            ("outbox", _) => {
                file.tell(name.span().start, "outbox is a list: write each as [[outbox]]".into());
            }
            (section, DeValue::Table(settings)) if sections().contains(&section) => {
                for (name, value) in settings {
                    let full = format!("{section}.{}", name.get_ref());
                    file.setting(&full, SETTINGS, name, value, found);
                }
            }
            (section, _) if sections().contains(&section) => {
                file.tell(name.span().start, format!("{section} is a section: write [{section}]"));
            }
            (single, _) => file.setting(single, SETTINGS, name, value, found),
        }
    }
    // A table is walked by name; people read from top to bottom.
    mistakes.0[before..].sort_by_key(|mistake| match mistake.origin {
        Some(Origin::File(_, line)) => line,
        _ => 0,
    });
}

/// The sections of the file.
fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = SETTINGS.iter().filter_map(|setting| setting.name.split_once('.')).collect();
    sections.dedup_by_key(|(section, _)| *section);
    sections.into_iter().map(|(section, _)| section).collect()
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    /// What paths in the file are relative to.
    base: &'a Path,
    mistakes: &'a mut Mistakes,
}

impl File<'_> {
    fn origin(&self, at: usize) -> Origin {
        let line =
            self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count();
        Origin::File(self.path.to_owned(), line + 1)
    }

    fn tell(&mut self, at: usize, text: String) {
        let origin = self.origin(at);
        self.mistakes.add(Some(origin), text);
    }

    fn setting(
        &mut self,
        name: &str,
        known: &'static [Setting],
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        found: &mut Found,
    ) {
        let at = key.span().start;
        if let Some((setting, value)) = self.value(name, known, at, value) {
            found.set(setting, value, self.origin(at));
        }
    }

    /// A setting and its value, or a mistake.
    fn value(
        &mut self,
        name: &str,
        known: &'static [Setting],
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<(&'static Setting, Value)> {
        let Some(setting) = known.iter().find(|setting| setting.name == name) else {
            self.tell(at, unknown(name, known));
            return None;
        };
        match setting.kind.read(value.get_ref()) {
            Some(Value::Path(path)) => Some((setting, Value::Path(self.beside(path)))),
            Some(value) => Some((setting, value)),
            None => {
                let got = shown(setting.kind, value.get_ref());
                self.tell(at, format!("{name} is {got}; it must be {}", setting.kind.allowed()));
                None
            }
        }
    }

    fn beside(&self, path: PathBuf) -> PathBuf {
        if path.is_absolute() { path } else { self.base.join(path) }
    }

    fn topic(&mut self, topic: &Spanned<DeValue<'_>>, found: &mut Found) {
        let at = topic.span().start;
        let DeValue::Table(table) = topic.get_ref() else {
            return self.tell(at, "topics is a list of tables: write each as [[topics]]".into());
        };
        let (mut pattern, mut settings, mut good) = (None, TopicSettings::default(), true);
        for (name, value) in table {
            let full = format!("topics.{}", name.get_ref());
            let Some((setting, value)) = self.value(&full, TOPIC, name.span().start, value) else {
                good = false;
                continue;
            };
            match (setting.name, value) {
                ("topics.pattern", Value::Pattern(value)) => pattern = Some(value),
                ("topics.retention_days", Value::Number(days)) => {
                    settings.retention_days = u32::try_from(days).ok();
                }
                ("topics.retention_bytes", Value::Number(bytes)) => settings.retention_bytes = Some(bytes),
                ("topics.compaction", Value::Switch(on)) => settings.compaction = on,
                ("topics.tombstone_grace_hours", Value::Number(hours)) => {
                    settings.tombstone_grace = hours * HOUR;
                }
                ("topics.durability", Value::Text(word)) if word == "interval" => {
                    settings.durability = TopicDurability::Interval;
                }
                _ => {}
            }
        }
        match pattern {
            Some(pattern) if good => found.topics.push(Topic { pattern, settings, origin: self.origin(at) }),
            None if good => {
                self.tell(at, "a [[topics]] without `pattern`: it says which topics are meant".into());
            }
            _ => {}
        }
    }
}

impl File<'_> {
    fn outbox(&mut self, outbox: &Spanned<DeValue<'_>>, found: &mut Found) {
        if let Some(values) = self.entry("outbox", OUTBOX, outbox) {
            found.outboxes.push(Written { values, origin: self.origin(outbox.span().start) });
        }
    }

    /// The settings of one table of a list; `None` if one of them is wrong.
    fn entry(
        &mut self,
        list: &str,
        known: &'static [Setting],
        entry: &Spanned<DeValue<'_>>,
    ) -> Option<Vec<(&'static str, Value)>> {
        let DeValue::Table(table) = entry.get_ref() else {
            self.tell(entry.span().start, format!("{list} is a list of tables: write each as [[{list}]]"));
            return None;
        };
        let (mut values, mut good) = (Vec::new(), true);
        for (name, value) in table {
            let full = format!("{list}.{}", name.get_ref());
            match self.value(&full, known, name.span().start, value) {
                Some((setting, value)) => values.push((setting.name, value)),
                None => good = false,
            }
        }
        good.then_some(values)
    }
}

/// That a name is not known, and which are.
fn unknown(name: &str, known: &[Setting]) -> String {
    let Some((section, own)) = name.split_once('.') else {
        let mut names = sections().into_iter().map(|section| format!("[{section}]")).collect::<Vec<_>>();
        names.extend(["[[topics]]".into(), "[[quota]]".into(), "[[outbox]]".into(), "[[push]]".into()]);
        names.push("[[schema]]".into());
        names.extend(
            known.iter().filter(|setting| !setting.name.contains('.')).map(|setting| setting.name.into()),
        );
        return format!("{name} is not known; there are {}", names.join(", "));
    };
    let siblings = known.iter().filter_map(|setting| setting.name.split_once('.'));
    let names: Vec<_> = siblings.filter(|(of, _)| *of == section).map(|(_, name)| name).collect();
    format!("{own} is no setting of {section}; there are {}", names.join(", "))
}
