//! `event-hub dlq replay TOPIC`: hands events again to the group that gave them up.

mod every_topic;

use super::{Filter, source};
use crate::confirm::confirm;
use crate::exit::{FAILED, Usage};
use crate::http::{HttpHub, HttpTarget};
use crate::progress::Progress;
use crate::term::safe;
use crate::text::{count, finish, plural, print_all};
use anyhow::{Context, Result};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks at a job.
const JOB_POLL: Duration = Duration::from_millis(300);
/// A payload that no hub takes.
const PAYLOAD_BYTES: u64 = 64 << 20;

/// Hand events again to the one group that gave them up
///
/// Other groups do not see them. An event that fails again is a new dead letter. With --rate the hub does it in the background; this shows
/// how far it is, and Ctrl-C cancels it. Needs a token with the admin right on the topic.
///
/// Exit code: 0, 1 if something was not replayed, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic of the events
    #[arg(value_name = "TOPIC", value_parser = source, required_unless_present = "all_topics")]
    topic: Option<String>,

    /// Those of every topic that has some that match: counted topic by topic, then replayed one topic after the other
    #[arg(long, conflicts_with_all = ["topic", "ids", "round"])]
    all_topics: bool,

    #[command(flatten)]
    filter: Filter,

    /// The dead letter with this id; several times for more
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,

    /// A dead letter is replayed once in a round: 2 replays those again that were replayed before, 3 once more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    round: Option<u64>,

    /// At most this many per second, in the background
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: Option<u64>,

    /// Replay one dead letter with another payload: JSON in this file, `-` is standard input
    #[arg(long, value_name = "FILE", requires = "ids", conflicts_with = "rate")]
    edit: Option<PathBuf>,

    /// Say how many would be replayed, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// What became of the dead letters.
#[derive(Default)]
struct Sum {
    replayed: u64,
    skipped: u64,
    failed: u64,
}

impl Sum {
    fn add(&mut self, answer: &Value) {
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        self.replayed += number("replayed");
        self.skipped += number("skipped");
        self.failed += number("failed");
    }

    fn finish(&self, args: &Args, topic: &str) -> Result<ExitCode> {
        Ok(ExitCode::from(self.print(args, topic)?))
    }

    /// Prints what became of the dead letters of one topic, and answers the exit code.
    fn print(&self, args: &Args, topic: &str) -> Result<u8> {
        let Self { replayed, skipped, failed } = *self;
        let missing = name_missing(missing(args, Some(replayed + skipped + failed)));
        let code = missing.max(u8::from(failed > 0));
        if args.json {
            let mut answer = json!({ "replayed": replayed, "skipped": skipped, "failed": failed });
            if args.all_topics {
                answer["topic"] = json!(topic);
            }
            return print_all(&format!("{answer}\n"), code);
        }
        let (skipped, failed) = (count(skipped), count(failed));
        let replayed = plural(replayed, "event");
        print_all(&format!("{topic}: {replayed} replayed, {skipped} skipped, {failed} failed\n"), code)
    }
}

pub async fn replay(args: &Args) -> Result<ExitCode> {
    match &args.topic {
        Some(topic) => in_topic(args, topic).await,
        None => every_topic::replay(args).await,
    }
}

async fn in_topic(args: &Args, topic: &str) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("admin:{topic}"));
    if args.edit.is_some() && args.ids.len() != 1 {
        return Err(Usage::error("--edit is for exactly one dead letter; name it with --id"));
    }
    let payload = args.edit.as_deref().map(payload).transpose()?;
    let mut body = body(args, topic);
    // Counting changes nothing, so the payload need not be sent for it.
    if args.dry_run || !args.yes {
        let mut dry = body.clone();
        dry.insert("dryRun".into(), json!(true));
        let planned = hub.post("/dlq/replay", &dry).await?;
        let letters = planned_words(&planned);
        let missing = missing(args, planned["matched"].as_u64());
        if args.dry_run {
            let code = name_missing(missing);
            return match args.json {
                true => finish(&format!("{planned}\n"), code),
                false => finish(&format!("{topic}: {letters} would be replayed\n"), code),
            };
        }
        if missing > 0 && planned["matched"] == 0 {
            return Ok(ExitCode::from(name_missing(missing)));
        }
        if planned_count(&planned) == Some(0) && planned["complete"] != false {
            let skipped = planned["skipped"].as_u64().unwrap_or(0);
            return Sum { skipped, ..Sum::default() }.finish(args, topic);
        }
        if !confirm(&format!("Replay {letters} of {topic}?"), false)? {
            note!("not replayed");
            return Ok(ExitCode::from(FAILED));
        }
        // What has failed since the count was not agreed to. A hub of an earlier version does not tell.
        body.extend(planned.get("upto").map(|upto| ("upto".to_owned(), upto.clone())));
    }
    Ok(ExitCode::from(act(args, &hub, topic, &body, payload.as_deref()).await?.code))
}

/// How the replay of one topic ended.
struct Ended {
    code: u8,
    /// Somebody cancelled it: no other topic is begun.
    is_cancelled: bool,
}

impl From<u8> for Ended {
    fn from(code: u8) -> Self {
        Self { code, is_cancelled: false }
    }
}

/// Replays the dead letters of one topic, in as many requests as it takes, and prints what became of them.
async fn act(
    args: &Args,
    hub: &HttpHub,
    topic: &str,
    body: &Map<String, Value>,
    payload: Option<&RawValue>,
) -> Result<Ended> {
    let mut sum = Sum::default();
    let mut after: Option<Value> = None;
    loop {
        let mut part = body.clone();
        part.extend(after.clone().map(|after| ("after".to_owned(), after)));
        let answer = hub.post("/dlq/replay", &Request { part: &part, payload }).await?;
        if let Some(job) = answer["job"].as_str() {
            return Box::pin(follow(args, hub, topic, job, answer["total"].as_u64())).await;
        }
        sum.add(&answer);
        name_failures(&answer);
        match answer.get("next").filter(|next| !next.is_null()) {
            Some(next) if after.as_ref() != Some(next) => after = Some(next.clone()),
            _ => return Ok(sum.print(args, topic)?.into()),
        }
    }
}

/// How many of the dead letters that were named are not among those that were found.
fn missing(args: &Args, found: Option<u64>) -> u64 {
    let named: BTreeSet<String> = args.ids.iter().map(|id| id.to_ascii_lowercase()).collect();
    found.map_or(0, |found| (named.len() as u64).saturating_sub(found))
}

/// Says so, and answers the exit code.
fn name_missing(missing: u64) -> u8 {
    if missing == 0 {
        return 0;
    }
    note!("error: {} of those that were named are not there", plural(missing, "dead letter"));
    FAILED
}

/// Everything of a request but the payload.
fn body(args: &Args, topic: &str) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("topic".into(), json!(topic));
    for (name, value) in args.filter.pairs() {
        body.insert(name.into(), json!(value));
    }
    if !args.ids.is_empty() {
        body.insert("ids".into(), json!(args.ids));
    }
    for (name, value) in [("rate", args.rate), ("round", args.round)] {
        body.extend(value.map(|value| (name.to_owned(), json!(value))));
    }
    body
}

/// A request. The payload is sent as it was written: its numbers do not change.
struct Request<'a> {
    part: &'a Map<String, Value>,
    payload: Option<&'a RawValue>,
}

impl serde::Serialize for Request<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        self.part.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        if let Some(payload) = self.payload {
            map.serialize_entry("payload", payload)?;
        }
        map.end()
    }
}

fn payload(path: &Path) -> Result<Box<RawValue>> {
    let mut text = String::new();
    let shown = if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() };
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(PAYLOAD_BYTES).read_to_string(&mut text),
        false => {
            std::fs::File::open(path).and_then(|file| file.take(PAYLOAD_BYTES).read_to_string(&mut text))
        }
    };
    read.with_context(|| format!("{shown} cannot be read")).map_err(Usage::of)?;
    let payload = serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"));
    payload.map_err(Usage::of)
}

/// How many dead letters a dry run found that are still to be replayed.
fn planned_count(answer: &Value) -> Option<u64> {
    let skipped = answer["skipped"].as_u64().unwrap_or(0);
    answer["matched"].as_u64().map(|matched| matched.saturating_sub(skipped))
}

fn planned_words(answer: &Value) -> String {
    let least = if answer["complete"] == false { "at least " } else { "" };
    let before = match answer["skipped"].as_u64() {
        None | Some(0) => String::new(),
        Some(skipped) => format!(" ({} more were replayed before, see --round)", count(skipped)),
    };
    match planned_count(answer) {
        Some(letters) => format!("{least}{}{before}", plural(letters, "dead letter")),
        None => "the dead letters that match".to_owned(),
    }
}

/// Shows how far a job is until it ends; Ctrl-C cancels it.
async fn follow(args: &Args, hub: &HttpHub, topic: &str, job: &str, total: Option<u64>) -> Result<Ended> {
    let path = format!("/jobs/{job}");
    let mut progress = Progress::new(total);
    let mut cancelled = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let looked = hub.get(&path, &[]).await;
        let state = looked.with_context(|| format!("the job {job} may still run; it cannot be followed"))?;
        let mut sum = Sum::default();
        sum.add(&state);
        let done = sum.replayed + sum.skipped + sum.failed;
        progress.set(done, done, None);
        let word = state["state"].as_str().unwrap_or_default();
        if word != "running" {
            progress.clear();
            name_failures(&state);
            let code = sum.print(args, topic)?;
            if word == "done" {
                return Ok(code.into());
            }
            note!("error: the job is {word}: {}", state["reason"].as_str().unwrap_or("no reason was given"));
            return Ok(Ended { code: FAILED, is_cancelled: word == "cancelled" });
        }
        tokio::select! {
            () = tokio::time::sleep(JOB_POLL) => {}
            _ = &mut cancelled => {
                progress.clear();
                let last = hub.delete(&path, &[]).await?;
                sum = Sum::default();
                sum.add(if last["replayed"].is_u64() { &last } else { &state });
                note!("cancelled; what was replayed stays so");
                sum.print(args, topic)?;
                return Ok(Ended { code: FAILED, is_cancelled: true });
            }
        }
    }
}

/// Names the dead letters that could not be replayed, the first of them.
fn name_failures(answer: &Value) {
    for failure in answer["failures"].as_array().into_iter().flatten() {
        let text = |name: &str| safe(failure[name].as_str().unwrap_or("-"));
        note!("{}: {}: {}", text("id"), text("code"), text("error"));
    }
}
