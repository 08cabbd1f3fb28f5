//! One event, dead letters and jobs.

use super::super::components::{letter_fields, replay_outcome};
use super::super::schema::{
    any, array, array_of, count, flag, group, id, integer, named, object, or_null, page, text, text_of, time,
    topic, yes,
};
use super::super::{Content, Endpoint, Kind, Needs, Param, params};
use super::{MILLIS, delete, get, post};
use hub_proto::limits;
use serde_json::{Value, json};

/// Longest text that letters are filtered by.
const FILTER_BYTES: usize = 1024;

/// An event that is stored, one that was cleaned away, and one that is in an outbox only.
fn event() -> Value {
    let shared = || {
        vec![
            ("topic", topic()),
            ("seq", count()),
            ("groups", array(named("EventInGroup"))),
            ("outbox?", named("RowOfEvent")),
            ("next?", group()),
        ]
    };
    let stored = vec![
        ("event", named("Event")),
        ("committed", time()),
        ("replayFor?", group()),
        ("replayOf?", id()),
        ("letter?", id()),
    ];
    let null = || json!({"type": "null"});
    any(&[
        object(&[shared(), stored].concat()),
        object(&[shared(), vec![("event", null()), ("cleaned", yes())]].concat()),
        object(&[("topic", topic()), ("event", null()), ("seq", null()), ("outbox", named("RowOfEvent"))]),
    ])
}

pub static EVENT: Endpoint = get(
    "/event",
    "event",
    "One event and where it went: its outbox row, each group, its dead letters and replays.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        Param::new("id", Kind::Id, "The id of the event."),
        Param::new("seq", MILLIS, "Its seq, instead of the id."),
        params::AFTER,
        params::FEWER,
    ],
    &[Content::json(
        event,
        &[
            (
                "stored",
                r#"{"topic":"payments","event":{"id":"018bcfe5-6800-7000-8000-000000000010","ts":1780000000000,"topic":"payments","key":"order-18","payload":{"amount":9007199254740993},"seq":1},"seq":1,"committed":1780000000000,"groups":[{"group":"ledger","state":"dead_lettered","letter":{"id":"0b470ccc-c063-5475-8e05-31bfa5e61793","seq":1,"ts":1780000000000,"err":"no such account","attempts":1,"replays":[{"round":1,"id":"01a0f3c2-7a80-7cc0-8f5e-0242ac120004","seq":2}]}},{"group":"mail","state":"leased","member":3,"leftMs":29000,"inHand":true,"attempts":1,"failures":0}]}"#,
            ),
            (
                "cleaned away",
                r#"{"topic":"payments","event":null,"seq":1,"groups":[{"group":"mail","state":"settled"}],"cleaned":true}"#,
            ),
            (
                "in an outbox",
                r#"{"topic":"payments","event":null,"seq":null,"outbox":{"outbox":"shop","id":"018bcfe5-6800-7000-8000-000000000010","status":"pending","ts":1780000000000,"attempts":0}}"#,
            ),
        ],
    )],
)
.refusing(&[404]);

fn found_event() -> Value {
    let place = object(&[("topic", topic()), ("seq", count())]);
    object(&[("id", id()), ("topics", array(place)), ("searched", count()), ("next?", topic())])
}

pub static FIND_EVENT: Endpoint = get(
    "/event/find",
    "findEvent",
    "The topics, of those that the token may read, that have an event with this id. One request asks up to 1,000 topics; \
     `next` says that there are more.",
    Needs::Token,
    &[
        Param::required("id", Kind::Id, "The id of the event.", "018bcfe5-6800-7000-8000-000000000010"),
        Param::new("after", Kind::Text, "Go on behind this topic: `next` of the request before."),
    ],
    &[Content::json(
        found_event,
        &[(
            "found",
            r#"{"id":"018bcfe5-6800-7000-8000-000000000010","topics":[{"topic":"payments","seq":1}],"searched":3}"#,
        )],
    )],
);

fn found_events() -> Value {
    let found = object(&[
        ("topic", topic()),
        ("seq", count()),
        ("id", id()),
        ("committed", time()),
        ("key?", text()),
    ]);
    object(&[("events", array(found)), ("searched", count()), ("lookedAt", count()), ("next?", text())])
}

pub static SEARCH_EVENTS: Endpoint = get(
    "/event/search",
    "searchEvents",
    "Events by the trace or the correlation id in their headers, in the topics that the token may read. One of `traceId`, \
     `traceparent` and `correlationId` has to be there. One request looks at up to 50,000 events; `next` says that there may be more.",
    Needs::Token,
    &[
        Param::new(
            "traceId",
            Kind::TraceId,
            "Only events of this trace, which their header `traceparent` names.",
        ),
        Param::new("traceparent", Kind::Text, "The same, by a whole `traceparent` of the trace."),
        Param::new(
            "correlationId",
            Kind::TextUpTo(limits::HEADERS_BYTES),
            "Only events with this header `correlationId` or `x-correlation-id`.",
        ),
        params::FROM_TS,
        params::TO_TS,
        Param::new("after", Kind::Text, "`next` of the request before."),
    ],
    &[Content::json(
        found_events,
        &[(
            "found",
            r#"{"events":[{"topic":"payments","seq":1,"id":"018bcfe5-6800-7000-8000-000000000010","committed":1780000000000,"key":"order-18"}],"searched":5,"lookedAt":12}"#,
        )],
    )],
);

const OF_GROUP: Param = Param::new("group", Kind::Group, "Only those of this group.");
const OF_ERROR: Param =
    Param::new("err", Kind::TextUpTo(FILTER_BYTES), "Only those with exactly this error.");
const OF_TEXT: Param = Param::new("q", Kind::TextUpTo(FILTER_BYTES), "Only those whose error has this text.");
const OF_KEY: Param = Param::new("key", Kind::TextUpTo(FILTER_BYTES), "Only those with this key.");
const REPLAYED: Param =
    Param::new("replayed", Kind::Flag, "1: only those that were replayed. 0: only those that were not.");

fn letters() -> Value {
    page("letters", named("DeadLetter"))
}

fn summary() -> Value {
    let counts = || vec![("count", count()), ("replayed", count()), ("firstTs", time()), ("lastTs", time())];
    object(&[
        ("letters", count()),
        ("replayed", count()),
        ("errors", array(object(&[vec![("err", text())], counts()].concat()))),
        ("otherErrors", count()),
        ("groups", array(object(&[vec![("topic", topic()), ("group", group())], counts()].concat()))),
        ("otherGroups", count()),
        ("complete", flag()),
        ("next?", text()),
    ])
}

fn letters_or_summary() -> Value {
    any(&[letters(), summary()])
}

const SUMMARY: &str = r#"{"letters":1,"replayed":0,"errors":[{"err":"no such account","count":1,"replayed":0,"firstTs":1780000000000,"lastTs":1780000000000}],"otherErrors":0,"groups":[{"topic":"payments","group":"ledger","count":1,"replayed":0,"firstTs":1780000000000,"lastTs":1780000000000}],"otherGroups":0,"complete":true}"#;

pub static DLQ: Endpoint = get(
    "/dlq",
    "deadLetters",
    "Dead letters that the token may see.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only those of this topic."),
        OF_GROUP,
        OF_ERROR,
        OF_TEXT,
        OF_KEY,
        params::FROM_TS,
        params::TO_TS,
        REPLAYED,
        Param::new("payload", Kind::Flag, "1: with the original's payload."),
        Param::new("summary", Kind::Flag, "1: counts by error and group instead of letters."),
        params::AFTER,
        params::FEWER,
    ],
    &[Content::json(
        letters_or_summary,
        &[
            (
                "letters",
                r#"{"letters":[{"id":"0b470ccc-c063-5475-8e05-31bfa5e61793","topic":"payments","group":"ledger","seq":1,"ts":1780000000000,"err":"no such account","attempts":1,"key":"order-18","originalId":"018bcfe5-6800-7000-8000-000000000010","originalSeq":1,"originalTs":1780000000000,"replays":0,"payload":{"amount":17}}],"next":"payments/1"}"#,
            ),
            ("summary", SUMMARY),
        ],
    )],
)
.refusing(&[404]);

fn letter() -> Value {
    object(&[letter_fields(), vec![("original", named("Event"))]].concat())
}

pub static DLQ_SHOW: Endpoint = get(
    "/dlq/show",
    "deadLetter",
    "One dead letter, with the original event.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        Param::required("id", Kind::Id, "The id of the letter.", "0b470ccc-c063-5475-8e05-31bfa5e61793"),
    ],
    &[Content::json(
        letter,
        &[(
            "letter",
            r#"{"id":"0b470ccc-c063-5475-8e05-31bfa5e61793","topic":"payments","group":"ledger","seq":1,"ts":1780000000000,"err":"no such account","attempts":1,"originalId":"018bcfe5-6800-7000-8000-000000000010","originalSeq":1,"originalTs":1780000000000,"replays":1,"replayed":1780000000000,"original":{"id":"018bcfe5-6800-7000-8000-000000000010","ts":1780000000000,"topic":"payments","payload":{"amount":17},"seq":1}}"#,
        )],
    )],
)
.refusing(&[404]);

pub static DLQ_SUMMARY: Endpoint = get(
    "/dlq/summary",
    "deadLetterSummary",
    "Counts of dead letters by error and by group.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only those of this topic."),
        params::AFTER,
        OF_GROUP,
        OF_ERROR,
        OF_TEXT,
        OF_KEY,
        params::FROM_TS,
        params::TO_TS,
        REPLAYED,
    ],
    &[Content::json(summary, &[("summary", SUMMARY)])],
)
.refusing(&[404]);

/// Which letters are meant. Null counts as absent.
fn which() -> Vec<(&'static str, Value)> {
    let filter = || or_null(text_of(0, FILTER_BYTES));
    let number = || or_null(integer(0, u64::MAX));
    vec![
        ("topic", topic()),
        ("ids?", or_null(array_of(1, limits::BATCH_EVENTS, id()))),
        ("group?", or_null(group())),
        ("err?", filter()),
        ("q?", filter()),
        ("key?", filter()),
        ("fromTs?", number()),
        ("toTs?", number()),
        ("upto?", number()),
        ("dryRun?", flag()),
        ("after?", or_null(json!({"type": "string", "pattern": "^[0-9]+-[0-9]+$"}))),
    ]
}

fn replay_letters() -> Value {
    let how = vec![
        ("rate?", or_null(integer(1, 10_000))),
        ("round?", or_null(integer(1, 1_000))),
        ("payload?", named("Payload")),
    ];
    object(&[which(), how].concat())
}

/// What was replayed, what a dry run would replay, and the job of a replay at a rate.
fn replayed() -> Value {
    let own = vec![("topic", topic()), ("next?", text())];
    any(&[
        object(&[own, replay_outcome()].concat()),
        object(&[
            ("topic", topic()),
            ("dryRun", yes()),
            ("matched", count()),
            ("skipped", count()),
            ("complete", flag()),
            ("upto", count()),
            ("next?", text()),
        ]),
        object(&[
            ("job", id()),
            ("topic", topic()),
            ("total", count()),
            ("complete", flag()),
            ("rate", count()),
        ]),
    ])
}

pub static DLQ_REPLAY: Endpoint = post(
    "/dlq/replay",
    "replayDeadLetters",
    "Replays dead letters to the group that failed.",
    Needs::Right("admin"),
    &[Content::json(
        replay_letters,
        &[
            ("dry run", r#"{"topic":"orders.created","dryRun":true}"#),
            ("by error", r#"{"topic":"orders.created","err":"no such account"}"#),
            ("at a rate", r#"{"topic":"orders.created","rate":10}"#),
        ],
    )],
    &[Content::json(
        replayed,
        &[
            (
                "replayed",
                r#"{"topic":"payments","replayed":1,"skipped":0,"failed":1,"failures":[{"id":"0b470ccc-c063-5475-8e05-31bfa5e61793","error":"topic payments has no group ledger","code":"bad_request"}]}"#,
            ),
            ("dry run", r#"{"topic":"payments","dryRun":true,"matched":1,"skipped":0,"complete":true,"upto":12}"#),
            (
                "job",
                r#"{"job":"01a0f3c2-7a80-7cc0-8f5e-0242ac120009","topic":"payments","total":1,"complete":true,"rate":10}"#,
            ),
        ],
    )],
)
.refusing(&[404]);

fn discard_letters() -> Value {
    object(&[which(), vec![("all?", flag())]].concat())
}

fn discarded_or_matched() -> Value {
    let matched = object(&[
        ("topic", topic()),
        ("dryRun", yes()),
        ("matched", count()),
        ("complete", flag()),
        ("upto", count()),
        ("next?", text()),
    ]);
    any(&[discarded(), matched])
}

fn discarded() -> Value {
    object(&[("topic", topic()), ("discarded", count()), ("next?", text())])
}

pub static DLQ_DELETE: Endpoint = post(
    "/dlq/delete",
    "discardDeadLetters",
    "Discards dead letters: they leave lists and counts.",
    Needs::Right("admin"),
    &[Content::json(
        discard_letters,
        &[
            ("dry run", r#"{"topic":"orders.created","all":true,"dryRun":true}"#),
            ("of a group", r#"{"topic":"orders.created","group":"billing"}"#),
        ],
    )],
    &[Content::json(
        discarded_or_matched,
        &[
            ("discarded", r#"{"topic":"payments","discarded":1}"#),
            ("dry run", r#"{"topic":"payments","dryRun":true,"matched":1,"complete":true,"upto":12}"#),
        ],
    )],
)
.refusing(&[404]);

pub static DELETE_DLQ: Endpoint = delete(
    "/dlq",
    "discardDeadLettersById",
    "Discards dead letters by their ids.",
    &[
        params::TOPIC,
        Param::required(
            "ids",
            Kind::Text,
            "Ids with commas between.",
            "0b470ccc-c063-5475-8e05-31bfa5e61793",
        ),
    ],
    &[Content::json(discarded, &[("discarded", r#"{"topic":"payments","discarded":1}"#)])],
);

fn job() -> Value {
    named("Job")
}

fn jobs() -> Value {
    object(&[("jobs", array(job()))])
}

const RUNNING: &str = r#"{"job":"01a0f3c2-7a80-7cc0-8f5e-0242ac120009","kind":"dlq_replay","topic":"payments","subject":"ada","state":"running","total":12,"complete":true,"started":1780000000000,"replayed":3,"skipped":0,"failed":0}"#;

pub static JOBS: Endpoint = get(
    "/jobs",
    "jobs",
    "Replays that run at a rate.",
    Needs::Token,
    &[],
    &[Content::json(
        jobs,
        &[(
            "jobs",
            r#"{"jobs":[{"job":"01a0f3c2-7a80-7cc0-8f5e-0242ac120009","kind":"dlq_replay","topic":"payments","subject":"ada","state":"failed","reason":"the token was revoked","total":12,"complete":true,"started":1780000000000,"ended":1780000001000,"replayed":3,"skipped":0,"failed":0}]}"#,
        )],
    )],
);

const JOB_ID: Param =
    Param::required("id", Kind::Id, "The id of the job.", "01a0f3c2-7a80-7cc0-8f5e-0242ac120009");

pub static JOB: Endpoint = get(
    "/jobs/{id}",
    "job",
    "One job and its progress.",
    Needs::Token,
    &[JOB_ID],
    &[Content::json(job, &[("running", RUNNING)])],
)
.refusing(&[404]);

pub static CANCEL_JOB: Endpoint = delete(
    "/jobs/{id}",
    "cancelJob",
    "Cancels a job.",
    &[JOB_ID],
    &[Content::json(
        job,
        &[(
            "cancelled",
            r#"{"job":"01a0f3c2-7a80-7cc0-8f5e-0242ac120009","kind":"dlq_replay","topic":"payments","subject":"ada","state":"cancelled","total":12,"complete":true,"started":1780000000000,"ended":1780000001000,"replayed":3,"skipped":0,"failed":0}"#,
        )],
    )],
);
