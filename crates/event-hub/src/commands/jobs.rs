//! `event-hub jobs …`: replays that a hub does at a rate, in the background.

use crate::client::block_on;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{lines, number, text};
use crate::table::{Cell, Column, Table, facts};
use crate::term::Style;
use crate::text::{finish, print, time};
use anyhow::Result;
use hub_proto::EventId;
use serde_json::Value;
use std::process::ExitCode;

/// Look after replays that a hub does at a rate
///
/// `event-hub dlq replay --rate` and the dashboard begin them. A hub keeps a job for an hour after its end.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(ShowArgs),
    Cancel(CancelArgs),
}

/// List the replays that the token may administrate, the oldest first
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Print one JSON object per job and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Show a replay, and how far it is
///
/// Exit code: 0, 1 if there is no such job or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The id of the job
    #[arg(value_name = "ID")]
    id: EventId,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Cancel replays; what was replayed stays so
///
/// Needs a token with the admin right on the topics.
///
/// Exit code: 0, 1 if one of them could not be cancelled, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// The ids of the jobs
    #[arg(value_name = "ID", required = true)]
    ids: Vec<EventId>,

    /// Print the hub's answer as JSON, one line for each job
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(ls(args)),
        Command::Show(args) => block_on(show(args)),
        Command::Cancel(args) => block_on(cancel(args)),
    }
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let answer = HttpHub::new(&args.target)?.get("/jobs", &[]).await?;
    let jobs = answer["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if args.json {
        return finish(&lines(jobs), 0);
    }
    let mut table = Table::new(&[
        Column::whole("ID"),
        Column::text("TOPIC"),
        Column::text("STATE"),
        Column::number("REPLAYED"),
        Column::number("SKIPPED"),
        Column::number("FAILED"),
        Column::number("TOTAL"),
        Column::whole("STARTED (UTC)"),
        Column::text("BY"),
    ]);
    for job in jobs {
        let state = text(&job["state"]);
        let style = match state.as_str() {
            "running" => Style::Yellow,
            "done" => Style::Green,
            _ => Style::Red,
        };
        table.row(vec![
            text(&job["job"]).into(),
            text(&job["topic"]).into(),
            Cell::new(state).style(style),
            number(&job["replayed"]).into(),
            number(&job["skipped"]).into(),
            number(&job["failed"]).into(),
            number(&job["total"]).into(),
            job["started"].as_u64().map_or_else(|| "-".to_owned(), time).into(),
            text(&job["subject"]).into(),
        ]);
    }
    finish(&table.text(), 0)
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let job = HttpHub::new(&args.target)?.get(&format!("/jobs/{}", args.id), &[]).await?;
    if args.json {
        return finish(&format!("{job}\n"), 0);
    }
    let mut shown = Vec::new();
    for (name, value) in [("topic", &job["topic"]), ("state", &job["state"]), ("reason", &job["reason"])] {
        shown.extend((!value.is_null()).then(|| (name, text(value))));
    }
    for (name, value) in [("started (UTC)", &job["started"]), ("ended (UTC)", &job["ended"])] {
        shown.extend(value.as_u64().map(|at| (name, time(at))));
    }
    shown.extend([
        ("total", total(&job)),
        ("replayed", number(&job["replayed"])),
        ("skipped", number(&job["skipped"])),
        ("failed", number(&job["failed"])),
        ("by", text(&job["subject"])),
    ]);
    finish(&facts(&shown), 0)
}

/// What there was to do when it began.
fn total(job: &Value) -> String {
    let least = if job["complete"] == false { "at least " } else { "" };
    format!("{least}{}", number(&job["total"]))
}

/// Cancels one after the other: one that cannot be cancelled keeps no other from it.
async fn cancel(args: &CancelArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let mut failed = false;
    for id in &args.ids {
        match hub.delete(&format!("/jobs/{id}"), &[]).await {
            Ok(job) if args.json => print(&format!("{job}\n"))?,
            Ok(job) => {
                let (topic, state) = (text(&job["topic"]), text(&job["state"]));
                print(&format!(
                    "{topic}: {state}, {} of {} replayed\n",
                    number(&job["replayed"]),
                    total(&job)
                ))?;
            }
            Err(error) => {
                failed = true;
                note!("error: {id}: {error:#}");
            }
        }
    }
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}
