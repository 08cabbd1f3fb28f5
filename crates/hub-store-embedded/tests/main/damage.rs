//! Damage is found, named, put aside and never served, and everything else stays available.
//!
//! Each test takes a store with known contents, changes bytes behind its back, opens it, and compares. `HUB_EVERY_BYTE`
//! in the environment has them try every byte in place of a sample.

use crate::ledger::{Ledger, TOPICS, draft, fill, now, served, small, topic};
use hub_core::store::{CleanPolicy, EventStore, Health, StoreError};
use hub_proto::TopicName;
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::format::entry::Entry;
use hub_store_embedded::format::entry::MARK;
use hub_store_embedded::format::frame::Seal;
use hub_store_embedded::format::header::{self, Header};
use hub_store_embedded::{EmbeddedStore, OpenError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store that was written and left, closed or not.
struct Base {
    disk: SimDisk,
    /// All that was ever written.
    written: Ledger,
    /// What it serves when nothing is wrong.
    kept: Ledger,
}

impl Base {
    fn new(close: bool) -> Self {
        let disk = SimDisk::new(7);
        let store = open(&disk).unwrap();
        let written = fill(&store);
        let kept = served(&store);
        assert_eq!(store.health(), Health::default());
        if close {
            now(store.close()).unwrap();
        }
        drop(store);
        disk.process_death();
        let base = Self { disk, written, kept };
        for kind in ["log-", "kept-", "manifest.", "format"] {
            assert!(base.names().iter().any(|name| name.starts_with(kind)), "no {kind}: {:?}", base.names());
        }
        base
    }

    fn names(&self) -> Vec<String> {
        self.disk.names()
    }

    /// The segment that was written to last.
    fn active(&self) -> String {
        let is_log = |name: &String| name.starts_with("log-") && !name.contains('.');
        self.names().into_iter().filter(is_log).max().unwrap()
    }

    /// Those before it.
    fn sealed(&self) -> Vec<String> {
        let active = self.active();
        let is_segment = |name: &String| {
            (name.starts_with("log-") || name.starts_with("kept-")) && !name.contains('.') && *name != active
        };
        self.names().into_iter().filter(is_segment).collect()
    }

    /// A disk with the same files.
    fn copy(&self) -> SimDisk {
        let disk = SimDisk::new(8);
        for name in self.names() {
            disk.put(&name, self.disk.bytes(&name));
        }
        disk
    }
}

fn open(disk: &SimDisk) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), small())
}

/// A frame of a segment: where it is, what it says, and which record it is.
struct Framed {
    offset: u64,
    len: u64,
    kind: &'static str,
    record: Option<(u32, u64)>,
}

/// The frames of a segment that was not damaged.
fn frames(bytes: &[u8]) -> Vec<Framed> {
    let seal = Seal::new(Header::decode(bytes).unwrap().nonce);
    let (mut at, mut frames) = (header::LEN, Vec::new());
    while let Ok(frame) = seal.read(&bytes[at..]) {
        let (kind, record) = match Entry::read(frame.kind, frame.content).unwrap() {
            Entry::Topic(..) => ("topic", None),
            Entry::Event(number, committed, json) => {
                let event = hub_proto::Event::from_json(json.to_vec().into(), committed).unwrap();
                ("event", Some((number, event.seq())))
            }
            Entry::Past(..) => ("past", None),
            Entry::Cleaned(..) => ("cleaned", None),
            Entry::Reserved(..) => ("reserved", None),
            Entry::Jump(..) => ("jump", None),
            Entry::Opened(..) => ("opened", None),
            Entry::Record(..) => ("record", None),
            Entry::Mark(..) => ("mark", None),
        };
        frames.push(Framed { offset: at as u64, len: frame.len() as u64, kind, record });
        at += frame.len();
    }
    frames
}

/// What a finding says: the records it names, those that it says may be missing, and the bytes.
#[derive(Debug, Default)]
struct Said {
    lost: Vec<(String, u64, u64)>,
    after: Vec<(String, u64)>,
    offset: Option<u64>,
}

fn said(warning: &str) -> Said {
    let mut said = Said::default();
    let words: Vec<&str> =
        warning.split_whitespace().map(|word| word.trim_matches([',', ';', ':', '.'])).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (mut runs, mut followed) = (Vec::new(), false);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "byte" if said.offset.is_none() => said.offset = number(at + 1),
            "followed" => followed = true,
            "seq" => runs.extend(number(at + 1).map(|seq| (seq, seq))),
            "seqs" => runs.extend(number(at + 1).zip(number(at + 3))),
            "of" if !runs.is_empty() => {
                let topic = words[at + 1].to_string();
                for (from, to) in runs.drain(..) {
                    if followed {
                        said.after.push((topic.clone(), from));
                    } else {
                        said.lost.push((topic.clone(), from, to));
                    }
                }
            }
            _ => {}
        }
    }
    said
}

/// Whether the health of a store names a record, and the file it was in.
fn names(health: &Health, file: &str, topic: &TopicName, seq: u64) -> bool {
    health.warnings.iter().filter(|warning| warning.contains(file)).any(|warning| {
        let said = said(warning);
        said.lost.iter().any(|(name, from, to)| name == topic.as_str() && (*from..=*to).contains(&seq))
            || said.after.iter().any(|(name, last)| name == topic.as_str() && seq > *last)
    })
}

/// What a store with damage does not have of what it should.
fn missing(base: &Base, now: &Ledger) -> Vec<(TopicName, u64)> {
    let mut missing = Vec::new();
    for (topic, seqs) in &base.kept.0 {
        let there = now.0.get(topic);
        let gone = seqs.keys().filter(|seq| there.is_none_or(|there| !there.contains_key(seq)));
        missing.extend(gone.map(|seq| (topic.clone(), *seq)));
    }
    missing
}

/// Checks all that must hold of a store that opened after its file `name` was damaged; answers what it lost.
fn check(base: &Base, store: &EmbeddedStore, name: &str, case: &str) -> Vec<(TopicName, u64)> {
    let read = served(store);
    for (topic, seqs) in &read.0 {
        for (seq, json) in seqs {
            let written = base.written.0.get(topic).and_then(|seqs| seqs.get(seq));
            assert_eq!(written, Some(json), "{case}: seq {seq} of {topic} is not what was written");
        }
    }
    let missing = missing(base, &read);
    let health = store.health();
    assert_eq!(health.unavailable, None, "{case}");
    for (topic, seq) in &missing {
        assert!(health.damaged > 0, "{case}");
        assert!(
            names(&health, name, topic, *seq),
            "{case}: seq {seq} of {topic} is missing, and {health:#?} does not say so"
        );
    }
    missing
}

/// Publishes to every topic; nothing gets a seq that was given before.
fn publish_more(base: &Base, store: &EmbeddedStore, case: &str) {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(5000);
    let mut more = Ledger::default();
    for name in TOPICS {
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let seqs = more.publish(store, vec![draft(name, number, None)], vec![]);
        assert!(seqs[0] > base.written.last(&topic(name)), "{case}: seq {} of {name} again", seqs[0]);
    }
    let read = served(store);
    for (topic, seqs) in &more.0 {
        for (seq, json) in seqs {
            assert_eq!(read.0[topic].get(seq), Some(json), "{case}");
        }
    }
}

/// Whether damaged bytes are still on disk, in their place or in quarantine.
fn is_kept(disk: &SimDisk, name: &str, bytes: &[u8]) -> bool {
    disk.names()
        .iter()
        .any(|kept| (kept == name || kept.starts_with("quarantine/")) && disk.bytes(kept).starts_with(bytes))
}

/// Opens a damaged store, uses it, and opens it twice more: nothing is forgotten, nothing is cleaned away, and the
/// numbering stays where it is.
fn live_with(base: &Base, disk: &SimDisk, name: &str, case: &str) -> (Vec<(TopicName, u64)>, Vec<String>) {
    let evidence = disk.names().contains(&name.to_string()).then(|| disk.bytes(name));
    let store = open(disk).unwrap_or_else(|error| panic!("{case}: {error}"));
    let lost = check(base, &store, name, case);
    publish_more(base, &store, case);
    let first = store.health().warnings;
    // Retention takes everything it can.
    let policy = CleanPolicy { committed_before: Some(u64::MAX), ..CleanPolicy::default() };
    now(store.clean(&topic("audit"), policy)).unwrap();
    now(store.close()).unwrap();
    drop(store);
    let mut lasts = Vec::new();
    for _ in 0..2 {
        let store = open(disk).unwrap_or_else(|error| panic!("{case}, again: {error}"));
        served(&store);
        let health = store.health();
        for (topic, seq) in &lost {
            let cleaned = topic.as_str() == "audit";
            assert!(cleaned || names(&health, name, topic, *seq), "{case}, again: {health:#?}");
        }
        lasts.push(now(store.load()).unwrap().topics);
        now(store.close()).unwrap();
    }
    assert_eq!(lasts[0], lasts[1], "{case}: the numbering moves on with every start");
    if let Some(evidence) = evidence.filter(|_| !first.is_empty() && !name.ends_with(".idx")) {
        assert!(is_kept(disk, name, trim(&evidence)), "{case}: the evidence is gone; {first:#?}");
    }
    (lost, first)
}

/// Without the zeros at the end.
fn trim(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Every byte, or a sample: each of the first ones, then one in so many.
fn sample(len: usize, seed: usize) -> Vec<usize> {
    if std::env::var_os("HUB_EVERY_BYTE").is_some() {
        return (0..len).collect();
    }
    let step = if len > 3000 { 61 } else { 29 };
    (0..len.min(64)).step_by(5).chain((64..len).skip(seed % step).step_by(step)).collect()
}

fn flipped(base: &Base, name: &str, at: usize) -> (SimDisk, String) {
    let disk = base.copy();
    let bit = ((at * 7 + 3) % 8) as u8;
    disk.flip(name, at as u64, bit);
    (disk, format!("bit {bit} of byte {at} of {name} flipped"))
}

#[test]
fn a_flipped_bit_in_the_segment_that_is_written_to_costs_one_record_at_most() {
    let base = Base::new(true);
    let name = base.active();
    let bytes = base.disk.bytes(&name);
    let frames = frames(&bytes);
    let (end, last) = (trim(&bytes).len(), frames.last().unwrap());
    assert_eq!(last.kind, "mark");
    for at in sample(bytes.len(), 1) {
        let (disk, case) = flipped(&base, &name, at);
        let (lost, warnings) = live_with(&base, &disk, &name, &case);
        let hit = frames.iter().find(|frame| (frame.offset..frame.offset + frame.len).contains(&(at as u64)));
        let record = hit.filter(|frame| frame.kind == "event");
        assert_eq!(lost.len(), usize::from(record.is_some()), "{case}: {lost:?}");
        if at >= end || hit.is_some_and(|hit| hit.offset == last.offset) {
            // The end of a log that was closed looks as one that was not: nothing is lost with it. What is behind it may
            // be of a start that the power cut short.
            assert!(disk.names().iter().any(|name| name.contains(".torn-")), "{case}: {:?}", disk.names());
            continue;
        }
        let offset = hit.map_or(0, |hit| hit.offset);
        let found: Vec<u64> = warnings.iter().filter_map(|warning| said(warning).offset).collect();
        assert!(warnings.iter().all(|warning| warning.contains(&name)), "{case}: {warnings:#?}");
        assert_eq!(found, [offset], "{case}: {warnings:#?}");
    }
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_costs_one_record_at_most_and_is_found_when_it_is_read() {
    let base = Base::new(true);
    let names = base.sealed();
    assert!(names.iter().any(|name| name.starts_with("kept-")) && names.len() > 3, "{names:?}");
    for (number, name) in names.iter().enumerate() {
        let bytes = base.disk.bytes(name);
        let frames = frames(&bytes);
        for at in sample(bytes.len(), number) {
            let (disk, case) = flipped(&base, name, at);
            let (lost, warnings) = live_with(&base, &disk, name, &case);
            let hit =
                frames.iter().find(|frame| (frame.offset..frame.offset + frame.len).contains(&(at as u64)));
            let record = hit.is_some_and(|frame| frame.kind == "event");
            assert!(lost.len() <= usize::from(record), "{case}: {lost:?}");
            if at < header::LEN || !lost.is_empty() {
                let offset = hit.map_or(0, |hit| hit.offset);
                let found: Vec<u64> = warnings.iter().filter_map(|warning| said(warning).offset).collect();
                assert_eq!(found, [offset], "{case}: {warnings:#?}");
            }
        }
    }
}

#[test]
fn sealed_segments_without_their_sidecars_say_what_damage_has_cost_them() {
    let base = Base::new(true);
    for (number, name) in base.sealed().iter().enumerate() {
        for frame in frames(&base.disk.bytes(name)).iter().skip(number % 3).step_by(3) {
            let disk = base.copy();
            let case = format!("a {} at byte {} of {name}, no sidecar", frame.kind, frame.offset);
            disk.flip(name, frame.offset + frame.len - 1, 5);
            disk.remove(&format!("{name}.idx")).unwrap();
            let (lost, warnings) = live_with(&base, &disk, name, &case);
            assert!(lost.len() <= usize::from(frame.record.is_some()), "{case}: {lost:?}");
            assert!(warnings.iter().any(|warning| said(warning).offset == Some(frame.offset)), "{case}");
        }
    }
}

#[test]
fn a_bad_or_missing_sidecar_costs_nothing_and_is_made_again() {
    let base = Base::new(true);
    let names: Vec<String> = base.names().into_iter().filter(|name| name.ends_with(".idx")).collect();
    assert!(names.len() > 3);
    for (number, name) in names.iter().enumerate() {
        let bytes = base.disk.bytes(name);
        let mut disks: Vec<(SimDisk, String)> =
            sample(bytes.len(), number).into_iter().map(|at| flipped(&base, name, at)).collect();
        for len in [0, 1, 147, 148, bytes.len() / 2, bytes.len() - 1] {
            let disk = base.copy();
            disk.truncate(name, len as u64);
            disks.push((disk, format!("{name} cut to {len}")));
        }
        let disk = base.copy();
        disk.remove(name).unwrap();
        disks.push((disk, format!("{name} missing")));
        for (disk, case) in disks {
            let store = open(&disk).unwrap();
            assert_eq!(served(&store), base.kept, "{case}");
            for (topic, seqs) in &base.kept.0 {
                for (seq, json) in seqs {
                    let event = hub_proto::Event::from_json(json.clone().into(), 0).unwrap();
                    let found = now(store.seq_of(topic, event.id())).unwrap();
                    assert_eq!(found, Some(*seq), "{case}");
                }
            }
            assert_eq!(store.health(), Health::default(), "{case}");
            now(store.close()).unwrap();
            drop(store);
            let store = open(&disk).unwrap();
            assert_eq!(served(&store), base.kept, "{case}");
            drop(store);
            assert!(disk.names().contains(name), "{case}: it was not made again");
        }
    }
}

#[test]
fn segments_that_were_cut_short_say_what_they_had() {
    let base = Base::new(true);
    let mut names = base.sealed();
    names.push(base.active());
    for (number, name) in names.iter().enumerate() {
        let len = base.disk.bytes(name).len();
        for cut in sample(len, number).into_iter().step_by(2) {
            let disk = base.copy();
            disk.truncate(name, cut as u64);
            let case = format!("{name} cut to {cut}");
            let (_, warnings) = live_with(&base, &disk, name, &case);
            assert!(warnings.iter().any(|warning| warning.contains(name)), "{case}: {warnings:#?}");
        }
    }
}

#[test]
fn a_missing_segment_is_named_with_what_it_had() {
    let base = Base::new(true);
    let mut names = base.sealed();
    names.push(base.active());
    for name in &names {
        for with_sidecar in [true, false] {
            let disk = base.copy();
            disk.remove(name).unwrap();
            if !with_sidecar && disk.names().contains(&format!("{name}.idx")) {
                disk.remove(&format!("{name}.idx")).unwrap();
            }
            let case = format!("{name} missing, sidecar: {with_sidecar}");
            let (lost, warnings) = live_with(&base, &disk, name, &case);
            let here: Vec<_> =
                frames(&base.disk.bytes(name)).iter().filter_map(|frame| frame.record).collect();
            assert!(lost.len() <= here.len(), "{case}: {lost:?}");
            assert!(warnings.iter().any(|warning| warning.contains(name)), "{case}: {warnings:#?}");
        }
    }
}

#[test]
fn a_missing_segment_that_comes_back_is_whole_again() {
    let base = Base::new(true);
    for name in base.sealed() {
        let disk = base.copy();
        disk.remove(&name).unwrap();
        live_with(&base, &disk, &name, &name);
        disk.put(&name, base.disk.bytes(&name));
        let store = open(&disk).unwrap();
        let read = served(&store);
        let missing = missing(&base, &read);
        assert!(missing.iter().all(|(topic, _)| topic.as_str() == "audit"), "{name}: {missing:?}");
    }
}

#[test]
fn one_copy_of_the_manifest_is_enough() {
    let base = Base::new(true);
    for name in ["manifest.1", "manifest.2"] {
        let len = base.disk.bytes(name).len();
        let mut cases: Vec<(SimDisk, String)> =
            sample(len, 3).into_iter().map(|at| flipped(&base, name, at)).collect();
        for cut in [0, 7, 15, 16, len / 2, len - 1] {
            let disk = base.copy();
            disk.truncate(name, cut as u64);
            cases.push((disk, format!("{name} cut to {cut}")));
        }
        let disk = base.copy();
        disk.remove(name).unwrap();
        cases.push((disk, format!("{name} missing")));
        for (disk, case) in cases {
            let bad = disk.names().contains(&name.to_string()).then(|| disk.bytes(name));
            let store = open(&disk).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(check(&base, &store, name, &case).is_empty(), "{case}");
            let health = store.health();
            assert!(health.damaged > 0 && health.warnings[0].contains(name), "{case}: {health:?}");
            drop(store);
            if let Some(bad) = bad {
                assert_eq!(disk.bytes(&format!("quarantine/{name}")), bad, "{case}");
            }
            let store = open(&disk).unwrap();
            assert_eq!(store.health(), Health::default(), "{case}: it was written again");
        }
    }
}

#[test]
fn without_any_manifest_nothing_is_opened_and_nothing_is_touched() {
    let base = Base::new(true);
    type Damage = fn(&SimDisk, &str);
    let kinds: [(&str, Damage); 3] = [
        ("flipped", |disk, name| disk.flip(name, 40, 2)),
        ("cut", |disk, name| disk.truncate(name, 30)),
        ("missing", |disk, name| disk.remove(name).unwrap()),
    ];
    for (one, first) in &kinds {
        for (other, second) in &kinds {
            let disk = base.copy();
            first(&disk, "manifest.1");
            second(&disk, "manifest.2");
            let before: BTreeMap<String, Vec<u8>> =
                disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect();
            let error = open(&disk).err().unwrap_or_else(|| panic!("{one}, {other}: opened"));
            let words = error.to_string();
            assert!(matches!(error, OpenError::Damaged(_)), "{one}, {other}: {words}");
            assert!(
                words.contains("manifest.") && words.contains("event-hub doctor"),
                "{one}, {other}: {words}"
            );
            let unfinished = |name: &&String| !name.ends_with(".new");
            for name in before.keys().filter(unfinished) {
                assert_eq!(disk.bytes(name), before[name], "{one}, {other}: {name} was touched");
            }
        }
    }
}

#[test]
fn a_bad_format_file_is_refused_or_seen_through() {
    let base = Base::new(true);
    let bytes = base.disk.bytes("format");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let disk = base.copy();
            disk.flip("format", at as u64, bit);
            let case = format!("bit {bit} of byte {at} of format flipped");
            match open(&disk) {
                Ok(store) => {
                    assert!(check(&base, &store, "format", &case).is_empty(), "{case}");
                    // A digit of the seed; or a letter of it in another case, which is the same.
                    let same = disk.bytes("format").eq_ignore_ascii_case(&bytes);
                    let health = store.health();
                    assert!(
                        same || health.warnings.iter().any(|warning| warning.contains("format")),
                        "{case}"
                    );
                    let event = hub_proto::Event::from_json(
                        base.kept.0[&topic("users")].values().next().unwrap().clone().into(),
                        0,
                    );
                    let event = event.unwrap();
                    let found = now(store.seq_of(&topic("users"), event.id())).unwrap();
                    assert_eq!(found, Some(event.seq()), "{case}: ids are found as before");
                }
                Err(OpenError::Newer { found, .. }) => assert!(found > 1, "{case}"),
                Err(OpenError::Damaged(words)) => {
                    assert!(
                        words.contains("format") && words.contains("event-hub doctor"),
                        "{case}: {words}"
                    );
                }
                Err(error) => panic!("{case}: {error}"),
            }
        }
    }
    let disk = base.copy();
    disk.remove("format").unwrap();
    let words = open(&disk).err().unwrap().to_string();
    assert!(words.contains("format") && words.contains("event-hub doctor"), "{words}");
}

#[test]
fn the_lock_and_what_is_in_quarantine_may_be_anything() {
    let base = Base::new(true);
    let disk = base.copy();
    disk.put("lock", b"anything".to_vec());
    disk.put("quarantine/log-00000001.torn-99", b"anything".to_vec());
    disk.put("quarantine/whatever", b"anything".to_vec());
    let store = open(&disk).unwrap();
    assert_eq!((served(&store), store.health()), (base.kept, Health::default()));
    drop(store);
    assert_eq!(disk.bytes("quarantine/whatever"), b"anything");
}

#[test]
fn a_segment_in_quarantine_is_named_at_every_start() {
    let base = Base::new(true);
    let disk = base.copy();
    let name = base.active();
    let mut bytes = disk.bytes(&name);
    bytes[8..40].fill(0xee);
    disk.put(&name, bytes.clone());
    let store = open(&disk).unwrap();
    check(&base, &store, &name, "a header of garbage");
    publish_more(&base, &store, "a header of garbage");
    drop(store);
    for _ in 0..3 {
        let store = open(&disk).unwrap();
        let health = store.health();
        assert!(health.damaged > 0, "{health:?}");
        assert!(
            health.warnings.iter().any(|warning| warning.contains(&format!("quarantine/{name}"))),
            "{health:?}"
        );
        assert_eq!(disk.bytes(&format!("quarantine/{name}")), bytes);
    }
    // A file of the same name does not take its place.
    disk.put(&name, vec![7; 100]);
    disk.remove("manifest.1").unwrap();
    disk.remove("manifest.2").unwrap();
    for (copy, bytes) in ["manifest.1", "manifest.2"].map(|copy| (copy, base.disk.bytes(copy))) {
        disk.put(copy, bytes);
    }
    drop(open(&disk).unwrap());
    assert_eq!(disk.bytes(&format!("quarantine/{name}")), bytes);
    assert_eq!(disk.bytes(&format!("quarantine/{name}.2")), [7; 100]);
}

#[test]
fn a_torn_last_commit_is_cut_and_kept_aside_and_is_no_damage() {
    let base = Base::new(false);
    let name = base.active();
    let bytes = base.disk.bytes(&name);
    let frames = frames(&bytes);
    let marks: Vec<&Framed> = frames.iter().filter(|frame| frame.kind == "mark").collect();
    let (before, last) = (marks[marks.len() - 2], marks[marks.len() - 1]);
    let (start, end) = (before.offset + before.len, last.offset + last.len);
    for at in start..end {
        let disk = base.copy();
        let mut torn = bytes.clone();
        torn[at as usize..].fill(0);
        if torn[..end as usize] == bytes[..end as usize] {
            continue;
        }
        disk.put(&name, torn.clone());
        let store = open(&disk).unwrap();
        assert_eq!(store.health(), Health::default(), "torn at {at}");
        let read = served(&store);
        let expected = vec![(topic("users"), base.written.last(&topic("users")))];
        assert_eq!(missing(&base, &read), expected, "torn at {at}");
        // Nobody was told of it: its seq is free.
        let mut more = Ledger::default();
        let seqs = more.publish(&store, vec![draft("users", 7000, None)], vec![]);
        assert_eq!(seqs, [base.written.last(&topic("users"))], "torn at {at}");
        let aside = trim(&torn[start as usize..]);
        if !aside.is_empty() {
            assert_eq!(trim(&disk.bytes(&format!("quarantine/{name}.torn-{start}"))), aside, "torn at {at}");
        }
    }
}

#[test]
fn a_damaged_last_commit_of_a_closed_store_is_damage() {
    let base = Base::new(true);
    let name = base.active();
    let frames = frames(&base.disk.bytes(&name));
    let event = frames.iter().rfind(|frame| frame.kind == "event").unwrap();
    let disk = base.copy();
    disk.flip(&name, event.offset + 40, 1);
    let (lost, warnings) = live_with(&base, &disk, &name, "the last record");
    assert_eq!(lost, [(topic("users"), base.written.last(&topic("users")))]);
    let before = base.written.last(&topic("users")) - 1;
    assert!(warnings[0].contains(&format!("at byte {}", event.offset)), "{warnings:?}");
    assert!(said(&warnings[0]).after.contains(&("users".into(), before)), "{warnings:?}");
}

#[test]
fn a_damaged_name_of_a_topic_costs_no_record() {
    let disk = SimDisk::new(3);
    let store = open(&disk).unwrap();
    let mut written = Ledger::default();
    let mut relaxed = draft("audit", 4, None);
    relaxed.set_relaxed(true);
    written.publish(&store, vec![draft("orders", 1, None), relaxed], vec![]);
    written.publish(&store, vec![draft("users", 2, None), draft("orders", 3, None)], vec![]);
    now(store.close()).unwrap();
    drop(store);
    let all: Vec<Framed> = frames(&disk.bytes("log-00000001"));
    let base = Base { disk, kept: written.clone(), written };
    for frame in all.iter().filter(|frame| frame.kind == "topic") {
        let disk = base.copy();
        disk.flip("log-00000001", frame.offset + frame.len - 1, 0);
        let case = format!("the name at byte {}", frame.offset);
        let (lost, warnings) = live_with(&base, &disk, "log-00000001", &case);
        assert!(lost.is_empty() && warnings.len() == 1, "{case}: {warnings:#?}");
        assert!(warnings[0].contains("no record is missing"), "{warnings:?}");
    }
}

#[test]
fn damage_under_an_open_store_is_found_on_reading_and_the_reader_gets_on() {
    let base = Base::new(true);
    let disk = base.copy();
    let store = open(&disk).unwrap();
    let mut hit = Vec::new();
    let mut names = base.sealed();
    names.push(base.active());
    for name in &names {
        let frames = frames(&base.disk.bytes(name));
        let Some(frame) = frames.iter().rfind(|frame| frame.kind == "event") else { continue };
        disk.flip(name, frame.offset + frame.len / 2, 4);
        hit.push((name.clone(), frame.offset));
    }
    let lost = check(&base, &store, "memory/", "flipped while open");
    assert!(!lost.is_empty() && lost.len() <= hit.len());
    let health = store.health();
    for (topic, seq) in &lost {
        assert!(health.warnings.iter().any(|warning| {
            let said = said(warning);
            hit.iter().any(|(name, offset)| warning.contains(name) && said.offset == Some(*offset))
                && said.lost.contains(&(topic.to_string(), *seq, *seq))
        }));
    }
    let damaged = store.health().damaged;
    assert_eq!(damaged, lost.len() as u64);
    served(&store);
    assert_eq!(store.health().damaged, damaged, "the same damage counts once");

    // And a file that gets shorter.
    let name = &names[0];
    disk.truncate(name, 200);
    let more = check(&base, &store, "memory/", "cut while open");
    assert!(more.len() >= lost.len() && store.health().damaged == more.len() as u64);
    publish_more(&base, &store, "cut while open");
    now(store.close()).unwrap();
}

#[test]
fn the_state_of_a_key_that_is_damaged_is_an_error_and_the_other_keys_are_served() {
    let base = Base::new(true);
    let disk = base.copy();
    let store = open(&disk).unwrap();
    let orders = topic("orders");
    let key: hub_proto::Key = "a".into();
    let newest = now(store.newest(&orders, std::slice::from_ref(&key))).unwrap()[0].clone().unwrap();
    let holds =
        |name: &String| disk.bytes(name).windows(newest.json().len()).any(|bytes| bytes == newest.json());
    let name = disk.names().into_iter().find(holds).unwrap();
    let at = disk.bytes(&name).windows(newest.json().len()).position(|bytes| bytes == newest.json()).unwrap();
    disk.flip(&name, at as u64 + 60, 0);
    for _ in 0..2 {
        let answer = now(store.newest(&orders, std::slice::from_ref(&key)));
        assert!(matches!(&answer, Err(StoreError::Damaged(words)) if words.contains(&name)), "{answer:?}");
        let limit = hub_core::store::ReadLimit { events: 10, bytes: 1 << 20 };
        let page = now(store.newest_page(&orders, None, limit)).unwrap();
        let keys: Vec<&str> = page.iter().filter_map(|event| event.key().map(|key| &**key)).collect();
        assert_eq!(keys, ["b", "c"]);
        let one = hub_core::store::ReadLimit { events: 1, ..limit };
        let first = now(store.newest_page(&orders, None, one)).unwrap();
        assert_eq!(first[0].key().map(|key| &**key), Some("b"), "only the last page is empty");
    }
    assert_eq!(store.health().damaged, 1);
}

#[test]
fn garbage_in_the_middle_of_a_segment_is_passed_over() {
    let base = Base::new(true);
    let mut names = base.sealed();
    names.push(base.active());
    for (seed, name) in names.iter().enumerate() {
        // Not the last mark: without it nothing says that what comes before was ever safe.
        let len = base.disk.bytes(name).iter().rposition(|&byte| byte != 0).unwrap() + 1 - MARK;
        for (from, count) in [(64, 512), (64, 64), (len / 3, 700), (len / 2, 100)] {
            let disk = base.copy();
            let mut bytes = disk.bytes(name);
            let end = (from + count).min(len);
            let mut state = seed as u64 + from as u64 + 1;
            for byte in &mut bytes[from.min(end)..end] {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (state >> 56) as u8;
            }
            disk.put(name, bytes);
            live_with(&base, &disk, name, &format!("garbage from {from} to {end} in {name}"));
        }
    }
}
