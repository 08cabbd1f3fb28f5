//! A sidecar of any bytes, as found and with its checksums made right: every question has an answer or an error, no
//! length is believed, and answers are in order and within the segment.
#![no_main]

use hub_proto::EventId;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::disk::{Disk, Wait};
use hub_store_embedded::index::{Entry, Flags, Item, SegmentIndex};
use hub_store_embedded::sidecar::{Sidecar, encode, reseal};
use libfuzzer_sys::fuzz_target;

/// Bytes of the segment, in the header of a sidecar: where, and in a seed that everything can grow from.
const NONCE_AT: usize = 16;
const COVERED_AT: usize = 24;

fuzz_target!(|data: &[u8]| {
    ask(data.to_vec());
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    ask(bytes);
    // A good one, in which some bytes are others.
    let mut bytes = good();
    for change in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] = change[2];
    }
    reseal(&mut bytes);
    ask(bytes);
});

fn good() -> Vec<u8> {
    let mut index = SegmentIndex::default();
    for number in 0..40_u8 {
        let id = EventId::from_bytes([
            number,
            0,
            0,
            0,
            0,
            0,
            if number % 2 == 0 { 0x70 } else { 0x40 },
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            number,
        ]);
        let key = (number % 3 == 0).then(|| ["a", "b", "long"][usize::from(number) / 3 % 3].into());
        let flags = if key.is_some() { Flags::KEYED } else { Flags::default() };
        let entry =
            Entry { seq: u64::from(number) * 2 + 1, offset: 64 + u32::from(number) * 100, len: 100, flags };
        let (topic, hash) =
            (u32::from(number % 2) + 1, u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        index.add(Item { topic, entry, id, hash, key: key.as_ref(), committed: u64::from(number) });
    }
    encode(&index, 7, 5000)
}

fn ask(bytes: Vec<u8>) {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 8).unwrap_or(&[0; 8]);
        u64::from_le_bytes(bytes.try_into().expect("eight of them"))
    };
    let (nonce, covered, size) = (number(NONCE_AT), number(COVERED_AT), bytes.len());
    let disk = SimDisk::new(1);
    disk.put("sidecar", bytes);
    let file = disk.open("sidecar").expect("it was put there");
    let Ok(sidecar) = Sidecar::open(file, nonce, covered) else { return };
    let _ = sidecar.verify(Wait::Yes);
    assert!(sidecar.len() <= size && sidecar.topics().len() <= size);
    let within = |entry: &Entry| u64::from(entry.offset) + u64::from(entry.len) <= covered;
    for part in sidecar.topics() {
        let topic = part.number;
        for from in [0, part.first_seq, part.first_seq / 2 + part.last_seq / 2, part.last_seq, u64::MAX] {
            for max in [0, 1, 5, usize::MAX] {
                let Ok(entries) = sidecar.entries(topic, from, max, Wait::Yes) else { continue };
                assert!(entries.len() <= max && entries.len() <= size);
                assert!(entries.iter().all(|entry| within(entry) && entry.seq >= from));
                assert!(entries.is_sorted_by(|one, other| one.seq < other.seq));
            }
        }
        for at in [0, part.count / 2, part.count, u32::MAX] {
            let _ = sidecar.entry(topic, at, Wait::Yes);
        }
        for key in ["", "a", "b", "long", "\u{10ffff}"] {
            if let Ok(Some(entry)) = sidecar.newest(topic, key, Wait::Yes) {
                assert!(within(&entry));
            }
            for after in [None, Some(key)] {
                if let Ok(keys) = sidecar.keys(topic, after, 7, Wait::Yes) {
                    assert!(keys.len() <= 7 && keys.is_sorted_by(|one, other| one.0 < other.0));
                }
            }
        }
    }
    for hash in [0, 1, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
        if let Ok(offsets) = sidecar.offsets(hash, Wait::Yes) {
            assert!(offsets.iter().all(|offset| u64::from(*offset) < covered));
        }
    }
    let _ = sidecar.entries(u32::MAX, 0, 1, Wait::Yes);
}
