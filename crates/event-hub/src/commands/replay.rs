//! `event-hub replay TOPIC`: events of the past, one per line.

use crate::client::block_on;
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget};
use crate::position;
use crate::text::is_closed_pipe;
use anyhow::{Context, Result};
use hub_client::Position;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::Write;
use std::process::ExitCode;

/// Events that are asked for at a time.
const PAGE: u64 = 1000;

/// Print events of the past as JSON, one per line
///
/// It ends with the last event that there is; `event-hub subscribe` goes on. Needs a token with the subscribe right on the topic.
///
/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Where to begin: earliest, ts:MILLISECONDS, ago:TIME (such as ago:5m), after-id:UUID, after-seq:NUMBER
    #[arg(long, value_name = "WHERE", default_value = "earliest", value_parser = position::parse)]
    from: Position,

    /// Begin behind this seq; the same as --from after-seq:N
    #[arg(long, value_name = "N", conflicts_with = "from")]
    after_seq: Option<u64>,

    /// At most this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Only events that belong together by this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,

    /// Only events of this trace: the second part of their header traceparent
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,

    #[command(flatten)]
    target: HttpTarget,
}

/// A page of the answer. Events are printed as they came.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    #[serde(default)]
    next: Option<u64>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(replay(args))
}

async fn replay(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{}", args.topic));
    let mut from = args.after_seq.map_or(args.from, Position::AfterSeq);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while left > 0 {
        let limit = left.min(PAGE).to_string();
        let mut query = vec![("topic", args.topic.as_str()), ("limit", &limit)];
        let value;
        match from {
            Position::Earliest => query.push(("from", "earliest")),
            Position::Latest => {
                return Err(Usage::error(
                    "--from latest has nothing to replay; `event-hub subscribe` follows a topic",
                ));
            }
            Position::Time(ts) => {
                value = ts.to_string();
                query.extend([("from", "ts"), ("ts", &value)]);
            }
            Position::AfterId(id) => {
                value = id.to_string();
                query.extend([("from", "afterId"), ("afterId", &value)]);
            }
            Position::AfterSeq(seq) => {
                value = seq.to_string();
                query.extend([("from", "afterSeq"), ("afterSeq", &value)]);
            }
        }
        query.extend(args.correlation_id.as_deref().map(|id| ("correlationId", id)));
        query.extend(args.trace_id.as_deref().map(|id| ("traceId", id)));
        let answer = hub.get_bytes("/replay", &query).await?;
        let page: Page<'_> = serde_json::from_slice(&answer)
            .with_context(|| format!("{} answered a replay as no hub does", hub.shown()))?;
        for event in &page.events {
            let written = out.write_all(event.get().as_bytes()).and_then(|()| out.write_all(b"\n"));
            if !is_read(written)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if !is_read(out.flush())? {
            return Ok(ExitCode::SUCCESS);
        }
        left = left.saturating_sub(page.events.len() as u64);
        match page.next.map(Position::AfterSeq) {
            // A page that leads nowhere would be asked for again and again.
            Some(next) if next != from => from = next,
            _ => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether somebody still reads what is printed.
fn is_read(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if is_closed_pipe(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
