//! What was written by an earlier version can be read by this one, and what is written now is what was written then.
//!
//! `tests/fixtures/format-1` is a data directory as format 1 was first written, `format-1.txt` what is in it, and
//! `format-1.bytes` the bytes of everything there is. None of them ever changes: a change of the layout is a new
//! format, with a new number and files of its own, and this one stays readable.

use crate::ledger::{Ledger, T0, draft, fill, group, now, records, small, topic};
use hub_core::GroupOptions;
use hub_core::store::{
    Bounds, EventStore, GroupRecord, GroupState, Progress, ReadLimit, Record, StoredGroup,
    SubscriptionRecord, Tries,
};
use hub_proto::{Event, EventId, TopicName};
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::format::entry::{Cleaned, Mark, Past};
use hub_store_embedded::format::frame::Seal;
use hub_store_embedded::format::header::{self, Header, VERSION};
use hub_store_embedded::index::{Entry, Flags, Item, SegmentIndex, id_hash};
use hub_store_embedded::manifest::Manifest;
use hub_store_embedded::{EmbeddedStore, sidecar};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// All that a store answers, as text.
fn describe(store: &EmbeddedStore) -> String {
    let mut text = String::new();
    let image = now(store.load()).unwrap();
    for (topic, bounds) in &image.topics {
        let Bounds { first, last, events, bytes, last_committed } = bounds;
        writeln!(text, "topic {topic} {first} {last} {events} {bytes} {last_committed}").unwrap();
        let limit = ReadLimit { events: 1000, bytes: 1 << 20 };
        for event in now(store.read(topic, 0, limit)).unwrap() {
            let json = std::str::from_utf8(event.json()).unwrap();
            writeln!(text, "  {} {json}", event.committed()).unwrap();
        }
        for event in now(store.newest_page(topic, None, limit)).unwrap() {
            writeln!(text, "  newest {} {}", event.key().unwrap(), event.seq()).unwrap();
        }
        for time in [T0, T0 + 20, T0 + 50, T0 + 2000] {
            let seq = now(store.seq_before(topic, time)).unwrap();
            writeln!(text, "  before {time}: {seq}").unwrap();
        }
        for number in (0..100).chain(1000..1100) {
            if let Some(seq) = now(store.seq_of(topic, crate::ledger::id(number))).unwrap() {
                writeln!(text, "  id {number}: {seq}").unwrap();
            }
        }
    }
    for StoredGroup { record, state } in &image.groups {
        let GroupRecord { topic, name, options, created, idle_since, driven, born } = record;
        let options = serde_json::to_string(options).unwrap();
        writeln!(text, "group {topic} {name} {options} {created} {idle_since:?} {driven} {born}").unwrap();
        let settled: Vec<_> = state.settled.iter().collect();
        let tries: Vec<_> = state.tries.iter().map(|(seq, it)| (seq, it.attempts, it.failures)).collect();
        let GroupState { epoch, floor, high, .. } = state;
        writeln!(text, "  {epoch} {floor} {high} {settled:?} {tries:?}").unwrap();
    }
    for record in &image.subscriptions {
        let SubscriptionRecord { label, group, topics, options, created, idle_since } = record;
        let options = serde_json::to_string(options).unwrap();
        writeln!(text, "subscription {label} {group} {topics:?} {options} {created} {idle_since:?}").unwrap();
    }
    text
}

/// A store with everything in it that there is, as it is after a power loss.
fn make() -> (SimDisk, String) {
    let disk = SimDisk::new(1);
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), small()).unwrap();
    fill(&store);
    drop(store);
    disk.power_loss(0);
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), small()).unwrap();
    for records in records() {
        Ledger::default().publish(&store, vec![], records);
    }
    let text = describe(&store);
    now(store.close()).unwrap();
    (disk, text)
}

/// Writes the fixtures of a new format. Those of one that was written stay as they are.
#[test]
#[ignore = "writes the fixtures of a new format"]
fn write_the_fixtures_of_a_new_format() {
    let directory = fixtures().join(format!("format-{VERSION}"));
    assert!(!directory.exists(), "format {VERSION} was written already: a change of it is a new format");
    let (disk, text) = make();
    fs::create_dir_all(&directory).unwrap();
    for name in disk.names().iter().filter(|name| !name.ends_with(".new")) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, disk.bytes(name)).unwrap();
    }
    fs::write(fixtures().join(format!("format-{VERSION}.txt")), text).unwrap();
    fs::write(fixtures().join(format!("format-{VERSION}.bytes")), golden()).unwrap();
}

fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            files.extend(
                self::files(&entry.path()).into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)),
            );
        } else {
            files.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    files
}

#[test]
fn a_directory_of_format_1_says_what_it_always_said() {
    let fixture = files(&fixtures().join("format-1"));
    let expected = fs::read_to_string(fixtures().join("format-1.txt")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in &fixture {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    for _ in 0..2 {
        let store = EmbeddedStore::open(directory.path(), small()).unwrap();
        assert_eq!(store.health(), Default::default());
        let found = describe(&store);
        assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
        now(store.close()).unwrap();
    }
    // Without its sidecars, the same: they are made from the segments.
    for (name, _) in fixture.iter().filter(|(name, _)| name.ends_with(".idx")) {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    let store = EmbeddedStore::open(directory.path(), small()).unwrap();
    assert_eq!(describe(&store), expected);
    // And it goes on.
    let last = now(store.bounds(&topic("users"))).unwrap().last;
    let more = Ledger::default().publish(&store, vec![draft("users", 9000, None)], vec![]);
    assert_eq!(more, [last + 1]);
}

#[test]
fn the_fixture_has_everything_there_is() {
    let fixture = files(&fixtures().join("format-1"));
    assert!(fixture.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 100 << 10, "it is not large");
    for kind in ["format", "manifest.1", "manifest.2", "log-", "kept-"] {
        assert!(fixture.iter().any(|(name, _)| name.starts_with(kind)), "{kind}");
    }
    let mut kinds = BTreeSet::new();
    for (name, bytes) in &fixture {
        let is_segment = !name.contains('.') && (name.starts_with("log-") || name.starts_with("kept-"));
        if !is_segment {
            continue;
        }
        let seal = Seal::new(Header::decode(bytes).unwrap().nonce);
        let mut rest = &bytes[header::LEN..];
        while let Ok(frame) = seal.read(rest) {
            kinds.insert(frame.kind);
            rest = &rest[frame.len()..];
        }
    }
    assert_eq!(Vec::from_iter(kinds), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The bytes of everything there is, each with a name.
fn golden() -> String {
    let seal = Seal::new(0x0102_0304_0506_0708);
    let (orders, all) = (topic("orders"), group("all"));
    let (id, content) = (EventId::from_bytes([0x11; 16]), EventId::from_bytes([0x22; 16]));
    let dead = [3, 4, 5, 70_000, 1 << 40].into_iter().collect();
    let event: Event = draft("orders", 7, Some("a")).commit(5, T0);
    let group_record = GroupRecord {
        topic: orders.clone(),
        name: all.clone(),
        options: GroupOptions::default(),
        created: T0,
        idle_since: Some(T0 + 1),
        driven: true,
        born: 9,
    };
    let subscription = SubscriptionRecord {
        label: "or*".into(),
        group: all.clone(),
        topics: vec![orders.clone(), topic("users")],
        options: GroupOptions::default(),
        created: T0,
        idle_since: None,
    };
    let tries = Tries { attempts: 2, failures: 1 };
    let progress =
        Progress { epoch: 1, reset: true, floor: 2, high: 9, settled: vec![(4, 5)], tries: vec![(3, tries)] };
    let mut state = GroupState::default();
    state.apply(&progress);
    let records = [
        ("group", Record::Group(group_record.clone())),
        ("progress", Record::Progress(orders.clone(), all.clone(), progress)),
        ("group gone", Record::GroupGone(orders.clone(), all.clone())),
        ("subscription", Record::Subscription(subscription.clone())),
        ("subscription gone", Record::SubscriptionGone("or*".into(), all)),
    ];
    let past = Past { seq: 1, ts: 2, committed: 3, id, content };
    let cleaned = Cleaned { floor: 1, ids_since: T0, events: 2, bytes: 3, dead };
    let mark = Mark { number: 9, synced: 8, start: 64, closed: true };
    let mut lines = Vec::new();
    let mut frame = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        lines.push((name.to_string(), bytes));
    };
    frame("topic", &|into| seal.topic(into, 1, &orders));
    frame("event", &|into| seal.event(into, 1, T0, event.json()));
    frame("past", &|into| seal.past(into, 1, &past));
    frame("cleaned", &|into| seal.cleaned(into, 1, &cleaned));
    frame("reserved", &|into| seal.reserved(into, 1, 10));
    frame("opened", &|into| seal.opened(into, 0xb007, T0));
    frame("jump", &|into| seal.jump(into, 1, 10));
    for (name, record) in &records {
        frame(name, &|into| seal.record(into, record));
    }
    frame("mark", &|into| seal.mark(into, mark));
    let header = Header { number: 3, nonce: 4, after_commit: 5, prev_end: 6, bytes: 7 };
    lines.push(("header".into(), header.encode()));
    lines.push(("manifest".into(), manifest(&orders, group_record, state, subscription).encode()));
    let (sidecar, narrow) = (sidecar::encode(&index(7), 4, 5000), sidecar::encode(&index(1 << 33), 4, 5000));
    // The filter is made by a library; any that has no false negatives will do.
    let filter = |bytes: &[u8]| u64::from_le_bytes(bytes[132..140].try_into().unwrap()) as usize;
    for (name, bytes) in [("sidecar", sidecar), ("wide sidecar", narrow)] {
        let end = bytes.len() - filter(&bytes);
        // Without the filter, its checksum and that of the header.
        lines.push((name.into(), [&bytes[..140], &bytes[148..end]].concat()));
    }
    let hash = id_hash(0x0102_0304_0506_0708, 3, id);
    lines.push(("hash of an id".into(), hash.to_le_bytes().to_vec()));
    lines.iter().fold(String::new(), |mut text, (name, bytes)| {
        writeln!(text, "{name}: {}", hex(bytes)).unwrap();
        text
    })
}

fn manifest(
    orders: &TopicName,
    record: GroupRecord,
    state: GroupState,
    subscription: SubscriptionRecord,
) -> Manifest {
    // The types of its rows are the store's own, so that one is taken which a store wrote, and all of it replaced that
    // is different each time.
    let disk = SimDisk::new(1);
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), small()).unwrap();
    fill(&store);
    drop(store);
    let file = disk.open("manifest.1").unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut bytes, 0, hub_store_embedded::disk::Wait::Yes).unwrap();
    let mut manifest = Manifest::decode(&bytes).unwrap();
    (manifest.generation, manifest.seed, manifest.boot) = (1, 2, 3);
    (manifest.upto, manifest.last_commit, manifest.next_kept) = (4, 5, 6);
    manifest.segments.truncate(2);
    for (number, row) in manifest.segments.iter_mut().enumerate() {
        (row.nonce, row.end, row.damaged) = (7 + number as u64, 8, number == 1);
    }
    manifest.topics.truncate(1);
    let (_, name, meta) = &mut manifest.topics[0];
    *name = orders.clone();
    (meta.last, meta.last_committed, meta.floor, meta.events, meta.bytes) = (10, T0, 2, 7, 700);
    (meta.ids_since, meta.reserved, meta.dead) = (T0 - 1, 20, [5, 6].into_iter().collect());
    manifest.groups = vec![StoredGroup { record, state }];
    manifest.subscriptions = vec![subscription];
    manifest
}

fn index(apart: u64) -> SegmentIndex {
    let mut index = SegmentIndex::default();
    for number in 0..6_u64 {
        let id = crate::ledger::id(number);
        let key = (number % 2 == 0).then(|| ["a", "b", "long"][number as usize / 2].into());
        let flags = if key.is_some() { Flags::KEYED } else { Flags::PAST };
        let entry = Entry { seq: 1 + number * apart, offset: 64 + number as u32 * 100, len: 100, flags };
        let (topic, hash) = (number as u32 % 2 + 1, number * 3);
        index.add(Item { topic, entry, id, hash, key: key.as_ref(), committed: T0 + number });
    }
    index
}

#[test]
fn the_bytes_of_format_1_are_what_they_were() {
    let expected = fs::read_to_string(fixtures().join("format-1.bytes")).unwrap();
    for (line, expected) in golden().lines().zip(expected.lines()) {
        assert_eq!(line, expected, "the layout has changed: that is a new format, with a new number");
    }
    assert_eq!(golden().lines().count(), expected.lines().count());
    assert_eq!(VERSION, 1);
}
