//! Many threads at once: what the simulator, on its one thread, cannot see. A wake-up that is lost shows as a run that
//! does not end.

use hub_core::{Bus, Config, Delivery, MemoryStore, NewEvent, Ordering, Payload, Position};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;

/// Far beyond what a run takes, far below what a person waits.
const STUCK: Duration = Duration::from_secs(60);

fn event(topic: &str, n: u64) -> NewEvent {
    let mut event = NewEvent::new(topic.parse().unwrap(), Payload::of(&n).unwrap());
    event.options.key = Some(format!("k{}", n % 7));
    event
}

async fn publish(bus: &Bus, topics: &[&str], events: u64) {
    let mut tasks = tokio::task::JoinSet::new();
    for publisher in 0..4 {
        let (bus, topics) = (bus.clone(), topics.iter().map(|topic| (*topic).to_owned()).collect::<Vec<_>>());
        tasks.spawn(async move {
            for n in (publisher..events).step_by(4) {
                bus.send(event(&topics[n as usize % topics.len()], n)).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// What is still to be acked; says when it is nothing.
struct Left {
    events: AtomicU64,
    done: watch::Sender<bool>,
}

impl Left {
    fn settle(&self, delivery: &Delivery) {
        delivery.ack().unwrap();
        if self.events.fetch_sub(1, Relaxed) == 1 {
            self.done.send_replace(true);
        }
    }
}

/// Consumes until nothing is left. Every fifth event is acked by another task, later. It waits without a time-out: one
/// would hide a wake-up that is lost.
async fn consume(bus: &Bus, target: &str, ordering: Ordering, window: usize, left: Arc<Left>) {
    let subscribe = bus.subscribe(target).group("g").ordering(ordering).from(Position::Earliest);
    let mut subscription = subscribe.max_in_flight(window).open().await.unwrap();
    let mut done = left.done.subscribe();
    loop {
        let delivery = tokio::select! {
            _ = done.wait_for(|done| *done) => return subscription.close(),
            delivery = subscription.recv() => delivery.unwrap(),
        };
        if delivery.event().seq().is_multiple_of(5) {
            let left = left.clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                left.settle(&delivery);
            });
        } else {
            left.settle(&delivery);
        }
    }
}

async fn everything_arrives(
    target: &'static str,
    topics: &[&str],
    ordering: Ordering,
    window: usize,
    tail_bytes: usize,
) {
    let events = 4_000;
    let bus = Bus::builder(MemoryStore::new())
        .config(Config { tail_bytes, ..Config::default() })
        .open()
        .await
        .unwrap();
    let left = Arc::new(Left { events: AtomicU64::new(events), done: watch::Sender::new(false) });
    let mut members = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (bus, left) = (bus.clone(), left.clone());
        members.spawn(async move { consume(&bus, target, ordering, window, left).await });
    }
    let run = async {
        publish(&bus, topics, events).await;
        while let Some(done) = members.join_next().await {
            done.unwrap();
        }
    };
    let ended = tokio::time::timeout(STUCK, run).await;
    let status: Vec<_> = topics.iter().flat_map(|topic| bus.groups(topic)).collect();
    assert!(ended.is_ok(), "{} events never came: {status:?}", left.events.load(Relaxed));
    for status in status {
        assert_eq!((status.lag, status.inflight, status.parked), (0, 0, 0), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_members_with_a_window_of_one_get_everything() {
    everything_arrives("t.a", &["t.a"], Ordering::None, 1, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_members_in_key_order_get_everything() {
    everything_arrives("t.a", &["t.a"], Ordering::Key, 5, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_that_always_read_the_store_get_everything() {
    everything_arrives("t.a", &["t.a"], Ordering::None, 20, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_of_a_pattern_with_a_small_window_get_everything_from_every_topic() {
    everything_arrives("t.*", &["t.a", "t.b", "t.c", "t.d", "t.e"], Ordering::Key, 3, 10_000).await;
}

#[test]
fn an_event_can_be_settled_from_a_thread_without_a_runtime() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (bus, delivery) = runtime.block_on(async {
        let bus = Bus::in_memory().await.unwrap();
        let mut subscription = bus.subscribe("t").group("g").max_attempts(1).open().await.unwrap();
        bus.send(event("t", 1)).await.unwrap();
        let delivery = subscription.recv().await.unwrap();
        subscription.close();
        let mut again = bus.subscribe("t").group("g").open().await.unwrap();
        drop(delivery);
        (bus.clone(), (again.recv().await.unwrap(), again))
    });
    let (delivery, subscription) = delivery;
    std::thread::spawn(move || {
        delivery.nack("broken").unwrap();
        drop(subscription);
    })
    .join()
    .unwrap();
    runtime.block_on(async {
        let mut letters = bus.subscribe("dlq.t").group("g").from(Position::Earliest).open().await.unwrap();
        let letter = tokio::time::timeout(STUCK, letters.recv()).await.unwrap().unwrap();
        assert_eq!(letter.event().seq(), 1);
    });
}
