//! Drainers that are killed and frozen, and a hub that goes away, while a service goes on writing.
//!
//! `EVENT_HUB_OUTBOX_ROUNDS=N` for more rounds. What is checked: every row is one event, and rows of a key are in their
//! order.

use super::{Outbox, events};
use crate::hub::{Hub, Place, Running};
use crate::random::Rng;
use hub_core::outbox::NewRow;
use hub_proto::Payload;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const DRAINERS: usize = 3;
const KEYS: u64 = 8;

fn pause(rng: &mut Rng, from: u64, to: u64) {
    std::thread::sleep(Duration::from_millis(from + rng.below(to - from)));
}

/// Sets a flag also when its owner panics: a scope waits for the threads that look at the flag.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

pub fn run(outbox: &Outbox) {
    let rounds = std::env::var("EVENT_HUB_OUTBOX_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u64 = rounds.unwrap_or(4);
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let mut rng = Rng(u64::from(seed) | 1);
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[]);
    let token = hub.token().to_owned();
    let config = outbox.config(&place, "batch_size = 20\n");
    let start = |ws: &str| {
        let args = ["outbox", "drain", "--config", &config, "--to", ws];
        let mut drainer = Running::start(&args, &[("EVENT_HUB_TOKEN", &token), ("RUST_LOG", "info")]);
        // One that finds no hub when it starts ends with an error: the hub must not go away before.
        drainer.logs("draining");
        drainer
    };
    let mut drainers: Vec<Running> = (0..DRAINERS).map(|_| start(hub.ws())).collect();
    let (done, mut harm) = (AtomicBool::new(false), BTreeMap::<&str, u64>::new());
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(outbox, &done, Rng((u64::from(seed) * 7) | 1)));
        let stop = SetOnDrop(&done);
        for _ in 0..rounds {
            pause(&mut rng, 100, 900);
            let at = rng.below(DRAINERS as u64) as usize;
            let what = match rng.below(10) {
                0..7 => {
                    drainers[at].signal("KILL");
                    assert_eq!(drainers[at].ended(), -1, "by a signal");
                    drainers[at] = start(hub.ws());
                    "killed"
                }
                7..9 => {
                    drainers[at].signal("STOP");
                    pause(&mut rng, 1_200, 2_500);
                    drainers[at].signal("CONT");
                    "frozen"
                }
                _ => {
                    hub.process.signal("TERM");
                    assert_eq!(hub.process.ended(), 0);
                    pause(&mut rng, 100, 1_500);
                    hub.start_again(&data);
                    "hub away"
                }
            };
            *harm.entry(what).or_default() += 1;
        }
        drop(stop);
        writer.join().unwrap()
    });
    outbox.drained();
    for mut drainer in drainers {
        drainer.signal("TERM");
        assert_eq!(drainer.ended(), 0, "{}", drainer.log());
    }
    let events = events(&hub, "orders");
    let number = |event: &serde_json::Value| event["payload"].as_u64().unwrap();
    let there: BTreeSet<u64> = events.iter().map(number).collect();
    let lost: Vec<u64> = (0..written).filter(|n| !there.contains(n)).collect();
    println!(
        "{rounds} rounds, {harm:?}: {written} rows, {} events, lost {}, doubled {}",
        events.len(),
        lost.len(),
        events.len() - there.len()
    );
    assert_eq!((lost, events.len()), (Vec::new(), written as usize));
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &events {
        let Some(key) = event["key"].as_str() else { continue };
        let n = number(event);
        if let Some(before) = last.insert(key, n) {
            assert!(before < n, "{n} of {key} comes after {before}");
        }
    }
    let parked = outbox.get(outbox.store.counts()).errors;
    assert_eq!(parked, 0, "a hub that is away parks nothing");
}

/// Writes rows until it is told to stop, and answers how many.
fn write(outbox: &Outbox, done: &AtomicBool, mut rng: Rng) -> u64 {
    let mut n = 0;
    while !done.load(Relaxed) {
        let key = rng.below(KEYS + 1);
        let rows = (0..=rng.below(20)).map(|_| {
            let row = NewRow::new("orders", Payload::of(&n).unwrap());
            n += 1;
            if key < KEYS { row.key(format!("order-{key}")) } else { row }
        });
        outbox.get(outbox.store.add(rows.collect()));
        pause(&mut rng, 1, 30);
    }
    n
}
