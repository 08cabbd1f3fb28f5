//! `event-hub groups …`: the groups of a running hub, over its HTTP port.

mod seek;
mod show;

use crate::client::block_on;
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, Span, lines, number, rate, text};
use crate::table::{Cell, Column, Table};
use crate::term::Style;
use crate::text::{finish, plural};
use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;

pub(super) use show::duration;

/// Look after groups
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(show::Args),
    Seek(seek::Args),
    Rm(RmArgs),
}

/// List the groups that the token may see, with their lag and why nothing is delivered
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Only groups of this topic
    #[arg(value_name = "TOPIC")]
    topic: Option<String>,

    /// Only groups that are behind and get nothing delivered
    #[arg(long)]
    stuck: bool,

    /// Print one JSON object per group and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Delete a group, or a subscription to a pattern or a list with all its groups
///
/// What the group has settled is forgotten, and subscriptions of its members end. Events stay. Needs a token with the admin right on
/// the topic.
///
/// Exit code: 0, 1 if nothing was deleted, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The topic, or the pattern of a subscription; the label of a list with --list
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// The group
    #[arg(value_name = "GROUP")]
    group: String,

    /// TOPIC is the label of a subscription to a list of topics
    #[arg(long)]
    list: bool,

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
        Command::Seek(args) => block_on(seek::seek(args)),
        Command::Rm(args) => block_on(rm(args)),
    }
}

/// Whether a group has events to deliver and delivers none.
fn is_stuck(group: &Value) -> bool {
    group["lag"].as_u64().unwrap_or(0) > 0 && is_stall(group["reason"].as_str())
}

/// Whether a reason says that events wait, and not that there are none or that another hub delivers them.
pub(super) fn is_stall(reason: Option<&str>) -> bool {
    !matches!(reason, None | Some("caught_up" | "elsewhere"))
}

/// How a reason is shown: most of them are for a person to look at.
pub(super) fn reason(group: &Value) -> Cell {
    let style = match group["reason"].as_str() {
        None | Some("caught_up") => Style::Dim,
        Some("parked_full" | "store_unavailable" | "no_members" | "endpoint_failing") if is_stuck(group) => {
            Style::Red
        }
        Some(_) if is_stuck(group) => Style::Yellow,
        Some(_) => Style::Plain,
    };
    Cell::new(group["reason"].as_str().unwrap_or("delivering")).style(style)
}

/// A table of groups.
pub(super) fn table(groups: &[Value]) -> String {
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::text("GROUP"),
        Column::number("LAG"),
        Column::number("IN FLIGHT"),
        Column::number("PARKED"),
        Column::number("MEMBERS"),
        Column::number("PER SECOND"),
        Column::text("REASON"),
    ]);
    for group in groups {
        table.row(vec![
            text(&group["topic"]).into(),
            text(&group["group"]).into(),
            number(&group["lag"]).into(),
            number(&group["inflight"]).into(),
            number(&group["parked"]).into(),
            number(&group["members"]).into(),
            rate(group, Span::Minute, "delivered").into(),
            reason(group),
        ]);
    }
    table.text()
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let hub = match &args.topic {
        Some(topic) => hub.needing(format!("subscribe:{topic}")),
        None => hub,
    };
    let mut groups = listing::groups(&hub, args.topic.as_deref()).await?;
    groups.retain(|group| !args.stuck || is_stuck(group));
    let text = if args.json { lines(&groups) } else { table(&groups) };
    finish(&text, 0)
}

async fn rm(args: &RmArgs) -> Result<ExitCode> {
    let (topic, group) = (&args.topic, &args.group);
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let of = match (args.list, topic.contains('*')) {
        (true, true) => {
            return Err(Usage::error(format!("{topic:?} is a pattern; --list takes the label of a list")));
        }
        (true, false) => format!("of the list {topic}"),
        (false, true) => format!("of the pattern {topic}, on all its topics"),
        (false, false) => format!("of topic {topic}"),
    };
    if !confirm(&format!("Delete group {group} {of}, with what it has settled?"), args.yes)? {
        note!("not deleted");
        return Ok(ExitCode::from(FAILED));
    }
    let name = if args.list { "label" } else { "topic" };
    let answer = hub.delete("/groups", &[(name, topic), ("group", group)]).await?;
    let deleted = answer["deleted"].as_u64().unwrap_or(0);
    let code = u8::from(deleted == 0);
    match args.json {
        true => finish(&format!("{answer}\n"), code),
        false => finish(&format!("{group} deleted: {}\n", plural(deleted, "group")), code),
    }
}
