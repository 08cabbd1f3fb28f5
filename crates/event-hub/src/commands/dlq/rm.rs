//! `event-hub dlq rm TOPIC`.

use super::{Filter, source};
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::listing;
use crate::text::{finish, plural};
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;

/// Ids of one request.
const IDS: usize = 1000;

/// Remove dead letters: those named, those of a filter, or all
///
/// They are listed and replayed no more. Needs a token with the admin right on the topic.
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
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let is_named = !args.ids.is_empty();
    if is_named && !args.filter.is_empty() {
        return Err(Usage::error("ids and a filter are given; give one of them"));
    }
    if !is_named && args.filter.is_empty() && !args.all {
        return Err(Usage::error(
            "which dead letters? give ids, --group, --err, --contains or --key, or --all",
        ));
    }
    let ids = match is_named {
        true => args.ids.clone(),
        false => {
            let mut query = vec![("topic", topic.as_str())];
            query.extend(args.filter.pairs());
            let (letters, _) = listing::entries(&hub, "/dlq", "letters", &query, usize::MAX).await?;
            letters.iter().map(|letter| listing::text(&letter["id"])).collect()
        }
    };
    let letters = plural(ids.len() as u64, "dead letter");
    if !ids.is_empty() && !confirm(&format!("Remove {letters} of {topic}?"), args.yes)? {
        eprintln!("not removed");
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
    if code != 0 {
        let missing = plural(ids.len() as u64 - deleted, "dead letter");
        eprintln!("error: {missing} of those that were named are not there");
    }
    finish(&format!("{topic}: {} removed\n", plural(deleted, "dead letter")), code)
}
