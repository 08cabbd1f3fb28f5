//! The message `problems`: what a person should look at, the worst first.

use super::rows::json;
use super::snapshot::Snapshot;
use super::visibility::Visibility;
use crate::Hub;
use crate::http::auth::Caller;
use crate::http::dlq;
use crate::http::push::may_administrate;
use crate::push::PushState;
use hub_core::Reason;
use serde_json::{Value, json};

/// Problems that are shown. The rest is counted.
const MAX_SHOWN: usize = 50;

/// Problems, the worst first.
#[derive(Default)]
struct Problems {
    /// The JSON of those that are shown.
    shown: Vec<u8>,
    count: usize,
}

impl Problems {
    fn add(&mut self, problem: &[u8]) {
        self.count += 1;
        if self.count > MAX_SHOWN {
            return;
        }
        if !self.shown.is_empty() {
            self.shown.push(b',');
        }
        self.shown.extend_from_slice(problem);
    }
}

/// The data of the message.
pub(super) fn problems(hub: &Hub, caller: &Caller, snapshot: &Snapshot, visibility: &Visibility) -> Vec<u8> {
    let mut problems = Problems::default();
    let health = &snapshot.health;
    if let Some(reason) = &health.unavailable {
        problems.add(&json(&json!({"kind": "store", "reason": reason})));
    }
    of_outboxes(hub, caller, &mut problems);
    of_push(hub, caller, &mut problems);
    for at in snapshot.troubled().iter().filter(|at| visibility.sees_group(**at)) {
        if let Some(slot) = snapshot.groups.get(*at) {
            problems.add(slot.row.problem());
        }
    }
    for given_up in &snapshot.given_up {
        let (topic, group) = (&given_up.topic, &given_up.group);
        if dlq::sees(caller, topic) {
            let problem = json!({
                "kind": "letters", "topic": topic, "group": group, "count": given_up.count, "lastTs": given_up.last,
            });
            problems.add(&json(&problem));
        }
    }
    for warning in &health.warnings {
        problems.add(&json(&json!({"kind": "store", "warning": warning})));
    }
    let mut text = b"{\"problems\":[".to_vec();
    text.extend_from_slice(&problems.shown);
    let more = problems.count.saturating_sub(MAX_SHOWN);
    text.extend_from_slice(format!("],\"more\":{more}}}").as_bytes());
    text
}

/// Outboxes that cannot be reached, or have rows that somebody has to look at: for those who see them in `/outbox`.
fn of_outboxes(hub: &Hub, caller: &Caller, problems: &mut Problems) {
    if !caller.administrates() {
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
        problems.add(&json(&problem));
    }
}

fn of_push(hub: &Hub, caller: &Caller, problems: &mut Problems) {
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
        let state = if entry.paused.is_some() { PushState::Paused.as_str() } else { state.as_str() };
        let (name, topic, group) = (endpoint.name(), &endpoint.definition.topic, &endpoint.group);
        problems.add(&json(&json!({
            "kind": "push", "name": name, "topic": topic, "group": group, "state": state, "reason": reason,
        })));
    }
}
