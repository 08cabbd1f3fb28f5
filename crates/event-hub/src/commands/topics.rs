//! `event-hub topics …`: the topics of a running hub, over its HTTP port.

mod lint;
mod show;

use crate::client::block_on;
use crate::confirm::confirm;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, Span, lines, number, rate, text};
use crate::table::{Column, Table};
use crate::text::{bytes, finish, plural, time};
use anyhow::Result;
use hub_proto::Pattern;
use serde_json::Value;
use std::process::ExitCode;

/// Look after topics
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(show::Args),
    Rm(RmArgs),
    Lint(lint::Args),
}

/// List the topics that the token may see
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Only topics of this pattern: `*` is one segment, `**` any number of them
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,

    /// Print one JSON object per topic and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Delete a topic with its groups, its dead letters and its snapshot
///
/// Subscriptions with a group on it end. If the topic is published to again, it is created anew, and its numbering continues. Needs
/// a token with the admin right on the topic.
///
/// Exit code: 0, 1 if the topic was not deleted, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(ls(args)),
        Command::Show(args) => block_on(show::show(args)),
        Command::Rm(args) => block_on(rm(args)),
        Command::Lint(args) => block_on(lint::lint(args)),
    }
}

pub fn pattern(text: &str) -> Result<Pattern, std::borrow::Cow<'static, str>> {
    Pattern::parse(text).map_err(|error| error.msg)
}

/// Whether a name of an answer matches a pattern; every name does without one.
pub(super) fn matches(pattern: Option<&Pattern>, name: &Value) -> bool {
    let name = name.as_str().and_then(|name| hub_proto::TopicName::readable(name).ok());
    pattern.is_none_or(|pattern| name.is_some_and(|name| pattern.matches(&name)))
}

/// The time of an answer, in UTC; `-` if there is none.
fn moment(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), time)
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let mut topics = listing::topics(&hub).await?;
    topics.retain(|topic| matches(args.pattern.as_ref(), &topic["name"]));
    if args.json {
        return finish(&lines(&topics), 0);
    }
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::number("EVENTS"),
        Column::number("SIZE"),
        Column::number("LAST"),
        Column::number("GROUPS"),
        Column::number("PER SECOND"),
        Column::text("NEWEST (UTC)"),
    ]);
    for topic in &topics {
        table.row(vec![
            text(&topic["name"]).into(),
            number(&topic["events"]).into(),
            topic["bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes).into(),
            number(&topic["last"]).into(),
            number(&topic["groups"]).into(),
            rate(topic, Span::Minute, "published").into(),
            moment(&topic["lastCommitted"]).into(),
        ]);
    }
    finish(&table.text(), 0)
}

async fn rm(args: &RmArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{}", args.topic));
    if !confirm(&format!("Delete topic {} with all its events and groups?", args.topic), args.yes)? {
        note!("not deleted");
        return Ok(ExitCode::from(FAILED));
    }
    let answer = hub.delete("/topics", &[("topic", &args.topic)]).await?;
    if args.json {
        return finish(&format!("{answer}\n"), 0);
    }
    let deleted = |name: &str| answer["deleted"][name].as_u64().unwrap_or(0);
    let text = format!(
        "{} deleted: {}, {}, {}\n",
        args.topic,
        plural(deleted("topics"), "topic"),
        plural(deleted("groups"), "group"),
        plural(deleted("events"), "event")
    );
    finish(&text, 0)
}
