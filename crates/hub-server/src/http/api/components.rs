//! Schemas with a name: what several answers have in them.

mod live;

pub(super) use live::messages;

use super::schema::{
    Schema, any, array, count, flag, group, id, integer, key, map, named, number, object, one_of, or_null,
    text, time, topic, topic_or_pattern, yes,
};
use crate::connections::ConnectionKind;
use hub_core::Reason;
use hub_proto::limits;
use serde_json::{Value, json};

/// All of them.
pub(super) const COMPONENTS: &[(&str, Schema)] = &[
    ("AuditEntry", audit_entry),
    ("CloudEvent", cloud_event),
    ("Connection", connection),
    ("DeadLetter", dead_letter),
    ("Error", error),
    ("Event", event),
    ("EventInGroup", event_in_group),
    ("Filter", filter),
    ("Group", group_entry),
    ("GroupDetail", group_detail),
    ("GroupOptions", group_options),
    ("GroupRates", group_rates),
    ("GroupSample", group_sample),
    ("Hub", hub),
    ("Job", job),
    ("LastFailure", last_failure),
    ("LatestLetter", latest_letter),
    ("LiveGroup", live::group_row),
    ("LiveSample", live::sample),
    ("LiveTopic", live::topic_row),
    ("Member", member),
    ("NewCloudEvent", new_cloud_event),
    ("Outbox", outbox),
    ("OutboxRow", outbox_row),
    ("Payload", payload),
    ("PatternQuota", pattern_quota),
    ("Problem", live::problem),
    ("PushSubscription", push_subscription),
    ("Quantiles", quantiles),
    ("Readiness", readiness),
    ("Receipt", receipt),
    ("RowOfEvent", row_of_event),
    ("SchemaVersion", schema_version),
    ("StateRow", live::state_row),
    ("SubjectQuota", subject_quota),
    ("TailRow", live::tail_row),
    ("Topic", topic_entry),
    ("TopicRates", topic_rates),
    ("TopicSample", topic_sample),
    ("TopicSettings", topic_settings),
    ("Unsettled", unsettled),
];

/// Why a group delivers nothing.
pub(super) fn reason() -> Value {
    one_of(&Reason::ALL.map(Reason::as_str))
}

fn described(mut schema: Value, text: &str) -> Value {
    schema["description"] = json!(text);
    schema
}

// ---- access ----

/// A line of the audit log, with its number.
fn audit_entry() -> Value {
    object(&[
        ("n", count()),
        ("ts", time()),
        ("event", one_of(&["auth_failed", "refused", "admin"])),
        ("outcome", one_of(&["allowed", "refused"])),
        ("via", one_of(&["ws", "http"])),
        ("peer?", text()),
        ("sub?", text()),
        ("jti?", text()),
        ("op", text()),
        ("action", text()),
        ("topic?", text()),
        ("group?", text()),
        ("target?", text()),
        ("code?", text()),
        ("reason?", text()),
    ])
}

fn connection() -> Value {
    object(&[
        ("id", text()),
        ("subject?", text()),
        ("address?", text()),
        ("kind", one_of(&ConnectionKind::ALL.map(ConnectionKind::as_str))),
        ("since", time()),
        ("expires?", time()),
        ("subscriptions", count()),
        ("inflight", count()),
        ("queuedBytes", count()),
        ("sentBytes", count()),
    ])
}

// ---- events ----

/// The one schema that allows everything.
fn payload() -> Value {
    json!({"description": "Any JSON value: what a publisher sent."})
}

fn event() -> Value {
    object(&[
        ("id", id()),
        ("seq", count()),
        ("ts", time()),
        ("topic", topic()),
        ("key?", key()),
        ("sid?", text()),
        ("headers?", map(text())),
        ("payload", named("Payload")),
        ("caused_by?", array(id())),
        ("tags?", array(text())),
    ])
}

/// The attributes that a CloudEvent has, and what further ones may be.
fn attributes(required: &[&str], further: &Value) -> Value {
    let properties = json!({
        "specversion": {"type": "string", "const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "subject": key(),
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": text(),
        "data": named("Payload"),
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    });
    json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": further,
    })
}

fn cloud_event() -> Value {
    let mut schema =
        attributes(&["specversion", "id", "source", "type", "time", "hubseq", "hubtopic"], &text());
    schema["properties"]["hubseq"] = json!({"type": "string", "pattern": "^[0-9]+$"});
    schema["properties"]["hubtopic"] = topic();
    schema["properties"]["hubid"] = id();
    described(schema, "An event as the hub writes it as a CloudEvent. Further attributes are strings.")
}

fn new_cloud_event() -> Value {
    // Null counts as absent.
    let further = json!({"type": ["string", "integer", "boolean", "null"]});
    let mut schema = attributes(&["specversion", "id", "source", "type"], &further);
    for name in ["subject", "time", "datacontenttype", "data_base64"] {
        schema["properties"][name] = or_null(schema["properties"][name].clone());
    }
    schema["propertyNames"] = json!({"pattern": "^([a-z0-9]+|data_base64)$"});
    described(schema, "A CloudEvent 1.0 as a publisher sends it.")
}

fn receipt() -> Value {
    object(&[
        ("id", id()),
        ("seq", count()),
        ("ts", time()),
        ("durable", one_of(&["fsync", "majority", "interval", "memory"])),
        ("duplicate?", yes()),
    ])
}

fn error() -> Value {
    object(&[("error", text()), ("code", text()), ("id?", id())])
}

// ---- topics and groups ----

fn quantiles() -> Value {
    object(&[("p50", number()), ("p99", number())])
}

/// What is counted of a topic, per second.
pub(super) fn topic_figures() -> Vec<(&'static str, Value)> {
    vec![("published", number()), ("bytes", number())]
}

/// What is counted of a group, per second.
pub(super) fn group_figures() -> Vec<(&'static str, Value)> {
    ["delivered", "acked", "nacked", "redelivered", "deadlettered"].map(|name| (name, number())).to_vec()
}

/// How long events of a group took, if there were any.
pub(super) fn latencies() -> Vec<(&'static str, Value)> {
    vec![("latencyMs?", named("Quantiles")), ("handlerMs?", named("Quantiles"))]
}

fn topic_sample() -> Value {
    object(&topic_figures())
}

fn group_sample() -> Value {
    object(&[group_figures(), latencies()].concat())
}

fn topic_rates() -> Value {
    object(&[("second", named("TopicSample")), ("minute", named("TopicSample"))])
}

fn group_rates() -> Value {
    object(&[("second", named("GroupSample")), ("minute", named("GroupSample"))])
}

fn topic_entry() -> Value {
    object(&[
        ("name", topic()),
        ("first", count()),
        ("last", count()),
        ("events", count()),
        ("bytes", count()),
        ("lastCommitted", or_null(time())),
        ("groups", count()),
        ("rates", named("TopicRates")),
        ("maker?", text()),
        ("settings", named("TopicSettings")),
    ])
}

fn topic_settings() -> Value {
    object(&[
        ("retentionDays", or_null(count())),
        ("retentionBytes", or_null(count())),
        ("compaction", flag()),
        ("tombstoneGraceMs", count()),
        ("durability", one_of(&["commit", "interval"])),
        ("dedupeWindowMs", count()),
    ])
}

fn filter() -> Value {
    object(&[("tags?", array(text())), ("key?", key()), ("headers?", map(text()))])
}

fn group_options() -> Value {
    object(&[
        ("filter", named("Filter")),
        ("ordering", one_of(&["none", "key"])),
        ("coalesce", flag()),
        ("maxAttempts", count()),
    ])
}

fn unsettled() -> Value {
    object(&[("seq", count()), ("ageMs?", count())])
}

/// What both the list of groups and a look at one group have.
pub(super) fn group_status() -> Vec<(&'static str, Value)> {
    vec![
        ("topic", topic()),
        ("group", group()),
        ("floor", count()),
        ("last", count()),
        ("lag", count()),
        ("inflight", count()),
        ("parked", count()),
        ("reason", or_null(reason())),
        ("since?", time()),
        ("oldestUnsettled?", named("Unsettled")),
    ]
}

fn group_entry() -> Value {
    let own = vec![
        ("members", count()),
        ("options", named("GroupOptions")),
        ("owner?", text()),
        ("rates?", named("GroupRates")),
    ];
    object(&[group_status(), own].concat())
}

/// A closer look at a group that this hub serves, or at one that another hub serves.
fn group_detail() -> Value {
    let failure = object(&[("seq", count()), ("attempt", count()), ("ts", time()), ("reason", text())]);
    let blocking = object(&[
        ("seq", count()),
        ("id", or_null(id())),
        ("key", or_null(key())),
        ("state", one_of(&["pending", "leased", "parked", "dead_lettering"])),
        ("leftMs?", count()),
        ("member?", count()),
    ]);
    let served = vec![
        ("epoch", count()),
        ("rates", named("GroupRates")),
        ("members", array(named("Member"))),
        ("failures", array(failure)),
        ("nextDeadlineMs?", count()),
        ("blocking?", blocking),
    ];
    let served_elsewhere = vec![("owner?", text())];
    any(&[object(&[group_status(), served].concat()), object(&[group_status(), served_elsewhere].concat())])
}

fn member() -> Value {
    object(&[
        ("member", count()),
        ("inflight", count()),
        ("paused", flag()),
        ("hasRoom", flag()),
        ("ackTimeoutMs", count()),
        ("oldestHeldMs?", count()),
        ("subject?", text()),
    ])
}

// ---- one event, dead letters, jobs ----

fn event_in_group() -> Value {
    const STATES: &[&str] =
        &["pending", "leased", "parked", "dead_lettering", "dead_lettered", "filtered", "settled"];
    object(&[
        ("group", group()),
        ("state", one_of(STATES)),
        ("reason?", reason()),
        ("member?", count()),
        ("leftMs?", count()),
        ("inHand?", flag()),
        ("behindKey?", yes()),
        ("attempts?", count()),
        ("failures?", count()),
        ("saved?", yes()),
        ("letter?", named("LatestLetter")),
    ])
}

fn latest_letter() -> Value {
    let replay = object(&[("round", count()), ("id", id()), ("seq", count())]);
    object(&[
        ("id", id()),
        ("seq", count()),
        ("ts", time()),
        ("err", text()),
        ("attempts", count()),
        ("replays", array(replay)),
        ("discarded?", time()),
    ])
}

/// What the list of dead letters and a look at one letter have.
pub(super) fn letter_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("id", id()),
        ("topic", topic()),
        ("group", group()),
        ("seq", count()),
        ("ts", time()),
        ("err", text()),
        ("attempts", count()),
        ("key?", key()),
        ("originalId", id()),
        ("originalSeq", count()),
        ("originalTs", time()),
        ("replayOf?", id()),
        ("replays", count()),
        ("replayed?", time()),
    ]
}

fn dead_letter() -> Value {
    object(&[letter_fields(), vec![("payload?", named("Payload"))]].concat())
}

/// How many letters were replayed, and why some were not.
pub(super) fn replay_outcome() -> Vec<(&'static str, Value)> {
    let failure = object(&[("id", id()), ("error", text()), ("code", text())]);
    vec![("replayed", count()), ("skipped", count()), ("failed", count()), ("failures?", array(failure))]
}

fn job() -> Value {
    let own = vec![
        ("job", id()),
        ("kind", one_of(&["dlq_replay"])),
        ("topic", topic()),
        ("subject", text()),
        ("state", one_of(&["running", "done", "cancelled", "failed", "cut_off"])),
        ("reason?", text()),
        ("total", count()),
        ("complete", flag()),
        ("started", time()),
        ("ended?", time()),
    ];
    object(&[own, replay_outcome()].concat())
}

// ---- the hub ----

fn hub() -> Value {
    object(&[("id", text()), ("address", text()), ("version", text()), ("started", time()), ("this", flag())])
}

/// What is kept, with what may be.
fn kept() -> Vec<(&'static str, Value)> {
    let bytes = || object(&[("maxPerSecond", count())]);
    vec![
        ("topics", usage()),
        ("groups", usage()),
        ("storedBytes", usage()),
        ("bytesIn?", bytes()),
        ("bytesOut?", bytes()),
    ]
}

fn usage() -> Value {
    object(&[("used", count()), ("max?", count())])
}

fn subject_quota() -> Value {
    let own = vec![("subject", text()), ("connections", usage()), ("subscriptions", usage())];
    object(&[own, kept()].concat())
}

fn pattern_quota() -> Value {
    object(&[vec![("pattern", topic_or_pattern())], kept()].concat())
}

const ROW_STATUSES: &[&str] = &["pending", "claimed", "sent", "error"];

fn outbox_row() -> Value {
    object(&[
        ("id", text()),
        ("topic", text()),
        ("key?", text()),
        ("ord?", json!({"type": "integer"})),
        ("status", one_of(ROW_STATUSES)),
        ("ts", time()),
        ("attempts", count()),
        ("error?", text()),
        ("claimedBy?", text()),
        ("behind?", yes()),
    ])
}

fn row_of_event() -> Value {
    object(&[
        ("outbox", text()),
        ("id", text()),
        ("status", one_of(ROW_STATUSES)),
        ("ts", time()),
        ("attempts", count()),
        ("error?", text()),
    ])
}

fn outbox() -> Value {
    object(&[
        ("name", text()),
        ("connected", flag()),
        ("reason?", text()),
        ("pending?", count()),
        ("parked?", count()),
        ("oldestAgeMs?", count()),
        ("sent?", count()),
        ("retries?", count()),
        ("rows", array(named("OutboxRow"))),
    ])
}

fn last_failure() -> Value {
    object(&[("at", time()), ("status?", integer(100, 999)), ("error", text())])
}

/// A JSON Schema, as it was stored.
pub(super) fn json_schema() -> Value {
    json!({"type": ["object", "boolean"], "description": "A JSON Schema of the draft 2020-12."})
}

/// A version of the schema of a topic or of a pattern.
fn schema_version() -> Value {
    object(&[
        ("version", described(count(), "From 1; 0 for a schema of the configuration.")),
        ("ts?", time()),
        ("by?", described(text(), "The subject that stored it; for administrators.")),
        ("forced?", yes()),
        ("schema", json_schema()),
    ])
}

fn push_subscription() -> Value {
    const STATES: &[&str] = &["starting", "active", "paused", "deferred", "failing", "elsewhere", "trouble"];
    object(&[
        ("name", text()),
        ("topic", topic_or_pattern()),
        ("group", group()),
        ("url", text()),
        ("secrets", count()),
        ("mode", one_of(&["structured", "binary"])),
        ("concurrency", count()),
        ("rate?", count()),
        ("ordering", one_of(&["none", "key"])),
        ("filter", named("Filter")),
        ("maxAttempts", count()),
        ("timeoutMs", count()),
        ("allowPrivate", flag()),
        ("from", one_of(&["earliest", "latest"])),
        ("origin", one_of(&["file", "api"])),
        ("state", one_of(STATES)),
        ("reason?", text()),
        ("pausedAt?", time()),
        ("owner?", text()),
        ("inflight", count()),
        ("delivered", count()),
        ("lastFailure?", named("LastFailure")),
    ])
}

fn readiness() -> Value {
    let brief = object(&[("available", flag())]);
    let detailed = object(&[
        ("available", flag()),
        ("reason?", text()),
        ("warnings", array(text())),
        ("damaged", count()),
    ]);
    object(&[("ready", flag()), ("store", any(&[brief, detailed])), ("draining", flag())])
}

/// A filter as a request gives it: null counts as absent.
pub(super) fn new_filter() -> Value {
    object(&[
        ("tags?", or_null(json!({"type": "array", "items": text(), "maxItems": limits::TAGS}))),
        ("key?", or_null(key())),
        ("headers?", or_null(map(text()))),
    ])
}
