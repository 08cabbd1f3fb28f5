//! `event-hub doctor DIR`: what is wrong with a data directory, and repairs.

use super::directory;
use crate::text::{bytes, count, finish, plural, stamp, wrap};
use anyhow::Result;
use hub_store_embedded::doctor::report::{Finding, Severity};
use hub_store_embedded::doctor::{self, Action, Repairs, Report};
use serde::Serialize;
use std::fmt::Write;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Examine a data directory, and repair what it is asked to
///
/// Reads every file of the directory of a hub that is stopped, and says in words what is wrong, what that means and what
/// can be done. Without a repair flag nothing is written. With one, whatever is going to be changed is copied to
/// quarantine/ first.
///
/// Exit code: 0 if all is well, 1 if something was found, 2 if the directory could not be examined.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Write sidecars (log-N.idx) anew that are missing or bad; nothing is lost by it
    #[arg(long, help_heading = "Repairs")]
    rebuild_sidecars: bool,

    /// Make the manifest anew: from its other copy, or else from the segments, as far as they tell
    #[arg(long, help_heading = "Repairs")]
    rebuild_manifest: bool,

    /// Write the file `format` anew; the manifest knows what was in it
    #[arg(long, help_heading = "Repairs")]
    restore_format: bool,

    /// Write damaged segments anew without the damaged bytes: the events in those are given up
    #[arg(long, help_heading = "Repairs")]
    drop_damaged: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    repairs: &'a [Action],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let repairs = Repairs {
        restore_format: args.restore_format,
        rebuild_manifest: args.rebuild_manifest,
        drop_damaged: args.drop_damaged,
        rebuild_sidecars: args.rebuild_sidecars,
    };
    let disk = directory(&args.directory, !repairs.any())?;
    let mut progress = Progress::new();
    let mut tell = |name: &str, done: u64, total: u64| progress.tell(name, done, total);
    let (actions, report) = if repairs.any() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        doctor::repair(&disk, repairs, &stamp(now), &mut tell)?
    } else {
        (Vec::new(), doctor::examine(&disk, &mut tell)?)
    };
    let text = if args.json {
        let document = Document { report: &report, repairs: &actions };
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        words(&report, &actions)
    };
    finish(&text, u8::from(!report.healthy))
}

fn words(report: &Report, actions: &[Action]) -> String {
    let mut text = String::new();
    for action in actions {
        paragraph(&mut text, &format!("{}:", action.repair), &action.what);
        for copy in &action.copies {
            let _ = writeln!(text, "    before: {copy}");
        }
        text.push('\n');
    }
    for finding in &report.findings {
        tell(&mut text, finding);
    }
    if report.more_findings > 0 {
        let _ = writeln!(text, "and {} more\n", count(report.more_findings));
    }
    let examined = &report.examined;
    let _ = writeln!(
        text,
        "{}: {}, {}, {} in {}, {}",
        report.directory,
        plural(examined.files, "file"),
        bytes(examined.bytes),
        plural(examined.events, "event"),
        plural(examined.topics, "topic"),
        plural(examined.groups, "group"),
    );
    let worse =
        |severity| report.findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let (losses, problems) = (worse(Severity::Loss), worse(Severity::Problem));
    let _ = match (losses + report.more_findings, problems) {
        (0, 0) => writeln!(text, "healthy"),
        (0, problems) => writeln!(text, "{}, no event is lost", plural(problems, "problem")),
        _ => {
            let lost = match report.lost_events {
                0 => "how many events are lost is not known".to_string(),
                1 => "1 event is known to be lost".to_string(),
                events => format!("{} events are known to be lost", count(events)),
            };
            writeln!(
                text,
                "{} with loss, {}; {lost}",
                plural(losses, "finding"),
                plural(problems, "other problem")
            )
        }
    };
    text
}

fn tell(text: &mut String, finding: &Finding) {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Problem => "PROBLEM",
        Severity::Loss => "LOSS",
    };
    let _ = writeln!(text, "{severity}: {}", finding.place());
    paragraph(text, "    what: ", &finding.what);
    paragraph(text, "    means:", &finding.means);
    paragraph(text, "    do:   ", &finding.remedy);
    text.push('\n');
}

/// A text behind its heading, in lines that fit a terminal.
fn paragraph(text: &mut String, heading: &str, what: &str) {
    let indent = heading.chars().count() + 1;
    for (at, line) in wrap(what, 110 - indent).iter().enumerate() {
        let _ =
            if at == 0 { writeln!(text, "{heading} {line}") } else { writeln!(text, "{:indent$}{line}", "") };
    }
}

/// A line on a terminal that says how far it is.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    fn tell(&mut self, name: &str, done: u64, total: u64) {
        if self.terminal && total > 0 {
            let percent = done * 100 / total;
            let mut err = std::io::stderr().lock();
            // The line is wiped before the next one, and at the end.
            let line = if name.is_empty() { String::new() } else { format!("{percent:>3} % {name}") };
            let _ = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
        }
    }
}
