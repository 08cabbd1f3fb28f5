//! The hub that gets killed. It says on its standard output what it does, a line each: what it is about to ask for
//! before, what it was answered after.

use super::{CHILD_DIRECTORY, CHILD_RESEND, Random, TOPICS};
use hub_core::{
    Bus, Config, EventId, IdGenerator, NewEvent, Payload, Position, TopicDurability, TopicSettings,
};
use hub_store_embedded::{EmbeddedStore, Options};
use std::fmt::{Arguments, Display};
use std::io::Write;
use std::sync::Arc;

/// Publishers, over all topics.
const PUBLISHERS: u64 = 16;
/// Keys of the compacted topic.
pub const KEYS: u64 = 40;
/// What the bounded topic keeps.
pub const BOUNDED_BYTES: u64 = 100_000;
/// The longest filling of a payload.
pub const FILLING: u64 = 700;
/// The group on every topic that has one.
pub const GROUP: &str = "ledger";

/// Segments so small that a round sees them sealed, prepared and rewritten.
pub fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

fn config() -> Config {
    let relaxed = TopicSettings { durability: TopicDurability::Interval, ..TopicSettings::default() };
    let compacted = TopicSettings { compaction: true, ..TopicSettings::default() };
    let bounded = TopicSettings { retention_bytes: Some(BOUNDED_BYTES), ..TopicSettings::default() };
    // No commit takes a minute, on however busy a machine; acks may.
    let (publish_timeout, ack_timeout) = (60 * 1000, 60 * 60 * 1000);
    let config =
        Config { clean_interval: 5, save_interval: 5, publish_timeout, ack_timeout, ..Config::default() };
    let config = config.topic("relaxed", relaxed).unwrap().topic("compacted", compacted).unwrap();
    config.topic("bounded", bounded).unwrap()
}

/// The event that has an id on a topic: whoever knows the id knows what it has to say.
pub fn event(topic: &str, id: EventId) -> NewEvent {
    let mut random = Random::new(u64::from_be_bytes(id.to_bytes()[8..].try_into().unwrap()));
    let filling = "x".repeat(random.below(FILLING) as usize);
    let mut payload = Payload::from(serde_json::json!({ "id": id.to_string(), "filling": filling }));
    let mut key = None;
    if topic == "compacted" {
        key = Some(format!("key-{}", random.below(KEYS)));
        if random.below(10) == 0 {
            payload = Payload::null();
        }
    }
    let mut event = NewEvent::new(topic.parse().unwrap(), payload).with_id(id);
    event.options.key = key;
    event
}

/// Writes a line. When nobody listens any more there is nothing left to do.
fn say(line: Arguments<'_>) {
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn expect<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| {
        say(format_args!("trouble {what}: {error}"));
        std::process::exit(1)
    })
}

/// Runs until it is killed.
pub fn run() {
    let directory = std::env::var_os(CHILD_DIRECTORY).unwrap();
    let resend = std::env::var(CHILD_RESEND).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // The test harness has begun a line.
    say(format_args!("\nopening"));
    let store = expect("opening", EmbeddedStore::open(directory, options()));
    runtime.block_on(serve(Arc::new(store), &resend));
}

async fn serve(store: Arc<EmbeddedStore>, resend: &str) {
    let bus = expect("opening the bus", Bus::builder_over(store).config(config()).open().await);
    let health = bus.health();
    if health.unavailable.is_some() || !health.warnings.is_empty() || health.damaged > 0 {
        say(format_args!("trouble after opening: {health:?}"));
    }
    say(format_args!("open"));
    let mut tasks = tokio::task::JoinSet::new();
    for line in resend.split_terminator(',') {
        let (topic, id) = line.split_once(' ').unwrap();
        publish(&bus, topic, id.parse().unwrap()).await;
    }
    for topic in TOPICS.into_iter().filter(|topic| *topic != "compacted") {
        tasks.spawn(consume(bus.clone(), topic));
    }
    let ids = Arc::new(IdGenerator::new());
    for number in 0..PUBLISHERS {
        tasks.spawn(keep_publishing(bus.clone(), number, ids.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        say(format_args!("trouble: a task ended: {ended:?}"));
    }
}

async fn publish(bus: &Bus, topic: &str, id: EventId) {
    let receipt = expect("publishing", bus.send(event(topic, id)).await);
    let known = if receipt.duplicate { "known" } else { "new" };
    say(format_args!("acked {topic} {} {id} {known}", receipt.seq));
}

async fn keep_publishing(bus: Bus, number: u64, ids: Arc<IdGenerator>) {
    let topic = TOPICS[number as usize % TOPICS.len()];
    // Ids in the order of time and ids in none are looked up in different ways.
    let mut random = Random::new(u64::from_be_bytes(ids.next(bus.now()).to_bytes()[8..].try_into().unwrap()));
    let in_order = (number / TOPICS.len() as u64).is_multiple_of(2);
    let mut sent = Vec::new();
    loop {
        let id = match in_order {
            true => ids.next(bus.now()),
            false => EventId::derived(&[&random.next().to_be_bytes()]),
        };
        say(format_args!("asked {topic} {id}"));
        publish(&bus, topic, id).await;
        sent.push(id);
        if random.below(8) == 0 {
            publish(&bus, topic, sent[random.below(sent.len() as u64) as usize]).await;
        }
    }
}

async fn consume(bus: Bus, topic: &'static str) {
    let group = bus.subscribe(topic).group(GROUP).from(Position::Earliest);
    let mut group = expect("subscribing", group.open().await);
    let mut count = 0;
    loop {
        let delivery = expect("receiving", group.recv().await);
        let event = delivery.event();
        say(format_args!("took {topic} {} {}", event.seq(), event.id()));
        expect("acking", delivery.ack());
        count += 1;
        if count == 20 {
            count = 0;
            let cursor = expect("asking for the cursor", bus.get_cursor(topic, GROUP).await);
            expect("saving", bus.flush().await);
            say(format_args!("saved {topic} {}", cursor.map_or(0, |cursor| cursor.seq)));
        }
    }
}
