//! `event-hub export TOPIC`: a topic as NDJSON, to a file or a pipe, resumable.
//!
//! Bytes are copied as the hub sends them; only the last line of a block is looked at, for its seq.

mod lines;
mod output;
mod resume;

use crate::client::block_on;
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget, Refusal};
use crate::listing;
use crate::position;
use crate::progress::Progress;
use crate::text::{bytes, count, finish, is_closed_pipe, plural};
use anyhow::{Context, Result, anyhow};
use lines::Lines;
use output::Output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// A transfer that is cut off without a further event is begun again this often.
const ATTEMPTS: u32 = 5;
/// The wait before the first of them; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Write the events of a topic to a file or a pipe, one JSON record per line
///
/// It ends with the last event that there is when it begins. To a file it is resumable: the same command again removes a line that was
/// cut off, and goes on behind the last event of the file. Needs a token with the subscribe right on the topic.
///
/// Exit code: 0 if the export is whole, 1 if it is not, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Write to this file, or go on with it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only events that the hub committed from this time on: milliseconds since 1970, or ago:TIME
    #[arg(long, value_name = "TIME", value_parser = position::parse_time)]
    from_ts: Option<u64>,

    /// Only events that the hub committed before this time
    #[arg(long, value_name = "TIME", value_parser = position::parse_time)]
    to_ts: Option<u64>,

    /// Only events behind this seq
    #[arg(long, value_name = "N")]
    after_seq: Option<u64>,

    /// Compress with gzip
    #[arg(long)]
    gzip: bool,

    /// Begin anew if the file is there, instead of going on with it
    #[arg(long, requires = "output")]
    overwrite: bool,

    /// Print what was written as JSON; with --output
    #[arg(long, requires = "output")]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// How a transfer ended before its time.
enum Broken {
    /// The hub or the network cut it off: what came is good.
    Cut(anyhow::Error),
    /// Nobody reads the output any more.
    Unread,
    /// It will not be better next time.
    Failed(anyhow::Error),
}

pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(export(args))
}

async fn export(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{}", args.topic));
    if let (Some(from), Some(to)) = (args.from_ts, args.to_ts)
        && from >= to
    {
        return Err(Usage::error(format!("--from-ts {from} is not before --to-ts {to}")));
    }
    let file = args.output.as_deref().map(|path| resume::open(path, &args.topic, args.gzip, args.overwrite));
    let file = file.transpose()?;
    let resumed = file.as_ref().and_then(|file| file.last_seq);
    let is_new = file.as_ref().is_some_and(|file| file.is_new);
    let output = Output::new(file.map(|file| file.file), args.gzip, args.overwrite);
    let mut lines = Lines::new(output, resumed.max(args.after_seq));
    match transfer(args, &hub, &mut lines, resumed).await {
        Ok(()) => summary(args, &lines, resumed),
        Err(Broken::Unread) => Ok(ExitCode::SUCCESS),
        Err(Broken::Cut(error) | Broken::Failed(error)) => {
            let _ = lines.finish();
            if let Some(path) = args.output.as_ref().filter(|_| is_new && lines.events() == 0) {
                let _ = std::fs::remove_file(path);
            }
            Err(match (lines.after(), &args.output) {
                (Some(seq), Some(_)) => error.context(format!(
                    "the export is not whole: it ends after seq {}; run the same command again{} to go on",
                    count(seq),
                    if args.overwrite { " without --overwrite" } else { "" }
                )),
                (Some(seq), None) => error.context(format!(
                    "the export is not whole: it ends after seq {}; go on with --after-seq {seq}",
                    count(seq)
                )),
                (None, _) => error,
            })
        }
    }
}

fn summary(args: &Args, lines: &Lines, resumed: Option<u64>) -> Result<ExitCode> {
    let Some(path) = &args.output else { return Ok(ExitCode::SUCCESS) };
    let path = path.display().to_string();
    if args.json {
        let (events, size, last) = (lines.events(), lines.bytes(), lines.after());
        let summary = json!({
            "topic": args.topic, "file": path, "events": events, "bytes": size, "lastSeq": last, "resumedAfter": resumed
        });
        return finish(&format!("{summary}\n"), 0);
    }
    let more = if resumed.is_some() { "further " } else { "" };
    let upto = lines.after().map(|seq| format!(", up to seq {}", count(seq))).unwrap_or_default();
    let events = plural(lines.events(), &format!("{more}event"));
    finish(&format!("{path}: {events}, {}{upto}\n", bytes(lines.bytes())), 0)
}

async fn transfer(args: &Args, hub: &HttpHub, lines: &mut Lines, resumed: Option<u64>) -> Result<(), Broken> {
    // Without it there is no bar; what is wrong is said by the export itself.
    let topic = listing::topic(hub, &args.topic).await.ok().flatten();
    let place = |name: &str| topic.as_ref().and_then(|topic| topic[name].as_u64());
    let start = lines.after().or(place("first").map(|first| first.saturating_sub(1))).unwrap_or(0);
    let mut progress = Progress::new(place("last").map(|last| last.saturating_sub(start)));
    if let (Some(seq), Some(path)) = (resumed, &args.output) {
        progress.note(&format!("{} has events up to seq {}; going on behind it", path.display(), count(seq)));
    }
    let (mut failures, mut wait) = (0, FIRST_WAIT);
    loop {
        let before = lines.after();
        match copy(args, hub, lines, &mut progress, start).await {
            Err(Broken::Cut(error)) => {
                if lines.after() != before {
                    (failures, wait) = (0, FIRST_WAIT);
                }
                failures += 1;
                if failures > ATTEMPTS {
                    return Err(Broken::Cut(error));
                }
                progress.note(&format!("the transfer was cut off ({error:#}); going on in {wait:?}"));
                lines.drop_cut_line();
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            Ok(()) => {
                let finished = lines.finish();
                progress.clear();
                return finished.map_err(|error| written(args, error));
            }
            Err(broken) => return Err(broken),
        }
    }
}

/// One transfer, from behind the last event that was written.
async fn copy(
    args: &Args,
    hub: &HttpHub,
    lines: &mut Lines,
    progress: &mut Progress,
    start: u64,
) -> Result<(), Broken> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let (after, from, to) = (number(lines.after()), number(args.from_ts), number(args.to_ts));
    let mut query = vec![("topic", args.topic.as_str()), ("ndjson", "1")];
    query.extend(after.as_deref().map(|after| ("afterSeq", after)));
    query.extend(from.as_deref().map(|from| ("fromTs", from)));
    query.extend(to.as_deref().map(|to| ("toTs", to)));
    let is_final =
        |error: &anyhow::Error| error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status != 503);
    let mut answer = match hub.stream("/export", &query).await {
        Ok(answer) => answer,
        // Before the first event, an address that nobody answers at is a mistake, and not a cut.
        Err(error) if is_final(&error) || lines.events() == 0 => return Err(Broken::Failed(error)),
        Err(error) => return Err(Broken::Cut(error)),
    };
    lines.begin().map_err(|error| written(args, error))?;
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => {
                lines.write(&chunk).map_err(|error| written(args, error))?;
                let position = lines.after().unwrap_or(0).saturating_sub(start);
                progress.set(position, lines.events(), Some(lines.bytes()));
            }
            Ok(None) if lines.has_cut_line() => {
                return Err(Broken::Cut(anyhow!("the last line has no end")));
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(Broken::Cut(anyhow!("{} stopped sending: {error}", hub.shown()))),
        }
    }
}

/// Why something could not be written.
fn written(args: &Args, error: std::io::Error) -> Broken {
    match &args.output {
        None if is_closed_pipe(&error) => Broken::Unread,
        None => Broken::Failed(anyhow::Error::new(error).context("writing to standard output")),
        Some(path) => {
            let context = format!("writing {}", path.display());
            Broken::Failed(Err::<(), _>(error).context(context).expect_err("it is one"))
        }
    }
}
