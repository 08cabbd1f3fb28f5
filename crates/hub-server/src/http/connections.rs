//! `GET /connections`: what is open on this hub, and how far each reader is behind.

use super::auth::Caller;
use super::error::{Answer, Failure, shown};
use super::page::{self, FILTERED, Page};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::connections::{Connection, ConnectionKind, Numbers, Place};
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use hub_core::Millis;
use hub_proto::Pattern;
use serde::Serialize;
use std::net::SocketAddr;

/// Connections that are taken from the list at a time.
const BLOCK: usize = 256;

/// One of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    kind: &'static str,
    since: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Millis>,
    subscriptions: usize,
    inflight: usize,
    queued_bytes: usize,
    sent_bytes: u64,
}

impl From<&Connection> for Entry {
    fn from(open: &Connection) -> Self {
        let Numbers { subscriptions, in_flight, queued_bytes, sent_bytes } = open.numbers();
        let (subject, number) = &open.place;
        Self {
            id: number.to_string(),
            subject: subject.as_deref().map(str::to_owned),
            address: open.address,
            kind: open.kind.as_str(),
            since: open.since,
            expires: open.expires(),
            subscriptions,
            inflight: in_flight,
            queued_bytes,
            sent_bytes,
        }
    }
}

#[derive(Serialize)]
struct List {
    connections: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Those of the caller's own subject; all of them for a caller that may administrate every topic.
pub(super) async fn connections(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &["q", "after", "limit"])?;
    let mut page = Page::of(&params)?;
    let wanted = params.get("q").map(str::to_owned);
    let after = page.after.as_deref().map(read_place).transpose()?;
    caller.take_one()?;
    let sees_all = caller.may(Action::Admin, Target::Pattern(&Pattern::parse("**")?), None);
    let own = caller.named_subject().map(str::to_owned);
    // The caller's own stand together: nobody else's are looked at.
    let start: Place = (own.as_deref().map(Into::into), 0);
    let mut last = match sees_all {
        true => after,
        false => Some(after.filter(|after| *after > start).unwrap_or(start)),
    };
    let (mut found, mut next) = (Vec::new(), None);
    'blocks: loop {
        let block = hub.open_connections().after(last.as_ref(), BLOCK);
        if block.is_empty() {
            break;
        }
        for open in block {
            if !sees_all && open.place.0.as_deref() != own.as_deref() {
                break 'blocks;
            }
            if page.is_full(found.len()) || page.looked_at() >= FILTERED {
                next = last.as_ref().map(write_place);
                break 'blocks;
            }
            page.look().await;
            if (sees_all || open.kind != ConnectionKind::Hub) && matches(&open, wanted.as_deref()) {
                found.push(Entry::from(&*open));
            }
            last = Some(open.place.clone());
        }
    }
    caller.owe(Work::groups(page.looked_at()));
    let entries = found.len();
    page::answer(List { connections: found, next }, entries).await
}

/// Whether the subject of a connection has a text.
fn matches(open: &Connection, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    open.place.0.as_deref().is_some_and(|subject| subject.contains(wanted))
}

/// A place as a parameter: its number, and behind a dot its subject.
fn write_place((subject, number): &Place) -> String {
    match subject {
        Some(subject) => format!("{number}.{subject}"),
        None => number.to_string(),
    }
}

fn read_place(text: &str) -> Result<Place, Failure> {
    let (number, subject) = match text.split_once('.') {
        Some((number, subject)) => (number, Some(subject.into())),
        None => (text, None),
    };
    match number.parse() {
        Ok(number) => Ok((subject, number)),
        Err(_) => {
            Err(Failure::bad_request(format!("after is {}; it must be next of a page before", shown(text))))
        }
    }
}
