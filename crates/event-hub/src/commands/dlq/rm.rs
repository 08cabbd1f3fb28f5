//! `event-hub dlq rm TOPIC`.

use super::{Filter, source, topics_with_letters};
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::listing;
use crate::text::{plural, print_all};
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
    #[arg(value_name = "TOPIC", value_parser = source, required_unless_present = "all_topics")]
    topic: Option<String>,

    /// Ids of dead letters
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    filter: Filter,

    /// Those of every topic that has some that match
    #[arg(long, conflicts_with_all = ["topic", "ids"])]
    all_topics: bool,

    /// All dead letters of the topic, or with --all-topics of every topic
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
    let is_named = !args.ids.is_empty();
    if is_named && !args.filter.is_empty() {
        return Err(Usage::error("ids and a filter are given; give one of them"));
    }
    if !is_named && args.filter.is_empty() && !args.all {
        return Err(Usage::error(
            "which dead letters? give ids, --group, --err, --contains or --key, or --all",
        ));
    }
    match &args.topic {
        Some(topic) => in_topic(args, topic).await,
        None => in_every_topic(args).await,
    }
}

async fn in_topic(args: &Args, topic: &str) -> Result<ExitCode> {
    let is_named = !args.ids.is_empty();
    let ids: Vec<String> = match is_named {
        // One that is named twice is meant once.
        true => {
            args.ids.iter().map(|id| id.to_ascii_lowercase()).collect::<BTreeSet<_>>().into_iter().collect()
        }
        false => matching(args, topic).await?,
    };
    if args.dry_run {
        return Ok(ExitCode::from(dry_run(args, topic, &ids).await?));
    }
    let letters = plural(ids.len() as u64, "dead letter");
    if !ids.is_empty() && !confirm(&format!("Remove {letters} of {topic}?"), args.yes)? {
        note!("not removed");
        return Ok(ExitCode::from(FAILED));
    }
    Ok(ExitCode::from(remove(args, topic, &ids).await?))
}

/// One topic after the other. A topic that fails keeps no other one from it.
async fn in_every_topic(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing("subscribe:dlq.**");
    let (topics, is_cut) = topics_with_letters(&hub, &args.filter).await?;
    if is_cut {
        note!("there are more dead letters than were counted; do it again afterwards");
    }
    let mut found = Vec::new();
    for topic in topics {
        let ids = matching(args, &topic).await?;
        if !ids.is_empty() {
            found.push((topic, ids));
        }
    }
    if found.is_empty() {
        note!("nothing is to be removed");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.dry_run && !args.yes {
        for (topic, ids) in &found {
            note!("{topic}: {}", plural(ids.len() as u64, "dead letter"));
        }
        let letters: usize = found.iter().map(|(_, ids)| ids.len()).sum();
        let letters = plural(letters as u64, "dead letter");
        if !confirm(&format!("Remove {letters} of {}?", plural(found.len() as u64, "topic")), false)? {
            note!("not removed");
            return Ok(ExitCode::from(FAILED));
        }
    }
    let mut code = 0;
    for (topic, ids) in &found {
        let done = match args.dry_run {
            true => dry_run(args, topic, ids).await,
            false => remove(args, topic, ids).await,
        };
        match done {
            Ok(ended) => code = code.max(ended),
            Err(error) => {
                note!("error: {topic}: {error:#}");
                code = FAILED;
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// The ids of the dead letters of a topic that the filter picks.
async fn matching(args: &Args, topic: &str) -> Result<Vec<String>> {
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:dlq.{topic}"));
    let mut query = vec![("topic", topic)];
    query.extend(args.filter.pairs());
    let (letters, _) = listing::entries(&hub, "/dlq", "letters", &query, usize::MAX).await?;
    Ok(letters.iter().map(|letter| listing::text(&letter["id"])).collect())
}

/// Removes the dead letters, prints how many, and answers the exit code.
async fn remove(args: &Args, topic: &str, ids: &[String]) -> Result<u8> {
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let is_named = !args.ids.is_empty();
    let mut deleted = 0;
    for ids in ids.chunks(IDS) {
        let answer = hub.post("/dlq/delete", &json!({ "topic": topic, "ids": ids })).await?;
        deleted += answer["discarded"].as_u64().or(answer["deleted"].as_u64()).unwrap_or(0);
    }
    let code = u8::from(is_named && deleted < ids.len() as u64);
    if args.json {
        return print_all(&format!("{}\n", json!({ "topic": topic, "deleted": deleted })), code);
    }
    name_missing(ids.len() as u64 * u64::from(is_named), deleted);
    print_all(&format!("{topic}: {} removed\n", plural(deleted, "dead letter")), code)
}

/// Asks the hub how many of these there are.
async fn dry_run(args: &Args, topic: &str, ids: &[String]) -> Result<u8> {
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let mut matched = 0;
    for ids in ids.chunks(IDS) {
        let answer = hub.post("/dlq/delete", &json!({ "topic": topic, "ids": ids, "dryRun": true })).await?;
        matched += answer["matched"].as_u64().unwrap_or(0);
    }
    let code = u8::from(!args.ids.is_empty() && matched < ids.len() as u64);
    if args.json {
        return print_all(&format!("{}\n", json!({ "topic": topic, "matched": matched })), code);
    }
    name_missing(if code == 0 { 0 } else { ids.len() as u64 }, matched);
    print_all(&format!("{topic}: {} would be removed\n", plural(matched, "dead letter")), code)
}

fn name_missing(named: u64, found: u64) {
    if named > found {
        note!("error: {} of those that were named are not there", plural(named - found, "dead letter"));
    }
}
