//! The power fails, at every point and at any, while the store works and while it recovers.
//!
//! `EVENT_HUB_POWER_ROUNDS` says how many random rounds there are, `EVENT_HUB_POWER_FROM` with which seed they begin.

use super::model::{Counts, End, Verdict};
use super::tools::{Rng, in_parallel, now, setting};
use super::world::World;
use hub_core::store::EventStore;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    cuts: u64,
    cuts_in_recovery: u64,
    deaths: u64,
    counts: Counts,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.deaths += other.deaths;
        self.counts += other.counts;
    }
}

/// Brings the store back after the power failed. It fails again after each of `cuts` calls of the recovery, and stays
/// from then on.
fn recover(world: &mut World, luck: &mut Rng, cuts: &[u64], tally: &mut Tally) -> Verdict {
    world.lose_power(luck.next());
    tally.cuts += 1;
    for &cut in cuts {
        world.disk.cut_at(world.disk.ops() + cut);
        let opened = world.open();
        if !world.disk.is_out() {
            opened.map_err(|error| format!("it does not open: {error}"))?;
            // Done before the cut, which comes later then, while it works.
            world.look(End::Power)?;
            world.steps(3)?;
        }
        // What was opened has worked for a moment; it may have been at anything.
        tally.cuts += 1;
        tally.cuts_in_recovery += u64::from(world.disk.is_out());
        world.lose_power(luck.next());
    }
    world.reopen(End::Power)
}

const WORKLOAD: u64 = 86;
const STEPS: u64 = 40;

/// The fixed workload, up to a cut if there is one.
fn work(cut: Option<u64>) -> Result<World, String> {
    let mut world = World::new(WORKLOAD);
    if let Some(cut) = cut {
        world.disk.cut_at(cut);
    }
    match world.open() {
        Err(_) if world.disk.is_out() => return Ok(world),
        opened => opened.map_err(|error| error.to_string())?,
    }
    world.steps(STEPS)?;
    Ok(world)
}

fn points() -> u64 {
    let world = work(None).unwrap();
    let names = world.disk.names();
    // A workload that does little finds little.
    assert!(names.iter().any(|name| name.starts_with("kept-")), "nothing was rewritten: {names:?}");
    assert!(names.iter().any(|name| name == "manifest.2"), "nothing was sealed: {names:?}");
    world.disk.ops()
}

/// After a life has begun: it works, closes, and opens as it was.
fn goes_on(world: &mut World) -> Verdict {
    world.steps(6)?;
    now(world.store().close()).map_err(|error| error.to_string())?;
    // A power loss after a close takes nothing, and nothing jumps.
    world.lose_power(0);
    world.reopen(End::Closed)
}

#[test]
fn nothing_acknowledged_is_lost_whenever_the_power_fails() {
    let points = points();
    let total = in_parallel(0..points, |cut| {
        let mut tally = Tally::default();
        for kind in 0..8 {
            let mut world = work(Some(cut)).map_err(|what| format!("before the cut: {what}"))?;
            let mut luck = Rng::new(cut * 8 + kind);
            // The kind of luck is given, the rest is chance.
            world.lose_power(luck.next() / 8 * 8 + kind);
            tally.cuts += 1;
            let checked = world.reopen(End::Power).and_then(|()| goes_on(&mut world));
            checked.map_err(|what| format!("luck {kind}: {what}"))?;
            tally.counts += world.model.counts;
        }
        Ok(tally)
    });
    println!("power: a workload of {points} points, each cut with every kind of luck: {total:?}");
}

#[test]
fn nothing_is_lost_when_the_power_fails_again_during_recovery() {
    let points = points();
    let total = in_parallel(0..points, |cut| {
        let mut tally = Tally::default();
        for round in 0..3 {
            let mut world = work(Some(cut))?;
            let mut luck = Rng::new(cut * 3 + round);
            let cuts: Vec<u64> = (0..=round).map(|_| luck.below(24)).collect();
            let recovered = recover(&mut world, &mut luck, &cuts, &mut tally);
            recovered.and_then(|()| goes_on(&mut world)).map_err(|what| format!("cuts {cuts:?}: {what}"))?;
            tally.counts += world.model.counts;
        }
        Ok(tally)
    });
    println!("power: a workload of {points} points, cut again while it recovers: {total:?}");
}

#[test]
fn every_point_of_a_recovery_can_be_the_last() {
    // A few states of the disk, each recovered up to every point.
    let points = points();
    let total = in_parallel(0..8, |at| {
        let mut tally = Tally::default();
        for point in 0.. {
            let cut = points * (at + 1) / 9;
            let mut world = work(Some(cut))?;
            let mut luck = Rng::new(cut + (point << 16));
            world.lose_power(luck.next());
            world.disk.cut_at(world.disk.ops() + point);
            let opened = world.open();
            if !world.disk.is_out() {
                opened.map_err(|error| error.to_string())?;
                break;
            }
            tally.cuts_in_recovery += 1;
            world.lose_power(luck.next());
            let checked = world.reopen(End::Power).and_then(|()| goes_on(&mut world));
            checked.map_err(|what| format!("cut at {cut}, then at {point}: {what}"))?;
        }
        Ok(tally)
    });
    println!("power: recoveries cut at every point: {total:?}");
    assert!(total.cuts_in_recovery > 40, "{total:?}");
}

#[test]
fn a_killed_process_loses_nothing_that_was_written() {
    let points = points();
    let total = in_parallel(0..points, |cut| {
        let mut tally = Tally::default();
        for kind in 0..8 {
            let mut world = work(Some(cut))?;
            kill(&mut world, &mut tally);
            world.reopen(End::Death).map_err(|what| format!("killed: {what}"))?;
            // What the next life has found is as safe as what it has written.
            let mut luck = Rng::new(cut * 8 + kind);
            world.put("a")?;
            world.steps(luck.below(4))?;
            world.lose_power(luck.next() / 8 * 8 + kind);
            let checked = world.reopen(End::Power).and_then(|()| goes_on(&mut world));
            checked.map_err(|what| format!("killed, then without power, luck {kind}: {what}"))?;
            tally.counts += world.model.counts;
        }
        Ok(tally)
    });
    println!("power: a workload of {points} points, killed at each: {total:?}");
}

/// The process was killed where the cut was, or is now.
fn kill(world: &mut World, tally: &mut Tally) {
    world.disk.death_at_cut();
    world.store = None;
    tally.deaths += 1;
}

/// One disk through several lives.
fn round(seed: u64) -> Result<Tally, String> {
    let mut world = World::new(seed);
    let mut luck = Rng::new(!seed);
    let mut tally = Tally::default();
    world.reopen(End::Closed)?;
    for _ in 0..1 + luck.below(5) {
        let steps = 1 + luck.below(40);
        if luck.chance(75) {
            world.disk.cut_at(world.disk.ops() + luck.below(5 * steps));
        }
        world.steps(steps)?;
        while luck.chance(30) {
            kill(&mut world, &mut tally);
            if luck.chance(50) {
                world.disk.cut_at(world.disk.ops() + luck.below(60));
            }
            world.reopen(End::Death)?;
            world.steps(luck.below(8))?;
        }
        let cuts: Vec<u64> = (0..luck.below(4).saturating_sub(1)).map(|_| luck.below(40)).collect();
        recover(&mut world, &mut luck, &cuts, &mut tally)?;
    }
    goes_on(&mut world)?;
    tally.counts += world.model.counts;
    Ok(tally)
}

#[test]
fn any_life_can_end_at_any_point() {
    let (rounds, from) = (setting("EVENT_HUB_POWER_ROUNDS", 300), setting("EVENT_HUB_POWER_FROM", 0));
    let total = in_parallel(from..from + rounds, round);
    println!("power: {rounds} random rounds: {total:?}");
    if rounds >= 100 {
        let Tally { cuts, cuts_in_recovery, counts, .. } = total;
        assert!(cuts > rounds && cuts_in_recovery > rounds / 4, "{total:?}");
        assert!(counts.lost_relaxed > 0 && counts.jumps > 0 && counts.cleaned > 0, "{total:?}");
        assert!(counts.open_there > 0 && counts.open_gone > 0 && counts.resent > 0, "{total:?}");
    }
}
