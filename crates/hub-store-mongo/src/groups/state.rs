//! A group's state as the database has it: small, and written in parts.
//!
//! Ranges of settled events, and tries, are kept in buckets of 4096 seqs, each a string of varints, so that a save sends
//! what changed and not what is there. A group with the most that may be parked, 100,000 events, takes about half a
//! megabyte; the usual one less than a kilobyte.

use hub_core::store::{GroupState, Tries};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};
use std::collections::{BTreeMap, BTreeSet};

/// A bucket has `1 << SHIFT` seqs.
const SHIFT: u32 = 12;

/// The encoded parts of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    settled: BTreeMap<u64, Vec<u8>>,
    tries: BTreeMap<u64, Vec<u8>>,
}

impl Buckets {
    pub fn of(state: &GroupState) -> Self {
        let mut buckets = Self::default();
        let mut at = Place::default();
        for (from, to) in state.settled.iter() {
            let bytes = at.bucket(&mut buckets.settled, from);
            put(bytes, from - at.last);
            put(bytes, to - from);
            at.last = to;
        }
        let mut at = Place::default();
        for (&seq, tries) in &state.tries {
            let bytes = at.bucket(&mut buckets.tries, seq);
            put(bytes, seq - at.last);
            put(bytes, u64::from(tries.attempts));
            put(bytes, u64::from(tries.failures));
            at.last = seq;
        }
        buckets
    }
}

/// Where the last number of a bucket was.
#[derive(Default)]
struct Place {
    bucket: Option<u64>,
    last: u64,
}

impl Place {
    /// The bucket of `seq`; in a new one numbers count from its beginning.
    fn bucket<'a>(&mut self, buckets: &'a mut BTreeMap<u64, Vec<u8>>, seq: u64) -> &'a mut Vec<u8> {
        let bucket = seq >> SHIFT;
        if self.bucket != Some(bucket) {
            *self = Self { bucket: Some(bucket), last: bucket << SHIFT };
        }
        buckets.entry(bucket).or_default()
    }
}

/// The whole state.
pub fn whole(state: &GroupState, buckets: &Buckets) -> Document {
    let part = |buckets: &BTreeMap<u64, Vec<u8>>| -> Document {
        buckets.iter().map(|(bucket, bytes)| (format!("b{bucket}"), binary(bytes))).collect()
    };
    doc! {
        "epoch": signed(state.epoch),
        "floor": signed(state.floor),
        "high": signed(state.high),
        "settled": part(&buckets.settled),
        "tries": part(&buckets.tries),
    }
}

/// What has to be set, and what has to go, to bring one state to another.
pub fn difference(old: (&GroupState, &Buckets), new: (&GroupState, &Buckets)) -> (Document, Document) {
    let (mut set, mut unset) = (Document::new(), Document::new());
    let numbers = [
        ("epoch", old.0.epoch, new.0.epoch),
        ("floor", old.0.floor, new.0.floor),
        ("high", old.0.high, new.0.high),
    ];
    for (name, old, new) in numbers {
        if old != new {
            set.insert(format!("state.{name}"), signed(new));
        }
    }
    for (name, old, new) in
        [("settled", &old.1.settled, &new.1.settled), ("tries", &old.1.tries, &new.1.tries)]
    {
        let all: BTreeSet<u64> = old.keys().chain(new.keys()).copied().collect();
        for bucket in all {
            let path = format!("state.{name}.b{bucket}");
            match new.get(&bucket) {
                Some(bytes) if old.get(&bucket) == Some(bytes) => {}
                Some(bytes) => drop(set.insert(path, binary(bytes))),
                None => drop(unset.insert(path, "")),
            }
        }
    }
    (set, unset)
}

/// Reads a state; an error says what is wrong with it.
pub fn read(document: &Document) -> Result<GroupState, String> {
    let number = |name: &str| -> Result<u64, String> {
        let number = document.get_i64(name).map_err(|error| error.to_string())?;
        u64::try_from(number).map_err(|_| format!("its {name} is negative"))
    };
    let mut state = GroupState {
        epoch: number("epoch")?,
        floor: number("floor")?,
        high: number("high")?,
        ..GroupState::default()
    };
    each(document, "settled", |bytes, last| {
        let from = last + take(bytes)?;
        let to = from.checked_add(take(bytes)?)?;
        state.settled.insert(from, to);
        Some(to)
    })?;
    each(document, "tries", |bytes, last| {
        let seq = last + take(bytes)?;
        let attempts = u32::try_from(take(bytes)?).ok()?;
        let failures = u32::try_from(take(bytes)?).ok()?;
        state.tries.insert(seq, Tries { attempts, failures });
        Some(seq)
    })?;
    Ok(state)
}

/// Reads every bucket of a part: `read` takes one item off the bytes, given where the last one ended.
fn each(
    document: &Document,
    part: &str,
    mut read: impl FnMut(&mut &[u8], u64) -> Option<u64>,
) -> Result<(), String> {
    let wrong = || format!("its {part} cannot be read");
    for (name, value) in document.get_document(part).map_err(|error| error.to_string())? {
        let bucket = name.strip_prefix('b').and_then(|number| number.parse::<u64>().ok());
        let bucket = bucket.filter(|&bucket| bucket < 1 << (62 - SHIFT)).ok_or_else(wrong)?;
        let Bson::Binary(binary) = value else { return Err(wrong()) };
        let (mut bytes, mut last) = (binary.bytes.as_slice(), bucket << SHIFT);
        while !bytes.is_empty() {
            // Far from where sums of these would not fit.
            last = read(&mut bytes, last).filter(|&last| last < 1 << 62).ok_or_else(wrong)?;
        }
    }
    Ok(())
}

fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

fn signed(number: u64) -> i64 {
    crate::document::signed(number)
}

/// Seven bits per byte, the lowest first; the highest bit says that there is more.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            // Sums of two of these fit; no seq comes near that.
            return (number < 1 << 62).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = GroupState> {
        let seqs = prop::collection::vec((0_u64..20_000, 0_u64..3, 0_u32..300, 0_u32..3), 0..40);
        (0_u64..1 << 40, 0_u64..5, seqs).prop_map(|(floor, epoch, seqs)| {
            let mut state = GroupState { epoch, high: floor + 30_000, ..GroupState::at(floor) };
            state.high = floor + 30_000;
            for (offset, kind, attempts, failures) in seqs {
                let seq = floor + 2 + offset;
                match kind {
                    0 => state.settled.insert(seq, seq + u64::from(attempts)),
                    _ => drop(state.tries.insert(seq, Tries { attempts, failures })),
                }
            }
            state
        })
    }

    /// What the server does with `$set` and `$unset`.
    fn update(document: &mut Document, set: Document, unset: Document) {
        for (path, value) in set {
            let names: Vec<_> = path.split('.').skip(1).collect();
            match names[..] {
                [name] => drop(document.insert(name, value)),
                [part, bucket] => drop(document.get_document_mut(part).unwrap().insert(bucket, value)),
                _ => unreachable!(),
            }
        }
        for (path, _) in unset {
            let names: Vec<_> = path.split('.').skip(1).collect();
            document.get_document_mut(names[0]).unwrap().remove(names[1]).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_state_is_read_as_it_was_written(state in state()) {
            prop_assert_eq!(read(&whole(&state, &Buckets::of(&state))).unwrap(), state);
        }

        #[test]
        fn a_difference_makes_one_state_of_another(old in state(), new in state()) {
            let (from, to) = (Buckets::of(&old), Buckets::of(&new));
            let mut document = whole(&old, &from);
            let (set, unset) = difference((&old, &from), (&new, &to));
            update(&mut document, set, unset);
            prop_assert_eq!(read(&document).unwrap(), new);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut document = whole(&GroupState::default(), &Buckets::default());
            document.insert("tries", doc! { "b3": binary(&bytes) });
            let _ = read(&document);
            document.insert("settled", doc! { "b1125899906842623": binary(&bytes) });
            let _ = read(&document);
        }
    }

    #[test]
    fn nothing_is_sent_for_what_did_not_change() {
        let mut state = GroupState { high: 9000, ..GroupState::at(10) };
        state.settled.insert(12, 14);
        state.settled.insert(8000, 8001);
        let before = Buckets::of(&state);
        let mut after = state.clone();
        after.settled.insert(8003, 8003);
        let (set, unset) = difference((&state, &before), (&after, &Buckets::of(&after)));
        assert_eq!(set.keys().collect::<Vec<_>>(), ["state.settled.b1"]);
        assert!(unset.is_empty());
    }

    #[test]
    fn the_most_that_may_be_parked_takes_little() {
        let mut state = GroupState { high: 1 << 41, ..GroupState::at(1 << 40) };
        for n in 0..100_000 {
            state.tries.insert((1 << 40) + 2 * n, Tries { attempts: 900, failures: 4 });
            state.settled.insert((1 << 40) + 2 * n + 1, (1 << 40) + 2 * n + 1);
        }
        let bytes = mongodb::bson::serialize_to_vec(&whole(&state, &Buckets::of(&state))).unwrap().len();
        assert!(bytes < 1 << 20, "{bytes}");
    }
}
