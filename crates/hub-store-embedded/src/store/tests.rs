//! Lookups while records move to another segment after an error of the disk.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::disk::sim::SimDisk;
use hub_core::store::{Appended, First};
use hub_proto::{Draft, NewEvent, Payload};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const ALL: ReadLimit = ReadLimit { events: 100, bytes: 1 << 20 };
/// Far beyond what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// The answer of a store that does everything within the call.
fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store without threads has nothing to wait for"),
    }
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A store without threads.
struct World {
    disk: SimDisk,
    store: EmbeddedStore,
    /// The time of the last commit.
    time: AtomicU64,
}

impl World {
    /// `state` has two relaxed events that readers see and that are not synced: seq 2 with the key `new`, seq 3 with the key
    /// `known`, which seq 1 has, too. They were committed at 3, 5 and 6. The last sync has failed.
    fn failed() -> Self {
        let disk = SimDisk::new(1);
        let options = Options { disk_reserve: 0, segment_bytes: 4096, ..Options::default() };
        let options = Options { threads: Threads::None, ..options };
        let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options).unwrap();
        let world = Self { disk, store, time: AtomicU64::new(0) };
        // The first event of a relaxed topic reserves seqs, which is durable.
        for name in ["gate", "end", "state"] {
            assert!(world.commit(name, "known", true));
        }
        for (name, key) in [("gate", "b"), ("state", "new"), ("state", "known"), ("end", "b")] {
            assert!(world.commit(name, key, true));
        }
        world.disk.fail_syncs(true);
        assert!(!world.commit("other", "a", false));
        world.disk.fail_syncs(false);
        assert!(world.store.shared.tail().failed.is_some());
        world
    }

    fn commit(&self, name: &str, key: &str, relaxed: bool) -> bool {
        self.publish(name, key, relaxed, hub_proto::IdGenerator::new().next(1)).is_ok()
    }

    fn publish(&self, name: &str, key: &str, relaxed: bool, id: EventId) -> StoreResult<Appended> {
        let event = NewEvent::new(topic(name), Payload::of(&key).unwrap()).with_key(key);
        let mut event = Draft::encode(event, id, 1);
        event.set_relaxed(relaxed);
        let now_ms = self.time.fetch_add(1, Relaxed) + 1;
        let commit = Commit { now: now_ms, events: vec![event], ..Commit::default() };
        now(self.store.commit(commit)).events.remove(0)
    }

    /// The id of seq 2 of `state`.
    fn moving_id(&self) -> EventId {
        now(self.store.read(&topic("state"), 1, ALL)).unwrap()[0].id()
    }

    fn seq_of(&self, id: EventId) -> Option<u64> {
        let topic = self.store.shared.catalog.named(&topic("state")).unwrap();
        lookup::seq_of(&self.store.shared, &topic, id, Wait::Yes).unwrap()
    }

    fn newest(&self, key: &str) -> Option<u64> {
        let newest = now(self.store.newest(&topic("state"), &[Key::from(key)])).unwrap();
        newest[0].as_ref().map(|event| event.seq())
    }
}

/// What `look` answers if it begins when the old segment is cut already, but `state` does not know yet where its records
/// have gone: it looks in the old segment, and goes on when they are in the new one.
fn look_in_mid_heal<T: Send>(world: &World, look: impl FnOnce(&World) -> T + Send) -> T {
    let shared = &world.store.shared;
    let old = shared.tail().segment.clone();
    let gate = shared.catalog.named(&topic("gate")).unwrap();
    std::thread::scope(|scope| {
        // Records of this topic move before those of `state`.
        let held = gate.state.lock();
        let healing = scope.spawn(|| world.commit("other", "b", false));
        until("the old segment is cut", || old.index.try_read().is_none());
        let users = Arc::strong_count(&old);
        let looking = scope.spawn(|| look(world));
        until("the lookup has listed the segments", || Arc::strong_count(&old) > users);
        drop(held);
        assert!(healing.join().unwrap());
        assert_eq!(shared.segments().len(), 2, "records have moved");
        looking.join().unwrap()
    })
}

#[test]
fn the_newest_record_of_a_key_is_found_while_records_move_to_another_segment() {
    for (key, seq) in [("new", 2), ("known", 3)] {
        let world = World::failed();
        assert_eq!(look_in_mid_heal(&world, |world| world.newest(key)), Some(seq), "{key}");
        assert_eq!(world.newest(key), Some(seq), "{key}");
    }
}

#[test]
fn a_page_of_newest_records_is_whole_while_records_move_to_another_segment() {
    for (after, seqs) in [(None, &[3, 2][..]), (Some("known"), &[2])] {
        let page = look_in_mid_heal(&World::failed(), |world| {
            let page = now(world.store.newest_page(&topic("state"), after, ALL)).unwrap();
            page.iter().map(|event| event.seq()).collect::<Vec<_>>()
        });
        assert_eq!(page, seqs, "after {after:?}");
    }
}

#[test]
fn compaction_keeps_the_newest_records_while_they_move_to_another_segment() {
    let world = World::failed();
    let policy = CleanPolicy { compact: true, ..CleanPolicy::default() };
    let cleaned = look_in_mid_heal(&world, |world| {
        let topic = world.store.shared.catalog.named(&topic("state")).unwrap();
        clean::plan(&world.store.shared, &topic, &policy).map_err(StoreError::from)
    });
    assert_eq!(cleaned.unwrap().unwrap().events, 1, "seq 1 is overtaken, and no other");
}

#[test]
fn a_read_is_whole_while_records_move_to_another_segment() {
    for (after, seqs) in [(0, &[1, 2, 3][..]), (1, &[2, 3])] {
        let read = look_in_mid_heal(&World::failed(), |world| {
            let read = now(world.store.read(&topic("state"), after, ALL)).unwrap();
            read.iter().map(|event| event.seq()).collect::<Vec<_>>()
        });
        assert_eq!(read, seqs, "after {after}");
    }
}

#[test]
fn the_seq_before_a_time_is_found_while_records_move_to_another_segment() {
    for (time, seq) in [(3, 0), (5, 1), (6, 2), (7, 3)] {
        let found = look_in_mid_heal(&World::failed(), |world| {
            now(world.store.seq_before(&topic("state"), time)).unwrap()
        });
        assert_eq!(found, seq, "before {time}");
    }
}

#[test]
fn an_id_is_found_if_its_record_moves_after_the_segments_were_listed() {
    let world = World::failed();
    let (shared, id) = (&world.store.shared, world.moving_id());
    let old = shared.tail().segment.clone();
    std::thread::scope(|scope| {
        // The move waits for this lock, and the lookup for the move.
        let held = old.index.read();
        let healing = scope.spawn(|| world.commit("other", "b", false));
        until("the move waits for the old index", || old.index.try_read().is_none());
        let segments = shared.segments();
        let users = Arc::strong_count(&segments);
        let looking = scope.spawn(|| world.seq_of(id));
        until("the lookup has listed the segments", || Arc::strong_count(&segments) > users);
        drop(held);
        assert!(healing.join().unwrap());
        assert_eq!((segments.len(), shared.segments().len()), (1, 2), "records have moved");
        assert_eq!(looking.join().unwrap(), Some(2));
    });
}

#[test]
fn an_id_is_found_if_the_lookup_begins_after_its_record_moved() {
    let world = World::failed();
    let (shared, id) = (&world.store.shared, world.moving_id());
    let state = shared.catalog.named(&topic("state")).unwrap();
    let end = shared.catalog.named(&topic("end")).unwrap();
    let moves = state.state.lock().moves;
    let found = std::thread::scope(|scope| {
        // Records of this topic move after those of `state`.
        let held = end.state.lock();
        let healing = scope.spawn(|| world.commit("other", "b", false));
        until("both records of `state` have moved", || state.state.lock().moves == moves + 2);
        let segments = shared.segments();
        let users = Arc::strong_count(&segments);
        let looking = scope.spawn(|| world.seq_of(id));
        until("the lookup has listed the segments", || {
            looking.is_finished() || Arc::strong_count(&segments) > users
        });
        drop(held);
        assert!(healing.join().unwrap());
        looking.join().unwrap()
    });
    assert_eq!(found, Some(2));
}

#[test]
fn an_event_that_is_published_again_while_its_record_moves_is_not_stored_twice() {
    let world = World::failed();
    let (shared, id) = (&world.store.shared, world.moving_id());
    let old = shared.tail().segment.clone();
    let gate = shared.catalog.named(&topic("gate")).unwrap();
    let again = std::thread::scope(|scope| {
        let held = gate.state.lock();
        let healing = scope.spawn(|| world.commit("other", "b", false));
        until("the old segment is cut", || old.index.try_read().is_none());
        let publishing = scope.spawn(|| world.publish("state", "new", true, id));
        drop(held);
        assert!(healing.join().unwrap());
        publishing.join().unwrap()
    });
    let first = match again.unwrap() {
        Appended::New { event, .. } => panic!("stored again as seq {}", event.seq()),
        Appended::Known { seq, .. } | Appended::Twin { first: First::Remembered(seq, ..), .. } => seq,
        Appended::Twin { first: First::Record(event), .. } => event.seq(),
    };
    assert_eq!(first, 2);
    assert_eq!(now(world.store.bounds(&topic("state"))).unwrap().last, 3);
}
