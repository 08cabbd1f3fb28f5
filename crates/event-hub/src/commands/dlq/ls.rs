//! `event-hub dlq ls [TOPIC]`.

use super::{Filter, source};
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, LetterCount, lines, number, text};
use crate::table::{Cell, Column, Table};
use crate::term::Style;
use crate::text::{count, finish, time};
use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;

/// List the dead letters of a topic, the oldest first; without a topic, those that have some
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic of the events
    #[arg(value_name = "TOPIC", value_parser = source)]
    topic: Option<String>,

    #[command(flatten)]
    filter: Filter,

    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,

    /// Print one JSON object per dead letter and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub async fn ls(args: &Args) -> Result<ExitCode> {
    let Some(topic) = &args.topic else {
        if !args.filter.is_empty() {
            return Err(Usage::error(
                "--group, --err, --contains and --key are for the dead letters of one topic; name it",
            ));
        }
        return topics(args).await;
    };
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:dlq.{topic}"));
    let mut query = vec![("topic", topic.as_str())];
    query.extend(args.filter.pairs());
    let (letters, more) = listing::entries(&hub, "/dlq", "letters", &query, args.limit as usize).await?;
    if args.json {
        return finish(&lines(&letters), 0);
    }
    let mut table = Table::new(&[
        Column::whole("ID"),
        Column::text("GROUP"),
        Column::text("KEY"),
        Column::number("ATTEMPTS"),
        Column::whole("GIVEN UP (UTC)"),
        Column::text("REPLAYED"),
        Column::text("ERROR"),
    ]);
    for letter in &letters {
        table.row(vec![
            text(&letter["id"]).into(),
            text(&letter["group"]).into(),
            text(&letter["key"]).into(),
            number(&letter["attempts"]).into(),
            letter["ts"].as_u64().map_or_else(|| "-".to_owned(), time).into(),
            Cell::new(replayed(&letter["replayed"])).style(Style::Dim),
            text(&letter["err"]).into(),
        ]);
    }
    let mut text = table.text();
    if more {
        text.push_str(&format!("  and more; --limit {} shows further ones\n", args.limit.saturating_mul(10)));
    }
    finish(&text, 0)
}

/// When a dead letter was replayed, or that it was.
fn replayed(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => "-".to_owned(),
        Value::Number(at) => at.as_u64().map_or_else(|| "yes".to_owned(), time),
        _ => "yes".to_owned(),
    }
}

/// The topics that have dead letters.
async fn topics(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let (topics, more) = listing::letter_counts(&hub, &[]).await?;
    if args.json {
        let lines = topics.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        return finish(&lines.into_iter().map(|line| line + "\n").collect::<String>(), 0);
    }
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::number("LETTERS"),
        Column::number("REPLAYED"),
        Column::whole("NEWEST (UTC)"),
    ]);
    for LetterCount { topic, letters, replayed, newest } in topics {
        table.row(vec![topic.into(), count(letters).into(), count(replayed).into(), time(newest).into()]);
    }
    let mut text = table.text();
    if more {
        text.push_str("  and more than were counted\n");
    }
    finish(&text, 0)
}
