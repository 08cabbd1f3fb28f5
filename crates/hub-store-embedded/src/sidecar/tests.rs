//! What a sidecar answers is what the index answers that it was made of, and bytes that are not a sidecar are refused.

use super::{HEADER, Sidecar, SidecarError, encode, reseal};
use crate::disk::{Disk, DiskFile, RealDisk, Wait};
use crate::index::{Entry, Flags, Item, SegmentIndex};
use hub_proto::{EventId, Key};
use proptest::prelude::*;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const NONCE: u64 = 0x5eed;
const COVERED: u64 = 1 << 27;

/// A file in memory that counts how often it is read.
#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    reads: AtomicUsize,
    /// From this byte on, reads that are not to wait are refused.
    cold: Option<u64>,
}

impl DiskFile for Bytes {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        if wait == Wait::No && self.cold.is_some_and(|cold| offset + into.len() as u64 > cold) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn begin_sync(&self, _: u64, _: usize) {}

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn file(bytes: Vec<u8>) -> Arc<Bytes> {
    Arc::new(Bytes { bytes, ..Bytes::default() })
}

fn open(bytes: Vec<u8>) -> Result<Sidecar, SidecarError> {
    Sidecar::open(file(bytes), NONCE, COVERED)
}

/// One record of a random index.
#[derive(Clone, Debug)]
struct Record {
    topic: u32,
    gap: u64,
    len: u32,
    past: bool,
    key: Option<String>,
    hash: u64,
    id: [u8; 16],
}

fn record() -> impl Strategy<Value = Record> {
    let gap =
        prop_oneof![20 => Just(1_u64), 5 => 2..50_u64, 1 => Just(u64::from(u32::MAX)), 1 => Just(1 << 40)];
    let key = prop_oneof![
        prop::sample::select(vec!["a", "b", "a\0", "\"quoted\\\n", "schlüssel", "鍵", "\u{10ffff}", ""])
            .prop_map(String::from),
        ".{0,12}",
    ];
    let hash = prop_oneof![3 => any::<u64>(), 1 => 0..3_u64, 1 => Just(u64::MAX)];
    (0..4_u32, gap, 1..5000_u32, any::<bool>(), prop::option::of(key), hash, any::<[u8; 16]>())
        .prop_map(|(topic, gap, len, past, key, hash, id)| Record { topic, gap, len, past, key, hash, id })
}

fn index(records: &[Record]) -> SegmentIndex {
    let mut index = SegmentIndex::default();
    let (mut offset, mut seqs) = (64, [0; 4]);
    for (at, record) in records.iter().enumerate() {
        let seq = &mut seqs[record.topic as usize];
        *seq += record.gap;
        let key = record.key.as_deref().map(Key::from);
        let mut flags = if record.past { Flags::PAST } else { Flags::default() };
        if key.is_some() {
            flags = flags | Flags::KEYED;
        }
        index.add(Item {
            topic: record.topic,
            entry: Entry { seq: *seq, offset, len: record.len, flags },
            id: EventId::from_bytes(record.id),
            hash: record.hash,
            key: key.as_ref(),
            committed: 1000 + at as u64,
        });
        offset += record.len;
    }
    index
}

/// A large index that is the same every time: one topic with holes and keys, one without holes.
fn large(records: u32) -> SegmentIndex {
    let mut index = SegmentIndex::default();
    let mut random = 1_u64;
    let (mut seq, mut dense) = (0, 0);
    for at in 0..records {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let hash = random ^ random >> 29;
        let key = (at % 2 == 0).then(|| Key::from(format!("customer-{:08}", hash % u64::from(records))));
        let seq = if at % 2 == 0 { &mut seq } else { &mut dense };
        *seq += if at % 2 == 0 { 1 + hash % 7 } else { 1 };
        let flags = if key.is_some() { Flags::KEYED } else { Flags::default() };
        index.add(Item {
            topic: at % 2,
            entry: Entry { seq: *seq, offset: at * 300, len: 300, flags },
            id: EventId::from_bytes([0x77; 16]),
            hash,
            key: key.as_ref(),
            committed: u64::from(at),
        });
    }
    index
}

/// Everything that can be asked, asked of both.
fn agree(index: &SegmentIndex, sidecar: &Sidecar) -> Result<(), SidecarError> {
    let wait = Wait::Yes;
    assert_eq!((sidecar.len(), sidecar.is_empty(), sidecar.v7()), (index.len(), index.is_empty(), index.v7));
    assert_eq!(sidecar.topics().len(), index.topics.len());
    assert!(sidecar.topics().is_sorted_by_key(|part| part.number));
    for number in 0..6 {
        let Some(topic) = index.topics.get(&number) else {
            assert_eq!(sidecar.topic(number), None);
            assert_eq!(sidecar.entries(number, 0, 9, wait)?, []);
            assert_eq!(sidecar.entry(number, 0, wait)?, None);
            assert_eq!(sidecar.newest(number, "a", wait)?, None);
            assert_eq!(sidecar.keys(number, None, 9, wait)?, []);
            continue;
        };
        let part = sidecar.topic(number).expect("a topic that has records");
        let (first, last) = (topic.entries[0].seq, topic.entries[topic.entries.len() - 1].seq);
        assert_eq!((part.number, part.first_seq, part.last_seq), (number, first, last));
        assert_eq!((part.count as usize, part.keys as usize), (topic.entries.len(), topic.keys.len()));
        let times = (topic.first_committed, topic.last_committed);
        assert_eq!((part.first_committed, part.last_committed), times);

        let seqs = topic.entries.iter().flat_map(|entry| [entry.seq - 1, entry.seq, entry.seq + 1]);
        for from in seqs.chain([0, u64::MAX]) {
            for max in [0, 1, 3, usize::MAX] {
                assert_eq!(sidecar.entries(number, from, max, wait)?, index.entries(number, from, max));
            }
        }
        for at in (0..=part.count).chain([u32::MAX]) {
            assert_eq!(sidecar.entry(number, at, wait)?, index.entry(number, at));
        }
        for key in topic.keys.keys().map(|key| &**key).chain(["", "a", "b\0", "zz", "\u{10ffff}\u{10ffff}"]) {
            assert_eq!(sidecar.newest(number, key, wait)?, index.newest(number, key));
            for max in [0, 1, 3, usize::MAX] {
                assert_eq!(sidecar.keys(number, Some(key), max, wait)?, index.keys(number, Some(key), max));
            }
        }
        assert_eq!(sidecar.keys(number, None, usize::MAX, wait)?, index.keys(number, None, usize::MAX));
    }
    let hashes = index.ids.iter().flat_map(|slot| [slot.hash, slot.hash ^ 1 << 40]);
    for hash in hashes.chain([0, 1, 7, u64::MAX]) {
        let offsets = index.offsets(hash);
        assert!(offsets.is_empty() || sidecar.may_have(hash));
        assert_eq!(sidecar.offsets(hash, wait)?, offsets);
    }
    Ok(())
}

/// Everything that can be asked, of something that may be anything.
fn ask(sidecar: &Sidecar) {
    let wait = Wait::Yes;
    for number in sidecar.topics().iter().map(|part| part.number).chain([0, u32::MAX]).take(8) {
        for from in [0, 1, 5, 1 << 20, u64::MAX] {
            let _ = sidecar.entries(number, from, 2, wait);
            let _ = sidecar.entries(number, from, usize::MAX, wait);
        }
        for at in [0, 1, 7, u32::MAX] {
            let _ = sidecar.entry(number, at, wait);
        }
        for key in ["", "a", "m", "\u{10ffff}"] {
            let _ = sidecar.newest(number, key, wait);
            let _ = sidecar.keys(number, Some(key), 2, wait);
        }
        let mut after: Option<Key> = None;
        while let Ok(page) = sidecar.keys(number, after.as_deref(), 2, wait) {
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
        }
    }
    for hash in [0, 1, 2, 1 << 63, u64::MAX] {
        let _ = sidecar.may_have(hash);
        let _ = sidecar.offsets(hash, wait);
    }
}

fn small() -> Vec<Record> {
    let record = |topic, key: Option<&str>, hash| Record {
        topic,
        gap: 1 + u64::from(topic),
        len: 100,
        past: false,
        key: key.map(String::from),
        hash,
        id: [0x70 | topic as u8; 16],
    };
    vec![
        record(0, None, 5),
        record(1, Some("b"), 3),
        record(1, Some("a"), 5),
        record(1, Some("b"), u64::MAX),
        record(3, Some("鍵"), 0),
        record(1, Some(""), 8),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_sidecar_answers_as_the_index_it_was_made_of(records in prop::collection::vec(record(), 0..60)) {
        let index = index(&records);
        let sidecar = open(encode(&index, NONCE, COVERED)).expect("it was just made");
        agree(&index, &sidecar).expect("it was just made");
    }

    #[test]
    fn bytes_with_right_checksums_may_be_anything(
        records in prop::collection::vec(record(), 0..30),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&index(&records), NONCE, COVERED);
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        reseal(&mut bytes);
        if let Ok(sidecar) = open(bytes) {
            ask(&sidecar);
        }
    }

    #[test]
    fn bytes_at_random_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(open(bytes.clone()).is_err());
        reseal(&mut bytes);
        prop_assert!(open(bytes).is_err());
    }
}

#[test]
fn an_empty_index_has_a_sidecar() {
    let index = SegmentIndex::default();
    let bytes = encode(&index, NONCE, COVERED);
    assert_eq!(bytes.len(), HEADER);
    let sidecar = open(bytes).expect("it was just made");
    agree(&index, &sidecar).expect("nothing is there");
    assert!(!sidecar.may_have(0));
}

#[test]
fn a_topic_without_records_is_left_out() {
    let mut index = index(&small());
    index.topics.entry(2).or_default();
    let sidecar = open(encode(&index, NONCE, COVERED)).expect("it was just made");
    assert_eq!(sidecar.topic(2), None);
    assert_eq!(sidecar.topics().len(), 3);
}

#[test]
fn the_same_index_has_the_same_bytes() {
    let once = encode(&index(&small()), NONCE, COVERED);
    assert_eq!(once, encode(&index(&small()), NONCE, COVERED));
    assert_eq!(&once[..16], b"EVHUBIDX\x01\0\0\0\x04\0\0\0");
}

#[test]
fn seqs_that_are_far_apart_make_the_file_wide() {
    let mut records = small();
    records[1].gap = 1 << 33;
    let narrow = encode(&index(&records), NONCE, COVERED);
    records[2].gap = 1 << 33;
    let wide = encode(&index(&records), NONCE, COVERED);
    assert_eq!((narrow[12], wide[12]), (4, 8));
    assert_eq!(wide.len(), narrow.len() + 4 * records.len());
    agree(&index(&records), &open(wide).expect("it was just made")).expect("it was just made");
}

#[test]
fn a_hash_of_many_records_finds_them_all() {
    let records: Vec<_> =
        (0..2000).map(|at| Record { hash: at % 2, len: 10, ..small()[0].clone() }).collect();
    let index = index(&records);
    let sidecar = open(encode(&index, NONCE, COVERED)).expect("it was just made");
    for hash in 0..3 {
        assert_eq!(sidecar.offsets(hash, Wait::Yes).expect("it is good"), index.offsets(hash));
    }
    assert_eq!(index.offsets(1).len(), 1000);
}

#[test]
fn it_is_as_small_as_promised() {
    let mut index = large(40_000);
    let keys = &index.topics[&0].keys;
    let (keys, texts) = (keys.len(), keys.keys().map(|key| key.len()).sum::<usize>());
    let with = encode(&index, NONCE, COVERED).len();
    index.topics.values_mut().for_each(|topic| topic.keys.clear());
    let without = encode(&index, NONCE, COVERED).len();
    assert!(without <= 27 * index.len(), "{} bytes per record", without as f64 / index.len() as f64);
    assert!(with - without <= 12 * keys + texts);
}

#[test]
fn every_question_takes_few_reads() {
    let index = large(40_000);
    let file = file(encode(&index, NONCE, COVERED));
    let sidecar = Sidecar::open(file.clone(), NONCE, COVERED).expect("it was just made");
    assert!(file.reads.load(Relaxed) <= 3, "header, directory, filter");
    sidecar.verify(Wait::Yes).expect("it was just made");
    let reads = |most: usize, what: &str| {
        let reads = file.reads.swap(0, Relaxed);
        assert!(reads <= most, "{what}: {reads} reads");
    };
    file.reads.store(0, Relaxed);
    sidecar.verify(Wait::Yes).expect("it was good before");
    reads(0, "verify");
    let mut sum = 0;
    for slot in index.ids.iter().step_by(37) {
        assert_eq!(sidecar.offsets(slot.hash, Wait::Yes).expect("it is good"), index.offsets(slot.hash));
        sum += file.reads.load(Relaxed);
        reads(5, "offsets");
    }
    assert!(sum * 37 < index.len() * 2, "a hash is found by fewer than two reads on average");
    for (topic, most) in [(0, 5), (1, 1)] {
        for from in (0..index.topics[&topic].entries[19_000].seq).step_by(371) {
            assert_eq!(
                sidecar.entries(topic, from, 1000, Wait::Yes).expect("it is good"),
                index.entries(topic, from, 1000)
            );
            reads(most, "entries");
        }
    }
    let all = &index.topics[&0].keys;
    for key in all.keys().step_by(97) {
        assert_eq!(sidecar.newest(0, key, Wait::Yes).expect("it is good"), index.newest(0, key));
        reads(16, "newest");
        assert_eq!(
            sidecar.keys(0, Some(key), 200, Wait::Yes).expect("it is good"),
            index.keys(0, Some(key), 200)
        );
        reads(20, "keys");
    }
    assert_eq!(
        sidecar.keys(0, None, usize::MAX, Wait::Yes).expect("it is good"),
        index.keys(0, None, usize::MAX)
    );
    reads(6, "all keys");
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let good = encode(&index(&small()), NONCE, COVERED);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let found = open(bytes).and_then(|sidecar| sidecar.verify(Wait::Yes));
            assert!(matches!(found, Err(SidecarError::Bad(_))), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_question_to_a_body_that_is_bad_is_refused() {
    let mut bytes = encode(&index(&small()), NONCE, COVERED);
    // Of the directory's 3 rows the last byte is good, the first one after it is not.
    bytes[HEADER + 3 * 44] ^= 1;
    let sidecar = open(bytes).expect("what is read at once is good");
    assert!(matches!(sidecar.entries(1, 0, 9, Wait::Yes), Err(SidecarError::Bad(_))));
    assert!(matches!(sidecar.entry(1, 0, Wait::Yes), Err(SidecarError::Bad(_))));
    assert!(matches!(sidecar.offsets(5, Wait::Yes), Err(SidecarError::Bad(_))));
    assert!(matches!(sidecar.newest(1, "a", Wait::Yes), Err(SidecarError::Bad(_))));
    assert!(matches!(sidecar.keys(1, None, 9, Wait::Yes), Err(SidecarError::Bad(_))));
}

#[test]
fn a_file_that_is_cut_or_longer_is_refused() {
    let good = encode(&index(&small()), NONCE, COVERED);
    for len in 0..good.len() {
        assert!(matches!(open(good[..len].to_vec()), Err(SidecarError::Bad(_))), "{len} bytes");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(open(longer), Err(SidecarError::Bad(_))));
}

#[test]
fn the_sidecar_of_another_segment_is_refused() {
    let bytes = encode(&index(&small()), NONCE, COVERED);
    for (nonce, covered) in [(NONCE + 1, COVERED), (NONCE, COVERED - 1)] {
        let error = Sidecar::open(file(bytes.clone()), nonce, covered).expect_err("it is another's");
        assert!(
            error.to_string().contains("describes 134217728 bytes of segment 0000000000005eed"),
            "{error}"
        );
    }
}

#[test]
fn frames_outside_of_the_segment_are_refused() {
    let sidecar =
        Sidecar::open(file(encode(&index(&small()), NONCE, 100)), NONCE, 100).expect("it was just made");
    assert!(matches!(sidecar.entry(0, 0, Wait::Yes), Err(SidecarError::Bad(_))));
    assert!(matches!(sidecar.offsets(3, Wait::Yes), Err(SidecarError::Bad(_))));
}

#[test]
fn a_read_that_would_wait_says_so() {
    let bytes = encode(&index(&small()), NONCE, COVERED);
    let cold = Arc::new(Bytes { bytes, cold: Some(HEADER as u64), ..Bytes::default() });
    let sidecar = Sidecar::open(cold, NONCE, COVERED).expect("opening waits");
    let blocked = |answer: Result<(), SidecarError>| match answer {
        Err(SidecarError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        other => panic!("{other:?}"),
    };
    blocked(sidecar.verify(Wait::No));
    blocked(sidecar.entries(1, 0, 9, Wait::No).map(drop));
    sidecar.verify(Wait::Yes).expect("it is good");
    sidecar.verify(Wait::No).expect("it is known to be good");
    blocked(sidecar.entries(1, 0, 9, Wait::No).map(drop));
    blocked(sidecar.entry(1, 0, Wait::No).map(drop));
    blocked(sidecar.offsets(5, Wait::No).map(drop));
    blocked(sidecar.newest(1, "a", Wait::No).map(drop));
    blocked(sidecar.keys(1, None, 9, Wait::No).map(drop));
}

#[test]
fn it_is_read_from_a_real_file_by_many_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::new(directory.path()).expect("it is there");
    let index = index(&small());
    let file = disk.create("side").expect("it is empty");
    file.write_at(&encode(&index, NONCE, COVERED), 0).expect("there is room");
    let sidecar = Sidecar::open(file, NONCE, COVERED).expect("it was just made");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| agree(&index, &sidecar).expect("it is good"));
        }
    });
}
