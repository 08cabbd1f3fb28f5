//! `event-hub topics lint`: topics and groups that somebody should look at.

use crate::commands::groups::duration;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, LetterCount};
use crate::position::now;
use crate::term::{Paint, Style, safe};
use crate::text::{bytes, count, finish, plural};
use anyhow::Result;
use hub_proto::limits;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Names with more bytes or segments are hard to read, and close to the limit.
const LONG_BYTES: usize = 100;
const DEEP_SEGMENTS: usize = 8;
/// Dead letters of this age at most are news.
const FRESH_MS: u64 = 24 * 3_600_000;
/// Smaller topics need no retention.
const LARGE_BYTES: u64 = 64 << 20;
/// Groups whose lag is asked for one by one.
const GROUPS_ASKED: usize = 100;

/// Find topics and groups that somebody should look at
///
/// Names that are easily mixed up, topics and groups that nothing uses, dead letters that grow, topics that keep everything. Each
/// finding says what to do.
///
/// Exit code: 0, 1 if the hub did not answer, or with --strict if something was found, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// End with 1 if something is found
    #[arg(long)]
    strict: bool,

    /// What was not used for this many days counts as unused
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=3650))]
    days: u64,

    /// Print one JSON object per finding and line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    code: &'static str,
    /// The topics that it is about.
    topics: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    what: String,
    #[serde(rename = "do")]
    remedy: String,
}

impl Finding {
    fn new(code: &'static str, topic: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, topics: vec![topic.into()], group: None, what: what.into(), remedy: remedy.into() }
    }
}

pub async fn lint(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let topics = listing::topics(&hub).await?;
    let mut groups = listing::groups(&hub, None).await?;
    add_lag(&hub, &mut groups).await;
    // Those that were replayed or removed have been looked at.
    let (letters, _) = listing::letter_counts(&hub, &[("replayed", "0")]).await?;
    let seen = Seen { topics: &topics, groups: &groups, letters: &letters };
    let findings = findings(&seen, now(), args.days * 24 * 3_600_000);
    let code = if args.strict && !findings.is_empty() { FAILED } else { 0 };
    if args.json {
        let lines = findings.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        return finish(&lines.into_iter().map(|line| line + "\n").collect::<String>(), code);
    }
    let paint = Paint::stdout();
    let mut text = String::new();
    for Finding { code, topics, group, what, remedy } in &findings {
        let group = group.as_ref().map(|group| format!(", group {group}")).unwrap_or_default();
        let about = safe(&format!("{}{group}", topics.join(", ")));
        text += &format!("{}: {about}\n    what: {}\n", paint.apply(Style::Yellow, code), safe(what));
        text += &format!("    do:   {}\n", safe(remedy));
    }
    let (topics, groups) = (topics.len() as u64, groups.len() as u64);
    let looked = format!("{}, {}", plural(topics, "topic"), plural(groups, "group"));
    text += &format!("{looked}: {}\n", plural(findings.len() as u64, "finding"));
    finish(&text, code)
}

/// A group that never got anything has no time of its last delivery: how far behind it is says nearly the same.
async fn add_lag(hub: &HttpHub, groups: &mut [Value]) {
    let wanted = |group: &&mut Value| is_abandoned(group) && group["since"].is_null() && group["lag"] != 0;
    for group in groups.iter_mut().filter(wanted).take(GROUPS_ASKED) {
        let (topic, name) = (listing::text(&group["topic"]), listing::text(&group["group"]));
        if let Ok(lag) = hub.get("/lag", &[("topic", &topic), ("group", &name)]).await {
            group["lagMs"] = lag["lagMs"].clone();
        }
    }
}

fn is_abandoned(group: &Value) -> bool {
    group["members"] == 0 && group["reason"] == "no_members"
}

/// What the hub answered.
struct Seen<'a> {
    topics: &'a [Value],
    groups: &'a [Value],
    letters: &'a [LetterCount],
}

fn findings(seen: &Seen<'_>, now: u64, unused_ms: u64) -> Vec<Finding> {
    let mut found = similar(seen.topics);
    for topic in seen.topics {
        let name = topic["name"].as_str().unwrap_or_default();
        let age = topic["lastCommitted"].as_u64().map(|at| now.saturating_sub(at));
        if !name.starts_with("dlq.") && !name.ends_with(".snapshot") {
            found.extend(unused(topic, name, age, unused_ms));
            found.extend(long(name));
        }
        found.extend(unbounded(topic, name));
    }
    found.extend(seen.letters.iter().filter_map(|letters| dead_letters(letters, now)));
    found.extend(seen.groups.iter().filter_map(|group| abandoned(group, now, unused_ms)));
    found
}

fn similar(topics: &[Value]) -> Vec<Finding> {
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in topics.iter().filter_map(|topic| topic["name"].as_str()) {
        alike.entry(name.to_ascii_lowercase().replace('_', "-")).or_default().push(name.to_owned());
    }
    let finding = |topics: Vec<String>| {
        Finding {
        code: "similar-names",
        topics,
        group: None,
        what: "these names differ only in case, or in - and _".into(),
        remedy: "decide for one, publish and subscribe to it everywhere, and delete the others (`event-hub topics rm`)"
            .into(),
    }
    };
    alike.into_values().filter(|names| names.len() > 1).map(finding).collect()
}

fn unused(topic: &Value, name: &str, age: Option<u64>, unused_ms: u64) -> Option<Finding> {
    let has_groups = topic["groups"].as_u64().unwrap_or(0) > 0;
    let remedy = format!("delete it if nothing needs it: `event-hub topics rm {name}`");
    match age {
        None if !has_groups => {
            Some(Finding::new("never-used", name, "it has no events and no groups", remedy))
        }
        Some(age) if !has_groups && age >= unused_ms => {
            let what = format!("nothing was published for {}, and it has no groups", duration(age));
            Some(Finding::new("unused", name, what, remedy))
        }
        _ => None,
    }
}

fn long(name: &str) -> Option<Finding> {
    let segments = name.split('.').count();
    let what = match (name.len() > LONG_BYTES, segments > DEEP_SEGMENTS) {
        (true, _) => {
            format!("its name has {} bytes; at most {} are allowed", name.len(), limits::TOPIC_BYTES)
        }
        (_, true) => format!("its name has {segments} segments; patterns over it are hard to read"),
        _ => return None,
    };
    let remedy =
        "put what varies (an id, a date) into the key or the payload: a topic is for one kind of event";
    Some(Finding::new("long-name", name, what, remedy))
}

/// Only if the hub says what a topic keeps.
fn unbounded(topic: &Value, name: &str) -> Option<Finding> {
    let settings = topic.get("settings")?;
    let is_bounded = ["retentionDays", "retentionBytes"].iter().any(|limit| settings[limit].is_u64());
    let size = topic["bytes"].as_u64().unwrap_or(0);
    (!is_bounded && settings["compaction"] != true && size >= LARGE_BYTES).then(|| {
        let what = format!("it keeps everything and has {}", bytes(size));
        let remedy = "set retention_days or retention_bytes for it in [[topics]] of the configuration";
        Finding::new("unbounded", name, what, remedy)
    })
}

fn dead_letters(LetterCount { topic, letters, newest, .. }: &LetterCount, now: u64) -> Option<Finding> {
    let age = now.saturating_sub(*newest);
    (*letters > 0 && age < FRESH_MS).then(|| {
        let letters = plural(*letters, "dead letter");
        let what =
            format!("it has {letters} that nobody has replayed or removed, the newest {} old", duration(age));
        let remedy = format!(
            "see what fails with `event-hub dlq ls {topic}`, mend it, then `event-hub dlq replay {topic}`"
        );
        Finding::new("dead-letters", topic, what, remedy)
    })
}

fn abandoned(group: &Value, now: u64, unused_ms: u64) -> Option<Finding> {
    let (topic, name) = (group["topic"].as_str()?, group["group"].as_str()?);
    let since = group["since"].as_u64().map(|since| now.saturating_sub(since));
    let (what, is_old) = match (since, group["lagMs"].as_u64()) {
        (Some(age), _) => {
            (format!("it has no members and got nothing for {}", duration(age)), age >= unused_ms)
        }
        (None, Some(lag)) => {
            let what = format!("it has no members and is {} behind", duration(lag));
            (what, lag >= unused_ms)
        }
        (None, None) => return None,
    };
    (is_abandoned(group) && is_old).then(|| {
        let lag = group["lag"].as_u64().unwrap_or(0);
        let what = format!("{what}; {} events wait for it", count(lag));
        let remedy = format!("start its consumers, or delete it: `event-hub groups rm {topic} {name}`");
        Finding { group: Some(name.to_owned()), ..Finding::new("abandoned-group", topic, what, remedy) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DAY: u64 = 24 * 3_600_000;
    const NOW: u64 = 1_800_000_000_000;

    fn codes(topics: &Value, groups: &Value) -> Vec<(&'static str, String)> {
        let (topics, groups) = (topics.as_array().expect("a list"), groups.as_array().expect("a list"));
        let found = findings(&Seen { topics, groups, letters: &[] }, NOW, 7 * DAY);
        found.into_iter().map(|finding| (finding.code, finding.topics.join(" "))).collect()
    }

    fn topic(name: &str, age: u64, groups: u64) -> Value {
        json!({"name": name, "events": 5, "bytes": 100 << 20, "last": 5, "lastCommitted": NOW - age, "groups": groups})
    }

    #[test]
    fn names_that_are_easily_mixed_up_are_found_together() {
        let topics =
            json!([topic("a.Order-new", 0, 1), topic("a.order_new", 0, 1), topic("a.order.new", 0, 1)]);
        assert_eq!(codes(&topics, &json!([])), [("similar-names", "a.Order-new a.order_new".to_owned())]);
    }

    #[test]
    fn what_nobody_uses_is_found_and_what_is_used_is_not() {
        let mut never = topic("never", 0, 0);
        never["lastCommitted"] = Value::Null;
        let topics =
            json!([never, topic("old", 8 * DAY, 0), topic("read", 8 * DAY, 1), topic("fresh", DAY, 0)]);
        assert_eq!(codes(&topics, &json!([])), [("never-used", "never".into()), ("unused", "old".into())]);
    }

    #[test]
    fn dead_letters_of_the_last_day_are_found() {
        let letters = |topic: &str, letters: u64, age: u64| LetterCount {
            topic: topic.to_owned(),
            letters,
            newest: NOW - age,
            ..LetterCount::default()
        };
        let letters = [letters("a", 3, DAY / 2), letters("b", 3, 9 * DAY), letters("c", 0, 0)];
        let found = findings(&Seen { topics: &[], groups: &[], letters: &letters }, NOW, 7 * DAY);
        let found: Vec<_> = found.iter().map(|finding| (finding.code, finding.topics.join(" "))).collect();
        assert_eq!(found, [("dead-letters", "a".to_owned())]);
    }

    #[test]
    fn a_large_topic_that_keeps_everything_is_found_if_the_hub_says_what_it_keeps() {
        let with = |name: &str, settings: Value| {
            let mut topic = topic(name, 0, 1);
            topic["settings"] = settings;
            topic
        };
        let nothing = json!({"retentionDays": null, "retentionBytes": null, "compaction": false});
        let topics = json!([
            with("days", json!({"retentionDays": 3, "retentionBytes": null, "compaction": false})),
            with("bytes", json!({"retentionDays": null, "retentionBytes": 5, "compaction": false})),
            with("keys", json!({"retentionDays": null, "retentionBytes": null, "compaction": true})),
            topic("silent", 0, 1),
            with("u", nothing.clone()),
            with("dlq.u", nothing),
        ]);
        let found = codes(&topics, &json!([]));
        assert_eq!(found, [("unbounded", "u".to_owned()), ("unbounded", "dlq.u".to_owned())]);
    }

    #[test]
    fn long_and_deep_names_are_found() {
        let topics =
            json!([topic(&"x".repeat(101), 0, 1), topic("a.b.c.d.e.f.g.h.i", 0, 1), topic("a.b", 0, 1)]);
        let found: Vec<_> = codes(&topics, &json!([])).into_iter().map(|(code, _)| code).collect();
        assert_eq!(found, ["long-name", "long-name"]);
    }

    #[test]
    fn groups_without_members_for_days_are_found() {
        let group = |name: &str, members: u64, since: Option<u64>, lag: Option<u64>| {
            json!({"topic": "t", "group": name, "members": members, "lag": 4, "reason": "no_members",
                "since": since.map(|age| NOW - age), "lagMs": lag})
        };
        let groups = json!([
            group("gone", 0, Some(8 * DAY), None),
            group("back", 1, Some(8 * DAY), None),
            group("new", 0, Some(DAY), None),
            group("behind", 0, None, Some(9 * DAY)),
            group("unknown", 0, None, None),
        ]);
        let groups = groups.as_array().expect("a list");
        let found = findings(&Seen { topics: &[], groups, letters: &[] }, NOW, 7 * DAY);
        let names: Vec<_> = found.iter().map(|finding| finding.group.as_deref()).collect();
        assert_eq!(names, [Some("gone"), Some("behind")]);
        assert_eq!(found[0].what, "it has no members and got nothing for 8 days; 4 events wait for it");
    }
}
