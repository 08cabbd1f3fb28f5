//! Event ids: how they are written, made and derived.

mod generator;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::error::shown;
use crate::{Error, Result};

pub use generator::IdGenerator;

/// The namespace of [`EventId::derived`]. Stored data depends on it: it never changes.
const NAMESPACE: Uuid = Uuid::from_u128(0x7b1e_6d0c_52f4_4c8e_9a37_e4d8_1f60_b52a);

/// The namespace of [`EventId::of_effect`].
const EFFECTS: Uuid = Uuid::from_u128(0x6c1f_0a52_7d3e_5b9a_8f46_2e0d_9c7b_1a35);

/// The number that eight hex digits in lower case stand for, most significant first; `None` for anything else. All
/// eight at once: a scan reads millions of ids.
fn eight_hex(high: [u8; 4], low: [u8; 4]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let text = u64::from(u32::from_be_bytes(high)) << 32 | u64::from(u32::from_be_bytes(low));
    // Letters, and they alone, have bit 6: `a` is 0x61.
    let digits = (text & (ONES * 0x0F)) + (text >> 6 & ONES) * 9;
    // What is not a digit is written differently.
    let letters = (digits + ONES * 6) >> 4 & ONES;
    let written = digits + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10);
    if digits & (ONES * 0xF0) != 0 || written != text {
        return None;
    }
    let pairs = (digits | digits >> 4) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF;
    Some((fours | fours >> 16) as u32)
}

/// An event's id: any UUID. The hub makes them with [`IdGenerator`]; a publisher may bring its own.
///
/// Ids order by their bytes, so ids of one generator order by the time they were made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Uuid);

impl EventId {
    /// Reads a UUID, hyphenated or as 32 hex digits, in either case.
    ///
    /// ```
    /// use hub_proto::EventId;
    /// let id = EventId::parse("018BCFE5-6800-7000-8000-000000000001")?;
    /// assert_eq!(id.to_string(), "018bcfe5-6800-7000-8000-000000000001");
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_request` if the text is no UUID.
    pub fn parse(text: &str) -> Result<Self> {
        // The uuid crate also reads `{…}` and `urn:uuid:…`: refused, so that an id has few spellings.
        let plain = matches!(text.len(), 32 | 36);
        match Uuid::try_parse(text) {
            Ok(uuid) if plain => Ok(Self(uuid)),
            _ => Err(Error::bad_request(format!(
                "id {} is not a UUID like 018bcfe5-6800-7000-8000-000000000001",
                shown(text)
            ))),
        }
    }

    /// Reads a UUID as [`EventId::encode`] writes it; `None` for any other spelling.
    pub(crate) fn parse_canonical(text: &[u8; 36]) -> Option<Self> {
        let part = |at: usize| [text[at], text[at + 1], text[at + 2], text[at + 3]];
        let hyphens = text[8] == b'-' && text[13] == b'-' && text[18] == b'-' && text[23] == b'-';
        let parts = [
            eight_hex(part(0), part(4))?,
            eight_hex(part(9), part(14))?,
            eight_hex(part(19), part(24))?,
            eight_hex(part(28), part(32))?,
        ];
        let number = parts.into_iter().fold(0, |number, part| number << 32 | u128::from(part));
        hyphens.then(|| Self::from_bytes(number.to_be_bytes()))
    }

    /// An id from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id's bytes, most significant first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Writes the id, hyphenated and in lower case, without allocating.
    ///
    /// ```
    /// let id = hub_proto::EventId::from_bytes([0xAB; 16]);
    /// assert_eq!(id.encode(&mut [0; 36]), "abababab-abab-abab-abab-abababababab");
    /// ```
    pub fn encode(self, buf: &mut [u8; 36]) -> &str {
        self.0.hyphenated().encode_lower(buf)
    }

    /// An id that is a function of `parts` alone, on every machine and for ever: a UUID v5 over the parts,
    /// each prefixed with its length so that no two lists of parts share an id.
    ///
    /// ```
    /// use hub_proto::EventId;
    /// assert_eq!(EventId::derived(&[b"a", b"b"]), EventId::derived(&[b"a", b"b"]));
    /// assert_ne!(EventId::derived(&[b"ab"]), EventId::derived(&[b"a", b"b"]));
    /// ```
    pub fn derived(parts: &[&[u8]]) -> Self {
        let mut name = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
        for part in parts {
            name.extend_from_slice(&(part.len() as u64).to_be_bytes());
            name.extend_from_slice(part);
        }
        Self(Uuid::new_v5(&NAMESPACE, &name))
    }

    /// The id of an event that a handler of `group` publishes while it handles the event `id` of `topic`, the `number`th one, from 0. All
    /// SDKs derive the same.
    ///
    /// ```
    /// # use hub_proto::EventId;
    /// let cause: EventId = "0199e6a1-0b50-7000-8000-000000000001".parse()?;
    /// let id = EventId::of_effect("billing", "orders.created", cause, 0);
    /// assert_ne!(id, EventId::of_effect("billing", "orders.created", cause, 1));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn of_effect(group: &str, topic: &str, id: Self, number: u64) -> Self {
        let name = serde_json::json!([group, topic, id, number]).to_string();
        Self(Uuid::new_v5(&EFFECTS, name.as_bytes()))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; 36]))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.encode(&mut [0; 36]))
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        Self::parse(&text).map_err(|err| serde::de::Error::custom(err.msg))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_id_reads_back_from_every_way_it_is_written() {
        let id = EventId::from_bytes(*b"0123456789abcdef");
        assert_eq!(EventId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.to_string().parse::<EventId>().unwrap(), id);
        assert_eq!(format!("{id:?}"), id.to_string());
        assert_eq!(EventId::parse(&id.to_string().to_uppercase()).unwrap(), id);
        assert_eq!(EventId::parse(&id.to_string().replace('-', "")).unwrap(), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<EventId>(&json).unwrap(), id);
    }

    #[test]
    fn the_canonical_spelling_is_one_of_all() {
        let id = EventId::from_bytes(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");
        let mut text = [0; 36];
        id.encode(&mut text);
        assert_eq!(EventId::parse_canonical(&text), Some(id));
        for at in 0..36 {
            for other in (0..=255).filter(|other| !b"0123456789abcdef-".contains(other)) {
                let mut text = text;
                text[at] = other;
                assert_eq!(EventId::parse_canonical(&text), None, "{at} {other}");
            }
            let mut text = text;
            text[at] = if text[at] == b'-' { b'0' } else { b'-' };
            assert_eq!(EventId::parse_canonical(&text), None, "{at}");
        }
    }

    #[test]
    fn what_is_no_uuid_is_refused_with_the_value() {
        let id = EventId::from_bytes([7; 16]).to_string();
        for bad in ["", "1", "not-a-uuid", &format!("{{{id}}}"), &format!("urn:uuid:{id}"), &id[1..]] {
            let err = EventId::parse(bad).unwrap_err();
            assert!(err.msg.contains("is not a UUID"), "{err}");
        }
        assert!(serde_json::from_str::<EventId>("\"1\"").is_err());
    }

    #[test]
    fn derived_ids_never_change() {
        // Pinned: dead letters and deduplication on disk depend on these very values.
        assert_eq!(EventId::derived(&[]).to_string(), "6f0a5e94-9556-5a03-9147-aacec5ecd1d7");
        assert_eq!(
            EventId::derived(&[b"orders", b"billing", b"7"]).to_string(),
            "75d30829-1335-5b1b-b415-de99ec951ddc"
        );
        assert_eq!(EventId::derived(&[b"x"]).0.get_version_num(), 5);
    }

    #[test]
    fn derived_ids_tell_apart_how_the_parts_are_cut() {
        let cuts: &[&[&[u8]]] = &[&[b"abc"], &[b"ab", b"c"], &[b"a", b"bc"], &[b"abc", b""], &[b"", b"abc"]];
        for (i, a) in cuts.iter().enumerate() {
            for b in &cuts[i + 1..] {
                assert_ne!(EventId::derived(a), EventId::derived(b));
            }
        }
    }
}
