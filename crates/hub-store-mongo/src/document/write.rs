//! From a draft to a document.

use super::bson::{Indexes, Writer};
use super::payload;
use hub_core::Millis;
use hub_proto::{Draft, PublishOptions};
use mongodb::bson::RawDocumentBuf;
use mongodb::bson::oid::ObjectId;

/// Bytes of the elements that come before a draft's own: what is left to write when it gets its place.
const FRAME_BYTES: usize = 128;

/// A draft on its way into the database. What does not depend on its place is encoded once, however often it has to be
/// numbered anew.
#[derive(Debug)]
pub struct Entry {
    /// Where it stands in the commit.
    pub index: usize,
    pub draft: Draft,
    /// The same in every try: whoever finds it in the database knows that it was us.
    pub oid: ObjectId,
    /// Elements from `id` on, and the end of the document.
    body: Vec<u8>,
}

impl Entry {
    pub fn new(index: usize, draft: Draft) -> Self {
        let mut writer = Writer::with_capacity(draft.len() + 64);
        writer.uuid("id", draft.id());
        writer.int64("ts", signed(draft.ts()));
        if let Some(key) = draft.key() {
            writer.string(if draft.audience().is_some() { "replay_key" } else { "key" }, key);
        }
        if let Some(extras) = draft.extras() {
            write_extras(&mut writer, &extras);
        }
        payload::write(&mut writer, draft.payload());
        writer.bytes.push(0);
        Self { index, draft, oid: ObjectId::new(), body: writer.bytes }
    }

    /// Bytes of the JSON, once it has this seq.
    pub fn size(&self, seq: u64) -> u64 {
        self.draft.len() as u64 + u64::from(seq.checked_ilog10().unwrap_or(0)) + 1
    }

    /// Bytes of the document, about.
    pub fn bytes(&self) -> usize {
        self.body.len() + FRAME_BYTES + self.draft.topic().len()
    }

    /// The document for a place in the log. `end` is that of the record before.
    pub fn document(&self, seq: u64, committed: Millis, end: u64) -> RawDocumentBuf {
        let mut writer = Writer::with_capacity(self.bytes());
        writer.bytes.extend_from_slice(&[0; 4]);
        writer.object_id("_id", self.oid);
        writer.string("topic", self.draft.topic());
        writer.int64("seq", signed(seq));
        writer.int64("committed", signed(committed));
        let size = self.size(seq);
        writer.int32("size", i32::try_from(size).unwrap_or(i32::MAX));
        writer.int64("end", signed(end + size));
        let mut bytes = writer.bytes;
        bytes.extend_from_slice(&self.body);
        let len = bytes.len() as i32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        RawDocumentBuf::from_bytes(bytes).expect("it has a length in front and a zero behind")
    }
}

/// Numbers in the database are signed. Nothing here comes near the limit.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn write_extras(writer: &mut Writer, extras: &PublishOptions) {
    if let Some(sid) = &extras.sid {
        writer.string("sid", sid);
    }
    if !extras.headers.is_empty() {
        write_headers(writer, &extras.headers);
    }
    if !extras.caused_by.is_empty() {
        let open = writer.open_array("caused_by");
        let mut indexes = Indexes::new();
        for id in &extras.caused_by {
            writer.uuid(indexes.next(), *id);
        }
        writer.end(open);
    }
    if !extras.tags.is_empty() {
        let open = writer.open_array("tags");
        let mut indexes = Indexes::new();
        for tag in &extras.tags {
            writer.string(indexes.next(), tag);
        }
        writer.end(open);
    }
}

fn write_headers(writer: &mut Writer, headers: &[(String, String)]) {
    let mut names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).all(|pair| pair[0] != pair[1]) && !names.iter().any(|name| name.contains('\0')) {
        let open = writer.open_document("headers");
        for (name, value) in headers {
            writer.string(name, value);
        }
        writer.end(open);
        return;
    }
    let open = writer.open_array("headers");
    let mut indexes = Indexes::new();
    for (name, value) in headers {
        let pair = writer.open_array(indexes.next());
        writer.string("0", name);
        writer.string("1", value);
        writer.end(pair);
    }
    writer.end(open);
}
