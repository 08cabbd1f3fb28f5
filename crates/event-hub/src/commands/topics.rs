//! `event-hub topics …`: the topics of a running hub, over its HTTP port.

use crate::client::block_on;
use crate::http::{HttpHub, HttpTarget};
use crate::text::{columns, count, finish, plural};
use anyhow::{Result, bail};
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Look after topics
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Rm(RmArgs),
}

/// List the topics that the token may see
///
/// Exit code: 0, or 2 if the hub did not answer.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    target: HttpTarget,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Delete a topic with its groups, its dead letters and its snapshot
///
/// Subscriptions with a group on it end. If the topic is published to again, it is created anew, and its numbering continues. Needs
/// a token with the admin right on the topic.
///
/// Exit code: 0, 1 if the question was not answered with yes, 2 if the topic was not deleted.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(ls(args)),
        Command::Rm(args) => block_on(rm(args)),
    }
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let mut topics: Vec<Value> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut query = vec![("limit", "1000")];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let mut page = hub.get("/topics", &query).await?;
        if let Some(Value::Array(found)) = page.get_mut("topics").map(Value::take) {
            topics.extend(found);
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    if args.json {
        return finish(&format!("{}\n", Value::Array(topics)), 0);
    }
    let number = |topic: &Value, name: &str| count(topic[name].as_u64().unwrap_or(0));
    let mut rows = vec![["TOPIC", "EVENTS", "BYTES", "LAST", "GROUPS"].map(str::to_owned).to_vec()];
    rows.extend(topics.iter().map(|topic| {
        let name = topic["name"].as_str().unwrap_or_default().to_owned();
        vec![
            name,
            number(topic, "events"),
            number(topic, "bytes"),
            number(topic, "last"),
            number(topic, "groups"),
        ]
    }));
    finish(&columns(&rows), 0)
}

async fn rm(args: &RmArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            bail!("nobody can be asked whether {} is to be deleted; say so with --yes", args.topic);
        }
        eprint!("Delete topic {} with all its events and groups? [y/N] ", args.topic);
        std::io::stderr().flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            eprintln!("not deleted");
            return Ok(ExitCode::from(1));
        }
    }
    let answer = hub.delete("/topics", &[("topic", &args.topic)]).await?;
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
