//! `event-hub schemas …`: what payloads of topics have to look like.

mod check;

use crate::client::block_on;
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget, has_status};
use crate::listing::{self, lines, number, text};
use crate::table::{Column, Table};
use crate::text::{finish, plural, pretty, time};
use anyhow::{Context, Result, anyhow};
use hub_schema::bounds::SCHEMA_BYTES;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Look after the schemas of topics
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(ShowArgs),
    Put(PutArgs),
    Rm(RmArgs),
    Check(check::Args),
}

/// List the schemas of topics and patterns that the token may see
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Print one JSON object per schema and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Print the schema of a topic or of a pattern
///
/// Exit code: 0, 1 if there is none or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The topic or the pattern
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// This version instead of the newest
    #[arg(long, value_name = "NUMBER", conflicts_with = "json")]
    version: Option<u64>,

    /// Print the hub's answer as JSON, with all versions that are kept
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Store a new version of the schema of a topic or of a pattern
///
/// Payloads that do not match it are refused from then on, by every hub of the store. A version that may refuse what the one before it
/// accepted is refused itself, unless it is forced. Needs a token with the admin right on the topic.
///
/// Exit code: 0, 1 if it was not stored, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct PutArgs {
    /// The topic or the pattern
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// The file with the JSON Schema; - is standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Store it also if it may refuse what the version before it accepted
    #[arg(long)]
    force: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Delete the schema of a topic or of a pattern with all its versions
///
/// Payloads are not checked against it any more. Needs a token with the admin right on the topic.
///
/// Exit code: 0, 1 if it was not deleted, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// The topic or the pattern
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
        Command::Show(args) => block_on(show(args)),
        Command::Put(args) => block_on(put(args)),
        Command::Rm(args) => block_on(rm(args)),
        Command::Check(args) => block_on(check::check(args)),
    }
}

/// A schema with its versions, as the hub answers.
#[derive(Deserialize)]
pub(super) struct Versions {
    pub versions: Vec<Version>,
}

#[derive(Deserialize)]
pub(super) struct Version {
    pub version: u64,
    /// As it was stored: no number in it is rounded.
    pub schema: Box<RawValue>,
}

/// The path of a schema: names have nothing in them that a path escapes, but people mistype.
fn path_of(topic: &str) -> Result<String> {
    let target = hub_schema::SchemaTarget::parse(topic);
    let target = target.map_err(|error| Usage::error(error.msg.into_owned()))?;
    Ok(format!("/schemas/{target}"))
}

/// A text from a file or from standard input.
pub(super) fn read(file: &str, most: usize) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let limit = most as u64 + 1;
    let done = match file {
        "-" => std::io::stdin().lock().take(limit).read_to_end(&mut text),
        file => std::fs::File::open(Path::new(file)).and_then(|file| file.take(limit).read_to_end(&mut text)),
    };
    done.with_context(|| format!("{file} cannot be read")).map_err(Usage::of)?;
    if text.len() > most {
        return Err(Usage::error(format!("{file} has more than {most} bytes, which is the limit")));
    }
    Ok(text)
}

/// The versions of a schema that a hub keeps; `None` if there is none.
pub(super) async fn versions(hub: &HttpHub, topic: &str) -> Result<Option<(Vec<u8>, Versions)>> {
    match hub.get_bytes(&path_of(topic)?, &[]).await {
        Ok(answer) => {
            let versions = serde_json::from_slice(&answer).context("the hub's answer has no versions")?;
            Ok(Some((answer, versions)))
        }
        Err(error) if has_status(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn ls(args: &LsArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let (schemas, _) = listing::entries(&hub, "/schemas", "schemas", &[], usize::MAX).await?;
    if args.json {
        return finish(&lines(&schemas), 0);
    }
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::number("VERSION"),
        Column::text("FROM"),
        Column::text("STORED (UTC)"),
        Column::text("BY"),
        Column::text("FORCED"),
    ]);
    for schema in &schemas {
        let is_file = schema["origin"] == "file";
        table.row(vec![
            text(&schema["topic"]).into(),
            if is_file { "-".into() } else { number(&schema["version"]).into() },
            if is_file { "configuration".into() } else { "api".into() },
            schema["ts"].as_u64().map_or_else(|| "-".to_owned(), time).into(),
            text(&schema["by"]).into(),
            if schema["forced"] == true { "yes".into() } else { "-".into() },
        ]);
    }
    finish(&table.text(), 0)
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let found = versions(&hub, &args.topic).await?;
    let (answer, Versions { versions }) = found.ok_or_else(|| no_schema(&args.topic))?;
    if args.json {
        return finish(&format!("{}\n", String::from_utf8_lossy(&answer).trim_end()), 0);
    }
    let version = match args.version {
        None => versions.first(),
        Some(wanted) => versions.iter().find(|version| version.version == wanted),
    };
    let numbers =
        || versions.iter().map(|version| version.version.to_string()).collect::<Vec<_>>().join(", ");
    let version = version.ok_or_else(|| {
        anyhow!("the hub does not keep that version of the schema of {}; it has {}", args.topic, numbers())
    })?;
    finish(&pretty(version.schema.get()), 0)
}

pub(super) fn no_schema(topic: &str) -> anyhow::Error {
    anyhow!("{topic} has no schema; `event-hub schemas ls` lists those that there are")
}

async fn put(args: &PutArgs) -> Result<ExitCode> {
    let text = read(&args.file, SCHEMA_BYTES)?;
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{}", args.topic));
    let force = if args.force { "true" } else { "false" };
    let answer = hub.put(&path_of(&args.topic)?, &[("force", force)], text).await?;
    if args.json {
        return finish(&format!("{answer}\n"), 0);
    }
    let version = &answer["version"];
    match answer["new"] == true {
        true => finish(&format!("{}: version {version} stored\n", args.topic), 0),
        false => finish(&format!("{}: version {version} is the same; nothing changed\n", args.topic), 0),
    }
}

async fn rm(args: &RmArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{}", args.topic));
    let path = path_of(&args.topic)?;
    if !confirm(&format!("Delete the schema of {} with all its versions?", args.topic), args.yes)? {
        note!("not deleted");
        return Ok(ExitCode::from(FAILED));
    }
    let answer = hub.delete(&path, &[]).await?;
    if args.json {
        return finish(&format!("{answer}\n"), 0);
    }
    let deleted = plural(answer["deleted"].as_u64().unwrap_or(0), "version");
    finish(&format!("schema of {} deleted: {deleted}\n", args.topic), 0)
}
