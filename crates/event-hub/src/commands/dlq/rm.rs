//! `event-hub dlq rm TOPIC`.

use super::{Filter, source};
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::listing;
use crate::text::{finish, plural};
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Ids of one request.
const IDS: usize = 1000;

/// Remove dead letters: those named, those of a filter, or all
///
/// They are listed and replayed no more. Needs a token with the admin right on the topic, and to choose them by a filter the right to
/// read them.
///
/// Exit code: 0, 1 if one that was named was not removed, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic of the events
    #[arg(value_name = "TOPIC", value_parser = source)]
    topic: String,

    /// Ids of dead letters
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    filter: Filter,

    /// All dead letters of the topic
    #[arg(long, conflicts_with_all = ["ids", "group", "err", "contains", "key"])]
    all: bool,

    /// Say how many would be removed, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub async fn rm(args: &Args) -> Result<ExitCode> {
    let topic = &args.topic;
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:dlq.{topic}"));
    let is_named = !args.ids.is_empty();
    if is_named && !args.filter.is_empty() {
        return Err(Usage::error("ids and a filter are given; give one of them"));
    }
    if !is_named && args.filter.is_empty() && !args.all {
        return Err(Usage::error(
            "which dead letters? give ids, --group, --err, --contains or --key, or --all",
        ));
    }
    let ids: Vec<String> = match is_named {
        // One that is named twice is meant once.
        true => {
            args.ids.iter().map(|id| id.to_ascii_lowercase()).collect::<BTreeSet<_>>().into_iter().collect()
        }
        false => {
            let mut query = vec![("topic", topic.as_str())];
            query.extend(args.filter.pairs());
            let (letters, _) = listing::entries(&hub, "/dlq", "letters", &query, usize::MAX).await?;
            letters.iter().map(|letter| listing::text(&letter["id"])).collect()
        }
    };
    let hub = hub.needing(format!("admin:{topic}"));
    if args.dry_run {
        return dry_run(args, &hub, &ids).await;
    }
    let letters = plural(ids.len() as u64, "dead letter");
    if !ids.is_empty() && !confirm(&format!("Remove {letters} of {topic}?"), args.yes)? {
        note!("not removed");
        return Ok(ExitCode::from(FAILED));
    }
    let mut deleted = 0;
    for ids in ids.chunks(IDS) {
        let answer = hub.post("/dlq/delete", &json!({ "topic": topic, "ids": ids })).await?;
        deleted += answer["discarded"].as_u64().or(answer["deleted"].as_u64()).unwrap_or(0);
    }
    let code = u8::from(is_named && deleted < ids.len() as u64);
    if args.json {
        return finish(&format!("{}\n", json!({ "topic": topic, "deleted": deleted })), code);
    }
    name_missing(ids.len() as u64 * u64::from(is_named), deleted);
    finish(&format!("{topic}: {} removed\n", plural(deleted, "dead letter")), code)
}

/// Asks the hub how many of these there are.
async fn dry_run(args: &Args, hub: &HttpHub, ids: &[String]) -> Result<ExitCode> {
    let (topic, mut matched) = (&args.topic, 0);
    for ids in ids.chunks(IDS) {
        let answer = hub.post("/dlq/delete", &json!({ "topic": topic, "ids": ids, "dryRun": true })).await?;
        matched += answer["matched"].as_u64().unwrap_or(0);
    }
    let code = u8::from(!args.ids.is_empty() && matched < ids.len() as u64);
    if args.json {
        return finish(&format!("{}\n", json!({ "topic": topic, "matched": matched })), code);
    }
    name_missing(if code == 0 { 0 } else { ids.len() as u64 }, matched);
    finish(&format!("{topic}: {} would be removed\n", plural(matched, "dead letter")), code)
}

fn name_missing(named: u64, found: u64) {
    if named > found {
        note!("error: {} of those that were named are not there", plural(named - found, "dead letter"));
    }
}
