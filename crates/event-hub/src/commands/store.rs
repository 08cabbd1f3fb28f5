//! `event-hub store …`: looking at the embedded store.

use super::directory;
use crate::text::{bytes, count, finish, plural, table, time};
use anyhow::Result;
use hub_store_embedded::doctor::{self, Stat};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at the embedded store
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Stat(StatArgs),
}

/// Show topics, segments and sizes of a data directory
///
/// Reads the manifest, the sidecars, and those segments that they do not cover; writes nothing. Works while a hub is
/// running: the figures are then those of the last manifest and of the log as it was found.
///
/// Exit code: 0, or 2 if the directory could not be read.
#[derive(Debug, clap::Args)]
pub struct StatArgs {
    /// The data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    let Command::Stat(args) = command;
    let stat = doctor::stat(&directory(&args.directory, true)?)?;
    let text = if args.json { serde_json::to_string_pretty(&stat)? + "\n" } else { words(&stat) };
    finish(&text, 0)
}

fn words(stat: &Stat) -> String {
    let mut text = stat.directory.clone();
    if stat.in_use {
        text.push_str(" (a hub is using it: as of the last manifest and the log as it was found)");
    }
    let header = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let none = || "-".to_string();
    let mut rows = vec![header(&["topic", "events", "bytes", "first", "last", "floor", "oldest", "newest"])];
    for topic in &stat.topics {
        rows.push(vec![
            topic.name.clone(),
            count(topic.events),
            bytes(topic.bytes),
            topic.first_seq.map_or_else(none, count),
            count(topic.last_seq),
            count(topic.floor),
            topic.oldest.map_or_else(none, time),
            topic.newest.map_or_else(none, time),
        ]);
    }
    let _ = write!(text, "\n\n{}", table(&rows));
    let mut rows = vec![header(&["segment", "size", "used", "records", "live", "sidecar"])];
    for segment in &stat.segments {
        let damaged = if segment.damaged { " (damaged)" } else { "" };
        rows.push(vec![
            format!("{}{damaged}", segment.name),
            bytes(segment.size),
            bytes(segment.used),
            count(segment.records),
            share(segment.live_share.0),
            if segment.sidecar { "yes" } else { "no" }.to_string(),
        ]);
    }
    let _ = write!(text, "\n{}\n", table(&rows));
    let totals = &stat.totals;
    let _ = writeln!(
        text,
        "  {}, {} in {}, {}, {}",
        plural(totals.events, "event"),
        bytes(totals.bytes),
        plural(stat.topics.len() as u64, "topic"),
        plural(stat.groups, "group"),
        plural(stat.subscriptions, "subscription"),
    );
    let _ = writeln!(
        text,
        "  {} on disk: segments {} ({} live), sidecars {}, prepared {}, quarantine {} in {}",
        bytes(totals.on_disk),
        bytes(totals.segments),
        share(totals.live_share.0),
        bytes(totals.sidecars),
        bytes(totals.prepared),
        bytes(totals.quarantine),
        plural(totals.quarantine_files, "file"),
    );
    text
}

fn share(thousandths: u32) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
