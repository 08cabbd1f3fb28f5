//! Which thread gives an answer: the runtime's if it takes a few lookups in memory, another one if it takes more.

use crate::ledger::{T0, draft, id, small};
use crate::threads::{LIMIT, options, topic};
use crate::watched::{Call, Watched};
use hub_core::store::{CleanPolicy, Commit, EventStore, ReadLimit};
use hub_proto::Key;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

/// A few events.
const SMALL: ReadLimit = ReadLimit { events: 10, bytes: 64 << 10 };
/// More bytes than a thread of the runtime reads at once.
const LARGE: ReadLimit = ReadLimit { events: 10, bytes: 4 << 20 };

/// A store on a runtime of one thread, which counts who reads its disk.
struct World {
    store: EmbeddedStore,
    on_runtime: Arc<AtomicU64>,
    elsewhere: Arc<AtomicU64>,
    /// Lets the next read go on that is not on the runtime's thread.
    go_on: Sender<()>,
}

impl World {
    /// Opens it on the thread of the runtime.
    fn open(disk: &SimDisk, options: Options) -> Self {
        let (on_runtime, elsewhere) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (go_on, held) = channel();
        let (mine, others, held) = (on_runtime.clone(), elsewhere.clone(), Mutex::new(held));
        let runtime = std::thread::current().id();
        let watched = Watched::with(disk, move |call| {
            let thread = std::thread::current();
            let is_store = thread.name().is_some_and(|name| name.starts_with("hub-"));
            if is_store || !matches!(call, Call::Read(name) if name.starts_with("log-")) {
                return;
            }
            if thread.id() == runtime {
                mine.fetch_add(1, Relaxed);
            } else if others.fetch_add(1, Relaxed) == 0 {
                held.lock().recv_timeout(LIMIT).expect("a task of the runtime goes on meanwhile");
            }
        });
        let store = EmbeddedStore::open_on(Arc::new(watched), options).unwrap();
        on_runtime.store(0, Relaxed);
        Self { store, on_runtime, elsewhere, go_on }
    }

    /// The answer is given on the runtime's thread.
    async fn is_small<T>(&self, what: &str, answer: impl Future<Output = T>) -> T {
        let answer = answer.await;
        assert_eq!(self.elsewhere.load(Relaxed), 0, "{what} left the thread");
        assert!(self.on_runtime.swap(0, Relaxed) > 0, "{what} read nothing");
        answer
    }

    /// The answer is given by another thread, and other tasks go on before it is there.
    async fn is_large<T>(&self, what: &str, answer: impl Future<Output = T>) -> T {
        let (answer, ()) = tokio::join!(answer, async { self.go_on.send(()).unwrap() });
        assert_eq!(self.on_runtime.load(Relaxed), 0, "{what} kept the thread busy");
        assert!(self.elsewhere.swap(0, Relaxed) > 0, "{what} read nothing");
        answer
    }
}

/// Fills a log with keys of their own, until `is_enough`; the number of events. Each is in its commit by itself.
async fn fill(disk: &SimDisk, is_enough: impl Fn(u64) -> bool) -> u64 {
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap();
    let mut number = 0;
    while !is_enough(number) {
        number += 1;
        let events = vec![draft("state", number, Some(&format!("k{number}")))];
        store.commit(Commit { now: T0 + number, events, ..Commit::default() }).await;
    }
    drop(store);
    disk.process_death();
    number
}

fn key(number: u64) -> Key {
    Key::from(format!("k{number}").as_str())
}

#[tokio::test]
async fn small_answers_are_given_on_the_thread_of_the_runtime() {
    let disk = SimDisk::new(1);
    let last = fill(&disk, |number| number == 60).await;
    let world = World::open(&disk, options());
    let (store, state) = (&world.store, topic("state"));
    let read = world.is_small("a read", store.read(&state, last - 5, SMALL)).await.unwrap();
    assert_eq!(read.len(), 5);
    let newest = world.is_small("newest", store.newest(&state, &[key(last)])).await.unwrap();
    assert_eq!(newest[0].as_ref().unwrap().seq(), last);
    assert_eq!(world.is_small("seq_of", store.seq_of(&state, id(last))).await, Ok(Some(last)));
    assert_eq!(world.is_small("seq_before", store.seq_before(&state, T0 + last)).await, Ok(last - 1));
}

#[tokio::test]
async fn large_answers_leave_the_thread_of_the_runtime() {
    let disk = SimDisk::new(1);
    let last = fill(&disk, |number| number == 60).await;
    let world = World::open(&disk, options());
    let (store, state) = (&world.store, topic("state"));
    let read = world.is_large("a large read", store.read(&state, last - 5, LARGE)).await.unwrap();
    assert_eq!(read.len(), 5);
    let keys: Vec<Key> = (1..=300).map(|number| key(last - number % 5)).collect();
    let newest = world.is_large("newest of many keys", store.newest(&state, &keys)).await.unwrap();
    assert!(newest.iter().all(Option::is_some));
    let page = world.is_large("a page of keys", store.newest_page(&state, None, SMALL)).await.unwrap();
    assert_eq!(page.len(), SMALL.events);
}

#[tokio::test]
async fn lookups_in_many_segments_leave_the_thread_of_the_runtime() {
    let disk = SimDisk::new(1);
    let many = |_| disk.names().contains(&"log-00000260".to_owned());
    let last = fill(&disk, many).await;
    let world = World::open(&disk, options());
    let (store, state) = (&world.store, topic("state"));
    let newest = world.is_large("newest of one key", store.newest(&state, &[key(last)])).await.unwrap();
    assert_eq!(newest[0].as_ref().unwrap().seq(), last);
    assert_eq!(world.is_large("seq_of", store.seq_of(&state, id(last))).await, Ok(Some(last)));
    // Still a few lookups.
    world.is_small("a read", store.read(&state, last - 1, SMALL)).await.unwrap();
}

#[tokio::test]
async fn a_read_past_many_removed_events_leaves_the_thread_of_the_runtime() {
    const REMOVED: u64 = 20_000;
    let disk = SimDisk::new(1);
    // In the segment that is written to: none of it is rewritten.
    let options = Options { segment_bytes: 64 << 20, ..options() };
    let world = World::open(&disk, options);
    let (store, state) = (&world.store, topic("state"));
    let key = |number| if number == 1 { "first" } else { "other" };
    let numbers: Vec<u64> = (1..=REMOVED + 2).collect();
    for numbers in numbers.chunks(1000) {
        let events = numbers.iter().map(|&number| draft("state", number, Some(key(number)))).collect();
        store.commit(Commit { now: T0 + numbers[0], events, ..Commit::default() }).await;
    }
    let policy = CleanPolicy { compact: true, ..CleanPolicy::default() };
    assert_eq!(store.clean(&state, policy).await.unwrap().removed, REMOVED);
    let read = world.is_large("the read", store.read(&state, 1, SMALL)).await.unwrap();
    assert_eq!(read.iter().map(|event| event.seq()).collect::<Vec<_>>(), [REMOVED + 2]);
    let read = world.is_small("the first page", store.read(&state, 0, SMALL)).await.unwrap();
    assert_eq!(read[0].seq(), 1);
}
