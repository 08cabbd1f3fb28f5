//! `event-hub groups seek TOPIC GROUP --to WHERE`: places a group anew.

use crate::confirm::confirm;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget, has_status};
use crate::listing;
use crate::position;
use crate::text::{count, finish, plural};
use anyhow::Result;
use hub_client::Position;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Place a group anew: deliver events again, or pass some over
///
/// Its leases end, and its failures are forgotten. Needs a token with the admin right on the topic.
///
/// Exit code: 0, 1 if the group was not placed, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// The group
    #[arg(value_name = "GROUP")]
    group: String,

    /// Where it goes on: earliest, latest, ts:MILLISECONDS, ago:TIME (such as ago:5m), after-id:UUID, after-seq:NUMBER
    #[arg(long, value_name = "WHERE", value_parser = position::parse)]
    to: Position,

    /// Say what would happen, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub async fn seek(args: &Args) -> Result<ExitCode> {
    let (topic, group) = (&args.topic, &args.group);
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let mut body = json!({ "topic": topic, "group": group, "to": position::to_json(&args.to) });
    let before = listing::group(&hub, topic, group).await?;
    if args.dry_run {
        body["dryRun"] = json!(true);
        let answer = hub.post("/groups/seek", &body).await?;
        return match args.json {
            true => finish(&format!("{answer}\n"), 0),
            false => finish(&format!("would place {}\n", describe(args, before.as_ref(), &answer)), 0),
        };
    }
    if !args.yes {
        body["dryRun"] = json!(true);
        let planned = match hub.post("/groups/seek", &body).await {
            // A hub of an earlier version does not know dryRun.
            Err(error) if has_status(&error, 400) && format!("{error}").contains("dryRun") => None,
            planned => Some(planned?),
        };
        body.as_object_mut().map(|body| body.remove("dryRun"));
        let what = match &planned {
            Some(planned) => describe(args, before.as_ref(), planned),
            None => format!("group {group} of {topic} anew"),
        };
        if !confirm(&format!("Place {what}?"), false)? {
            note!("not placed");
            return Ok(ExitCode::from(FAILED));
        }
    }
    let answer = hub.post("/groups/seek", &body).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&format!("placed {}\n", describe(args, before.as_ref(), &answer)), 0),
    }
}

/// From where to where, and what that means for deliveries.
fn describe(args: &Args, before: Option<&Value>, answer: &Value) -> String {
    let (topic, group) = (&args.topic, &args.group);
    // A dry run answers where the group would go.
    let seq = answer["seq"].as_u64().or(answer["to"].as_u64()).unwrap_or(0);
    let what = match before.and_then(|group| group["floor"].as_u64()) {
        Some(floor) if seq < floor => {
            format!(" (it was {}: {} settled come again)", count(floor), of_seqs(floor - seq))
        }
        Some(floor) if seq > floor => {
            format!(" (it was {}: {} are passed over)", count(floor), of_seqs(seq - floor))
        }
        Some(_) => " (where it was)".to_owned(),
        None => String::new(),
    };
    format!("group {group} of {topic} after seq {}{what}", count(seq))
}

/// Seqs have holes where events were cleaned away.
fn of_seqs(seqs: u64) -> String {
    if seqs == 1 { "1 event".to_owned() } else { format!("up to {}", plural(seqs, "event")) }
}
