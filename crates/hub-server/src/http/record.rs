//! How one event is written into an answer.

use crate::cloudevents::{Accepted, CloudEvent};
use hub_core::Event;

/// The form of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFormat {
    /// The record as it is in the log.
    Native,
    /// As a CloudEvent in JSON.
    CloudEvent,
}

impl RecordFormat {
    /// What a request asks for by its header `Accept`.
    pub fn of(accepted: Option<Accepted>) -> Self {
        accepted.map_or(Self::Native, |_| Self::CloudEvent)
    }
}

/// Appends a record, on one line.
pub(super) fn put_record(event: &Event, format: RecordFormat, into: &mut Vec<u8>) {
    match format {
        RecordFormat::Native => into.extend_from_slice(event.json()),
        RecordFormat::CloudEvent => CloudEvent::write(event, into),
    }
}
