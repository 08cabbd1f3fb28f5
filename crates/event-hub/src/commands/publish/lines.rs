//! Many events from standard input: in batches, several of them under way.

use super::Args;
use crate::client::{connect, plain};
use crate::text::{count, finish};
use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hub_client::connection::batch_results;
use hub_client::{Answer, Code, Connection, ErrorKind};
use hub_proto::Payload;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Events in a batch, and the bytes of its frame: well below what a hub takes.
const BATCH_EVENTS: usize = 500;
const BATCH_BYTES: usize = 1 << 20;
/// What a hub takes in one frame, unless it was told otherwise. A larger one would end the connection.
const FRAME_BYTES: usize = 4 << 20;
/// What a frame has besides its events, and an event besides its topic, its payload and its options.
const AROUND: usize = 64;
/// A batch that was refused is sent again after this at the earliest.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// What is read in one go.
const READ_BYTES: usize = 256 << 10;
/// Batches under way.
const IN_FLIGHT: usize = 8;
/// The longest line.
const LINE_BYTES: u64 = 64 << 20;
/// Refusals that are told; the others are counted.
const TOLD: u64 = 10;

/// Lines of standard input that are JSON, and where the first of them was.
#[derive(Default)]
struct Batch {
    payloads: Vec<(u64, Payload)>,
    bytes: usize,
    /// How often it was refused as too much at once.
    refused: u32,
}

impl Batch {
    fn has_room(&self, bytes: usize) -> bool {
        self.payloads.len() < BATCH_EVENTS && self.bytes + bytes <= BATCH_BYTES
    }

    /// What is sent instead of a batch that was refused as too much at once: the same, or its halves if waiting did not
    /// help. It may be more than the hub ever takes at once.
    fn again(mut self) -> Vec<Self> {
        self.refused += 1;
        if self.refused < 2 || self.payloads.len() < 2 {
            return vec![self];
        }
        let payloads = self.payloads.split_off(self.payloads.len() / 2);
        [self.payloads, payloads].map(|payloads| Self { payloads, bytes: 0, refused: 1 }).into()
    }
}

/// What became of all of them; the last thing that is printed.
#[derive(Default, Serialize)]
struct Sum {
    published: u64,
    duplicates: u64,
    failed: u64,
}

impl Sum {
    fn refused(&mut self, line: u64, what: &str) {
        self.failed += 1;
        if self.failed <= TOLD {
            note!("line {line}: {what}");
        } else if self.failed == TOLD + 1 {
            note!("further lines are only counted");
        }
    }
}

/// A line, good or not.
enum Line {
    Good(Batch),
    Bad(u64, String),
    Failed(anyhow::Error),
}

/// A batch that was sent, and its answer.
type Sent = BoxFuture<'static, (Batch, hub_client::Result<Answer>)>;

pub(super) async fn publish(args: &Args) -> Result<ExitCode> {
    let connection = connect(&args.target).await?;
    let mut notices = connection.notices();
    // As many batches again as are under way, and the reader waits.
    let (give, mut take) = mpsc::channel(IN_FLIGHT);
    let around = serde_json::to_string(&args.options())?.len() + args.topic.as_str().len() + AROUND;
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || read(&give, around))
        .context("reading standard input")?;
    let (mut sum, mut under_way) = (Sum::default(), FuturesUnordered::<Sent>::new());
    let (mut more, mut progress) = (true, Progress::new());
    // Refused, to be sent again before anything new is.
    let mut again = VecDeque::<Batch>::new();
    while more || !under_way.is_empty() || !again.is_empty() {
        while under_way.len() < IN_FLIGHT
            && let Some(batch) = again.pop_front()
        {
            under_way.push(send(&connection, args, batch).await?);
        }
        tokio::select! {
            line = take.recv(), if more && under_way.len() < IN_FLIGHT => match line {
                None => more = false,
                Some(Line::Bad(line, what)) => sum.refused(line, &what),
                Some(Line::Failed(error)) => return Err(error),
                Some(Line::Good(batch)) => under_way.push(send(&connection, args, batch).await?),
            },
            Some((batch, answer)) = under_way.next() => match answer {
                Err(error) if error.code() == Some(Code::RateLimited) => {
                    // Whatever was sent after it may have been taken: events of different batches can change places.
                    let millis = error.refusal().and_then(|refusal| refusal.retry_after_ms).unwrap_or(100);
                    tokio::time::sleep(Duration::from_millis(millis).max(LEAST_WAIT)).await;
                    batch.again().into_iter().rev().for_each(|batch| again.push_front(batch));
                }
                answer => settle(answer, &batch, &mut sum)?,
            },
            Ok(notice) = notices.recv() => return Err(plain(notice)),
            closed = connection.closed() => return Err(plain((&closed).into())),
        }
        progress.tell(&sum);
    }
    progress.wipe();
    connection.close().await;
    finish(&format!("{}\n", serde_json::to_string(&sum)?), u8::from(sum.failed > 0))
}

async fn send(connection: &Connection, args: &Args, batch: Batch) -> Result<Sent> {
    let events: Vec<_> = batch.payloads.iter().map(|(_, payload)| args.event(payload.clone())).collect();
    let answer = connection.submit_batch(&events).await.map_err(plain)?;
    Ok(Box::pin(async move { (batch, answer.await) }))
}

fn settle(answer: hub_client::Result<Answer>, batch: &Batch, sum: &mut Sum) -> Result<()> {
    let answer = match answer {
        Ok(answer) => answer,
        // The batch was refused as a whole.
        Err(error) if error.kind() == ErrorKind::Refused => {
            let what = error.to_string();
            batch.payloads.iter().for_each(|(line, _)| sum.refused(*line, &what));
            return Ok(());
        }
        Err(error) => return Err(plain(error)),
    };
    let results = batch_results(&answer).map_err(plain)?;
    if results.len() != batch.payloads.len() {
        bail!("the hub answered {} events of {}", results.len(), batch.payloads.len());
    }
    for (result, (line, _)) in results.iter().zip(&batch.payloads) {
        match result {
            Err(error) => sum.refused(*line, &format!("the hub answered {}: {}", error.code, error.msg)),
            Ok(receipt) if receipt.duplicate => sum.duplicates += 1,
            Ok(_) => sum.published += 1,
        }
    }
    Ok(())
}

/// Reads lines until there are no more, or nobody wants them. A frame has `around` bytes more for each.
fn read(give: &mpsc::Sender<Line>, around: usize) {
    let mut stdin = BufReader::with_capacity(READ_BYTES, std::io::stdin().lock());
    let (mut batch, mut number) = (Batch::default(), 0);
    loop {
        number += 1;
        let mut line = Vec::new();
        match Read::by_ref(&mut stdin).take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                let _ = give
                    .blocking_send(Line::Failed(anyhow::Error::new(error).context("reading standard input")));
                return;
            }
        }
        if line.len() as u64 == LINE_BYTES {
            let error =
                anyhow::anyhow!("line {number} has more than 64 MiB; one JSON value per line is expected");
            let _ = give.blocking_send(Line::Failed(error));
            return;
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match Payload::stored(line.to_vec()) {
            Ok(_) if line.len() + around + AROUND > FRAME_BYTES => {
                let what = format!("{} bytes are more than the 4 MiB of a frame", line.len());
                if give.blocking_send(Line::Bad(number, what)).is_err() {
                    return;
                }
            }
            Ok(payload) => {
                let bytes = line.len() + around;
                if !batch.has_room(bytes)
                    && !batch.payloads.is_empty()
                    && give.blocking_send(Line::Good(std::mem::take(&mut batch))).is_err()
                {
                    return;
                }
                batch.bytes += bytes;
                batch.payloads.push((number, payload));
            }
            Err(error) => {
                let what = error.msg.strip_prefix("payload is ").unwrap_or(&error.msg).to_owned();
                if give.blocking_send(Line::Bad(number, what)).is_err() {
                    return;
                }
            }
        }
        // A full batch goes, and so does a small one when no further line is there yet: somebody may be typing.
        let idle = !stdin.buffer().contains(&b'\n');
        let full = !batch.has_room(0);
        if !batch.payloads.is_empty()
            && (full || idle)
            && give.blocking_send(Line::Good(std::mem::take(&mut batch))).is_err()
        {
            return;
        }
    }
    if !batch.payloads.is_empty() {
        let _ = give.blocking_send(Line::Good(batch));
    }
}

/// A line on a terminal that says how far it is.
struct Progress {
    terminal: bool,
    last: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), last: Instant::now() }
    }

    fn tell(&mut self, sum: &Sum) {
        if self.terminal && self.last.elapsed() > Duration::from_millis(200) {
            self.last = Instant::now();
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{} published", count(sum.published)).and_then(|()| err.flush());
        }
    }

    fn wipe(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_refused_is_sent_again_and_then_in_halves() {
        let payloads = (1..=3).map(|line| (line, Payload::null())).collect();
        let lines = |batches: &[Batch]| -> Vec<Vec<u64>> {
            batches.iter().map(|batch| batch.payloads.iter().map(|(line, _)| *line).collect()).collect()
        };
        let mut batches = Batch { payloads, ..Batch::default() }.again();
        assert_eq!(lines(&batches), [vec![1, 2, 3]]);
        batches = batches.into_iter().flat_map(Batch::again).collect();
        assert_eq!(lines(&batches), [vec![1], vec![2, 3]]);
        batches = batches.into_iter().flat_map(Batch::again).collect();
        assert_eq!(lines(&batches), [[1], [2], [3]]);
        batches = batches.into_iter().flat_map(Batch::again).collect();
        assert_eq!(lines(&batches), [[1], [2], [3]]);
    }
}
