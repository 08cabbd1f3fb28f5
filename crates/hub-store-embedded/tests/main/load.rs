//! Many at once: publishers, readers, the cleaner and the keeper, on threads; and those who go away in the middle.
//!
//! Everything is bounded by counts. Readers are compared with what publishers knew before the read began, so no check
//! depends on who is faster.

use crate::kill::Random;
use hub_core::store::{Appended, CleanPolicy, Commit, EventStore, ReadLimit};
use hub_core::{
    Bus, Config, Event, EventId, IdGenerator, Key, NewEvent, Payload, Position, TopicDurability, TopicName,
    TopicSettings,
};
use hub_proto::Draft;
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Kept and synced, kept and synced later, cleaned by key, by size, by age.
const TOPICS: [&str; 5] = ["plain", "relaxed", "compacted", "bounded", "aged"];
const PUBLISHERS: usize = 2 * TOPICS.len();
const BOUNDED_BYTES: u64 = 60_000;
const SEGMENT: u64 = 32 << 10;
const HOUR: u64 = 60 * MINUTE;
/// No commit takes that long, on however busy a machine.
const MINUTE: u64 = 60 * 1000;
const PAGE: ReadLimit = ReadLimit { events: 300, bytes: 100_000 };

fn options() -> Options {
    // So few open files that readers are in files that are closed, opened and removed meanwhile.
    Options { segment_bytes: SEGMENT, open_files: 2, disk_reserve: 0, ..Options::default() }
}

fn config() -> Config {
    let relaxed = TopicSettings { durability: TopicDurability::Interval, ..TopicSettings::default() };
    let compacted = TopicSettings { compaction: true, tombstone_grace: 0, ..TopicSettings::default() };
    let bounded = TopicSettings { retention_bytes: Some(BOUNDED_BYTES), ..TopicSettings::default() };
    // A machine that stands still for a while is no failure.
    let config = Config { publish_timeout: MINUTE, ack_timeout: HOUR, ..Config::default() };
    let config = config.topic("relaxed", relaxed).unwrap();
    config.topic("compacted", compacted).unwrap().topic("bounded", bounded).unwrap()
}

fn name(topic: &str) -> TopicName {
    topic.parse().unwrap()
}

fn open(directory: &Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(directory, options()).unwrap())
}

async fn bus_over(store: &Arc<EmbeddedStore>) -> Bus {
    Bus::builder_over(store.clone()).config(config()).open().await.unwrap()
}

/// What a publisher sends as its `n`th event.
fn content(topic: &str, publisher: usize, n: u64, id: EventId) -> NewEvent {
    let filling = "x".repeat((n as usize * 37 + publisher) % 300);
    let payload = serde_json::json!({ "publisher": publisher, "n": n, "filling": filling });
    let mut event = NewEvent::new(name(topic), Payload::from(payload)).with_id(id);
    if topic == "compacted" {
        event.options.key = Some(key_of(publisher, n));
        if is_tombstone(publisher, n) {
            event.payload = Payload::null();
        }
    }
    event
}

/// A key has one publisher: it knows which of its events comes last.
fn key_of(publisher: usize, n: u64) -> String {
    format!("{publisher}-{}", (n * 7 + n / 13) % 16)
}

fn is_tombstone(publisher: usize, n: u64) -> bool {
    key_of(publisher, n).ends_with(['1', '3']) && n.is_multiple_of(5)
}

/// What publishers know.
#[derive(Default)]
struct Book {
    /// Before they ask: topic, publisher and number by id.
    asked: Mutex<HashMap<EventId, (&'static str, usize, u64)>>,
    /// Once they are answered: by topic and seq.
    acked: Mutex<BTreeMap<(&'static str, u64), EventId>>,
    /// By key: the last one that was acknowledged, and its seq; the last tombstone that was asked for.
    keys: Mutex<BTreeMap<String, KeyBook>>,
    /// Told of every answer; true once there will be no more.
    finished: watch::Sender<bool>,
}

#[derive(Clone, Copy, Default)]
struct KeyBook {
    acked: u64,
    n: u64,
    tombstone: Option<u64>,
}

impl Book {
    async fn publish(&self, bus: &Bus, topic: &'static str, publisher: usize, n: u64, id: EventId) {
        let event = content(topic, publisher, n, id);
        let key = event.options.key.clone();
        self.asked.lock().insert(id, (topic, publisher, n));
        if let Some(key) = key.clone().filter(|_| event.payload.is_null()) {
            self.keys.lock().entry(key).or_default().tombstone = Some(n);
        }
        let receipt = bus.send(event).await.unwrap();
        assert!(!receipt.duplicate, "{topic} {id}");
        let there = self.acked.lock().insert((topic, receipt.seq), id);
        assert_eq!(there, None, "{topic} {}: given twice", receipt.seq);
        if let Some(key) = key {
            let mut keys = self.keys.lock();
            let book = keys.entry(key).or_default();
            (book.acked, book.n) = (receipt.seq, n);
        }
        self.finished.send_modify(|_| ());
    }

    /// An event is one that somebody has asked for, as it was asked for.
    fn check(&self, event: &Event) {
        let (topic, publisher, n) = self.asked.lock()[&event.id()];
        let wanted = content(topic, publisher, n, event.id());
        let same = event.same_content(wanted.options.key.as_deref(), wanted.payload.as_bytes());
        assert!(same && event.topic().as_str() == topic, "{event:?} is not what was published");
        let acked = self.acked.lock().get(&(topic, event.seq())).copied();
        assert!(acked.is_none_or(|id| id == event.id()), "{topic} {}: {acked:?}", event.seq());
    }

    fn seqs(&self, topic: &'static str) -> Vec<(u64, EventId)> {
        let acked = self.acked.lock();
        acked.range((topic, 0)..=(topic, u64::MAX)).map(|((_, seq), id)| (*seq, *id)).collect()
    }
}

/// Runs all publishers to their end.
async fn publish_all(bus: &Bus, book: &Arc<Book>, count: u64) {
    let ids = Arc::new(IdGenerator::new());
    let mut publishers = JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let (bus, book, ids) = (bus.clone(), book.clone(), ids.clone());
        publishers.spawn(async move {
            let topic = TOPICS[publisher % TOPICS.len()];
            for n in 0..count {
                // Ids in the order of time and ids in none are looked up in different ways.
                let id = match publisher < TOPICS.len() {
                    true => ids.next(bus.now()),
                    false => EventId::derived(&[topic.as_bytes(), &n.to_be_bytes()]),
                };
                book.publish(&bus, topic, publisher, n, id).await;
            }
        });
    }
    while let Some(ended) = publishers.join_next().await {
        ended.unwrap();
    }
    book.finished.send_replace(true);
}

/// Cleans for as long as somebody publishes.
async fn clean(bus: Bus, store: Arc<EmbeddedStore>, book: Arc<Book>) {
    let mut news = book.finished.subscribe();
    while !*news.borrow_and_update() {
        bus.clean("compacted").await.unwrap_or_default();
        bus.clean("bounded").await.unwrap_or_default();
        let policy = CleanPolicy { committed_before: Some(bus.now() - 10), ..CleanPolicy::default() };
        store.clean(&name("aged"), policy).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Reads a topic from its beginning to the end of everything.
async fn follow(store: Arc<EmbeddedStore>, book: Arc<Book>, topic: &'static str) {
    let name = name(topic);
    let (mut after, mut news) = (0, book.finished.subscribe());
    loop {
        let finished = *news.borrow_and_update();
        let before = store.bounds(&name).await.unwrap();
        let page = store.read(&name, after, PAGE).await.unwrap();
        let cleaned = store.bounds(&name).await.unwrap().first;
        if page.is_empty() {
            let all_gone = topic == "aged" && cleaned > before.last;
            assert!(after >= before.last || all_gone, "{topic}: nothing after {after}, {before:?}");
            if finished {
                return;
            }
            news.changed().await.unwrap();
        }
        for event in page {
            let seq = event.seq();
            match topic {
                "compacted" => assert!(seq > after, "{topic}: {seq} after {after}"),
                // Where something is missing, everything up to there is gone.
                _ => {
                    assert!(
                        seq == after + 1 || seq > after && cleaned >= seq,
                        "{topic}: {seq} after {after}"
                    );
                }
            }
            book.check(&event);
            after = seq;
        }
    }
}

/// Asks for the newest events of keys, one by one and all together.
async fn ask_newest(store: Arc<EmbeddedStore>, book: Arc<Book>) {
    let topic = name("compacted");
    let (mut random, mut news) = (Random::new(1), book.finished.subscribe());
    while !*news.borrow_and_update() {
        let known: Vec<(String, KeyBook)> =
            book.keys.lock().iter().map(|(key, book)| (key.clone(), *book)).collect();
        if known.is_empty() {
            news.changed().await.unwrap();
            continue;
        }
        let check = |key: &str, known: &KeyBook, found: Option<&Event>| {
            if let Some(found) = found {
                book.check(found);
                assert_eq!(found.key().map(|key| &**key), Some(key));
                assert!(
                    found.seq() >= known.acked,
                    "{key}: {} was there, found {}",
                    known.acked,
                    found.seq()
                );
                return;
            }
            let tombstone = book.keys.lock()[key].tombstone;
            let may_be_gone = tombstone.is_some_and(|n| n >= known.n);
            assert!(may_be_gone || known.acked == 0, "{key}: {} was there, nothing is found", known.acked);
        };
        let (key, one) = &known[random.below(known.len() as u64) as usize];
        let newest = store.newest(&topic, &[Key::from(key.as_str())]).await.unwrap();
        check(key, one, newest[0].as_deref());
        let page = store.newest_page(&topic, None, ReadLimit { events: 1000, bytes: 1 << 20 }).await.unwrap();
        let keys: Vec<&str> = page.iter().map(|event| &**event.key().unwrap()).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for (key, known) in &known {
            let found = keys.binary_search(&key.as_str()).ok().map(|at| &*page[at]);
            check(key, known, found);
        }
        // Again at once: what is looked for here happens between two steps of a read.
        tokio::task::yield_now().await;
    }
}

/// A consumer gets everything, one after the other.
async fn consume(bus: Bus, topic: &'static str, count: u64) {
    let mut group = bus.subscribe(topic).group("tail").from(Position::Earliest).open().await.unwrap();
    for seq in 1..=count {
        let delivery = group.recv().await.unwrap();
        assert_eq!(delivery.event().seq(), seq, "{topic}");
        delivery.ack().unwrap();
    }
}

/// Everything that was acknowledged is where it was, or gone for a reason.
async fn check_all(store: &EmbeddedStore, book: &Book) {
    for topic in TOPICS {
        let name = name(topic);
        let bounds = store.bounds(&name).await.unwrap();
        let (mut found, mut after) = (BTreeMap::new(), 0);
        loop {
            let page = store.read(&name, after, PAGE).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.seq();
            found.extend(page.into_iter().map(|event| (event.seq(), event)));
        }
        assert_eq!(found.len() as u64, bounds.events, "{topic}: {bounds:?}");
        for event in found.values() {
            book.check(event);
        }
        let keys = book.keys.lock();
        let acked = book.seqs(topic);
        assert_eq!(acked.last().map_or(0, |(seq, _)| *seq), bounds.last, "{topic}");
        for (seq, id) in acked {
            if let Some(event) = found.get(&seq) {
                assert_eq!(event.id(), id, "{topic} {seq}");
                continue;
            }
            let (_, publisher, n) = book.asked.lock()[&id];
            let may_be_gone = match topic {
                "compacted" => keys[&key_of(publisher, n)].acked > seq || is_tombstone(publisher, n),
                "bounded" | "aged" => seq < bounds.first,
                _ => false,
            };
            assert!(may_be_gone, "{topic} {seq} {id} is lost");
        }
    }
}

/// Whoever sends an event again hears where it is, whatever has become of it.
async fn check_ids(store: &EmbeddedStore, book: &Book) {
    for topic in TOPICS {
        for (seq, id) in book.seqs(topic) {
            let (_, publisher, n) = book.asked.lock()[&id];
            assert_eq!(store.seq_of(&name(topic), id).await, Ok(Some(seq)), "{topic}");
            match commit(store, content(topic, publisher, n, id)).await {
                Appended::Known { seq: known, same: true, .. } => assert_eq!(known, seq, "{topic} {id}"),
                other => panic!("{topic} {seq} {id}: {other:?}"),
            }
        }
    }
}

async fn commit(store: &EmbeddedStore, event: NewEvent) -> Appended {
    commit_all(store, vec![event]).await.remove(0)
}

async fn commit_all(store: &EmbeddedStore, events: Vec<NewEvent>) -> Vec<Appended> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let draft = |event: NewEvent| {
        let (id, relaxed) = (event.options.id.unwrap(), event.topic.as_str() == "relaxed");
        let mut draft = Draft::encode(event, id, now);
        draft.set_relaxed(relaxed);
        draft
    };
    let commit = Commit { now, events: events.into_iter().map(draft).collect(), ..Commit::default() };
    store.commit(commit).await.events.into_iter().map(Result::unwrap).collect()
}

fn assert_well(store: &EmbeddedStore) {
    let health = store.health();
    assert!(health.warnings.is_empty() && health.damaged == 0 && health.failed_commits == 0, "{health:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_miss_nothing_while_others_publish_clean_and_rewrite() {
    const COUNT: u64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let bus = bus_over(&store).await;
    let book = Arc::new(Book::default());
    let mut readers = JoinSet::new();
    for topic in TOPICS {
        readers.spawn(follow(store.clone(), book.clone(), topic));
    }
    let mut others = JoinSet::new();
    others.spawn(clean(bus.clone(), store.clone(), book.clone()));
    for _ in 0..2 {
        others.spawn(ask_newest(store.clone(), book.clone()));
    }
    for topic in ["plain", "relaxed"] {
        others.spawn(consume(bus.clone(), topic, 2 * COUNT));
    }
    publish_all(&bus, &book, COUNT).await;
    while let Some(ended) = others.join_next().await {
        ended.unwrap();
    }
    while let Some(ended) = readers.join_next().await {
        ended.unwrap();
    }
    assert_well(&store);
    check_all(&store, &book).await;
    check_ids(&store, &book).await;
    bus.stop().await.unwrap();
    let store = open(directory.path());
    check_all(&store, &book).await;
    check_ids(&store, &book).await;
    assert_well(&store);
    assert!(rewritten(directory.path()) > 0, "nothing was rewritten: the test has lost its point");
}

/// Segments that were made of others.
fn rewritten(directory: &Path) -> usize {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("kept-")).count()
}

fn bytes(directory: &Path) -> u64 {
    // A file may go while we look.
    let lengths = std::fs::read_dir(directory).unwrap().filter_map(|entry| entry.unwrap().metadata().ok());
    lengths.map(|file| file.len()).sum()
}

/// The same, on a disk in memory: file by file.
fn sizes(disk: &SimDisk) -> Vec<u64> {
    let names = disk.list().unwrap();
    names.iter().map(|name| disk.open(name).unwrap().size().unwrap()).collect()
}

/// What a topic of [`BOUNDED_BYTES`] may take: segments of which half is gone, the one that is written to, the next one,
/// one that is being made of others, and what is known of them.
const ROOM: u64 = 2 * BOUNDED_BYTES + 6 * SEGMENT;

/// Publishes many times [`ROOM`], a part at a time, and has it cleaned.
async fn fill(
    store: &EmbeddedStore,
    parts: std::ops::Range<u64>,
    ids_since: u64,
    mut after_each: impl AsyncFnMut(),
) {
    let topic = name("bounded");
    for part in parts {
        let id = |n: u64| EventId::derived(&[&part.to_be_bytes(), &n.to_be_bytes()]);
        // In small commits, so that segments are full when they end.
        for n in (0..100).step_by(5) {
            commit_all(store, (n..n + 5).map(|n| content("bounded", 0, 7 + n, id(n))).collect()).await;
        }
        let policy = CleanPolicy { max_bytes: Some(BOUNDED_BYTES), ids_since, ..CleanPolicy::default() };
        store.clean(&topic, policy).await.unwrap();
        after_each().await;
    }
}

#[tokio::test]
async fn a_bounded_topic_takes_bounded_room() {
    let disk = SimDisk::new(1);
    let options = Options { threads: Threads::None, ..options() };
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options).unwrap();
    fill(&store, 0..60, u64::MAX, async || {
        assert!(sizes(&disk).iter().sum::<u64>() <= ROOM, "{} bytes", sizes(&disk).iter().sum::<u64>());
    })
    .await;
    assert_well(&store);
}

#[tokio::test]
async fn ids_that_need_not_be_remembered_any_more_take_no_room() {
    let disk = SimDisk::new(1);
    let options = Options { threads: Threads::None, ..options() };
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options).unwrap();
    fill(&store, 0..100, 0, async || ()).await;
    assert!(sizes(&disk).iter().sum::<u64>() > ROOM, "nothing is remembered: the test has lost its point");
    // However much is remembered, no file grows beyond a segment, which would be copied again and again.
    let largest = sizes(&disk).into_iter().max().unwrap();
    assert!(largest <= 2 * SEGMENT, "a file of {largest} bytes");
    fill(&store, 100..101, u64::MAX, async || ()).await;
    assert!(sizes(&disk).iter().sum::<u64>() <= ROOM, "{} bytes", sizes(&disk).iter().sum::<u64>());
    assert_well(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_comes_back_while_others_publish() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path(), options()).unwrap();
    fill(&store, 0..30, u64::MAX, async || {
        // The keeper gives no sign when it is done.
        let done = async {
            while bytes(directory.path()) > ROOM {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(60), done).await;
        done.unwrap_or_else(|_| panic!("it stays at {} bytes", bytes(directory.path())));
    })
    .await;
    assert_well(&store);
}

/// Polls a future a few times and drops it, unless it has ended before.
async fn give_up_after<T>(polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ready = poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(answer) = ready.await {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Sends events again that may or may not be there: each is there once, and nothing else is.
async fn check_once(store: &EmbeddedStore, events: &[NewEvent]) {
    let mut places = BTreeMap::new();
    for event in events {
        let seq = match commit(store, event.clone()).await.decided() {
            Appended::New { event, .. } => event.seq(),
            Appended::Known { seq, same, .. } => {
                assert!(same, "{event:?}");
                seq
            }
            Appended::Twin { .. } => unreachable!("it is decided"),
        };
        let there = places.insert((event.topic.clone(), seq), event.options.id.unwrap());
        assert_eq!(there, None, "{} {seq}", event.topic);
    }
    for topic in places.keys().map(|(topic, _)| topic.clone()).collect::<BTreeSet<_>>() {
        let mut seq = 0;
        loop {
            let page = store.read(&topic, seq, PAGE).await.unwrap();
            if page.is_empty() {
                break;
            }
            for event in page {
                seq += 1;
                assert_eq!(event.seq(), seq, "{topic}");
                assert_eq!(places.remove(&(topic.clone(), seq)), Some(event.id()), "{topic} {seq}");
            }
        }
    }
    assert!(places.is_empty(), "lost: {places:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn publishers_that_go_away_leave_their_event_behind_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let bus = bus_over(&store).await;
    let mut publishers = JoinSet::new();
    for publisher in 0..8 {
        let bus = bus.clone();
        publishers.spawn(async move {
            let mut random = Random::new(publisher as u64);
            let mut sent = Vec::new();
            for n in 0..100 {
                let topic = ["plain", "relaxed"][publisher % 2];
                let id = EventId::derived(&[&publisher.to_be_bytes(), &u64::to_be_bytes(n)]);
                let event = content(topic, publisher, n, id);
                give_up_after(random.below(12), bus.send(event.clone())).await.transpose().unwrap();
                sent.push(event);
            }
            sent
        });
    }
    let sent = publishers.join_all().await.concat();
    bus.flush().await.unwrap();
    drop(bus);
    check_once(&store, &sent).await;
    store.close().await.unwrap();
    check_once(&open(directory.path()), &sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_nobody_waits_for_are_made_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut random = Random::new(1);
    let mut sent = Vec::new();
    for n in 0..200 {
        let id = EventId::derived(&[&u64::to_be_bytes(n)]);
        let event = content("plain", 0, n, id);
        give_up_after(random.below(4), commit(&store, event.clone())).await;
        sent.push(event);
    }
    check_once(&store, &sent).await;
    drop(store);
    check_once(&open(directory.path()), &sent).await;
}

/// Events with their places, as they were acknowledged.
type Acked = Arc<Mutex<BTreeMap<(TopicName, u64), EventId>>>;

async fn check_acked(store: &EmbeddedStore, acked: &Acked) {
    let acked = acked.lock().clone();
    for ((topic, seq), id) in acked {
        let found = store.read(&topic, seq - 1, ReadLimit { events: 1, bytes: 1 }).await.unwrap();
        let found = found.first().map(|event| (event.seq(), event.id()));
        assert_eq!(found, Some((seq, id)), "{topic}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_is_closed_under_load_can_be_opened_at_once_and_has_all_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let acked = Acked::default();
    for round in 0..12_u64 {
        let store = open(directory.path());
        check_acked(&store, &acked).await;
        let bus = bus_over(&store).await;
        let (count, mut counted) = watch::channel(0);
        let mut others = JoinSet::new();
        for publisher in 0..8 {
            let (bus, acked, count) = (bus.clone(), acked.clone(), count.clone());
            others.spawn(async move {
                let topic = ["plain", "relaxed"][publisher % 2];
                for n in 0_u64.. {
                    let id =
                        EventId::derived(&[&round.to_be_bytes(), &publisher.to_be_bytes(), &n.to_be_bytes()]);
                    let Ok(receipt) = bus.send(content(topic, publisher, n, id)).await else { return };
                    acked.lock().insert((name(topic), receipt.seq), id);
                    count.send_modify(|count| *count += 1);
                }
            });
        }
        let cleaned = store.clone();
        others.spawn(async move {
            let policy = CleanPolicy { max_bytes: Some(10_000), ..CleanPolicy::default() };
            let topic = name("bounded");
            for n in 0.. {
                let id = EventId::derived(&[&round.to_be_bytes(), &u64::to_be_bytes(n)]);
                let sent = bus.send(content("bounded", 0, n, id)).await;
                if sent.is_err() || cleaned.clean(&topic, policy).await.is_err() {
                    return;
                }
            }
        });
        counted.wait_for(|count| *count > 20 * round).await.unwrap();
        store.close().await.unwrap();
        // The old one is still there, and so are those who use it.
        let next = open(directory.path());
        others.join_all().await;
        check_acked(&next, &acked).await;
        assert!(store.health().unavailable.is_some());
        assert_well(&next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_dropped_can_be_opened_at_once_and_has_all_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(1);
    let mut sent = Vec::new();
    for round in 0..30_u64 {
        let store = EmbeddedStore::open(directory.path(), options()).unwrap();
        for n in 0..random.below(60) {
            let id = EventId::derived(&[&round.to_be_bytes(), &n.to_be_bytes()]);
            let event = content(["plain", "relaxed"][random.below(2) as usize], 0, n, id);
            assert!(matches!(commit(&store, event.clone()).await, Appended::New { .. }), "{event:?}");
            sent.push(event);
        }
        let id = EventId::derived(&[&round.to_be_bytes()]);
        commit(&store, content("bounded", 0, round, id)).await;
        // A cleaning that nobody waits for goes on beside the end.
        let policy = CleanPolicy { max_bytes: Some(1), ..CleanPolicy::default() };
        give_up_after(random.below(3), store.clean(&name("bounded"), policy)).await;
        drop(store);
        let store = EmbeddedStore::open(directory.path(), options()).unwrap();
        assert_eq!(store.seq_of(&name("bounded"), id).await, Ok(Some(round + 1)));
        for event in &sent {
            assert!(
                matches!(commit(&store, event.clone()).await, Appended::Known { same: true, .. }),
                "{event:?}"
            );
        }
        assert_well(&store);
    }
}
