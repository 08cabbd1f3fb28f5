//! `event-hub topics show TOPIC`.

use super::moment;
use crate::commands::groups;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, Span, number, rate};
use crate::table::facts;
use crate::text::{bytes, finish};
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

pub async fn show(args: &Args) -> Result<ExitCode> {
    let name = &args.topic;
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{name}"));
    let Some(mut topic) = listing::topic(&hub, name).await? else {
        eprintln!(
            "error: there is no topic {name} that this token may see; `event-hub topics ls` lists those that there are"
        );
        return Ok(ExitCode::from(FAILED));
    };
    let groups = listing::groups(&hub, Some(name)).await?;
    let letters = listing::topic(&hub, &format!("dlq.{name}")).await?;
    let snapshot = listing::topic(&hub, &format!("{name}.snapshot")).await?;
    if args.json {
        topic["groups"] = Value::Array(groups);
        topic["deadLetters"] = letters.map_or(json!(null), |topic| topic["events"].clone());
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
    if let Some(maker) = topic["maker"].as_str() {
        about.push(("created by", maker.to_owned()));
    }
    if let Some(letters) = letters {
        let count = number(&letters["events"]);
        about.push(("dead letters", format!("{count}; `event-hub dlq ls {name}` lists them")));
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
