//! `event-hub import TOPIC [FILE]`: publishes the records of an export.
//!
//! One batch is under way at a time, and the next is read meanwhile: events are committed in the order of the lines, also if the hub
//! refuses a batch as too much at once or the connection is lost.

mod read;
mod record;

use crate::client::{Target, block_on, connect, plain};
use crate::exit::{FAILED, Usage};
use crate::progress::Progress;
use crate::text::{count, finish};
use anyhow::{Context, Result, anyhow};
use hub_client::connection::batch_results;
use hub_client::{Code, Connection, ErrorKind};
use hub_proto::{NewEvent, TopicName};
use read::{Piece, Source};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;

/// Batches that are read ahead.
const READ_AHEAD: usize = 4;
/// Refused events that are named; the others are counted.
const NAMED: u64 = 10;
/// A connection that is lost without a further event is made again this often.
const ATTEMPTS: u32 = 8;
/// The wait before the first of them; it doubles, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A batch that was too much at once is sent again after this at the earliest.
const LEAST_WAIT: Duration = Duration::from_millis(50);

/// Publish the records of an export, one per line
///
/// Id, time, key, headers, tags, causes and payload are kept; headers of the hub itself (x-hub-…) are left out, and so are dead letters
/// that were replayed, which are second records of their events for one group. Because ids are kept,
/// the same import again stores nothing twice: an import that was cut off is simply begun again. Compressed files are recognised. Needs
/// a token with the publish right on the topic.
///
/// Exit code: 0 if all records are in the topic, 1 if something failed, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic that they go to; need not be the one that they came from
    #[arg(value_name = "TOPIC", value_parser = topic)]
    topic: TopicName,

    /// The file; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Give the events new ids: importing twice stores them twice
    #[arg(long)]
    new_ids: bool,

    /// Pass over lines that are no records, and count them, instead of stopping
    #[arg(long)]
    skip_bad: bool,

    #[command(flatten)]
    target: Target,
}

fn topic(text: &str) -> Result<TopicName, std::borrow::Cow<'static, str>> {
    TopicName::parse(text).map_err(|error| error.msg)
}

/// What became of the lines; the last thing that is printed.
#[derive(Debug, Default, Serialize)]
struct Sum {
    /// New in the topic.
    published: u64,
    /// In the topic already.
    duplicates: u64,
    /// Lines that are no records.
    bad: u64,
    /// Records that the hub refused.
    failed: u64,
    /// Dead letters that were replayed, which are passed over.
    #[serde(skip_serializing_if = "is_none")]
    replays: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Sum {
    fn events(&self) -> u64 {
        self.published + self.duplicates + self.failed
    }

    /// Counts a line that was not published, and names it if not too many were.
    fn name(&self, progress: &Progress, line: u64, what: &str) {
        match self.bad + self.failed {
            ..=NAMED => progress.note(&format!("line {}: {what}", count(line))),
            many if many == NAMED + 1 => progress.note("further lines are only counted"),
            _ => {}
        }
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let source = Source::open(&args.file).map_err(Usage::of)?;
    block_on(import(args, source))
}

async fn import(args: &Args, source: Source) -> Result<ExitCode> {
    let mut link = Link { args, connection: Some(connect(&args.target).await?) };
    let (give, mut take) = mpsc::channel(READ_AHEAD);
    let mut progress = Progress::new(source.bytes);
    let (topic, new_ids) = (args.topic.clone(), args.new_ids);
    std::thread::Builder::new()
        .name("import".into())
        .spawn(move || source.read(&topic, new_ids, &give))
        .context("reading")?;
    let mut sum = Sum::default();
    let done = loop {
        match take.recv().await {
            None => break Ok(()),
            Some(Piece::Bad(line, what)) => {
                sum.bad += 1;
                sum.name(&progress, line, &what);
                if !args.skip_bad {
                    break Err(anyhow!(
                        "line {} is no record of an export; mend it, or pass such lines over with --skip-bad",
                        count(line)
                    ));
                }
            }
            Some(Piece::Replay) => sum.replays += 1,
            Some(Piece::Failed(error)) => break Err(error),
            Some(Piece::Batch { events, lines, position }) => {
                if let Err(error) = Box::pin(link.publish(&events, &lines, &mut sum, &progress)).await {
                    break Err(error);
                }
                progress.set(position, sum.events(), None);
            }
        }
    };
    progress.clear();
    if let Some(connection) = link.connection {
        connection.close().await;
    }
    if let Err(error) = done {
        note!("error: {error:#}");
        if sum.published > 0 && !args.new_ids {
            note!("the import is not whole; the same command again stores nothing twice and goes on");
        }
        return finish(&format!("{}\n", serde_json::to_string(&sum)?), FAILED);
    }
    finish(&format!("{}\n", serde_json::to_string(&sum)?), u8::from(sum.failed > 0))
}

/// The connection, which is made again when it is lost.
struct Link<'a> {
    args: &'a Args,
    connection: Option<Connection>,
}

/// Why a part of a batch has to be sent again.
enum Again {
    /// The hub said when.
    Limited(Duration),
    /// The connection was lost, or the hub's store did not answer.
    Lost(anyhow::Error),
}

impl Link<'_> {
    /// Publishes a batch in its order. The ids are in it, so sending a part again is safe.
    async fn publish(
        &mut self,
        events: &[NewEvent],
        lines: &[u64],
        sum: &mut Sum,
        progress: &Progress,
    ) -> Result<()> {
        // A batch may be more than a limit ever lets pass: it is sent in parts then.
        let (mut done, mut size) = (0, events.len());
        let (mut losses, mut wait) = (0, FIRST_WAIT);
        while done < events.len() {
            let end = events.len().min(done + size);
            let (taken, again) = self.send(&events[done..end], &lines[done..end], sum, progress).await?;
            done += taken;
            if taken > 0 {
                (losses, wait) = (0, FIRST_WAIT);
            }
            match again {
                None => {}
                Some(Again::Limited(wait)) => {
                    tokio::time::sleep(wait.max(LEAST_WAIT)).await;
                    size = (size / 2).max(1);
                }
                Some(Again::Lost(error)) => {
                    losses += 1;
                    if losses > ATTEMPTS {
                        return Err(error);
                    }
                    progress.note(&format!("{error:#}; going on in {wait:?}"));
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
        Ok(())
    }

    /// Sends events once: how many of them are answered for good, and why the others are not.
    async fn send(
        &mut self,
        events: &[NewEvent],
        lines: &[u64],
        sum: &mut Sum,
        progress: &Progress,
    ) -> Result<(usize, Option<Again>)> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => match connect(&self.args.target).await {
                Ok(connection) => self.connection.insert(connection),
                Err(error) => return Ok((0, Some(Again::Lost(error)))),
            },
        };
        let answer = match connection.submit_batch(events).await {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.code() == Some(Code::RateLimited) => {
                let millis = error.refusal().and_then(|refusal| refusal.retry_after_ms).unwrap_or(100);
                return Ok((0, Some(Again::Limited(Duration::from_millis(millis)))));
            }
            Err(error) if error.code() == Some(Code::Unavailable) => {
                return Ok((0, Some(Again::Lost(plain(error)))));
            }
            Err(error) if error.kind() == ErrorKind::Refused => return Err(plain(error)),
            Err(error) => {
                self.connection = None;
                return Ok((0, Some(Again::Lost(plain(error)))));
            }
        };
        let results = batch_results(&answer).map_err(plain)?;
        if results.len() != events.len() {
            return Err(anyhow!("the hub answered {} events of {}", results.len(), events.len()));
        }
        for (at, (result, line)) in results.iter().zip(lines).enumerate() {
            match result {
                Ok(receipt) if receipt.duplicate => sum.duplicates += 1,
                Ok(_) => sum.published += 1,
                // What comes behind it is sent again, too: that is in the topic or keeps its place.
                Err(error) if error.code == Code::Unavailable => {
                    let error = anyhow!("the hub answered {}: {}", error.code, error.msg);
                    return Ok((at, Some(Again::Lost(error))));
                }
                Err(error) if error.code == Code::RateLimited => {
                    return Ok((at, Some(Again::Limited(LEAST_WAIT))));
                }
                // It is about the topic, and no other event fares better.
                Err(error) if matches!(error.code, Code::Forbidden | Code::QuotaExceeded) => {
                    return Err(anyhow!("the hub answered {}: {}", error.code, error.msg));
                }
                Err(error) => {
                    sum.failed += 1;
                    sum.name(progress, *line, &format!("the hub answered {}: {}", error.code, error.msg));
                }
            }
        }
        Ok((events.len(), None))
    }
}
