//! How one event is written into an answer.

use bytes::{BufMut, BytesMut};
use hub_core::Event;

/// The form of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFormat {
    /// The record as it is in the log.
    Native,
}

/// Appends a record, on one line.
pub(super) fn put_record(event: &Event, format: RecordFormat, into: &mut BytesMut) {
    match format {
        RecordFormat::Native => into.put_slice(event.json()),
    }
}
