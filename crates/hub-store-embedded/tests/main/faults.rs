//! The disk fails, is full, or lies. The store refuses what it cannot keep, says why, and goes on when it can.

use super::model::{Counts, End, Verdict};
use super::tools::{Rng, in_parallel, now, setting};
use super::world::World;
use crate::ledger;
use hub_core::GroupOptions;
use hub_core::store::{Commit, EventStore, GroupState, Progress, Record, SubscriptionRecord, Tries};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use std::io::ErrorKind;
use std::sync::Arc;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    refused: u64,
    counts: Counts,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.refused += other.refused;
        self.counts += other.counts;
    }
}

impl Tally {
    fn of(world: &World) -> Self {
        Self { refused: world.refused, counts: world.model.counts }
    }
}

const WORKLOAD: u64 = 86;
const STEPS: u64 = 40;

fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    world.faults = true;
    world
}

/// How many points the workload has when nothing fails.
fn points() -> u64 {
    let mut world = world(WORKLOAD);
    world.reopen(End::Closed).unwrap();
    world.steps(STEPS).unwrap();
    assert_eq!(world.refused, 0);
    world.disk.ops()
}

/// The cause is gone: without a restart everything is as it was answered, and commits are taken.
fn is_well_again(world: &mut World) -> Verdict {
    world.disk.heal();
    world.check().map_err(|what| format!("before anything else: {what}"))?;
    // Enough to fill a segment: upkeep has something to do again.
    for topic in ["r", "a", "rk", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a"] {
        if !world.put_large(topic)? {
            return Err(format!("it does not come back: {:?}", world.health()));
        }
    }
    let health = world.health();
    if health.unavailable.is_some() || health.damaged > 0 || !health.warnings.is_empty() {
        return Err(format!("it is not well again: {health:?}"));
    }
    world.check()
}

/// The life ends in one of three ways, and another one in the next.
fn ends(world: &mut World, luck: &mut Rng) -> Verdict {
    match luck.below(3) {
        0 => {
            // A full disk may not even have room for that.
            let closed = now(world.store().close()).is_ok();
            world.lose_power(luck.next());
            world.reopen(if closed { End::Closed } else { End::Power })?;
        }
        1 => {
            world.die();
            world.reopen(End::Death)?;
        }
        _ => {
            world.lose_power(luck.next());
            world.reopen(End::Power)?;
        }
    }
    world.steps(3)?;
    world.lose_power(luck.next());
    world.reopen(End::Power)
}

#[test]
fn every_call_may_fail_once() {
    let points = points();
    let total = in_parallel(0..points, |op| {
        let mut tally = Tally::default();
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            // The fault is felt, or the life ends while it is.
            for stop in [STEPS, 0] {
                let mut world = world(WORKLOAD);
                let mut luck = Rng::new(op + stop);
                world.disk.fail_at(op, kind);
                let mut run = || {
                    world.reopen(End::Closed)?;
                    for _ in 0..STEPS {
                        world.step()?;
                        if stop == 0 && world.disk.ops() > op {
                            return ends(&mut world, &mut luck);
                        }
                    }
                    is_well_again(&mut world)?;
                    ends(&mut world, &mut luck)
                };
                run().map_err(|what| format!("{kind:?}, {stop}: {what}"))?;
                tally += Tally::of(&world);
            }
        }
        Ok(tally)
    });
    println!("faults: {points} points, each failing once: {total:?}");
    assert!(total.refused > points / 4, "{total:?}");
}

#[test]
fn the_disk_may_be_full_from_any_point_on() {
    let points = points();
    let total = in_parallel(0..points, |op| {
        let mut world = world(WORKLOAD);
        let mut luck = Rng::new(op);
        world.disk.full_at(op);
        world.reopen(End::Closed)?;
        world.steps(STEPS + 10)?;
        if luck.chance(30) {
            ends(&mut world, &mut luck)?;
        }
        is_well_again(&mut world)?;
        ends(&mut world, &mut luck)?;
        Ok(Tally::of(&world))
    });
    println!("faults: {points} points, full from each on: {total:?}");
    assert!(total.refused > points, "{total:?}");
}

#[test]
fn a_full_disk_says_so_and_goes_on_by_itself_when_there_is_room() {
    let mut world = world(7);
    world.reopen(End::Closed).unwrap();
    world.put("r").unwrap();
    let used: u64 = world.disk.names().iter().map(|name| world.disk.bytes(name).len() as u64).sum();
    world.disk.full_after(Some(used));
    while world.put_large("a").unwrap() {}
    let why = world.health().unavailable.unwrap();
    assert!(why.contains("the disk is full") && why.contains("make room"), "{why}");
    // Readers go on, and so does who writes little enough.
    world.check().unwrap();
    world.disk.full_after(Some(used + (1 << 20)));
    assert!(world.put_large("a").unwrap());
    assert_eq!(world.health().unavailable, None);
    is_well_again(&mut world).unwrap();
}

#[test]
fn a_segment_that_could_not_be_begun_takes_nothing_with_it() {
    let mut refused = 0;
    for (seed, point) in (0..5).flat_map(|seed| (0..40).map(move |point| (seed, point))) {
        let mut world = world(seed);
        world.reopen(End::Closed).unwrap();
        world.put_tiny("a").unwrap();
        world.put_tiny("r").unwrap();
        world.disk.fail_at(world.disk.ops() + point, ErrorKind::Other);
        // Sooner or later one is too large for what is left; the next one is not.
        for _ in 0..5 {
            let refused = !world.put_large("a").unwrap();
            world.put_tiny("a").unwrap();
            world.put_tiny("r").unwrap();
            if refused {
                break;
            }
        }
        refused += world.refused;
        world.check().unwrap_or_else(|what| panic!("point {point}: {what}"));
        world.die();
        world.reopen(End::Death).unwrap_or_else(|what| panic!("point {point}: {what}"));
    }
    assert!(refused > 3, "only {refused} were refused");
}

/// One disk through several bad times.
fn round(seed: u64) -> Result<Tally, String> {
    let mut world = world(seed);
    let mut luck = Rng::new(!seed);
    world.reopen(End::Closed)?;
    for _ in 0..1 + luck.below(4) {
        world.steps(luck.below(20))?;
        for _ in 0..1 + luck.below(3) {
            let at = world.disk.ops() + luck.below(12);
            // Asked again, the disk reads it: nobody notices.
            world.disk.fail_read_after(luck.below(40));
            match luck.below(5) {
                0 => world.disk.fail_syncs(true),
                1 => world.disk.fail_writes(true),
                2 => world.disk.full_at(at),
                _ => world.disk.fail_at(at, ErrorKind::Other),
            }
            world.steps(luck.below(8))?;
            if luck.chance(20) {
                world.disk.heal();
                world.steps(luck.below(4))?;
            }
        }
        if luck.chance(70) {
            is_well_again(&mut world)?;
        }
        world.disk.heal();
        ends(&mut world, &mut luck)?;
    }
    Ok(Tally::of(&world))
}

#[test]
fn whatever_fails_in_whatever_order_nothing_acknowledged_is_lost() {
    let (rounds, from) = (setting("EVENT_HUB_POWER_ROUNDS", 300), setting("EVENT_HUB_POWER_FROM", 0));
    let total = in_parallel(from..from + rounds, round);
    println!("faults: {rounds} random rounds: {total:?}");
    if rounds >= 100 {
        assert!(total.refused > rounds && total.counts.lost_relaxed > 0, "{total:?}");
    }
}

/// What holds when the disk says that it has synced, and has not, and the power fails.
///
/// The store cannot know. Either it refuses to open and says why; or it opens and reports damage; or what is missing is
/// what came last, whole commits, and nothing from before the lie: as if the power had failed earlier. In each case an
/// event it serves is one that was written, in its place, byte for byte.
#[test]
fn a_disk_that_lies_loses_the_end_or_is_found_out() {
    let rounds = setting("EVENT_HUB_POWER_ROUNDS", 300);
    let total = in_parallel(0..rounds, |seed| {
        let mut world = world(seed);
        let mut luck = Rng::new(!seed);
        world.reopen(End::Closed)?;
        world.steps(luck.below(25))?;
        // Everything so far is safe.
        world.put("a")?;
        world.model.begin_lies();
        world.disk.lie_syncs(true);
        world.steps(1 + luck.below(15))?;
        world.lose_power(luck.next());
        let mut lies = Lies::default();
        match world.open() {
            Err(error) => {
                let said = error.to_string();
                if !said.contains("doctor") && !said.contains("is not what an event-hub store writes") {
                    return Err(format!("it refuses without help: {said}"));
                }
                lies.refused += 1;
            }
            Ok(()) => {
                let (lost, damaged) = world.model.after_lies(world.store())?;
                lies.damaged += u64::from(damaged);
                lies.shortened += u64::from(!damaged && lost > 0);
                lies.whole += u64::from(!damaged && lost == 0);
            }
        }
        Ok(lies)
    });
    println!("faults: after lies and a power loss: {total:?}");
    assert!(rounds < 100 || total.shortened > 0 && total.whole > 0, "{total:?}");
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default)]
struct Lies {
    refused: u64,
    damaged: u64,
    shortened: u64,
    whole: u64,
}

impl std::ops::AddAssign for Lies {
    fn add_assign(&mut self, other: Self) {
        self.refused += other.refused;
        self.damaged += other.damaged;
        self.shortened += other.shortened;
        self.whole += other.whole;
    }
}

/// A frame holds 16 MiB; a larger one would read as damage, with all that was committed beside it.
#[test]
fn a_record_too_large_for_a_frame_is_refused_and_its_commit_survives() {
    let disk = SimDisk::new(1);
    let open = || {
        EmbeddedStore::open_on(
            Arc::new(disk.for_this_life()),
            Options { threads: Threads::None, ..Options::default() },
        )
    };
    let store = open().unwrap();
    let record = |label: &str| SubscriptionRecord {
        label: label.to_owned(),
        group: ledger::group("g"),
        topics: Vec::new(),
        options: GroupOptions::default(),
        created: 1,
        idle_since: None,
    };
    let huge = record(&"a".repeat(17 << 20));
    let events = vec![ledger::draft("t", 1, None)];
    let records = vec![
        Record::Subscription(record("a.*")),
        Record::Subscription(huge),
        Record::Subscription(record("b.*")),
    ];
    let committed = now(store.commit(Commit { now: ledger::T0, events, records, ..Commit::default() }));
    assert!(committed.events[0].is_ok() && committed.records[0].is_ok() && committed.records[2].is_ok());
    let refused = committed.records[1].as_ref().unwrap_err().to_string();
    assert!(refused.contains("too large"), "{refused}");
    disk.process_death();
    drop(store);
    let store = open().unwrap();
    assert_eq!(store.health().damaged, 0);
    let image = now(store.load()).unwrap();
    let labels: Vec<&str> = image.subscriptions.iter().map(|record| record.label.as_str()).collect();
    assert_eq!(labels, ["a.*", "b.*"]);
    assert_eq!(image.topics[0].1.last, 1);
}

/// It takes 17 MiB: more than a frame holds.
#[test]
fn progress_of_a_group_that_is_too_large_for_a_frame_is_saved_in_parts() {
    let disk = SimDisk::new(1);
    let options = Options { threads: Threads::None, disk_reserve: 0, ..Options::default() };
    let open = || EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options.clone()).unwrap();
    let store = open();
    let group = ledger::group_record("g", "t");
    ledger::Ledger::default().publish(&store, vec![ledger::draft("t", 1, None)], vec![group]);
    let settled: Vec<(u64, u64)> = (1..700_000).map(|n| (4 * n, 4 * n)).collect();
    let tries = Tries { attempts: 3, failures: 1 };
    let tries: Vec<(u64, Tries)> = (1..400_000).map(|n| (4 * n + 1, tries)).collect();
    let progress = Progress { epoch: 2, reset: true, floor: 1, high: 4_000_000, settled, tries };
    let record = Record::Progress(ledger::topic("t"), ledger::group("g"), progress.clone());
    ledger::Ledger::default().publish(&store, vec![ledger::draft("t", 2, None)], vec![record]);
    disk.process_death();
    drop(store);
    let store = open();
    assert_eq!(store.health().damaged, 0);
    let image = now(store.load()).unwrap();
    let mut expected = GroupState::default();
    expected.apply(&progress);
    assert!(image.groups[0].state == expected);
    assert_eq!(ledger::served(&store).last(&ledger::topic("t")), 2);
}
