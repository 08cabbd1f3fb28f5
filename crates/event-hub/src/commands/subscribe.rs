//! `event-hub subscribe TOPIC`: events as they come, for people or for programs.

mod line;

use crate::client::{ANSWER, Client, Frame, Target, block_on, too_late};
use crate::config::units;
use crate::text::{is_closed_pipe, plural, print};
use anyhow::{Result, bail};
use hub_proto::{EventId, GroupName, Pattern};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Follow a topic, or all topics of a pattern
///
/// Without a group it shows events from now on, or from --from, and leaves no trace. With one it is a member of that group:
/// each event is acked once it is printed, and the group goes on from there next time. Ctrl-C ends it.
///
/// Exit code: 0 when it was ended or --count events came, 1 if the hub refused, 2 if it could not be asked or is gone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic, or a pattern: `*` is one segment, `**` any number of them
    #[arg(value_name = "TOPIC", value_parser = pattern)]
    topic: Pattern,

    /// Be a member of this group, and ack what is printed
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<GroupName>,

    /// Where to begin: earliest, latest, ts:MILLISECONDS, ago:TIME (such as ago:5m), after-id:UUID, after-seq:NUMBER;
    /// a group that exists goes on where it is
    #[arg(long, value_name = "WHERE", default_value = "latest", value_parser = from)]
    from: From,

    /// One line of JSON per event: the whole record
    #[arg(long)]
    json: bool,

    /// End after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only events with this: key=K, tag=T or header.NAME=VALUE; several times for all of them
    #[arg(long = "filter", value_name = "WHAT", value_parser = filter)]
    filters: Vec<Filter>,

    #[command(flatten)]
    target: Target,
}

/// Where to begin, as options of a SUBSCRIBE.
#[derive(Clone, Debug)]
struct From(Map<String, Value>);

#[derive(Clone, Debug)]
enum Filter {
    Key(String),
    Tag(String),
    Header(String, String),
}

/// The part of an EVENT that is printed, and what an ack needs.
#[derive(Deserialize)]
struct Delivered<'a> {
    #[serde(borrow)]
    event: &'a RawValue,
}

/// A LAGGED.
#[derive(Deserialize)]
struct Lagged {
    missed: u64,
}

/// How long the hub has to answer a goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// Events of a group that are under way to the terminal.
const IN_FLIGHT: u64 = 256;

fn pattern(text: &str) -> Result<Pattern, std::borrow::Cow<'static, str>> {
    Pattern::parse(text).map_err(|error| error.msg)
}

fn group(text: &str) -> Result<GroupName, std::borrow::Cow<'static, str>> {
    GroupName::parse(text).map_err(|error| error.msg)
}

fn from(text: &str) -> Result<From, String> {
    let (word, value) = text.split_once(':').map_or((text, None), |(word, value)| (word, Some(value)));
    let place = match (word, value) {
        ("earliest" | "latest", None) => json!({ "from": word }),
        ("ts", Some(value)) => {
            let millis: u64 = value.parse().map_err(|_| "ts: takes milliseconds since 1970".to_owned())?;
            json!({ "from": "ts", "ts": millis })
        }
        ("ago", Some(value)) => {
            let ago = units::parse_time(value).ok_or("ago: takes a time such as 90s, 5m or 2h")?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
            json!({ "from": "ts", "ts": now.saturating_sub(ago) })
        }
        ("after-id", Some(value)) => {
            let id: EventId = value.parse().map_err(|_| "after-id: takes a UUID".to_owned())?;
            json!({ "from": "afterId", "afterId": id })
        }
        ("after-seq", Some(value)) => {
            let seq: u64 = value.parse().map_err(|_| "after-seq: takes a number".to_owned())?;
            json!({ "from": "afterSeq", "afterSeq": seq })
        }
        _ => {
            return Err(
                "earliest, latest, ts:MILLISECONDS, ago:TIME, after-id:UUID or after-seq:NUMBER is expected"
                    .into(),
            );
        }
    };
    Ok(From(place.as_object().cloned().unwrap_or_default()))
}

fn filter(text: &str) -> Result<Filter, String> {
    match text.split_once('=') {
        Some(("key", key)) => Ok(Filter::Key(key.to_owned())),
        Some(("tag", tag)) => Ok(Filter::Tag(tag.to_owned())),
        Some((name, value)) if name.starts_with("header.") => {
            Ok(Filter::Header(name["header.".len()..].to_owned(), value.to_owned()))
        }
        _ => Err("key=K, tag=T or header.NAME=VALUE is expected".into()),
    }
}

impl Args {
    fn opts(&self) -> Result<Value> {
        let mut opts = self.from.0.clone();
        let (mut key, mut tags, mut headers) = (None, Vec::new(), BTreeMap::new());
        for filter in &self.filters {
            match filter {
                Filter::Key(value) if key.is_some() => bail!("--filter key={value}: an event has one key"),
                Filter::Key(value) => key = Some(value),
                Filter::Tag(tag) => tags.push(tag),
                Filter::Header(name, value) => drop(headers.insert(name, value)),
            }
        }
        let mut filter = Map::new();
        filter.extend(key.map(|key| ("key".into(), json!(key))));
        filter.extend((!tags.is_empty()).then(|| ("tags".into(), json!(tags))));
        filter.extend((!headers.is_empty()).then(|| ("headers".into(), json!(headers))));
        if !filter.is_empty() {
            opts.insert("filter".into(), filter.into());
        }
        if self.group.is_some() {
            // A member that is about to leave takes no more than it prints.
            let window = self.count.map_or(IN_FLIGHT, |count| count.min(IN_FLIGHT));
            opts.insert("maxInFlight".into(), json!(window));
        }
        Ok(opts.into())
    }

    fn request(&self, op: &str) -> Map<String, Value> {
        let mut request = Map::new();
        request.insert("op".into(), json!(op));
        request.insert("topic".into(), json!(self.topic.as_str()));
        request.extend(self.group.as_ref().map(|group| ("group".into(), json!(group.as_str()))));
        request
    }
}

/// Why it ended.
enum End {
    /// Ctrl-C, enough events, or nobody reads any more.
    Wanted,
    Refused(anyhow::Error),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let opts = args.opts()?;
    block_on(async {
        let mut client = Client::connect(&args.target).await?;
        let mut request = args.request("SUBSCRIBE");
        request.insert("corr".into(), json!("subscribe"));
        request.insert("opts".into(), opts);
        client.send(&request).await?;
        match follow(args, &mut client).await? {
            End::Wanted => {
                leave(args, &mut client).await;
                client.close().await;
                Ok(ExitCode::SUCCESS)
            }
            End::Refused(error) => {
                eprintln!("error: {error}");
                client.close().await;
                Ok(ExitCode::from(1))
            }
        }
    })
}

async fn follow(args: &Args, client: &mut Client) -> Result<End> {
    let mut ended = std::pin::pin!(ended());
    let (mut late, mut answered) = (std::pin::pin!(tokio::time::sleep(ANSWER)), false);
    let mut seen = 0;
    loop {
        let frame = tokio::select! {
            biased;
            () = &mut ended => return Ok(End::Wanted),
            () = &mut late, if !answered => return Err(too_late()),
            frame = client.recv() => frame?,
        };
        let Some(frame) = frame else { bail!("the hub closed the connection") };
        answered |= frame.corr.as_deref() == Some("subscribe");
        match frame.op.as_str() {
            "EVENT" => match show(args, &frame) {
                Ok(id) => {
                    if args.group.is_some() {
                        let mut ack = args.request("ACK");
                        ack.insert("id".into(), json!(id));
                        client.send(&ack).await?;
                    }
                    seen += 1;
                    if Some(seen) == args.count {
                        return Ok(End::Wanted);
                    }
                }
                Err(error) if error.downcast_ref().is_some_and(is_closed_pipe) => return Ok(End::Wanted),
                Err(error) => return Err(error),
            },
            "LAGGED" => {
                let lagged: Lagged = frame.read()?;
                eprintln!("warning: too slow, {} were missed", plural(lagged.missed, "event"));
            }
            "ERR" => return Ok(frame.ok().map_or_else(End::Refused, |_| End::Wanted)),
            _ => {}
        }
    }
}

/// Prints an event; answers its id.
fn show(args: &Args, frame: &Frame) -> Result<String> {
    let delivered: Delivered<'_> = frame.read()?;
    let event: line::Shown<'_> = serde_json::from_str(delivered.event.get())?;
    if args.json {
        print(&format!("{}\n", delivered.event.get()))?;
    } else {
        print(&line::line(&event, line::width()))?;
    }
    Ok(event.id.into_owned())
}

/// Ctrl-C, or a polite kill.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// Says goodbye, and waits until the acks before it are taken.
async fn leave(args: &Args, client: &mut Client) {
    let mut request = args.request("UNSUBSCRIBE");
    request.insert("corr".into(), json!("bye"));
    let goodbye = async {
        client.send(&request).await?;
        while client.recv().await?.is_some_and(|frame| frame.corr.as_deref() != Some("bye")) {}
        anyhow::Ok(())
    };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}
