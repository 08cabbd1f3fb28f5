//! `event-hub topics show TOPIC`.

use super::moment;
use crate::commands::groups::{self, duration};
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget, has_status};
use crate::listing::{self, Span, number, rate};
use crate::table::facts;
use crate::text::{bytes, count, finish, plural};
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Show a topic with its groups and what is derived from it
///
/// Exit code: 0, 1 if there is no such topic or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Print one JSON object: the topic as `ls` has it, with `groups`, `deadLetters` and `snapshot`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// What the topic keeps, and how safe it is; nothing if the hub does not say.
fn settings(settings: &Value) -> Vec<(&'static str, String)> {
    if !settings.is_object() {
        return Vec::new();
    }
    let days = settings["retentionDays"].as_u64().map(|days| format!("for {}", plural(days, "day")));
    let size = settings["retentionBytes"].as_u64().map(|size| format!("up to {}", bytes(size)));
    let limits: Vec<String> = days.into_iter().chain(size).collect();
    let is_compacted = settings["compaction"] == true;
    let events = if is_compacted { "the newest event of each key" } else { "all events" };
    let keeps = match limits.is_empty() {
        true => format!("{events}, for ever"),
        false => format!("{events}, {}", limits.join(" and ")),
    };
    let millis = |name: &str| settings[name].as_u64().map_or_else(|| "-".to_owned(), duration);
    let durability = match settings["durability"].as_str() {
        Some("commit") => "an event is synced before its publisher is answered",
        Some("interval") => "an event is synced within 5 ms after its publisher is answered",
        other => other.unwrap_or("-"),
    };
    let mut about = vec![("keeps", keeps)];
    if is_compacted {
        about.push(("tombstones", format!("for {}", millis("tombstoneGraceMs"))));
    }
    about.push(("durability", durability.to_owned()));
    about.push(("ids", format!("remembered for {} at least", millis("dedupeWindowMs"))));
    about
}

/// How many dead letters it has that were not removed; `None` if it never had any, or the token may not read them.
async fn letters(hub: &HttpHub, name: &str) -> Result<Option<u64>> {
    if listing::topic(hub, &format!("dlq.{name}")).await?.is_none() {
        return Ok(None);
    }
    match listing::letter_counts(hub, &[("topic", name)]).await {
        Ok((counts, _)) => Ok(Some(counts.iter().map(|count| count.letters).sum())),
        Err(error) if has_status(&error, 403) => Ok(None),
        Err(error) => Err(error),
    }
}

pub async fn show(args: &Args) -> Result<ExitCode> {
    let name = &args.topic;
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{name}"));
    let Some(mut topic) = listing::topic(&hub, name).await? else {
        note!(
            "error: there is no topic {name} that this token may see; `event-hub topics ls` lists those that there are"
        );
        return Ok(ExitCode::from(FAILED));
    };
    let groups = listing::groups(&hub, Some(name)).await?;
    let letters = letters(&hub, name).await?;
    let snapshot = listing::topic(&hub, &format!("{name}.snapshot")).await?;
    if args.json {
        topic["groups"] = Value::Array(groups);
        topic["deadLetters"] = json!(letters);
        topic["snapshot"] = snapshot.map_or(json!(null), |topic| topic["events"].clone());
        return finish(&format!("{topic}\n"), 0);
    }
    let mut about = vec![
        ("events", number(&topic["events"])),
        ("size", topic["bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes)),
        ("seqs", format!("{} to {}", number(&topic["first"]), number(&topic["last"]))),
        ("newest (UTC)", moment(&topic["lastCommitted"])),
        (
            "per second",
            format!(
                "{} in the last second, {} in the last minute",
                rate(&topic, Span::Second, "published"),
                rate(&topic, Span::Minute, "published")
            ),
        ),
    ];
    about.extend(settings(&topic["settings"]));
    if let Some(maker) = topic["maker"].as_str() {
        about.push(("created by", maker.to_owned()));
    }
    if let Some(letters) = letters {
        about.push(("dead letters", format!("{}; `event-hub dlq ls {name}` lists them", count(letters))));
    }
    if let Some(snapshot) = snapshot {
        about.push(("snapshot", format!("{} records", number(&snapshot["events"]))));
    }
    let mut text = format!("{name}\n\n{}\n", facts(&about));
    match groups.is_empty() {
        true => text.push_str("  no groups\n"),
        false => text.push_str(&groups::table(&groups)),
    }
    finish(&text, 0)
}
