//! `GET /audit`: the newest refusals and admin actions of this hub.

use super::audit::About;
use super::auth::Caller;
use super::error::{Answer, Failure};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::audit::RecentLines;
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_proto::{Error, Pattern};

/// Lines of an answer, unless the client asks for another number, and at most.
const LINES: usize = 100;
const MOST_LINES: usize = 1000;

pub(super) async fn audit(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["limit"])?;
    let allowed = format!("a number from 1 to {MOST_LINES}");
    let limit = params.number("limit", &allowed)?.unwrap_or(LINES);
    if !(1..=MOST_LINES).contains(&limit) {
        return Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}")));
    }
    caller.take_one()?;
    // To look is no admin action: only a refusal is recorded.
    if !caller.may(Action::Admin, Target::Pattern(&Pattern::parse("**")?), None) {
        let text = "the audit log tells what every subject did; it needs the admin right for all topics";
        return Err(caller.refused("admin", About::default(), Error::forbidden(text)));
    }
    let text = write(&hub.audit().recent(limit));
    caller.owe(Work::bytes(text.len()));
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// The lines are JSON objects already; each gets its number.
fn write(recent: &RecentLines) -> String {
    let mut text = String::from("{\"entries\":[");
    for (at, line) in recent.lines.iter().enumerate() {
        let separator = if at == 0 { "" } else { "," };
        let fields = line.text.trim_start_matches('{');
        text += &format!("{separator}{{\"n\":{},{fields}", line.number);
    }
    text += &format!("],\"dropped\":{}}}", recent.dropped);
    text
}
