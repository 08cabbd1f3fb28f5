#![allow(clippy::unwrap_used)]
use super::*;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;

const SEAL: u64 = 7;

fn mark(number: u64, synced: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Seal::new(SEAL).mark(&mut bytes, Mark { number, synced, start: header::LEN as u32, closed: false });
    bytes
}

/// Scans a segment of these bytes; answers where frames were, too.
fn scanned(bytes: &[u8], end: Option<u64>) -> (Outcome, Vec<u64>) {
    let disk = SimDisk::new(1);
    disk.put("segment", [&[0; header::LEN], bytes].concat());
    let mut frames = Vec::new();
    let file = disk.open("segment").unwrap();
    let outcome = scan(&*file, Seal::new(SEAL), end, 0, &mut |at| frames.push(at.offset)).unwrap();
    (outcome, frames)
}

#[test]
fn every_frame_between_damaged_ones_is_found() {
    let mut bytes = Vec::new();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for number in 1..=20_000_u64 {
        let at = bytes.len();
        bytes.extend(mark(number, number - 1));
        if number % 2 == 0 {
            bytes[at + 12] ^= 1;
            bad.push((header::LEN + at) as u64);
        } else {
            good.push((header::LEN + at) as u64);
        }
    }
    bytes.extend(mark(20_001, 20_000));
    good.push((header::LEN + bytes.len()) as u64 - mark(0, 0).len() as u64);
    for end in [None, Some((header::LEN + bytes.len()) as u64)] {
        let (outcome, frames) = scanned(&bytes, end);
        assert!(frames == good, "{} frames of {}", frames.len(), good.len());
        assert!(outcome.damage.iter().map(|damage| damage.bytes.start).eq(bad.iter().copied()));
    }
}

#[test]
fn what_nobody_says_is_synced_is_torn_and_not_damage() {
    let mut bytes = mark(1, 0);
    let end = (header::LEN + bytes.len()) as u64;
    for number in 2..100 {
        let at = bytes.len();
        bytes.extend(mark(number, 1));
        bytes[at + 12] ^= u8::from(number == 2);
    }
    let (outcome, frames) = scanned(&bytes, None);
    assert_eq!((frames.len(), outcome.end, outcome.damage.len()), (1, end, 0));
    assert_eq!(outcome.torn.map(|torn| torn.start), Some(end));
    // One that says so is enough, wherever it is.
    bytes.extend([0xee; 1000]);
    bytes.extend(mark(101, 100));
    let (outcome, frames) = scanned(&bytes, None);
    assert_eq!((frames.len(), outcome.damage.len(), outcome.torn), (99, 2, None));
}

#[test]
fn frames_of_every_kind_are_found_behind_garbage() {
    let disk = SimDisk::new(1);
    let topic = hub_proto::TopicName::parse("a").unwrap();
    let seal = Seal::new(SEAL);
    let json = format!("{{\"id\":\"{}\"}}", "x".repeat(50_000));
    let past = crate::format::entry::Past {
        seq: 1,
        ts: 2,
        committed: 3,
        id: hub_proto::EventId::from_bytes([1; 16]),
        content: hub_proto::EventId::from_bytes([2; 16]),
    };
    let cleaned = crate::format::entry::Cleaned {
        floor: 1,
        ids_since: 1_800_000_000_000,
        events: 2,
        bytes: 3,
        dead: (1..9).collect(),
    };
    let group = hub_core::GroupName::parse("g").unwrap();
    let gone = hub_core::store::Record::GroupGone(topic.clone(), group);
    type Frame<'a> = &'a dyn Fn(&mut Vec<u8>);
    let frames: [Frame<'_>; 9] = [
        &|into| seal.topic(into, 1, &topic),
        &|into| seal.event(into, 1, 2, json.as_bytes()),
        &|into| seal.past(into, 1, &past),
        &|into| seal.cleaned(into, 1, &cleaned),
        &|into| seal.reserved(into, 1, 2),
        &|into| seal.jump(into, 1, 2),
        &|into| seal.opened(into, 1, 2),
        &|into| seal.record(into, &gone),
        &|into| seal.mark(into, Mark { number: 1, synced: 0, start: 64, closed: true }),
    ];
    for (kind, frame) in frames.iter().enumerate() {
        let mut bytes = vec![0xee; header::LEN + 333];
        let at = bytes.len() as u64;
        frame(&mut bytes);
        let end = bytes.len() as u64;
        disk.put("segment", bytes);
        let mut found = Vec::new();
        let file = disk.open("segment").unwrap();
        scan(&*file, seal, Some(end), 0, &mut |at| found.push(at.offset)).unwrap();
        assert_eq!(found, [at], "frame {kind}");
    }
}

#[test]
fn what_is_made_to_look_like_frames_does_not_take_for_ever() {
    // Each would have 65 KB checked: without a budget, 2 GB for this.
    let mut bytes = Vec::new();
    while bytes.len() < 1 << 20 {
        bytes.extend([1, 2, 3, 4, 0, 0xff, 0xfe, 0, kind::EVENT, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"{\"id\":\"");
    }
    let at = (header::LEN + bytes.len()) as u64;
    bytes.extend(mark(2, 1));
    let (outcome, frames) = scanned(&bytes, None);
    assert_eq!((frames, outcome.damage.len()), (vec![at], 1));
}
