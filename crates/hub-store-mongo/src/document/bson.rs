//! Writing BSON, element by element, into one buffer.

use hub_proto::EventId;
use mongodb::bson::oid::ObjectId;

/// A document that is being written: elements go in with `element` functions, documents and arrays are opened and closed.
#[derive(Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
}

/// A document or an array that is open.
#[must_use]
#[derive(Clone, Copy)]
pub struct Open(usize);

impl Writer {
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Begins a document that is no element: the outermost one.
    pub fn begin(&mut self) -> Open {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        Open(start)
    }

    /// Ends it, and writes its length.
    pub fn end(&mut self, open: Open) {
        self.bytes.push(0);
        let len = self.bytes.len() - open.0;
        // Documents are far smaller than 2 GiB: see the limit on payloads.
        self.bytes[open.0..open.0 + 4].copy_from_slice(&(len as i32).to_le_bytes());
    }

    /// A type and a name. The name has no NUL: the caller has seen to that.
    pub fn name(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    pub fn open_document(&mut self, name: &str) -> Open {
        self.name(0x03, name);
        self.begin()
    }

    pub fn open_array(&mut self, name: &str) -> Open {
        self.name(0x04, name);
        self.begin()
    }

    /// The text of a string element whose name has been written.
    pub fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    pub fn string(&mut self, name: &str, text: &str) {
        self.name(0x02, name);
        self.text(text);
    }

    pub fn int32(&mut self, name: &str, value: i32) {
        self.name(0x10, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn int64(&mut self, name: &str, value: i64) {
        self.name(0x12, name);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A UUID: binary of subtype 4, as every driver reads it.
    pub fn uuid(&mut self, name: &str, id: EventId) {
        self.name(0x05, name);
        self.bytes.extend_from_slice(&16_i32.to_le_bytes());
        self.bytes.push(4);
        self.bytes.extend_from_slice(&id.to_bytes());
    }

    pub fn object_id(&mut self, name: &str, id: ObjectId) {
        self.name(0x07, name);
        self.bytes.extend_from_slice(&id.bytes());
    }
}

/// The names of an array's elements: `0`, `1`, and so on.
pub struct Indexes {
    next: usize,
    text: String,
}

impl Indexes {
    pub const fn new() -> Self {
        Self { next: 0, text: String::new() }
    }

    pub fn next(&mut self) -> &str {
        use std::fmt::Write;
        self.text.clear();
        // Writing to a String never fails.
        let _ = write!(self.text, "{}", self.next);
        self.next += 1;
        &self.text
    }
}
