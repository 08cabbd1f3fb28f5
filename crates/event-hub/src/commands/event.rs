//! `event-hub event …`: one event, and where it went.

use crate::client::block_on;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{lines, number, text};
use crate::position;
use crate::progress::Progress;
use crate::table::{Cell, Column, Table, facts};
use crate::term::{Style, safe};
use crate::text::{finish, is_closed_pipe, plural, print, time};
use anyhow::{Context, Result};
use hub_proto::EventId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::process::ExitCode;

/// How much the clock of a hub may be ahead of the one here.
const CLOCK_MARGIN_MS: u64 = 60_000;

/// Follow events
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Show(ShowArgs),
    Find(FindArgs),
}

/// Show an event and where it went: its outbox row, its groups, its dead letter, its replays
///
/// Ids are unique within a topic. Without --topic the hub looks for the id in every topic that the token may read, in steps of up to
/// 1,000 topics; each topic that has it is shown. Needs a token with the subscribe right on the topic.
///
/// Exit code: 0, 1 if there is no such event or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The id of the event
    #[arg(value_name = "ID", required_unless_present = "seq")]
    id: Option<EventId>,

    /// Its topic: the fast way
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,

    /// Its seq in the topic, instead of the id
    #[arg(long, value_name = "N", requires = "topic", conflicts_with = "id")]
    seq: Option<u64>,

    /// Print the hub's answer as JSON, one line for each topic that has the id
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Find events by the trace or the correlation id in their headers
///
/// The hub searches every topic that the token may read, in steps of up to 50,000 events, and prints the events of each step as they are
/// found. With --from-ts it leaves out what was committed before. Needs a token with the subscribe right on the topics.
///
/// Exit code: 0, 1 if no event was found or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct FindArgs {
    #[command(flatten)]
    wanted: Wanted,

    /// Only events that the hub committed from this time on: milliseconds since 1970, or ago:TIME
    #[arg(long, value_name = "TIME", value_parser = position::parse_time)]
    from_ts: Option<u64>,

    /// Only events that the hub committed before this time
    #[arg(long, value_name = "TIME", value_parser = position::parse_time)]
    to_ts: Option<u64>,

    /// Print one JSON object per event and line instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// What the headers of the events say.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Wanted {
    /// Events of this trace: the second part of their header traceparent
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,

    /// Events of the trace of this traceparent
    #[arg(long, value_name = "TEXT")]
    traceparent: Option<String>,

    /// Events whose header correlationId or x-correlation-id is this id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Show(args) => block_on(show(args)),
        Command::Find(args) => block_on(find(args)),
    }
}

/// Prints what is found: as JSON step by step, as a table when everything was searched.
async fn find(args: &FindArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    // What is committed while the search goes on would keep it going. The hub's clock may be ahead of this one.
    let to_ts = args.to_ts.unwrap_or_else(|| position::now() + CLOCK_MARGIN_MS).to_string();
    let from_ts = args.from_ts.map(|ts| ts.to_string());
    let Wanted { trace_id, traceparent, correlation_id } = &args.wanted;
    let wanted = [
        ("traceId", trace_id),
        ("traceparent", traceparent),
        ("correlationId", correlation_id),
        ("fromTs", &from_ts),
    ];
    let mut progress = Progress::new(None);
    let (mut found, mut looked_at, mut after) = (Vec::new(), 0_u64, None::<String>);
    let mut events = 0_u64;
    loop {
        let mut query: Vec<(&str, &str)> =
            wanted.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        query.push(("toTs", &to_ts));
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = hub.get("/event/search", &query).await.with_context(|| match &after {
            Some(after) => {
                format!("the search ended after {after}, {} looked at", plural(looked_at, "event"))
            }
            None => "searching all topics".to_owned(),
        })?;
        looked_at += page["lookedAt"].as_u64().unwrap_or(0);
        let matches = page["events"].as_array().cloned().unwrap_or_default();
        events += matches.len() as u64;
        match args.json {
            true => {
                progress.clear();
                if let Err(error) = print(&lines(&matches)) {
                    return if is_closed_pipe(&error) { Ok(ExitCode::SUCCESS) } else { Err(error.into()) };
                }
            }
            false => found.extend(matches),
        }
        match page["next"].as_str() {
            // A page that leads nowhere would be asked for again and again.
            Some(next) if after.as_deref() != Some(next) => after = Some(next.to_owned()),
            _ => break,
        }
        progress.show(&format!("{} looked at", plural(looked_at, "event")));
    }
    progress.clear();
    if events == 0 {
        note!("error: none of the {} that were looked at is one", plural(looked_at, "event"));
        return Ok(ExitCode::from(FAILED));
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    // As it happened, over all topics.
    found.sort_by_key(|event| event["committed"].as_u64());
    let mut table = Table::new(&[
        Column::whole("COMMITTED (UTC)"),
        Column::text("TOPIC"),
        Column::number("SEQ"),
        Column::text("KEY"),
        Column::whole("ID"),
    ]);
    for event in &found {
        table.row(vec![
            event["committed"].as_u64().map_or_else(|| "-".to_owned(), time).into(),
            text(&event["topic"]).into(),
            number(&event["seq"]).into(),
            text(&event["key"]).into(),
            text(&event["id"]).into(),
        ]);
    }
    finish(&table.text(), 0)
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let Some(topic) = &args.topic else {
        let id = args.id.context("an id, or --topic and --seq")?;
        return search(args, id).await;
    };
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{topic}"));
    let which = match (args.id, args.seq) {
        (Some(id), _) => ("id", id.to_string()),
        (None, seq) => ("seq", seq.unwrap_or_default().to_string()),
    };
    finish(&in_topic(args, &hub, topic, (which.0, &which.1)).await?, 0)
}

/// Shows the event of every topic that has the id, as they are found.
async fn search(args: &ShowArgs, id: EventId) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let id = id.to_string();
    let mut progress = Progress::new(None);
    let (mut found, mut searched, mut after) = (0_u64, 0_u64, None::<String>);
    loop {
        let mut query = vec![("id", id.as_str())];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = hub.get("/event/find", &query).await.with_context(|| match &after {
            Some(after) => {
                format!("the search ended after topic {after}, {} searched", plural(searched, "topic"))
            }
            None => "searching all topics; --topic names one".to_owned(),
        })?;
        searched += page["searched"].as_u64().unwrap_or(0);
        for place in page["topics"].as_array().into_iter().flatten() {
            let shown = in_topic(args, &hub, &text(&place["topic"]), ("id", &id)).await?;
            let between = if found > 0 && !args.json { "\n" } else { "" };
            found += 1;
            progress.clear();
            if let Err(error) = print(&format!("{between}{shown}")) {
                return if is_closed_pipe(&error) { Ok(ExitCode::SUCCESS) } else { Err(error.into()) };
            }
        }
        match page["next"].as_str() {
            // A page that leads nowhere would be asked for again and again.
            Some(next) if after.as_deref() != Some(next) => after = Some(next.to_owned()),
            _ => break,
        }
        progress.show(&format!("{} searched", plural(searched, "topic")));
    }
    progress.clear();
    if found > 0 {
        return Ok(ExitCode::SUCCESS);
    }
    note!(
        "error: no event {id} in the {} that this token may read; an event that is still in an outbox is found with --topic",
        plural(searched, "topic")
    );
    Ok(ExitCode::from(FAILED))
}

/// What is printed of the event in one topic.
async fn in_topic(args: &ShowArgs, hub: &HttpHub, topic: &str, which: (&str, &str)) -> Result<String> {
    let answer = hub.get_bytes("/event", &[("topic", topic), which]).await?;
    let parsed = hub.parse(&answer)?;
    if args.json {
        return Ok(format!("{}\n", String::from_utf8_lossy(&answer).trim_end()));
    }
    let parts: Parts<'_> = serde_json::from_slice(&answer).unwrap_or_default();
    let payload = parts.event.map(|event| event.payload.get());
    // The record of an event that is asked for by its seq has the id, unless it was cleaned away.
    let id = args.id.map_or_else(|| text(&parsed["event"]["id"]), |id| id.to_string());
    Ok(words(id, topic, &parsed, payload))
}

/// The payload as the publisher wrote it: a reader of JSON rounds numbers.
#[derive(Default, Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    event: Option<Record<'a>>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    payload: &'a RawValue,
}

fn words(id: String, topic: &str, answer: &Value, payload: Option<&str>) -> String {
    let event = &answer["event"];
    let mut about = vec![("id", id), ("topic", topic.to_owned()), ("seq", number(&answer["seq"]))];
    if event.is_null() {
        let state = match answer["cleaned"] == true {
            true => "cleaned away; its id is remembered",
            false => "not published yet; it is in an outbox",
        };
        about.push(("event", state.to_owned()));
    }
    for (name, value) in [("time (UTC)", &event["ts"]), ("committed (UTC)", &answer["committed"])] {
        about.extend(value.as_u64().map(|at| (name, time(at))));
    }
    for (name, value) in [
        ("key", &event["key"]),
        ("session", &event["sid"]),
        ("headers", &event["headers"]),
        ("tags", &event["tags"]),
        ("caused by", &event["caused_by"]),
        ("replay for group", &answer["replayFor"]),
        ("replay of", &answer["replayOf"]),
        ("dead letter", &answer["letter"]),
    ] {
        about.extend((!value.is_null()).then(|| (name, plain(value))));
    }
    about.extend(payload.map(|payload| ("payload", payload.to_owned())));
    let mut shown = facts(&about);
    if answer["outbox"].is_object() {
        shown.push_str("\noutbox row\n");
        shown.push_str(&members(&answer["outbox"]));
    }
    let groups = answer["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    shown.push('\n');
    match groups.is_empty() {
        true => shown.push_str("no groups\n"),
        false => shown.push_str(&group_table(groups)),
    }
    if !answer["next"].is_null() {
        shown.push_str("  and further groups\n");
    }
    for group in groups.iter().filter(|group| group["letter"].is_object()) {
        shown.push_str(&format!("\ndead letter of {}\n", safe(&text(&group["group"]))));
        shown.push_str(&members(&group["letter"]));
    }
    shown
}

fn group_table(groups: &[Value]) -> String {
    let mut table = Table::new(&[
        Column::text("GROUP"),
        Column::text("STATE"),
        Column::number("ATTEMPTS"),
        Column::number("FAILURES"),
        Column::text("DETAILS"),
    ]);
    for group in groups {
        let state = text(&group["state"]);
        let style = match state.as_str() {
            "settled" | "filtered" => Style::Green,
            "dead_lettered" | "dead_lettering" => Style::Red,
            "leased" | "pending" | "parked" => Style::Yellow,
            _ => Style::Plain,
        };
        // What else the hub says of the group.
        let known = ["group", "state", "attempts", "failures", "letter"];
        let rest = group
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
        let details = rest.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>();
        table.row(vec![
            text(&group["group"]).into(),
            Cell::new(state).style(style),
            number(&group["attempts"]).into(),
            number(&group["failures"]).into(),
            details.join(", ").into(),
        ]);
    }
    table.text()
}

/// The members of an object, one per line; what is inside of them stays JSON.
fn members(object: &Value) -> String {
    let members: Vec<(&str, String)> = object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match (name.as_str(), value.as_u64()) {
            (name @ ("ts" | "discarded"), Some(at)) => (name, format!("{} UTC", time(at))),
            (name, _) => (name, plain(value)),
        })
        .collect();
    facts(&members)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
