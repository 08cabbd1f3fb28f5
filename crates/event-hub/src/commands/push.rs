//! `event-hub push …`: groups that a hub delivers by HTTP POST.

use super::schemas::read;
use crate::client::block_on;
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, lines, number, text};
use crate::table::{Cell, Column, Table};
use crate::term::{Style, safe};
use crate::text::{finish, pretty};
use anyhow::Result;
use std::process::ExitCode;

/// Most bytes of a definition.
const DEFINITION_BYTES: usize = 1 << 20;

/// Look after push endpoints: groups that a hub delivers by HTTP POST
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(ShowArgs),
    Put(PutArgs),
    Resume(ResumeArgs),
    Rm(RmArgs),
}

/// List the endpoints that the token may administrate
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Print one JSON object per endpoint and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Show an endpoint: its settings without secrets, its state, its last failure
///
/// Exit code: 0, 1 if there is none or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// Print it on one line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Store an endpoint, or replace what it had
///
/// The definition is JSON: topic, url, secrets and what else docs/push.md lists. An endpoint that is there goes on where it was, and keeps its
/// secrets if the definition has none. Needs a token with the admin right on the topic or the pattern.
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct PutArgs {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// The definition; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Deliver again at once to an endpoint that is paused, failing or deferred
///
/// Needs a token with the admin right on the topic or the pattern.
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Delete an endpoint: nothing more is sent to it
///
/// Its group stays until it expires; `event-hub groups rm` deletes it. Needs a token with the admin right on the topic or the pattern.
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// A name that a path takes as it is. The hub says what else a name may not be.
fn name(text: &str) -> Result<String, &'static str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    match !text.is_empty() && !text.chars().all(|letter| letter == '.') && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("the name of an endpoint is made of A-Z a-z 0-9 . _ -"),
    }
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(ls(args)),
        Command::Show(args) => block_on(show(args)),
        Command::Put(args) => block_on(put(args)),
        Command::Resume(args) => block_on(resume(args)),
        Command::Rm(args) => block_on(rm(args)),
    }
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let (endpoints, _) = listing::entries(&hub, "/push", "endpoints", &[], usize::MAX).await?;
    if args.json {
        return finish(&lines(&endpoints), 0);
    }
    let mut table = Table::new(&[
        Column::text("NAME"),
        Column::text("TOPIC"),
        Column::text("GROUP"),
        Column::text("STATE"),
        Column::number("DELIVERED"),
        Column::number("IN FLIGHT"),
        Column::text("URL"),
        Column::text("REASON"),
    ]);
    for endpoint in &endpoints {
        let state = text(&endpoint["state"]);
        let style = match state.as_str() {
            "active" | "starting" => Style::Green,
            "elsewhere" => Style::Plain,
            _ => Style::Red,
        };
        table.row(vec![
            text(&endpoint["name"]).into(),
            text(&endpoint["topic"]).into(),
            text(&endpoint["group"]).into(),
            Cell::new(state).style(style),
            number(&endpoint["delivered"]).into(),
            number(&endpoint["inflight"]).into(),
            text(&endpoint["url"]).into(),
            text(&endpoint["reason"]).into(),
        ]);
    }
    finish(&table.text(), 0)
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let answer = HttpHub::new(&args.target)?.get(&format!("/push/{}", args.name), &[]).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => {
            finish(&pretty(&answer.to_string()).lines().map(|line| safe(line) + "\n").collect::<String>(), 0)
        }
    }
}

async fn put(args: &PutArgs) -> Result<ExitCode> {
    let definition = read(&args.file, DEFINITION_BYTES)?;
    let parsed: serde_json::Value = serde_json::from_slice(&definition)
        .map_err(|error| Usage::error(format!("{} is not JSON: {error}", args.file)))?;
    let topic = parsed["topic"].as_str().unwrap_or("**");
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    let answer = hub.put(&format!("/push/{}", args.name), &[], definition).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&format!("{}: stored, {}\n", args.name, text(&answer["state"])), 0),
    }
}

async fn resume(args: &ResumeArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let answer = hub.post(&format!("/push/{}/resume", args.name), &serde_json::json!({})).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&format!("{}: resumed, {}\n", args.name, text(&answer["state"])), 0),
    }
}

async fn rm(args: &RmArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    if !confirm(&format!("Delete the push endpoint {}?", args.name), args.yes)? {
        note!("not deleted");
        return Ok(ExitCode::from(FAILED));
    }
    let answer = hub.delete(&format!("/push/{}", args.name), &[]).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&format!("{}: deleted; its group {} stays\n", args.name, text(&answer["group"])), 0),
    }
}
