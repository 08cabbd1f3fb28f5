//! Spans to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! The bus says what it did with traced events ([`hub_core::trace`]); this gives it the names of OpenTelemetry's conventions for
//! messaging. A thread of its own sends what has gathered. The queue before it is bounded: spans that do not fit are dropped, which
//! the log says, and no event waits for a collector.

use crate::config::Tracing;
use anyhow::{Context, Result};
use hub_core::trace::{Operation, Span, SpanRecorder};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use std::sync::Arc;
use std::time::Duration;

/// How long a stop waits for the last spans to be sent: what the rest of a stop leaves of ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a collector has to answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Exporter {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

impl Exporter {
    /// One that sends to the collector of the configuration. The collector need not be there yet.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(tracing: &Tracing) -> Result<Arc<Self>> {
        let endpoint = format!("{}/v1/traces", tracing.otlp_endpoint.trim_end_matches('/'));
        // A blocking client: the processor sends from a thread of its own. Made on a thread without a runtime, which it asks for.
        let client = std::thread::spawn(|| {
            reqwest::blocking::Client::builder().timeout(EXPORT_TIMEOUT).no_proxy().build()
        });
        let client = client.join().ok().context("making an HTTP client failed")??;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .context("tracing.otlp_endpoint cannot be used")?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource =
            Resource::builder().with_service_name(tracing.service_name.clone()).with_attribute(version);
        processor.set_resource(&resource.build());
        let scope =
            InstrumentationScope::builder("event-hub").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Arc::new(Self { processor, scope }))
    }

    /// Sends what has gathered, and ends. Blocks for as long as that takes, at most a second.
    pub fn stop(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(STOP_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

impl SpanRecorder for Exporter {
    fn record(&self, span: Span) {
        self.processor.on_end(span_data(span, self.scope.clone()));
    }
}

/// A span as OpenTelemetry has it.
fn span_data(span: Span, instrumentation_scope: InstrumentationScope) -> SpanData {
    let Span { parent, span_id, operation, start, end, topic, event, seq, error } = span;
    let name = format!("{} {topic}", operation.name());
    let trace_id = TraceId::from_bytes(parent.trace_id.to_be_bytes());
    let parent_span_id = SpanId::from_bytes(parent.span_id.to_be_bytes());
    let span_id = SpanId::from_bytes(span_id.to_be_bytes());
    let mut attributes = vec![
        KeyValue::new("messaging.system", "event-hub"),
        KeyValue::new("messaging.operation.name", operation.name()),
        KeyValue::new("messaging.destination.name", topic.to_string()),
        KeyValue::new("messaging.message.id", event.to_string()),
    ];
    if let Some(kind) = operation_type(&operation) {
        attributes.push(KeyValue::new("messaging.operation.type", kind));
    }
    if let Some(group) = operation.group() {
        attributes.push(KeyValue::new("messaging.consumer.group.name", group.to_string()));
    }
    // OTLP has no unsigned numbers. A log with more events than this does not fit a disk.
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    if let Some(seq) = seq {
        attributes.push(KeyValue::new("event_hub.seq", number(seq)));
    }
    match &operation {
        Operation::Relay { outbox } => attributes.push(KeyValue::new("event_hub.outbox", outbox.to_string())),
        Operation::Publish { duplicate } => attributes.push(KeyValue::new("event_hub.duplicate", *duplicate)),
        Operation::Commit { events } => {
            attributes.push(KeyValue::new("messaging.batch.message_count", number(*events as u64)));
        }
        Operation::Deliver { attempt, .. } => {
            attributes.push(KeyValue::new("event_hub.attempt", i64::from(*attempt)));
        }
        Operation::Settle { attempt, outcome, .. } => {
            attributes.push(KeyValue::new("event_hub.attempt", i64::from(*attempt)));
            attributes.push(KeyValue::new("event_hub.outcome", outcome.as_str()));
        }
        Operation::DeadLetter { .. } => {}
    }
    SpanData {
        span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id,
        parent_span_is_remote: matches!(operation, Operation::Relay { .. } | Operation::Publish { .. }),
        span_kind: kind(&operation),
        name: name.into(),
        start_time: start,
        end_time: end,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope,
    }
}

fn kind(operation: &Operation) -> SpanKind {
    match operation {
        Operation::Relay { .. } | Operation::Deliver { .. } => SpanKind::Producer,
        Operation::Publish { .. } => SpanKind::Server,
        Operation::Commit { .. } | Operation::Settle { .. } | Operation::DeadLetter { .. } => {
            SpanKind::Internal
        }
    }
}

/// The type of an operation in OpenTelemetry's conventions, where they have one.
fn operation_type(operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::Relay { .. } | Operation::Publish { .. } => Some("send"),
        Operation::Deliver { .. } => Some("receive"),
        Operation::Settle { .. } => Some("settle"),
        Operation::Commit { .. } | Operation::DeadLetter { .. } => None,
    }
}
