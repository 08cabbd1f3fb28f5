//! `event-hub backup DIR`: a copy of the embedded store, made while the hub runs.

mod lease;

use super::directory;
use crate::client::block_on;
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget};
use crate::progress::Progress;
use crate::text::{bytes, count, finish, plural};
use anyhow::{Context, Result, anyhow};
use hub_store_embedded::backup::{self, Amount, BackupError, BackupOptions, Outcome, Phase, Source};
use hub_store_embedded::disk::{Disk, RealDisk};
use hub_store_embedded::doctor::report::Finding;
use lease::FileLease;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far behind others the copying stands; 0 is even, 19 last.
const NICE: i32 = 10;

/// Back up the embedded store of a running hub
///
/// Makes a copy of the data directory that opens like any other: `event-hub serve --data DIR` restores it. Everything that was
/// acknowledged before the command began is in it. Publishes go on meanwhile. Sealed segments become hard links where DIR is on the
/// same file system, and copies elsewhere; a backup into the same DIR copies only what is new. The copy is read and checked before it
/// takes the place of the one before.
///
/// Runs where the hub runs, as the user of the hub: it reads the hub's files. Needs a token with the admin right on all topics.
///
/// Exit code: 0, 1 if there is no new backup (an earlier one is as it was), 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory that is not there, an empty one, or an earlier backup
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The hub is stopped: copy the directory that --data names
    #[arg(long)]
    offline: bool,

    /// Copy every file, also where a hard link would do
    #[arg(long)]
    copy: bool,

    /// Keep the backup although a part of the store is damaged
    #[arg(long)]
    allow_damage: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let copied = if args.offline { offline(args)? } else { block_on(online(args))? };
    let outcome = copied.map_err(|error| explain(error, &args.directory))?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&outcome)? + "\n",
        false => words(&outcome),
    };
    finish(&text, 0)
}

type Copied = Result<Outcome, BackupError>;

/// Copies the directory of a hub that is stopped.
fn offline(args: &Args) -> Result<Copied> {
    let data = args.target.data();
    let disk = directory(data, true)?;
    let _lock = disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Usage::error(format!(
            "a hub is using {} ({error}); leave --offline out, and the hub is asked for a backup",
            data.display()
        )),
        _ => anyhow!("{} cannot be locked: {error}", data.display()),
    })?;
    Ok(Source::stopped(&disk).and_then(|source| copy(&source, &Job::of(args))))
}

/// Has the hub hold its files, and copies them.
async fn online(args: &Args) -> Result<Copied> {
    let hub = HttpHub::new(&args.target)?.needing("admin:**");
    let mut lease = FileLease::of(&hub).await?;
    let disk = RealDisk::read_only(&lease.directory).map_err(|error| unreadable(&lease.directory, &error))?;
    if disk.lock().is_ok() {
        return Err(not_on_this_machine(&lease.directory));
    }
    let (manifest, end, job) = (std::mem::take(&mut lease.manifest), lease.end, Job::of(args));
    let copying = tokio::task::spawn_blocking(move || {
        // Commits come first. Without the right to that it works all the same.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        Source::pinned(&disk, &manifest, end).and_then(|source| copy(&source, &job))
    });
    let (copied, released) = lease.while_copying(copying).await;
    let copied = copied.context("copying broke off")?;
    match (copied, released) {
        (Err(error), Some(why)) => Err(anyhow!(
            "the hub released its files before they were copied ({why}); run the backup again ({error})"
        )),
        (copied, _) => Ok(copied),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => not_on_this_machine(path),
        io::ErrorKind::PermissionDenied => {
            anyhow!("{shown} cannot be read ({error}); run the command as the user of the hub")
        }
        _ => anyhow!("{shown} cannot be read: {error}"),
    }
}

fn not_on_this_machine(path: &Path) -> anyhow::Error {
    anyhow!(
        "the hub's data directory {} is not in use here: run the command where the hub runs, in its container if it has one",
        path.display()
    )
}

/// Where the copy goes, and how it is made.
struct Job {
    directory: PathBuf,
    options: BackupOptions,
}

impl Job {
    fn of(args: &Args) -> Self {
        let options = BackupOptions { copy: args.copy, allow_damage: args.allow_damage };
        Self { directory: args.directory.clone(), options }
    }
}

fn copy(source: &Source<'_>, job: &Job) -> Copied {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let mut bar: Option<(Phase, Progress)> = None;
    let mut tell = |phase: Phase, file: &str, done: u64, total: u64| {
        if bar.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            bar = Some((phase, Progress::new(Some(total))));
        }
        let what = match phase {
            Phase::Copying => "copying",
            Phase::Verifying => "verifying",
        };
        if let Some((_, bar)) = &mut bar {
            bar.set_bytes(done, &format!("{what} {file}"));
        }
    };
    backup::run(source, &job.directory, job.options, now, &mut tell)
}

/// What went wrong, and what can be done.
fn explain(error: BackupError, directory: &Path) -> anyhow::Error {
    match error {
        BackupError::Damaged(findings) => {
            findings.iter().for_each(|finding| eprintln!("damaged: {}", damage(finding)));
            anyhow!(
                "a part of the store is damaged, and {} was not written: `event-hub doctor` on the stopped hub says what can \
                 be done; --allow-damage makes a backup of the rest",
                directory.display()
            )
        }
        error => anyhow!("{error}"),
    }
}

fn damage(finding: &Finding) -> String {
    format!("{}: {}", finding.place(), finding.what)
}

fn words(outcome: &Outcome) -> String {
    let Outcome { directory, linked, reused, copied, verified, .. } = outcome;
    let mut text = format!("{directory}\n");
    let mut amount = |what: &str, amount: &Amount| {
        let _ = writeln!(text, "  {what:<9}{}, {}", plural(amount.files, "file"), bytes(amount.bytes));
    };
    for (what, files) in [("linked", linked), ("reused", reused)] {
        if files.files > 0 {
            amount(what, files);
        }
    }
    amount("copied", copied);
    let _ = writeln!(
        text,
        "  verified {}, {} in {}, {}, up to commit {}",
        plural(verified.segments, "segment"),
        plural(verified.events, "event"),
        plural(verified.topics, "topic"),
        plural(verified.groups, "group"),
        count(verified.last_commit),
    );
    if !verified.sidecars_left_out.is_empty() {
        let sidecars = plural(verified.sidecars_left_out.len() as u64, "sidecar");
        let _ = writeln!(text, "  left out {sidecars} that the hub makes again at its start");
    }
    for finding in &verified.damage {
        let _ = writeln!(text, "  DAMAGED  {}", damage(finding));
    }
    text
}
