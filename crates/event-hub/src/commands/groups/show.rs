//! `event-hub groups show TOPIC GROUP`: where a group is, and what its reason means.

use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::listing::{self, Span, measured, number, per_second, rate};
use crate::table::facts;
use crate::text::{finish, time, wrap};
use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;

/// The width of an explanation.
const EXPLANATION_COLUMNS: usize = 100;

/// Show a group: where it is, why nothing is delivered, and what to do
///
/// Exit code: 0, 1 if there is no such group or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// The group
    #[arg(value_name = "GROUP")]
    group: String,

    /// Print one JSON object: the group as `ls` has it, with `cursor` and `lagMs`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub async fn show(args: &Args) -> Result<ExitCode> {
    let (topic, name) = (&args.topic, &args.group);
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:{topic}"));
    let Some(mut group) = listing::group(&hub, topic, name).await? else {
        note!(
            "error: topic {topic} has no group {name} that this token may see; `event-hub groups ls {topic}` lists \
             those that it has"
        );
        return Ok(ExitCode::from(FAILED));
    };
    // A token that administrates the topic and may not read it has no lag.
    let lag = hub.get("/lag", &[("topic", topic), ("group", name)]).await.unwrap_or_default();
    if args.json {
        group["cursor"] = lag["lastCursor"].clone();
        group["lagMs"] = lag["lagMs"].clone();
        return finish(&format!("{group}\n"), 0);
    }
    let cursor = &lag["lastCursor"];
    let at = match (cursor["lastId"].as_str(), cursor["lastTs"].as_u64()) {
        (Some(id), Some(ts)) => format!("{} ({id}, {})", number(&group["floor"]), time(ts)),
        _ => number(&group["floor"]),
    };
    let behind = match lag["lagMs"].as_u64() {
        Some(millis) => format!("{} events, {}", number(&group["lag"]), duration(millis)),
        None => format!("{} events", number(&group["lag"])),
    };
    let mut about = vec![
        ("settled up to seq", at),
        ("newest seq", number(&group["last"])),
        ("behind", behind),
        ("in flight", number(&group["inflight"])),
        ("parked", number(&group["parked"])),
        ("members", number(&group["members"])),
        (
            "per second",
            format!(
                "{} delivered, {} acked (last minute)",
                rate(&group, Span::Minute, "delivered"),
                rate(&group, Span::Minute, "acked")
            ),
        ),
    ];
    let latency = measured(&group, Span::Minute, "latencyMs");
    if let (Some(half), Some(most)) = (latency["p50"].as_f64(), latency["p99"].as_f64()) {
        let (half, most) = (per_second(half), per_second(most));
        about.push(("latency", format!("{half} ms for half of the events, {most} ms for 99 %")));
    }
    if let Some(age) = group["oldestUnsettled"]["ageMs"].as_u64() {
        let seq = number(&group["oldestUnsettled"]["seq"]);
        about.push(("oldest unsettled", format!("seq {seq}, {} old", duration(age))));
    }
    if let Some(since) = group["since"].as_u64() {
        about.push(("nothing delivered since", time(since)));
    }
    about.extend(options(&group["options"]));
    if let Some(owner) = group["owner"].as_str() {
        about.push(("served by", owner.to_owned()));
    }
    let reason = group["reason"].as_str();
    about.push(("reason", reason.unwrap_or("none: it delivers").to_owned()));
    let mut text = format!("{name} of {topic}\n\n{}", facts(&about));
    if let Some(explanation) = reason.and_then(explain) {
        text.push('\n');
        for line in wrap(explanation, EXPLANATION_COLUMNS) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    finish(&text, 0)
}

fn options(options: &Value) -> Vec<(&'static str, String)> {
    let mut shown = Vec::new();
    if let Some(ordering) = options["ordering"].as_str() {
        let coalesce = if options["coalesce"] == true { ", coalesce" } else { "" };
        shown.push(("ordering", format!("{ordering}{coalesce}")));
    }
    if let Some(attempts) = options["maxAttempts"].as_u64() {
        shown.push(("attempts", format!("at most {attempts}, then a dead letter")));
    }
    if options["filter"].as_object().is_some_and(|filter| !filter.is_empty()) {
        shown.push(("filter", options["filter"].to_string()));
    }
    shown
}

/// `250 ms`, `12 s`, `3 min`, `5 h`, `2 days`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{} s", millis / 1_000),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        7_200_000..172_800_000 => format!("{} h", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}

/// What a reason means, and what to do about it.
fn explain(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "no_members" => {
            "No consumer is connected with this group. Start one, or delete the group if nothing needs it any more \
             (`event-hub groups rm`)."
        }
        "paused" => "All members have paused. They get events again when one of them resumes.",
        "window_full" => {
            "The members hold as many events as they asked for (maxInFlight) and have not acked them. Look for a slow or \
             hanging handler, or start more members."
        }
        "backoff" => "Events that failed wait for their next attempt. The members' logs say why they failed.",
        "parked_full" => {
            "100,000 events wait for their time or their key, and the group reads no further. Look for the handler that \
             fails; `event-hub dlq ls` shows what was given up."
        }
        "key_blocked" => {
            "The next events are of keys that have an event in flight or in backoff, and the group keeps the order of keys."
        }
        "rate_limited" => "A limit of the hub holds deliveries back; they go on by themselves.",
        "store_unavailable" => "The store does not answer. The hub's log and /readyz say why.",
        "taking_over" => "This hub is taking the group over from another one; it takes seconds.",
        "elsewhere" => "Another hub serves this group; what its members hold is known there.",
        "endpoint_failing" => "The endpoint of a push subscription fails and is tried again carefully.",
        "caught_up" => "Everything is delivered and settled, or with members.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(
            [999, 1_500, 119_999, 120_000, 7_200_000, 172_800_000].map(duration),
            ["999 ms", "1 s", "119 s", "2 min", "2 h", "2 days"]
        );
    }
}
