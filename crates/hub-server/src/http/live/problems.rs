//! The message `problems`: what a person should look at, the worst first.

use super::message::List;
use super::rows::json;
use super::snapshot::{self, Snapshot};
use super::visibility::Visibility;
use crate::Hub;
use crate::http::auth::Caller;
use crate::http::dlq;
use crate::http::push::may_administrate;
use crate::push::PushState;
use hub_core::Reason;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;

/// Problems that are shown. The rest is counted.
const MAX_SHOWN: usize = 50;
/// Problems of one kind that are shown however many worse ones of another kind there are.
const MAX_OF_KIND: usize = 10;

/// How much a problem that is not one of a group needs a person; `snapshot` has the same of groups.
const STORE_UNAVAILABLE: u8 = 9;
const STORE_WARNING: u8 = 8;
const NOT_CONNECTED: u8 = 8;
const PUSH_FAILING: u8 = 7;
const GIVEN_UP: u8 = 5;
const ROWS_PARKED: u8 = 5;
const PUSH_PAUSED: u8 = 4;

/// One problem.
struct Problem<'a> {
    kind: Kind,
    /// The higher, the worse.
    severity: u8,
    json: Cow<'a, [u8]>,
}

#[derive(Clone, Copy)]
enum Kind {
    Store,
    Outbox,
    Push,
    Group,
    Letters,
}

/// Problems, and within a kind and a severity the worst first.
#[derive(Default)]
struct Problems<'a>(Vec<Problem<'a>>);

impl<'a> Problems<'a> {
    fn add(&mut self, kind: Kind, severity: u8, json: impl Into<Cow<'a, [u8]>>) {
        self.0.push(Problem { kind, severity, json: json.into() });
    }

    /// The worst first: as many as are shown, among which each kind has its worst, and how many there are besides.
    fn worst(mut self) -> (Vec<Problem<'a>>, usize) {
        self.0.sort_by_key(|problem| Reverse(problem.severity));
        let more = self.0.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            let mut of_kind = [0; 5];
            let mut is_beyond = |problem: &Problem<'_>| {
                of_kind[problem.kind as usize] += 1;
                of_kind[problem.kind as usize] > MAX_OF_KIND
            };
            let (mut shown, further): (Vec<_>, Vec<_>) =
                self.0.into_iter().partition(|problem| !is_beyond(problem));
            let room = MAX_SHOWN - shown.len();
            shown.extend(further.into_iter().take(room));
            shown.sort_by_key(|problem| Reverse(problem.severity));
            self.0 = shown;
        }
        (self.0, more)
    }
}

/// The data of the message.
pub(super) fn problems(hub: &Hub, caller: &Caller, snapshot: &Snapshot, visibility: &Visibility) -> Vec<u8> {
    let mut problems = Problems::default();
    let health = &snapshot.health;
    if let Some(reason) = &health.unavailable {
        problems.add(Kind::Store, STORE_UNAVAILABLE, json(&json!({"kind": "store", "reason": reason})));
    }
    for warning in &health.warnings {
        problems.add(Kind::Store, STORE_WARNING, json(&json!({"kind": "store", "warning": warning})));
    }
    of_outboxes(hub, caller, &mut problems);
    of_push(hub, caller, &mut problems);
    for at in snapshot.troubled().iter().filter(|at| visibility.sees_group(**at)) {
        if let Some(slot) = snapshot.groups.get(*at) {
            problems.add(Kind::Group, snapshot::severity_of(slot), slot.row.problem());
        }
    }
    for given_up in &snapshot.given_up {
        let (topic, group) = (&given_up.topic, &given_up.group);
        if dlq::sees(caller, topic) {
            let problem = json!({
                "kind": "letters", "topic": topic, "group": group, "count": given_up.count, "lastTs": given_up.last,
            });
            problems.add(Kind::Letters, GIVEN_UP, json(&problem));
        }
    }
    let (shown, more) = problems.worst();
    let mut text = b"{\"problems\":".to_vec();
    let mut list = List::begin(&mut text);
    shown.iter().for_each(|problem| list.entry().extend_from_slice(&problem.json));
    list.end();
    text.extend_from_slice(format!(",\"more\":{more}}}").as_bytes());
    text
}

/// Outboxes that cannot be reached, or have rows that somebody has to look at: for those who see how outboxes do in `/outbox`.
fn of_outboxes(hub: &Hub, caller: &Caller, problems: &mut Problems<'_>) {
    if !caller.administrates_everything() {
        return;
    }
    for (name, outbox) in hub.outboxes().all() {
        let is_connected = outbox.store.is_some() && outbox.trouble.is_none();
        let counts = outbox.counts;
        if is_connected && counts.errors == 0 {
            continue;
        }
        let mut problem = json!({
            "kind": "outbox", "outbox": name, "connected": is_connected, "pending": counts.pending, "parked": counts.errors,
        });
        if let Some(age) = counts.oldest_age {
            problem["oldestAgeMs"] = json!(age);
        }
        let reason = outbox.trouble.or((!is_connected).then(|| "it has not been reached yet".to_owned()));
        if let Some(reason) = reason {
            problem["reason"] = json!(reason);
        }
        let severity = if is_connected { ROWS_PARKED } else { NOT_CONNECTED };
        problems.add(Kind::Outbox, severity, json(&problem));
    }
}

fn of_push(hub: &Hub, caller: &Caller, problems: &mut Problems<'_>) {
    if !caller.administrates() {
        return;
    }
    for entry in hub.push().all() {
        let (endpoint, state) = (&entry.endpoint, entry.status.state());
        let reason: Value = match (&entry.paused, &state) {
            (Some(pause), _) => json!(pause.reason),
            (None, PushState::Failing) => json!(Reason::EndpointFailing.as_str()),
            (None, PushState::Trouble(error)) => json!(error),
            _ => continue,
        };
        if !may_administrate(caller, &endpoint.target) {
            continue;
        }
        let (state, severity) = match &entry.paused {
            Some(_) => (PushState::Paused.as_str(), PUSH_PAUSED),
            None => (state.as_str(), PUSH_FAILING),
        };
        let (name, topic, group) = (endpoint.name(), &endpoint.definition.topic, &endpoint.group);
        let problem = json!({
            "kind": "push", "name": name, "topic": topic, "group": group, "state": state, "reason": reason,
        });
        problems.add(Kind::Push, severity, json(&problem));
    }
}
