//! Traces of the real program, as a collector gets them.

use crate::endpoint::Endpoint;
use crate::hub::{Hub, Place};
use crate::outbox::sqlite::outbox;
use crate::socket::{Socket, clients};
use hub_core::outbox::NewRow;
use hub_proto::{Payload, TraceContext};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::Client;
use serde_json::{Value, json};
use std::time::Duration;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        Any::IntValue(number) => Some(number.to_string()),
        Any::BoolValue(switch) => Some(switch.to_string()),
        other => panic!("{other:?}"),
    }
}

/// The spans that a collector got, each with the name of the service.
fn spans(collector: &Endpoint) -> Vec<(String, Span)> {
    let mut spans = Vec::new();
    for request in collector.received() {
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        let request = ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap();
        for resource in request.resource_spans {
            let service = text(&resource.resource.unwrap().attributes, "service.name").unwrap();
            let of_scopes = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.extend(of_scopes.map(|span| (service.clone(), span)));
        }
    }
    spans
}

/// The one span of this name.
fn one<'a>(spans: &'a [(String, Span)], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|(_, span)| span.name == name).collect();
    let names: Vec<_> = spans.iter().map(|(_, span)| &span.name).collect();
    assert_eq!(found.len(), 1, "{name} in {names:?}");
    &found[0].1
}

/// Takes the next event of a group and acks it.
async fn handle(socket: &mut Socket, topic: &str) -> Value {
    let frame = socket.next().await.unwrap();
    assert_eq!(frame["op"], "EVENT", "{frame}");
    let ack =
        json!({"op": "ACK", "topic": topic, "group": "billing", "id": frame["event"]["id"], "corr": "a"});
    socket.ok(ack).await;
    frame["event"].clone()
}

#[test]
fn a_trace_goes_from_the_outbox_row_to_the_handler() {
    let (place, collector, hook) =
        (Place::new(), Endpoint::new(Duration::ZERO), Endpoint::new(Duration::ZERO));
    let outbox = outbox(&place);
    let config = format!(
        "[tracing]\notlp_endpoint = \"http://{}\"\nservice_name = \"hub-1\"\n[[outbox]]\nname = \"shop\"\nurl = {:?}\n\
         [[push]]\nname = \"crm\"\ntopic = \"orders\"\nurl = \"{}\"\nsecrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n\
         from = \"earliest\"\nallow_private = true\n",
        collector.address,
        outbox.url,
        hook.url()
    );
    let config = place.write("hub.toml", &config);
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let row = NewRow::new("orders", Payload::of(&1).unwrap()).header("traceparent", TRACE);
    let id = row.id.to_string();
    outbox.get(outbox.store.add(vec![row]));
    let event = clients(async {
        let mut socket = Socket::open(hub.ws(), hub.token()).await;
        let opts = json!({"from": "earliest"});
        socket.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": opts})).await;
        handle(&mut socket, "orders").await
    });
    assert_eq!((&event["id"], &event["headers"]["traceparent"]), (&json!(id), &json!(TRACE)));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while hook.received().is_empty() {
        assert!(std::time::Instant::now() < deadline, "the push did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A hub that stops sends what it has.
    hub.stop();

    let spans = spans(&collector);
    let publisher = TraceContext::parse(TRACE).unwrap();
    for (service, span) in &spans {
        assert_eq!(service, "hub-1");
        assert_eq!(span.trace_id, publisher.trace_id.to_be_bytes(), "{}", span.name);
        assert_eq!(text(&span.attributes, "messaging.message.id").as_ref(), Some(&id), "{}", span.name);
        assert!(span.start_time_unix_nano > 0 && span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    let [relay, publish, commit] =
        ["relay orders", "publish orders", "commit orders"].map(|name| one(&spans, name));
    assert_eq!(relay.parent_span_id, publisher.span_id.to_be_bytes());
    assert_eq!(publish.parent_span_id, publisher.span_id.to_be_bytes());
    assert_eq!(commit.parent_span_id, publish.span_id);
    assert_eq!(text(&relay.attributes, "event_hub.outbox").as_deref(), Some("shop"));
    // Two groups have the event: a consumer and an endpoint.
    for group in ["billing", "push.crm"] {
        let of_group: Vec<_> = spans
            .iter()
            .map(|(_, span)| span)
            .filter(|span| text(&span.attributes, "messaging.consumer.group.name").as_deref() == Some(group))
            .collect();
        let names: Vec<_> = of_group.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["deliver orders", "settle orders"], "{group}");
        assert_eq!(of_group[0].parent_span_id, publish.span_id, "{group}");
        assert_eq!(of_group[1].parent_span_id, of_group[0].span_id, "{group}");
        assert_eq!(text(&of_group[1].attributes, "event_hub.outcome").as_deref(), Some("acked"));
        if group == "push.crm" {
            let passed_on = TraceContext::parse(&hook.received()[0].headers["traceparent"]).unwrap();
            assert_eq!(passed_on.trace_id, publisher.trace_id);
            assert_eq!(
                passed_on.span_id.to_be_bytes(),
                of_group[0].span_id[..],
                "the endpoint joins the delivery"
            );
        }
    }
}

#[test]
fn the_trace_of_an_http_request_is_that_of_its_event() {
    let (place, collector) = (Place::new(), Endpoint::new(Duration::ZERO));
    let address = format!("http://{}/", collector.address);
    let hub = Hub::start(&place.path("data"), &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
    let event = clients(async {
        let request = Client::new().post(format!("{}publish/orders", hub.http())).bearer_auth(hub.token());
        let request = request.header("traceparent", TRACE).header("tracestate", "vendor=1").body("1");
        assert_eq!(request.send().await.unwrap().status(), 200);
        let mut socket = Socket::open(hub.ws(), hub.token()).await;
        let opts = json!({"from": "earliest"});
        socket.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": opts})).await;
        handle(&mut socket, "orders").await
    });
    assert_eq!(event["headers"], json!({"traceparent": TRACE, "tracestate": "vendor=1"}));
    hub.stop();
    let spans = spans(&collector);
    let names: Vec<_> = spans.iter().map(|(_, span)| span.name.as_str()).collect();
    assert_eq!(names, ["commit orders", "publish orders", "deliver orders", "settle orders"]);
    assert!(spans.iter().all(|(service, _)| service == "event-hub"));
}

#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let place = Place::new();
    // A port that nobody listens on any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let environment = format!("http://{address}");
    let hub = Hub::start(&place.path("data"), &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &environment)]);
    clients(async {
        let mut socket = Socket::open(hub.ws(), hub.token()).await;
        let event = json!({"topic": "t", "payload": 1, "opts": {"headers": {"traceparent": TRACE}}});
        for _ in 0..10 {
            let answer = socket.ok(json!({"op": "PUBLISH", "events": vec![&event; 1000]})).await;
            assert_eq!(answer["results"].as_array().unwrap().len(), 1000);
        }
    });
    // Within its time, and with exit code 0.
    hub.stop();
}
