//! One text for all the ways to write a JSON value.

use super::{number, string_end, write_escape, write_unicode_escape};

/// The canonical text of a valid JSON value: members sorted by key, strings with the fewest escapes, numbers
/// as exact decimals, no whitespace. Two values are the same if their canonical texts are.
///
/// Members with equal keys are all kept, in their order. A lone surrogate (`"\ud800"`), which no Unicode text
/// can hold, stays an escape. Nothing is lost to a float: `1`, `1.0` and `10e-1` are one number,
/// `9007199254740993` is not `9007199254740992`. The result is valid JSON, though not meant for people (`100`
/// is `1e2`).
///
/// ```
/// use hub_proto::json::canonical;
/// assert_eq!(canonical(br#"{ "b": [1.50], "a": "\u0041" }"#), br#"{"a":"A","b":[15e-1]}"#);
/// ```
pub fn canonical(json: &[u8]) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(json.len()), ..Writer::default() };
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                at = string_end(json, at);
                let closing = usize::from(at - start >= 2);
                writer.string(&json[start + 1..at - closing]);
            }
            b'{' => writer.open(true),
            b'[' => writer.open(false),
            b'}' | b']' => writer.close(byte),
            b',' => writer.comma(),
            b'-' | b'0'..=b'9' => {
                while json
                    .get(at)
                    .is_some_and(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
                {
                    at += 1;
                }
                number::write_canonical(&mut writer.out, &json[start..at]);
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => writer.out.push(byte),
        }
    }
    writer.finish()
}

/// Writes the text as it comes, notes of each object in which order its members belong, and puts everything into order at the
/// end: each byte is copied once, however deep it lies. Its stacks are on the heap, so deep nesting costs memory in proportion
/// and no recursion.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// The arrays and objects around the current place.
    open: Vec<Open>,
    /// The members so far of all open objects; those of the innermost one are last.
    members: Vec<Member>,
    /// The objects whose members are not in order.
    unordered: Vec<Unordered>,
}

/// An object whose members belong into another order.
struct Unordered {
    /// The inside of its brackets in `out`.
    start: usize,
    end: usize,
    /// The texts of its members, in the order in which they belong.
    members: Vec<(usize, usize)>,
}

struct Open {
    is_object: bool,
    /// Where its text begins in `out`, behind the bracket.
    start: usize,
    /// Where its members begin in `members`.
    first: usize,
    /// Whether the next string is a key.
    expects_key: bool,
}

/// A piece of the text that is still to be copied.
enum Piece {
    /// From here to there.
    Text(usize, usize),
    Comma,
}

/// A member's text in `out`: `"key":value`.
struct Member {
    start: usize,
    /// Where the key's closing quote is.
    key_end: usize,
    end: usize,
}

impl Writer {
    fn open(&mut self, is_object: bool) {
        self.out.push(if is_object { b'{' } else { b'[' });
        let (start, first) = (self.out.len(), self.members.len());
        self.open.push(Open { is_object, start, first, expects_key: is_object });
    }

    fn comma(&mut self) {
        self.end_member();
        self.out.push(b',');
        if let Some(open) = self.open.last_mut() {
            open.expects_key = open.is_object;
        }
    }

    fn close(&mut self, bracket: u8) {
        self.end_member();
        if let Some(open) = self.open.pop() {
            self.sort(&open);
            self.members.truncate(open.first);
        }
        self.out.push(bracket);
    }

    /// Notes where the innermost object's current member ends, if it has one.
    fn end_member(&mut self) {
        let end = self.out.len();
        if let Some(open) = self.open.last()
            && let Some(member) = self.members[open.first..].last_mut()
        {
            member.end = end;
        }
    }

    /// Notes in which order the members of an object belong that just ended.
    fn sort(&mut self, open: &Open) {
        let Self { out, members, unordered, .. } = self;
        let members = &mut members[open.first..];
        let key = |member: &Member| &out[member.start + 1..member.key_end];
        if members.is_sorted_by(|a, b| key(a) <= key(b)) {
            return;
        }
        // Stable: of members with the same key the order has a meaning, for most readers take the last.
        members.sort_by(|a, b| key(a).cmp(key(b)));
        let members = members.iter().map(|member| (member.start, member.end)).collect();
        unordered.push(Unordered { start: open.start, end: out.len(), members });
    }

    /// The text, with everything in order.
    fn finish(self) -> Vec<u8> {
        let Self { out: text, mut unordered, .. } = self;
        if unordered.is_empty() {
            return text;
        }
        // An object comes before those within it.
        unordered.sort_unstable_by_key(|object| (object.start, std::cmp::Reverse(object.end)));
        let mut ordered = Vec::with_capacity(text.len());
        let mut left = vec![Piece::Text(0, text.len())];
        while let Some(piece) = left.pop() {
            let Piece::Text(start, end) = piece else {
                ordered.push(b',');
                continue;
            };
            // The first member of an object begins where the object does, and is not the object.
            let is_around = |object: &Unordered| object.start == start && object.end > end;
            let first = unordered.partition_point(|object| object.start < start || is_around(object));
            let Some(object) = unordered.get(first).filter(|object| object.start < end) else {
                ordered.extend_from_slice(&text[start..end]);
                continue;
            };
            ordered.extend_from_slice(&text[start..object.start]);
            // The last one first: they are taken from the end.
            left.push(Piece::Text(object.end, end));
            for (at, &(start, end)) in object.members.iter().enumerate().rev() {
                left.push(Piece::Text(start, end));
                left.extend((at > 0).then_some(Piece::Comma));
            }
        }
        ordered
    }

    fn string(&mut self, raw: &[u8]) {
        let start = self.out.len();
        self.out.push(b'"');
        write_unescaped(&mut self.out, raw);
        let key_end = self.out.len();
        self.out.push(b'"');
        if let Some(open) = self.open.last_mut().filter(|open| open.expects_key) {
            open.expects_key = false;
            self.members.push(Member { start, key_end, end: key_end + 1 });
        }
    }
}

/// Writes the inside of a string with every escape undone that can be.
fn write_unescaped(out: &mut Vec<u8>, raw: &[u8]) {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let escape = &rest[at..];
        let used = match escape.get(1) {
            Some(b'u') => write_code_point(out, escape),
            Some(&letter) => {
                match letter {
                    b'b' => write_escape(out, 0x08),
                    b't' => write_escape(out, 0x09),
                    b'n' => write_escape(out, 0x0a),
                    b'f' => write_escape(out, 0x0c),
                    b'r' => write_escape(out, 0x0d),
                    b'"' | b'\\' => write_escape(out, letter),
                    // `\/`, the only other one there is.
                    other => out.push(other),
                }
                2
            }
            None => escape.len(),
        };
        rest = &escape[used..];
    }
    out.extend_from_slice(rest);
}

/// Writes the character of a `\uXXXX` or of a pair of them, and says how many bytes it took.
fn write_code_point(out: &mut Vec<u8>, escape: &[u8]) -> usize {
    let Some(first) = hex_unit(escape) else { return escape.len() };
    let second = escape.get(6..).and_then(hex_unit);
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    match pair.or_else(|| char::from_u32(u32::from(first))) {
        Some(c) if u32::from(c) < 0x20 || c == '"' || c == '\\' => {
            write_escape(out, first as u8);
            6
        }
        Some(c) => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            6 * c.len_utf16()
        }
        None => {
            write_unicode_escape(out, first);
            6
        }
    }
}

/// The number in a `\uXXXX` at the beginning of a text.
fn hex_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
