//! A payload as BSON, so that people can query it, and back as JSON.
//!
//! What a reader gets is what the publisher wrote, byte for byte, so a payload goes into the database in one of three
//! ways:
//!
//! | the BSON, written as JSON again, is | stored |
//! | --- | --- |
//! | the same bytes | `payload` |
//! | the same JSON, spelled differently (spaces, escapes, `1e2`) | `payload` for queries, and the text in `payload_json` |
//! | not the same | the text in `payload_json` alone |
//!
//! The last is what BSON cannot carry: integers beyond 64 bits, numbers with more digits than a double has, names twice
//! in one object or with a NUL in them, halves of a surrogate pair, nesting beyond 100 levels of documents. And what
//! would be too large as BSON: an array of digits takes six times the bytes of its JSON.
//!
//! The rule is not a list of such cases but the comparison itself: what does not come back is not trusted to BSON.

use super::bson::{Indexes, Writer};
use hub_proto::json;
use mongodb::bson::{RawBsonRef, RawDocument};
use std::borrow::Cow;

/// Levels of arrays and objects in a payload. The document around it is one more; the server allows 100.
const DEPTH: usize = 99;
/// Bytes of a payload as BSON, and as BSON and text together. The whole document has 16 MiB.
const BYTES: usize = 7 << 20;
const BOTH_BYTES: usize = 12 << 20;

/// The element's name.
pub const PAYLOAD: &str = "payload";
/// The name of the text.
pub const TEXT: &str = "payload_json";

/// How a payload is stored: see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As BSON.
    Exactly,
    /// As BSON and as text.
    Twice,
    /// As text.
    AsText,
}

/// Appends a payload's elements to a document that is being written.
pub fn write(writer: &mut Writer, payload: &[u8]) -> Stored {
    let start = writer.bytes.len();
    let mut stored = Stored::AsText;
    if (Reader { json: payload, at: 0, limit: start + BYTES }).whole(writer).is_some() {
        stored = compare(&writer.bytes[start..], payload);
    }
    if stored == Stored::Twice && writer.bytes.len() - start + payload.len() > BOTH_BYTES {
        stored = Stored::AsText;
    }
    if stored == Stored::AsText {
        writer.bytes.truncate(start);
    }
    if stored != Stored::Exactly {
        // A payload is UTF-8: it was checked when it came in.
        writer.string(TEXT, &String::from_utf8_lossy(payload));
    }
    stored
}

/// Whether what was written reads back as the same.
fn compare(element: &[u8], payload: &[u8]) -> Stored {
    let mut document = Vec::with_capacity(element.len() + 5);
    document.extend_from_slice(&(element.len() as i32 + 5).to_le_bytes());
    document.extend_from_slice(element);
    document.push(0);
    let mut back = Vec::with_capacity(payload.len());
    let value =
        RawDocument::from_bytes(&document).ok().and_then(|document| document.get(PAYLOAD).ok().flatten());
    match value.map(|value| write_json(&mut back, value)) {
        Some(Ok(())) if back == payload => Stored::Exactly,
        Some(Ok(())) if json::same(&back, payload) => Stored::Twice,
        _ => Stored::AsText,
    }
}

/// A walk over valid JSON. Everything answers `None` where BSON cannot follow.
struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    /// How large the document may become.
    limit: usize,
}

impl<'a> Reader<'a> {
    fn whole(mut self, writer: &mut Writer) -> Option<()> {
        self.space();
        self.value(writer, PAYLOAD, DEPTH)?;
        self.space();
        (self.at == self.json.len()).then_some(())
    }

    fn space(&mut self) {
        while matches!(self.json.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, text: &[u8]) -> Option<()> {
        self.json[self.at..].starts_with(text).then(|| self.at += text.len())
    }

    fn value(&mut self, writer: &mut Writer, name: &str, depth: usize) -> Option<()> {
        if writer.bytes.len() > self.limit {
            return None;
        }
        match self.json.get(self.at)? {
            b'{' => self.object(writer, name, depth.checked_sub(1)?),
            b'[' => self.array(writer, name, depth.checked_sub(1)?),
            b'"' => {
                let text = self.string()?;
                writer.string(name, &text);
                Some(())
            }
            b'n' => {
                writer.name(0x0a, name);
                self.eat(b"null")
            }
            b't' => {
                writer.name(0x08, name);
                writer.bytes.push(1);
                self.eat(b"true")
            }
            b'f' => {
                writer.name(0x08, name);
                writer.bytes.push(0);
                self.eat(b"false")
            }
            _ => self.number(writer, name),
        }
    }

    fn object(&mut self, writer: &mut Writer, name: &str, depth: usize) -> Option<()> {
        let open = writer.open_document(name);
        self.at += 1;
        let mut names = Vec::new();
        loop {
            self.space();
            match self.json.get(self.at)? {
                b'}' => break self.at += 1,
                b',' => self.at += 1,
                b'"' => {
                    let member = self.string()?;
                    if member.contains('\0') {
                        return None;
                    }
                    self.space();
                    self.eat(b":")?;
                    self.space();
                    self.value(writer, &member, depth)?;
                    names.push(member);
                }
                _ => return None,
            }
        }
        writer.end(open);
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1]).then_some(())
    }

    fn array(&mut self, writer: &mut Writer, name: &str, depth: usize) -> Option<()> {
        let open = writer.open_array(name);
        self.at += 1;
        let mut indexes = Indexes::new();
        loop {
            self.space();
            match self.json.get(self.at)? {
                b']' => break self.at += 1,
                b',' => self.at += 1,
                _ => self.value(writer, indexes.next(), depth)?,
            }
        }
        writer.end(open);
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            let found = memchr::memchr2(b'"', b'\\', self.json.get(self.at..)?)?;
            self.at += found;
            if self.json[self.at] == b'"' {
                break self.at += 1;
            }
            escaped = true;
            self.at += 2;
        }
        let quoted = &self.json[start..self.at];
        if escaped {
            // An error is half a surrogate pair, which no text can hold.
            return serde_json::from_slice(quoted).ok().map(Cow::Owned);
        }
        std::str::from_utf8(&quoted[1..quoted.len() - 1]).ok().map(Cow::Borrowed)
    }

    fn number(&mut self, writer: &mut Writer, name: &str) -> Option<()> {
        let rest = &self.json[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let len = rest.iter().take_while(|byte| is_part(byte)).count();
        let text = std::str::from_utf8(&rest[..len]).ok()?;
        self.at += len;
        if let Ok(integer) = text.parse::<i64>() {
            match i32::try_from(integer) {
                Ok(small) => writer.int32(name, small),
                Err(_) => writer.int64(name, integer),
            }
            return Some(());
        }
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        writer.name(0x01, name);
        writer.bytes.extend_from_slice(&number.to_le_bytes());
        Some(())
    }
}

/// Appends a BSON value as JSON. An error names the type that JSON does not have.
pub fn write_json(out: &mut Vec<u8>, value: RawBsonRef<'_>) -> Result<(), String> {
    write_json_or(out, value, &|_, other| {
        Err(format!("a value of the type {:?}, which JSON does not have", other.element_type()))
    })
}

/// Appends a BSON value as JSON. What JSON does not have is written by `foreign`.
pub fn write_json_or(
    out: &mut Vec<u8>,
    value: RawBsonRef<'_>,
    foreign: &impl Fn(&mut Vec<u8>, RawBsonRef<'_>) -> Result<(), String>,
) -> Result<(), String> {
    match value {
        RawBsonRef::Document(document) => {
            out.push(b'{');
            for (at, member) in document.iter().enumerate() {
                let (name, value) = member.map_err(|error| error.to_string())?;
                if at > 0 {
                    out.push(b',');
                }
                json::write_str(out, name.as_ref());
                out.push(b':');
                write_json_or(out, value, foreign)?;
            }
            out.push(b'}');
        }
        RawBsonRef::Array(array) => {
            out.push(b'[');
            for (at, value) in array.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_json_or(out, value.map_err(|error| error.to_string())?, foreign)?;
            }
            out.push(b']');
        }
        RawBsonRef::String(text) => json::write_str(out, text),
        RawBsonRef::Boolean(true) => out.extend_from_slice(b"true"),
        RawBsonRef::Boolean(false) => out.extend_from_slice(b"false"),
        RawBsonRef::Null => out.extend_from_slice(b"null"),
        RawBsonRef::Int32(number) => write_integer(out, i64::from(number)),
        RawBsonRef::Int64(number) => write_integer(out, number),
        RawBsonRef::Double(number) if number.is_finite() => {
            // The shortest text that reads as this number. Writing to a Vec never fails.
            let _ = serde_json::to_writer(out, &number);
        }
        other => foreign(out, other)?,
    }
    Ok(())
}

fn write_integer(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    json::write_u64(out, number.unsigned_abs());
}

#[cfg(test)]
mod tests;
