//! `/publish`.

use super::super::schema::{any, array, array_of, named, object};
use super::super::{Answer, Body, Content, Endpoint, Kind, Needs, Param, Verb};
use super::CLOUDEVENTS;
use hub_proto::limits;
use serde_json::Value;

const CLOUDEVENT: &str = "application/cloudevents+json";

fn payload() -> Value {
    named("Payload")
}

fn cloud_event() -> Value {
    named("NewCloudEvent")
}

fn batch() -> Value {
    array_of(0, limits::BATCH_EVENTS, cloud_event())
}

fn published() -> Value {
    let results = object(&[("results", array(any(&[named("Receipt"), named("Error")])))]);
    any(&[named("Receipt"), results])
}

pub static PUBLISH: Endpoint = Endpoint {
    method: Verb::Post,
    path: "/publish/{topic}",
    name: "publish",
    summary: "Publishes the body as an event, or CloudEvents in structured, batched or binary mode. In binary mode \
              (header `ce-specversion`) the body is the data, of any content type.",
    needs: Needs::Right("publish"),
    params: &[
        Param::required("topic", Kind::NewTopic, "The topic.", "orders.created"),
        Param::new("key", Kind::Key, "The entity key. Not for CloudEvents."),
        Param::new("id", Kind::Id, "An id of the publisher's own. Not for CloudEvents."),
    ],
    headers: &[],
    body: Some(Body {
        is_required: true,
        content: &[
            Content::json(payload, &[("payload", r#"{"order":17}"#)]),
            Content::json_as(
                CLOUDEVENT,
                cloud_event,
                &[(
                    "cloudevent",
                    r#"{"specversion":"1.0","type":"com.example.order","source":"/shop","id":"A-1","subject":"order-19","time":"2026-04-01T12:00:00Z","data":{"order":19}}"#,
                )],
            ),
            Content::json_as(
                CLOUDEVENTS,
                batch,
                &[("batch", r#"[{"specversion":"1.0","type":"paid","source":"/shop","id":"B-1","data":1}]"#)],
            ),
        ],
    }),
    answer: Answer::of(&[Content::json(
        published,
        &[
            (
                "one",
                r#"{"id":"01a0f3c2-7a80-7cc0-8f5e-0242ac120002","seq":1,"ts":1780000000000,"durable":"fsync"}"#,
            ),
            (
                "again",
                r#"{"id":"01a0f3c2-7a80-7cc0-8f5e-0242ac120002","seq":1,"ts":1780000000000,"durable":"fsync","duplicate":true}"#,
            ),
            (
                "batch",
                r#"{"results":[{"id":"6091678f-c107-503c-9838-91c357d1ad3c","seq":2,"ts":1780000000000,"durable":"fsync"},{"code":"bad_request","error":"CloudEvent specversion \"0.3\"; 1.0 is taken"}]}"#,
            ),
        ],
    )]),
    refusals: &[409, 422],
};
