//! Writers, drainers, a hub and a database that all do as they like; seeded.
//!
//! `HUB_OUTBOX_SEEDS=N` for more seeds, `HUB_SEED=N` for one. What is checked: every row is one event, and no other event
//! is there; rows of a key are in their order; in the end everything is sent.

use super::*;
use std::collections::BTreeMap;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Faults at random, out of a generator of its own.
fn shake(drainer: &Running, clock: ManualClock, seed: u64) {
    let mut rng = Rng(seed | 1);
    drainer.store.script(move |call| match (call, rng.below(120)) {
        ("news", _) => None,
        (_, 0) => Some(OutboxFault::Refuse),
        (_, 1) => Some(OutboxFault::LoseAnswer),
        (_, 2) => Some(OutboxFault::Late(rng.below(2 * LEASE))),
        (_, 3) => Some(OutboxFault::Slow(rng.below(2 * LEASE))),
        (_, 4..20) => Some(OutboxFault::Slow(rng.below(30))),
        _ => None,
    });
    let mut rng = Rng(seed.wrapping_mul(3) | 1);
    let mut is_away_until = 0;
    drainer.hub.script(move |_| match rng.below(60) {
        // For so long that the drainer gives its rows back.
        _ if clock.steady() < is_away_until => Some(Answer::Refuse(Code::Unavailable)),
        59 if rng.below(10) == 0 => {
            is_away_until = clock.steady() + rng.below(2 * LEASE);
            Some(Answer::Refuse(Code::Unavailable))
        }
        0 => Some(Answer::Refuse(Code::Unavailable)),
        1 => Some(Answer::Refuse(Code::Internal)),
        2 => Some(Answer::Refuse(Code::Forbidden)),
        3 => Some(Answer::Lose),
        4 => Some(Answer::Slow(rng.below(2 * LEASE))),
        5..20 => Some(Answer::Slow(rng.below(40))),
        _ => None,
    });
}

async fn run(seed: u64) {
    let world = World::new().await;
    let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut drainers, mut started): (Vec<Running>, u64) = (Vec::new(), 0);
    let mut keys: BTreeMap<Option<u64>, Vec<u64>> = BTreeMap::new();
    let (mut rows, mut ord) = (0, 0);
    for _ in 0..150 {
        match rng.below(100) {
            0..60 => {
                // A transaction of a service: some rows of one entity, one after the other. Those of keys below three
                // have numbers, and times that say nothing.
                let key = Some(rng.below(6)).filter(|key| *key != 5);
                let batch: Vec<NewRow> = (0..=rng.below(12))
                    .map(|_| {
                        rows += 1;
                        ord += 1;
                        keys.entry(key).or_default().push(rows);
                        let row = world.row(rows, key.map(|key| format!("key-{key}")).as_deref());
                        match key {
                            Some(0..3) => NewRow { ord: Some(ord), at: rng.below(1_000_000), ..row },
                            _ => NewRow { at: world.clock.wall() * 1_000 + rows, ..row },
                        }
                    })
                    .collect();
                world.outbox.add(batch).await.unwrap();
            }
            60..66 if drainers.len() < 4 => {
                started += 1;
                let drainer = world.drain_with(DrainerOptions {
                    batch_size: 1 + rng.below(12) as usize,
                    max_attempts: 3,
                    ..options(&format!("w{started}"))
                });
                shake(&drainer, world.clock.clone(), rng.below(u64::MAX));
                drainers.push(drainer);
            }
            66..69 if !drainers.is_empty() => {
                let at = rng.below(drainers.len() as u64) as usize;
                drainers.remove(at).task.abort();
            }
            69..71 if !drainers.is_empty() => {
                let at = rng.below(drainers.len() as u64) as usize;
                drainers.remove(at).stop().await;
            }
            71..75 => drop(world.outbox.retry(None).await.unwrap()),
            _ => tokio::time::sleep(Duration::from_millis(rng.below(600))).await,
        }
    }
    for drainer in &drainers {
        drainer.store.heal();
        drainer.hub.heal();
    }
    drainers.push(world.drain("last"));
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let counts = world.outbox.counts().await.unwrap();
        if counts.pending + counts.errors == 0 {
            break;
        }
        world.outbox.retry(None).await.unwrap();
    }
    let counts = world.outbox.counts().await.unwrap();
    if counts.pending + counts.errors > 0 {
        let unsent = world.outbox.list(None, 10_000).await.unwrap();
        let unsent: Vec<_> =
            unsent.into_iter().filter(|row| row.status != RowStatus::Sent).take(20).collect();
        panic!(
            "seed {seed}: not everything was sent: {unsent:#?} {:?}",
            world.outbox.shares().await.unwrap()
        );
    }
    for drainer in drainers {
        drainer.stop().await;
    }
    let log = world.log().await;
    let mut there = log.clone();
    there.sort_unstable();
    assert_eq!(there, (1..=rows).collect::<Vec<_>>(), "seed {seed}: each row is one event");
    let place: BTreeMap<u64, usize> = log.iter().enumerate().map(|(at, row)| (*row, at)).collect();
    for (key, rows) in keys.iter().filter(|(key, _)| key.is_some()) {
        let wrong = rows.windows(2).find(|pair| place[&pair[0]] > place[&pair[1]]);
        assert_eq!(wrong, None, "seed {seed}: rows of key {key:?} are out of order");
    }
}

#[test]
fn whatever_dies_every_row_is_one_event_and_keys_keep_their_order() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let seeds = match number("HUB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HUB_OUTBOX_SEEDS").unwrap_or(40),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(seed));
    }
}
