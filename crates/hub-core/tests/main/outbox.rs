//! Draining an outbox into a bus: order, fences, failures.

#[path = "outbox/bounds.rs"]
mod bounds;
#[path = "outbox/failures.rs"]
mod failures;
#[path = "outbox/random.rs"]
mod random;
#[path = "outbox/sharing.rs"]
mod sharing;

use hub_core::outbox::{
    Drained, Drainer, DrainerOptions, MemoryOutbox, NewRow, OnError, OutboxStore, Publisher, RowStatus,
};
use hub_core::testkit::{FaultyOutbox, ManualClock, OutboxFault};
use hub_core::{Bus, Clock, Code, Error, EventId, MemoryStore, NewEvent, Payload, Position, Receipt, Result};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the hub says to an event instead of taking it.
type Script = Box<dyn FnMut(&NewEvent) -> Option<Answer> + Send>;

#[derive(Clone, Debug)]
enum Answer {
    /// It does not take it.
    Refuse(Code),
    /// It takes it, and nobody hears of it.
    Lose,
    /// It takes it after so many milliseconds.
    Slow(u64),
}

/// A bus, with an outbox that is drained into it.
struct World {
    clock: ManualClock,
    outbox: MemoryOutbox,
    hub: Hub,
}

/// The bus as a drainer sees it.
#[derive(Clone)]
struct Hub {
    bus: Bus,
    script: Arc<Mutex<Option<Script>>>,
}

impl Publisher for Hub {
    fn send(&self, event: NewEvent) -> Pin<Box<dyn Future<Output = Result<Receipt>> + Send>> {
        let answer = self.script.lock().as_mut().and_then(|script| script(&event));
        let bus = self.bus.clone();
        Box::pin(async move {
            match answer {
                Some(Answer::Refuse(code)) => return Err(Error::new(code, "on purpose")),
                Some(Answer::Slow(millis)) => tokio::time::sleep(Duration::from_millis(millis)).await,
                Some(Answer::Lose) | None => {}
            }
            let receipt = bus.send(event).await?;
            match answer {
                Some(Answer::Lose) => Err(Error::unavailable("lost on purpose")),
                _ => Ok(receipt),
            }
        })
    }

    /// As the bus does it, up to the first event that meets with something.
    fn send_in_order(
        &self,
        events: Vec<NewEvent>,
    ) -> Pin<Box<dyn Future<Output = Vec<Result<Receipt>>> + Send>> {
        let (taken, slow, stopped) = self.split(events);
        let bus = self.bus.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(slow)).await;
            let count = taken.len();
            let mut answers = bus.send_in_order(taken).await;
            if let Some((answer, event)) = stopped
                && answers.iter().filter(|answer| answer.is_ok()).count() == count
            {
                answers.push(match answer {
                    Answer::Refuse(code) => Err(Error::new(code, "on purpose")),
                    _ => match bus.send(event).await {
                        Ok(_) => Err(Error::unavailable("lost on purpose")),
                        Err(error) => Err(error),
                    },
                });
            }
            answers
        })
    }

    fn is_available(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let is_available = self.script.lock().is_none();
        Box::pin(async move { is_available })
    }
}

impl Hub {
    /// Events that the hub takes, and what it says to the first one that it does not take as it should.
    fn split(&self, events: Vec<NewEvent>) -> (Vec<NewEvent>, u64, Option<(Answer, NewEvent)>) {
        let (mut taken, mut slow) = (Vec::new(), 0);
        for event in events {
            match self.script.lock().as_mut().and_then(|script| script(&event)) {
                None => taken.push(event),
                Some(Answer::Slow(millis)) => {
                    slow = millis.max(slow);
                    taken.push(event);
                }
                Some(answer) => return (taken, slow, Some((answer, event))),
            }
        }
        (taken, slow, None)
    }

    fn script(&self, script: impl FnMut(&NewEvent) -> Option<Answer> + Send + 'static) {
        *self.script.lock() = Some(Box::new(script));
    }

    fn heal(&self) {
        *self.script.lock() = None;
    }
}

/// A drainer that runs.
struct Running {
    store: FaultyOutbox,
    hub: Hub,
    stop: CancellationToken,
    task: JoinHandle<Drained>,
}

impl Running {
    async fn stop(self) -> Drained {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

const LEASE: u64 = 3_000;

fn options(worker: &str) -> DrainerOptions {
    DrainerOptions { lease: LEASE, batch_size: 10, worker: worker.into(), ..DrainerOptions::default() }
}

impl World {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let bus = Bus::builder(MemoryStore::new()).clock(clock.clone()).open().await.unwrap();
        let outbox = MemoryOutbox::new(Arc::new(clock.clone()));
        Self { clock, outbox, hub: Hub { bus, script: Arc::default() } }
    }

    fn drain(&self, worker: &str) -> Running {
        self.drain_with(options(worker))
    }

    fn drain_with(&self, options: DrainerOptions) -> Running {
        let store = FaultyOutbox::new(Arc::new(self.outbox.clone()));
        let hub = Hub { bus: self.hub.bus.clone(), script: Arc::default() };
        let drainer = Drainer::new(Arc::new(store.clone()), Arc::new(hub.clone()), options);
        let stop = CancellationToken::new();
        let task = tokio::spawn(drainer.clock(Arc::new(self.clock.clone())).run(stop.clone()));
        Running { store, hub, stop, task }
    }

    fn row(&self, n: u64, key: Option<&str>) -> NewRow {
        NewRow {
            id: id(n),
            topic: "t".into(),
            payload: Payload::of(&n).unwrap(),
            headers: Vec::new(),
            key: key.map(str::to_owned),
            ord: None,
            at: self.clock.wall() * 1000,
        }
    }

    async fn add(&self, rows: impl IntoIterator<Item = (u64, Option<&str>)>) {
        let rows = rows
            .into_iter()
            .map(|(n, key)| NewRow { at: (self.clock.wall() + n) * 1000, ..self.row(n, key) });
        self.outbox.add(rows.collect()).await.unwrap();
    }

    /// What was published, in its order.
    async fn log(&self) -> Vec<u64> {
        // A topic begins with its first event.
        let events = self.hub.bus.scan("t", Position::Earliest, Some(10_000)).await.unwrap_or_default();
        events.iter().map(|event| number(event.payload())).collect()
    }

    /// Waits until so many are published.
    async fn published(&self, count: usize) -> Vec<u64> {
        for _ in 0..10_000 {
            let log = self.log().await;
            if log.len() >= count {
                assert_eq!(log.len(), count, "{log:?}");
                return log;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?} of {count} are published; {:?}", self.log().await, self.outbox.counts().await);
    }

    /// Waits until the outbox has nothing to do.
    async fn settled(&self) {
        for _ in 0..10_000 {
            if self.outbox.counts().await.unwrap().pending == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.outbox.counts().await);
    }

    fn status(&self, n: u64) -> RowStatus {
        self.outbox.row(id(n)).unwrap().0
    }
}

fn id(n: u64) -> EventId {
    EventId::derived(&[&n.to_be_bytes()])
}

fn number(json: &[u8]) -> u64 {
    std::str::from_utf8(json).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn rows_are_published_once_with_what_they_carry() {
    let world = World::new().await;
    let drainer = world.drain("a");
    let row =
        NewRow { key: Some("k".into()), headers: vec![("trace".into(), "7".into())], ..world.row(1, None) };
    let ts = row.at / 1000;
    world.outbox.add(vec![row]).await.unwrap();
    world.published(1).await;
    let event = world.hub.bus.scan("t", Position::Earliest, None).await.unwrap().remove(0);
    assert_eq!((event.id(), event.ts(), event.key().map(|key| &**key)), (id(1), ts, Some("k")));
    assert!(std::str::from_utf8(event.json()).unwrap().contains(r#""trace":"7""#));
    world.settled().await;
    assert_eq!(world.status(1), RowStatus::Sent);
    assert_eq!(drainer.stop().await, Drained { sent: 1, ..Drained::default() });
}

#[tokio::test(start_paused = true)]
async fn a_drainer_that_is_woken_does_not_wait_for_its_interval() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { interval: 60_000, ..options("a") });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.clock.steady();
    world.add([(1, None)]).await;
    world.published(1).await;
    assert!(world.clock.steady() - before < 50);
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_key_are_published_by_their_numbers_wherever_they_stand_in_time() {
    let world = World::new().await;
    let (late, early) = ((world.clock.wall() + 50_000) * 1000, world.clock.wall() * 1000);
    let mut rows = Vec::new();
    for n in 0..40_u64 {
        // The first ones by number were written last.
        let (ord, at) = (Some(n as i64), late - n);
        rows.push(NewRow { ord, at, ..world.row(n, Some("k")) });
        rows.push(NewRow { at: early + n, ..world.row(100 + n, None) });
    }
    world.outbox.add(rows).await.unwrap();
    let drainer = world.drain("a");
    let log = world.published(80).await;
    let of_key: Vec<_> = log.into_iter().filter(|n| *n < 100).collect();
    assert_eq!(of_key, (0..40).collect::<Vec<_>>());
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_commits_late_is_not_skipped() {
    let world = World::new().await;
    let drainer = world.drain("a");
    world.add((10..30).map(|n| (n, Some("k")))).await;
    world.published(20).await;
    let row = NewRow { at: (world.clock.wall() - 60_000) * 1000, ..world.row(1, Some("k")) };
    world.outbox.add(vec![row]).await.unwrap();
    world.published(21).await;
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_commits_late_does_not_wait_for_the_end_of_a_backlog() {
    let world = World::new().await;
    let drainer = world.drain("a");
    drainer.hub.script(|_| Some(Answer::Slow(10)));
    world.add((1_000..2_000).map(|n| (n, None))).await;
    while world.log().await.len() < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let row = NewRow { at: (world.clock.wall() - 60_000) * 1000, ..world.row(1, None) };
    world.outbox.add(vec![row]).await.unwrap();
    let log = world.published(1_001).await;
    let place = log.iter().position(|n| *n == 1).unwrap();
    assert!(place < 200, "it was the {place}th of {}", log.len());
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn others_rows_do_not_hide_ones_own() {
    let world = World::new().await;
    // One that is there, has its part of the slots, and gets nowhere.
    let stuck = world.drain("a");
    stuck.hub.script(|_| Some(Answer::Slow(1_000 * LEASE)));
    let drainer = world.drain("b");
    tokio::time::sleep(Duration::from_millis(2 * LEASE)).await;
    let keys: Vec<String> = (0..200).map(|n| format!("key-{n}")).collect();
    world.add((0..4_000).map(|n| (n, Some(keys[n as usize % 200].as_str())))).await;
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Everything but what the first one has to itself.
    let log = world.log().await;
    assert!((1_500..2_500).contains(&log.len()), "{}", log.len());
    assert!(log.iter().any(|n| *n > 3_900), "it came to the end");
    stuck.stop().await;
    world.published(4_000).await;
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sent_rows_are_removed_when_they_are_old() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { keep_sent: 10_000, ..options("a") });
    world.add((0..700).map(|n| (n, None))).await;
    world.published(700).await;
    world.settled().await;
    tokio::time::sleep(Duration::from_millis(9_000)).await;
    assert!(world.outbox.row(id(0)).is_some());
    tokio::time::sleep(Duration::from_millis(5_000)).await;
    assert!((0..700).all(|n| world.outbox.row(id(n)).is_none()));
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_large_rows_few_are_held_at_once() {
    const MIB: usize = 1 << 20;
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
    drainer.hub.script(|_| Some(Answer::Slow(100)));
    // It looks often, and finds nothing.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let large = Payload::of(&"x".repeat(MIB - 2)).unwrap();
    let rows = (0..200).map(|n| NewRow { payload: large.clone(), ..world.row(n, None) });
    world.outbox.add(rows.collect()).await.unwrap();
    // The first claim does not know; what comes after it does.
    while world.outbox.list(Some(RowStatus::Sent), 100).await.unwrap().len() < 64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut most = 0;
    while world.outbox.counts().await.unwrap().pending > 0 {
        let claimed = world.outbox.list(Some(RowStatus::Claimed), 100).await.unwrap().len();
        most = claimed.max(most);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!((4..=20).contains(&most), "{most}");
    assert_eq!(drainer.stop().await.sent, 200);
}

async fn in_memory() -> Arc<dyn OutboxStore> {
    Arc::new(MemoryOutbox::default())
}

hub_core::outbox_suite!(memory, in_memory);
