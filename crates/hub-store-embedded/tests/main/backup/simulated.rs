//! Backups from one simulated disk to another, while the store works, and while the target fails.
//!
//! `EVENT_HUB_BACKUP_ROUNDS` says how many random rounds there are.

use crate::model::{End, Model};
use crate::tools::{Rng, in_parallel, now, setting};
use crate::world::World;
use hub_core::store::{EventStore, PinnedFiles};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::backup::{BackupError, BackupOptions, LogEnd, Outcome, Source, copy_to};
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use std::sync::Arc;

/// A world that has worked for a while.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    world.open().unwrap();
    let steps = 20 + world.rng.below(60);
    world.work(steps).unwrap();
    world
}

fn pin(world: &World) -> PinnedFiles {
    now(world.store().pin_files()).unwrap().unwrap()
}

fn copy(world: &World, pinned: &PinnedFiles, target: &SimDisk) -> Result<Outcome, BackupError> {
    let disk = world.disk.for_this_life();
    let source = Source::pinned(&disk, &pinned.manifest, pinned.end)?;
    copy_to(&source, &target.for_this_life(), BackupOptions::default(), 1, &mut |_, _, _, _| {})
}

/// Makes a copy while the world goes on, between any two files.
fn copy_meanwhile(world: &mut World, pinned: &PinnedFiles, target: &SimDisk) -> Result<Outcome, String> {
    let disk = world.disk.for_this_life();
    let source = Source::pinned(&disk, &pinned.manifest, pinned.end).map_err(|error| error.to_string())?;
    let mut worked = Ok(());
    let outcome =
        copy_to(&source, &target.for_this_life(), BackupOptions::default(), 1, &mut |_, _, _, _| {
            worked = worked.clone().and_then(|()| world.work(3));
        });
    worked.and_then(|()| outcome.map_err(|error| error.to_string()))
}

#[test]
fn everything_acknowledged_before_a_backup_is_in_it_whatever_is_written_and_cleaned_meanwhile() {
    let rounds = setting("EVENT_HUB_BACKUP_ROUNDS", 150);
    let removed = in_parallel(0..rounds, |seed| {
        let mut world = world(seed);
        let pinned = pin(&world);
        let model = world.model.clone();
        world.work(world.rng.clone().below(30))?;
        let (killed, cut) = (SimDisk::new(seed), SimDisk::new(seed + 1));
        copy_meanwhile(&mut world, &pinned, &killed)?;
        copy_meanwhile(&mut world, &pinned, &cut)?;
        let kept = world.disk.names().len();
        drop(pinned);
        world.work(10)?;
        world.check()?;

        let mut copy = world.on_copy(killed, model.clone());
        copy.reopen(End::Death)?;
        // Another power loss: the copy was durable when it was reported.
        cut.power_loss(seed);
        let mut other = world.on_copy(cut, model);
        other.reopen(End::Power)?;
        same_events(&copy.model, &other)?;
        copy.steps(20)?;
        other.steps(20)?;
        Ok(u64::from(world.disk.names().len() < kept))
    });
    assert!(
        removed > rounds / 4,
        "files that were pinned were to be removed in {removed} of {rounds} rounds only"
    );
}

#[test]
fn a_copy_without_its_pin_is_right_or_names_what_is_gone() {
    let rounds = 60;
    let named = in_parallel(0..rounds, |seed| {
        let mut world = world(seed);
        let PinnedFiles { directory, manifest, end, guard } = pin(&world);
        let model = world.model.clone();
        // As when the hub dies, or its disk gets full.
        drop(guard);
        world.work(60)?;
        let pinned = PinnedFiles { directory, manifest, end, guard: Box::new(()) };
        let target = SimDisk::new(seed);
        match copy(&world, &pinned, &target) {
            Ok(_) => world.on_copy(target, model).reopen(End::Death).map(|()| 0),
            Err(BackupError::Damaged(_) | BackupError::Refused(_)) => Ok(1),
            Err(error) => Err(error.to_string()),
        }
    });
    assert!(named > rounds / 4, "{named} of {rounds} copies have missed files");
}

/// A power loss after the backup takes nothing of it, relaxed events included.
fn same_events(model: &Model, other: &World) -> Result<(), String> {
    for (topic, log) in &model.topics {
        let there = &other.model.topics[topic].events;
        if !log.events.keys().all(|seq| there.contains_key(seq)) {
            return Err(format!("the power loss took events of {topic}"));
        }
    }
    Ok(())
}

#[test]
fn a_copy_that_was_cut_short_does_not_open_as_a_store_with_events() {
    let (world, target) = (world(7), SimDisk::new(1));
    let pinned = pin(&world);
    copy(&world, &pinned, &target).unwrap();
    let points = target.ops();
    let whole = in_parallel(0..points, |cut| {
        let mut opened_whole = 0;
        for luck in 0..8 {
            let target = SimDisk::new(cut);
            target.cut_at(cut);
            let made = copy(&world, &pinned, &target);
            target.power_loss(cut * 8 + luck);
            let store = EmbeddedStore::open_on(Arc::new(target.for_this_life()), world.options.clone());
            match (made, store) {
                (Ok(_), _) => return Err("the power failed, and the backup says that it is whole".into()),
                (Err(_), Err(_)) => {}
                (Err(_), Ok(store)) => {
                    let topics = now(store.load()).map_err(|error| error.to_string())?.topics;
                    drop(store);
                    if !topics.is_empty() {
                        // Only the report was missing.
                        let mut copy = world.on_copy(target, world.model.clone());
                        copy.reopen(End::Power).map_err(|what| format!("luck {luck}: {what}"))?;
                        opened_whole += 1;
                    }
                }
            }
        }
        Ok(opened_whole)
    });
    assert!(whole < 2 * 8, "{whole} of {points} cuts have left a store with events");
}

#[test]
fn a_full_target_is_named_and_the_store_goes_on() {
    let mut world = world(3);
    let pinned = pin(&world);
    let target = SimDisk::new(1);
    target.full_after(Some(3000));
    let error = copy(&world, &pinned, &target).unwrap_err();
    assert!(matches!(&error, BackupError::Full(place) if place == "memory"), "{error}");
    drop(pinned);
    world.work(20).unwrap();
    world.check().unwrap();
}

#[test]
fn a_damaged_segment_is_named_and_is_in_no_backup_unless_that_is_allowed() {
    let world = world(11);
    let pinned = pin(&world);
    let names = world.disk.names();
    let sealed = names.iter().find(|name| world.disk.names().contains(&format!("{name}.idx"))).unwrap();
    world.disk.flip(sealed, 200, 3);
    let target = SimDisk::new(1);
    let error = copy(&world, &pinned, &target).unwrap_err();
    assert!(matches!(error, BackupError::Damaged(_)) && error.to_string().contains(sealed), "{error}");
    assert!(EmbeddedStore::open_on(Arc::new(target.for_this_life()), world.options.clone()).is_err());

    let disk = world.disk.for_this_life();
    let source = Source::pinned(&disk, &pinned.manifest, pinned.end).unwrap();
    let allowed = BackupOptions { allow_damage: true, ..BackupOptions::default() };
    let target = SimDisk::new(2);
    let outcome = copy_to(&source, &target.for_this_life(), allowed, 1, &mut |_, _, _, _| {}).unwrap();
    assert!(outcome.verified.damage.iter().any(|finding| finding.file == *sealed), "{outcome:?}");
    EmbeddedStore::open_on(Arc::new(target.for_this_life()), world.options.clone()).unwrap();
}

#[test]
fn a_bad_sidecar_is_left_out_and_made_again_at_the_start() {
    let world = world(11);
    let pinned = pin(&world);
    let names = world.disk.names();
    let sidecar = names.iter().find(|name| name.ends_with(".idx")).unwrap();
    world.disk.flip(sidecar, 200, 3);
    let target = SimDisk::new(1);
    let outcome = copy(&world, &pinned, &target).unwrap();
    assert_eq!(&outcome.verified.sidecars_left_out, std::slice::from_ref(sidecar));
    let mut copy = world.on_copy(target, world.model.clone());
    copy.reopen(End::Death).unwrap();
}

#[test]
fn a_segment_that_is_lost_before_it_is_copied_is_named() {
    let world = world(11);
    let pinned = pin(&world);
    let names = world.disk.names();
    let sealed = names.iter().find(|name| names.contains(&format!("{name}.idx"))).unwrap();
    world.disk.for_this_life().remove(sealed).unwrap();
    let error = copy(&world, &pinned, &SimDisk::new(1)).unwrap_err();
    assert!(matches!(error, BackupError::Damaged(_)) && error.to_string().contains(sealed), "{error}");
}

#[test]
fn a_directory_of_another_hub_is_refused() {
    let (world, mut rng) = (world(5), Rng::new(1));
    let pinned = pin(&world);
    let end = LogEnd { nonce: rng.next(), ..pinned.end };
    let disk = world.disk.for_this_life();
    let source = Source::pinned(&disk, &pinned.manifest, end).unwrap();
    let target = SimDisk::new(1);
    let copied = copy_to(&source, &target.for_this_life(), BackupOptions::default(), 1, &mut |_, _, _, _| {});
    let error = copied.unwrap_err().to_string();
    assert!(error.contains("run the command where the hub runs"), "{error}");
    assert!(target.names().is_empty());
}

#[test]
fn a_stopped_directory_is_copied_with_a_torn_end_too() {
    for seed in 0..30 {
        let mut world = world(seed);
        let closed = seed % 2 == 0;
        if closed {
            now(world.store().close()).unwrap();
        }
        world.die();
        let (disk, target) = (world.disk.for_this_life(), SimDisk::new(1));
        let source = Source::stopped(&disk).unwrap();
        copy_to(&source, &target.for_this_life(), BackupOptions::default(), 1, &mut |_, _, _, _| {}).unwrap();
        let mut copy = world.on_copy(target, world.model.clone());
        copy.reopen(if closed { End::Closed } else { End::Death }).unwrap();
    }
}
