//! JSON as bytes: what the hub needs to know of a payload without building it in memory.
//!
//! The functions here take **valid** JSON (a [`Payload`](crate::Payload) is). Given anything else they
//! neither panic nor loop, but their answer means nothing.

mod canonical;
mod number;

pub use canonical::canonical;

use bytes::BufMut;

/// The nesting of arrays and objects: 0 for a number, 1 for `[]`, 2 for `{"a":[]}`.
///
/// ```
/// assert_eq!(hub_proto::json::depth(br#"{"a":["[[["]}"#), 2);
/// ```
pub fn depth(json: &[u8]) -> usize {
    let (mut now, mut deepest) = (0_usize, 0);
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(json, at),
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Where a string that began before `at` has ended: the offset behind its closing quote.
pub(crate) fn string_end(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// Whether two texts are the same JSON value: the order of members, the way strings are escaped and numbers
/// are written, and whitespace make no difference. Numbers are compared as exact decimals.
///
/// ```
/// use hub_proto::json::same;
/// assert!(same(br#"{"a":1,"b":"\u0041"}"#, br#"{"b": "A", "a": 1.0e0}"#));
/// assert!(!same(b"9007199254740993", b"9007199254740992"));
/// ```
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || canonical(a) == canonical(b)
}

/// Appends a text as a JSON string, quotes included, escaping only what JSON demands.
///
/// ```
/// let mut out = Vec::new();
/// hub_proto::json::write_str(&mut out, "say \"hé\"\n");
/// assert_eq!(out, r#""say \"hé\"\n""#.as_bytes());
/// ```
pub fn write_str(out: &mut impl BufMut, s: &str) {
    out.put_u8(b'"');
    let bytes = s.as_bytes();
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.put_slice(&bytes[copied..at]);
        write_escape(out, byte);
        copied = at + 1;
    }
    out.put_slice(&bytes[copied..]);
    out.put_u8(b'"');
}

/// Appends the escape of a byte that may not stand in a JSON string as it is.
fn write_escape(out: &mut impl BufMut, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => return write_unicode_escape(out, u16::from(byte)),
    };
    out.put_slice(&[b'\\', short]);
}

/// Appends `\uXXXX`.
fn write_unicode_escape(out: &mut impl BufMut, unit: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.put_u8(HEX[usize::from(unit >> shift & 0xf)]);
    }
}

/// Appends a number in decimal.
pub fn write_u64(out: &mut impl BufMut, mut n: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

#[cfg(test)]
mod tests;
