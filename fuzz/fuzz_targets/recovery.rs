//! Opens a store over a log of any frames, sealed so that they count: whatever they say, it opens, serves, takes an
//! event and opens again.
#![no_main]

use futures_executor::block_on;
use hub_core::store::{Appended, Commit, Draft, EventStore, ReadLimit};
use hub_proto::{EventId, NewEvent, Payload, TopicName};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::format::frame::{HEADER, Seal, kind};
use hub_store_embedded::format::header::Header;
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

const NONCE: u64 = 7;

fuzz_target!(|data: &[u8]| {
    let header = Header { number: 1, nonce: NONCE, after_commit: 0, prev_end: 0, bytes: 0 };
    let mut log = header.encode();
    seal(data, &mut log);
    let disk = SimDisk::new(1);
    disk.put("format", b"event-hub embedded store\nformat 1\nseed 0000000000000007\n".to_vec());
    disk.put("log-00000001", log);
    for life in 0..2 {
        let options = Options { segment_bytes: 4096, threads: Threads::None, ..Options::default() };
        let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options).expect("a log can be opened");
        let image = block_on(store.load()).expect("what is in memory");
        for (topic, bounds) in &image.topics {
            let limit = ReadLimit { events: 3, bytes: 1000 };
            let mut after = 0;
            while let Ok(events) = block_on(store.read(topic, after, limit)) {
                let Some(last) = events.last() else { break };
                assert!(last.seq() > after && last.seq() <= bounds.last);
                after = last.seq();
            }
        }
        let topic = TopicName::parse("a").expect("a name");
        let before = block_on(store.bounds(&topic)).expect("what is in memory").last;
        let event = NewEvent::new(topic, Payload::from_json("1").expect("a payload"));
        let event = Draft::encode(event, EventId::from_bytes([life; 16]), 1);
        let committed = block_on(store.commit(Commit { now: 1, events: vec![event], ..Commit::default() }));
        match &committed.events[0] {
            Ok(Appended::New { event, .. }) => assert!(event.seq() > before),
            Ok(Appended::Known { seq, .. }) => assert!(*seq <= before),
            Ok(Appended::Twin { first, .. }) => assert!(first.place().0 <= before),
            Err(error) => panic!("{error}"),
        }
    }
});

/// Frames: of each, a byte for the kind and one for how much of what follows is in it.
fn seal(mut data: &[u8], log: &mut Vec<u8>) {
    let (seal, mut number) = (Seal::new(NONCE), 0_u64);
    while let [kind, len, rest @ ..] = data {
        let (content, rest) = rest.split_at((*len as usize).min(rest.len()));
        match kind % 24 {
            // The end of a commit, most of the time with a number that fits.
            16.. => {
                number += 1;
                let start = log.len();
                seal.write(log, kind::MARK, |into| {
                    into.extend_from_slice(&number.to_le_bytes());
                    into.extend_from_slice(&(number - 1).to_le_bytes());
                    into.extend_from_slice(&0_u32.to_le_bytes());
                    into.push(kind % 2);
                });
                // And sometimes damage.
                if content.first() == Some(&0) {
                    log[start + HEADER] ^= 1;
                }
            }
            kind => seal.write(log, kind, |into| into.extend_from_slice(content)),
        }
        data = rest;
    }
}
