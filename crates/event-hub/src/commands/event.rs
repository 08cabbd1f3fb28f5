//! `event-hub event …`: one event, and where it went.

use crate::client::block_on;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{number, text};
use crate::table::{Cell, Column, Table, facts};
use crate::term::Style;
use crate::text::{finish, time};
use anyhow::Result;
use hub_proto::EventId;
use serde_json::Value;
use std::process::ExitCode;

/// Follow one event
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Show(ShowArgs),
}

/// Show an event and where it went: its outbox row, its groups, its dead letter, its replays
///
/// Needs a token with the subscribe right on the topic.
///
/// Exit code: 0, 1 if there is no such event or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The id of the event
    #[arg(value_name = "ID")]
    id: EventId,

    /// Its topic: ids are unique within a topic only
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    let Command::Show(args) = command;
    block_on(show(args))
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{}", args.topic));
    let id = args.id.to_string();
    let answer = hub.get("/event", &[("topic", &args.topic), ("id", &id)]).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&words(&answer), 0),
    }
}

fn words(answer: &Value) -> String {
    let event = &answer["event"];
    let mut about = vec![
        ("id", text(&event["id"])),
        ("topic", text(&event["topic"])),
        ("seq", number(&event["seq"])),
        ("time (UTC)", event["ts"].as_u64().map_or_else(|| "-".to_owned(), time)),
    ];
    if let Some(committed) = answer["committed"].as_u64() {
        about.push(("committed (UTC)", time(committed)));
    }
    for (name, member) in [("key", "key"), ("session", "sid")] {
        about.extend(event[member].as_str().map(|value| (name, value.to_owned())));
    }
    for (name, member) in [("headers", "headers"), ("tags", "tags"), ("caused by", "caused_by")] {
        about.extend((!event[member].is_null()).then(|| (name, event[member].to_string())));
    }
    about.push(("payload", event["payload"].to_string()));
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
    if answer["deadLetter"].is_object() {
        shown.push_str("\ndead letter\n");
        shown.push_str(&members(&answer["deadLetter"]));
    }
    for (title, member) in [("dead letter", "deadLetters"), ("replay", "replays")] {
        for one in answer[member].as_array().into_iter().flatten() {
            shown.push_str(&format!("\n{title}\n"));
            shown.push_str(&members(one));
        }
    }
    shown
}

fn group_table(groups: &[Value]) -> String {
    let mut table = Table::new(&[
        Column::text("GROUP"),
        Column::text("STATE"),
        Column::number("ATTEMPT"),
        Column::number("FAILURES"),
        Column::text("DETAILS"),
    ]);
    for group in groups {
        let state = text(&group["state"]);
        let style = match state.as_str() {
            "settled" | "filtered" => Style::Green,
            "dead_lettered" | "deadLettered" | "dead-lettered" => Style::Red,
            "leased" | "pending" => Style::Yellow,
            _ => Style::Plain,
        };
        // What else the hub says of the group.
        let known = ["group", "state", "attempt", "attempts", "failures"];
        let rest = group
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
        let details = rest.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>();
        let attempt = if group["attempt"].is_null() { &group["attempts"] } else { &group["attempt"] };
        table.row(vec![
            text(&group["group"]).into(),
            Cell::new(state).style(style),
            number(attempt).into(),
            number(&group["failures"]).into(),
            details.join(", ").into(),
        ]);
    }
    table.text()
}

/// The members of an object, one per line; objects inside of it are left as they are.
fn members(object: &Value) -> String {
    let members: Vec<(&str, String)> = object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.as_str(), plain(value)))
        .collect();
    facts(&members)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_shown_with_where_it_went() {
        let answer = json!({
            "event": {"id": "i", "topic": "t", "seq": 3, "ts": 951_827_696_000_u64, "key": "k", "payload": {"n": 1}},
            "groups": [
                {"group": "billing", "state": "settled"},
                {"group": "mail", "state": "leased", "attempt": 2, "member": "m\u{1b}[2J"},
            ],
            "deadLetter": {"id": "d", "err": "no such customer"},
        });
        assert_eq!(
            words(&answer),
            "  id          i\n  topic       t\n  seq         3\n  time (UTC)  2000-02-29 12:34:56\n  key         k\n  \
             payload     {\"n\":1}\n\n  GROUP    STATE    ATTEMPT  FAILURES  DETAILS\n  billing  settled        -         -\n  \
             mail     leased         2         -  member m·[2J\n\ndead letter\n  err  no such customer\n  id   d\n"
        );
    }
}
