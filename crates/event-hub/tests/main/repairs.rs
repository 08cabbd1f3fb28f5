//! Repairs: they do what they are asked to and no more, keep what was there, and the store opens afterwards with
//! everything that was not damaged.

use crate::world::{Store, World};
use hub_store_embedded::EmbeddedStore;

fn marks(topic: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, String)> {
    numbers.into_iter().map(|n| (n, format!("{topic}-{n}"))).collect()
}

/// The store is well, takes a publish above everything, and knows what was published before.
#[track_caller]
fn works(store: &Store, above: u64, known: u64) {
    assert_eq!((store.health().damaged, store.health().warnings), (0, Vec::<String>::new()));
    assert_eq!(store.publish("orders", known), (known, false), "an id that is remembered");
    let (seq, new) = store.publish("orders", 1000);
    assert!(new && seq > above, "{seq}");
    assert_eq!(store.events("orders").last(), Some(&(seq, "orders-1000".to_string())));
}

/// A repair that is done does nothing when it is asked for again.
#[track_caller]
fn changes_nothing_more(world: &World, flag: &str) {
    let contents = |world: &World| -> Vec<_> {
        let files = world.files().into_iter().filter(|(path, _)| !path.ends_with("lock"));
        files.map(|(path, (bytes, _))| (path, bytes)).collect()
    };
    let before = contents(world);
    let json = world.doctor(&[flag, "--json"]).ends_with(0).json();
    assert_eq!(
        (&json["repairs"][0]["repair"], &json["repairs"][0]["changed"]),
        (&flag.into(), &false.into())
    );
    assert!(contents(world) == before, "{flag} changed something: {json:#}");
}

#[test]
fn bad_and_missing_sidecars_are_written_anew() {
    let world = World::full();
    let logs = world.named("log-");
    let (missing, bad) = (format!("{}.idx", logs[0]), format!("{}.idx", logs[1]));
    let (first, second) = (world.bytes(&missing), world.bytes(&bad));
    world.remove(&missing);
    world.flip(&bad, 200);
    let broken = world.bytes(&bad);
    let segment = world.bytes(&logs[1]);
    let ran = world.doctor(&["--rebuild-sidecars"]);
    ran.ends_with(0).says(&format!("--rebuild-sidecars: written anew: {missing}, {bad}")).says("healthy");
    ran.says(&format!("before: quarantine/{bad}."));
    world.kept_aside(&bad, &broken, "rebuild-sidecars");
    assert_eq!(world.quarantine().len(), 1, "what was missing has no copy");
    assert!(world.bytes(&missing) == first && world.bytes(&bad) == second, "as the store had written them");
    assert!(world.bytes(&logs[1]) == segment);
    changes_nothing_more(&world, "--rebuild-sidecars");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", 1..=60));
    works(&store, 60, 5);
}

#[test]
fn a_bad_copy_of_the_manifest_is_written_from_the_other() {
    let world = World::full();
    let good = world.bytes("manifest.1");
    world.flip("manifest.1", 90);
    let bad = world.bytes("manifest.1");
    world
        .doctor(&["--rebuild-manifest"])
        .ends_with(0)
        .says("the good copy of the manifest was written twice");
    world.kept_aside("manifest.1", &bad, "rebuild-manifest");
    assert!(world.bytes("manifest.1") == good && world.bytes("manifest.2") == good);
    changes_nothing_more(&world, "--rebuild-manifest");
    works(&world.open(), 60, 5);
}

#[test]
fn a_manifest_is_made_from_a_log_that_is_all_there_and_nothing_is_missing() {
    let world = World::full();
    world.flip("manifest.1", 90);
    world.flip("manifest.2", 91);
    let bad = (world.bytes("manifest.1"), world.bytes("manifest.2"));
    let ran = world.doctor(&["--rebuild-manifest"]);
    ran.ends_with(0).says("which are the whole log: nothing is missing").says("healthy");
    world.kept_aside("manifest.1", &bad.0, "rebuild-manifest");
    world.kept_aside("manifest.2", &bad.1, "rebuild-manifest");
    changes_nothing_more(&world, "--rebuild-manifest");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", 1..=60));
    assert_eq!(store.events("alerts"), marks("alerts", 1..=20));
    assert_eq!(store.groups(), [("billing".to_string(), 40)]);
    assert_eq!((store.counted("orders"), store.counted("alerts")), ((60, 60), (20, 20)));
    works(&store, 60, 5);
    assert_eq!(store.events("orders").last().unwrap().0, 61, "no number is left out");
    store.close();
    world.doctor(&[]).ends_with(0);
}

#[test]
fn a_manifest_is_made_from_rewritten_segments_as_far_as_they_tell() {
    let world = World::rewritten();
    let store = world.open();
    let (orders, alerts) = (store.events("orders"), store.events("alerts"));
    (61..=90).for_each(|n| _ = store.publish("orders", n));
    store.close();
    world.remove("manifest.1");
    world.flip("manifest.2", 90);
    let ran = world.doctor(&["--rebuild-manifest"]);
    ran.ends_with(0).says("What cannot be known").says("goes on 10000 above the highest seq").says("healthy");
    changes_nothing_more(&world, "--rebuild-manifest");
    let store = world.open();
    let found = store.events("orders");
    for event in orders.iter().chain(&marks("orders", 61..=90)) {
        assert!(found.contains(event), "{event:?} is gone");
    }
    for event in alerts {
        assert!(store.events("alerts").contains(&event), "{event:?} is gone");
    }
    assert!(
        found.is_sorted() && found.iter().all(|(seq, mark)| *mark == format!("orders-{seq}")),
        "{found:?}"
    );
    works(&store, 10_090, 90);
    store.close();
    world.doctor(&[]).ends_with(0);
}

#[test]
fn a_store_whose_manifest_is_missing_does_not_remove_what_was_rewritten() {
    let world = World::rewritten();
    world.remove("manifest.1");
    world.remove("manifest.2");
    let before = world.named("kept-");
    let refused = EmbeddedStore::open(world.path(), world.options()).unwrap_err().to_string();
    assert!(refused.contains("are missing: `event-hub doctor`"), "{refused}");
    assert_eq!(world.named("kept-"), before);
}

#[test]
fn segments_that_a_rewrite_has_replaced_do_not_come_back_with_a_new_manifest() {
    let world = World::full();
    let before: Vec<(String, Vec<u8>)> =
        world.named("log-").into_iter().map(|name| (name.clone(), world.bytes(&name))).collect();
    let rewritten = {
        let store = world.open();
        store.clean("orders", &hub_core::store::CleanPolicy { compact: true, ..Default::default() });
        store.close();
        world
    };
    let world = rewritten;
    let store = world.open();
    let (orders, alerts) = (store.events("orders"), store.events("alerts"));
    store.close();
    // As after a power loss between the new manifest and the removal of what it replaces; then the manifest is lost.
    for (name, bytes) in &before {
        if !world.file(name).exists() {
            world.write(name, bytes);
        }
    }
    world.remove("manifest.1");
    world.remove("manifest.2");
    world.doctor(&["--rebuild-manifest"]).ends_with(0);
    let store = world.open();
    assert_eq!(store.events("alerts"), alerts);
    let found = store.events("orders");
    assert!(orders.iter().all(|event| found.contains(event)), "{found:?}");
    works(&store, 10_060, 60);
}

#[test]
fn the_format_file_is_restored_with_the_seed_of_the_manifest() {
    let world = World::full();
    let good = world.bytes("format");
    world.remove("format");
    world.doctor(&["--restore-format"]).ends_with(0).says("with the seed that is in the manifest");
    assert_eq!(world.bytes("format"), good);
    changes_nothing_more(&world, "--restore-format");
    world.write("format", "hello");
    world.doctor(&["--restore-format"]).ends_with(0);
    world.kept_aside("format", b"hello", "restore-format");
    assert_eq!(world.bytes("format"), good);
    works(&world.open(), 60, 5);
}

#[test]
fn a_directory_without_format_and_manifest_is_repaired_at_once() {
    let world = World::full();
    for name in ["format", "manifest.1", "manifest.2"] {
        world.write(name, "rubbish");
    }
    world
        .doctor(&["--rebuild-manifest"])
        .ends_with(1)
        .says("the format file comes first: --restore-format as well");
    world.doctor(&["--drop-damaged"]).ends_with(1).says("nothing is damaged");
    world.doctor(&["--rebuild-sidecars"]).ends_with(1).says("the manifest comes first");
    let ran = world.doctor(&["--restore-format", "--rebuild-manifest"]);
    ran.ends_with(0).says("with a new seed").says("the whole log: nothing is missing");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", 1..=60));
    works(&store, 60, 5);
    assert_eq!(store.seq_of("alerts", 3), Some(3), "sidecars have the new seed");
}

#[test]
fn a_damaged_stretch_of_a_sealed_segment_is_dropped() {
    let world = World::full();
    let (name, ..) = world.spoil("orders", 20);
    let original = world.bytes(&name);
    let manifest = world.bytes("manifest.1");
    let ran = world.doctor(&["--drop-damaged"]);
    ran.ends_with(0).says(&format!("--drop-damaged: {name} is now kept-00000001")).says("healthy");
    world.kept_aside(&name, &original, "drop-damaged");
    world.kept_aside("manifest.1", &manifest, "drop-damaged");
    assert!(!world.file(&name).exists() && world.file("kept-00000001.idx").exists());
    changes_nothing_more(&world, "--drop-damaged");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", (1..=60).filter(|n| *n != 20)));
    assert_eq!(store.events("alerts"), marks("alerts", 1..=20));
    assert_eq!((store.counted("orders"), store.counted("alerts")), ((59, 60), (20, 20)));
    assert_eq!(store.groups(), [("billing".to_string(), 40)]);
    assert_eq!((store.seq_of("orders", 20), store.seq_of("orders", 21)), (None, Some(21)));
    works(&store, 60, 5);
    store.close();
    world.doctor(&[]).ends_with(0).says("healthy");
    let store = world.open();
    assert_eq!(store.health().damaged, 0, "nor when it is opened again");
}

#[test]
fn damage_in_the_last_segment_is_dropped_and_no_seq_is_given_twice() {
    let world = World::full();
    let store = world.open();
    (61..=66).for_each(|n| _ = store.publish("orders", n));
    drop(store);
    // The last commits go, and something that was synced before them stays to tell.
    let (name, from, _) = world.find("orders", 64);
    let (same, to, len) = world.find("orders", 65);
    assert_eq!(name, same);
    let mut bytes = world.bytes(&name);
    bytes[from as usize..(to + len) as usize].fill(0xee);
    world.write(&name, &bytes);
    world.doctor(&["--drop-damaged"]).ends_with(0).says("goes on above whatever may have been lost");
    world.kept_aside(&name, &bytes, "drop-damaged");
    let store = world.open();
    let expected = marks("orders", (1..=63).chain([66]));
    assert_eq!(store.events("orders"), expected);
    works(&store, 66, 63);
    let last = store.counted("orders").1;
    store.close();
    let store = world.open();
    assert_eq!(store.counted("orders").1, last, "it does not jump at every start");
    assert_eq!(store.health().damaged, 0);
}

#[test]
fn a_last_segment_with_a_damaged_header_is_saved() {
    let world = World::full();
    let name = world.named("log-").pop().unwrap();
    world.flip(&name, 33);
    world.flip(&name, 41);
    world.doctor(&["--drop-damaged"]).ends_with(0).says("is now kept-00000001");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", 1..=60));
    assert_eq!(store.groups(), [("billing".to_string(), 40)]);
    works(&store, 60, 60);
}

#[test]
fn segments_that_are_missing_or_unreadable_are_given_up() {
    let world = World::full();
    let last = world.named("log-").pop().unwrap();
    let (lost, ..) = world.find("orders", 20);
    let gone: Vec<u64> = (1..=60).filter(|n| [&last, &lost].contains(&&world.find("orders", *n).0)).collect();
    world.remove(&lost);
    world.flip(&last, 24);
    world.flip(&last, 25);
    let unreadable = world.bytes(&last);
    world.doctor(&["--drop-damaged"]).ends_with(0).says(&format!("{lost} is not expected any more"));
    world.kept_aside(&last, &unreadable, "drop-damaged");
    changes_nothing_more(&world, "--drop-damaged");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", (1..=60).filter(|n| !gone.contains(n))));
    works(&store, 60, 1);
}

#[test]
fn what_the_hub_has_moved_to_quarantine_is_let_go() {
    let world = World::full();
    let last = world.named("log-").pop().unwrap();
    let gone: Vec<u64> = (1..=60).filter(|n| world.find("orders", *n).0 == last).collect();
    world.flip(&last, 24);
    world.flip(&last, 25);
    let unreadable = world.bytes(&last);
    // The hub passes it over, and says so at every start.
    for _ in 0..2 {
        let store = world.open();
        assert!(store.health().damaged > 0);
        store.close();
    }
    world.doctor(&["--drop-damaged"]).ends_with(0).says(&format!("quarantine/{last} has another name"));
    world.kept_aside(&last, &unreadable, "drop-damaged");
    changes_nothing_more(&world, "--drop-damaged");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", (1..=60).filter(|n| !gone.contains(n))));
    works(&store, 60, 1);
}

#[test]
fn an_unreadable_segment_is_put_aside_when_the_manifest_is_made_without_it() {
    let world = World::full();
    let (name, ..) = world.find("orders", 20);
    let gone: Vec<u64> = (1..=60).filter(|n| world.find("orders", *n).0 == name).collect();
    world.flip(&name, 24);
    world.flip(&name, 25);
    let unreadable = world.bytes(&name);
    for copy in ["manifest.1", "manifest.2"] {
        world.write(copy, "rubbish");
    }
    world.doctor(&["--rebuild-manifest"]).says(&format!("{name} cannot be read, and is in quarantine"));
    world.kept_aside(&name, &unreadable, "rebuild-manifest");
    let store = world.open();
    assert_eq!(store.events("orders"), marks("orders", (1..=60).filter(|n| !gone.contains(n))));
    works(&store, 60, 60);
}

#[test]
fn a_damaged_rewritten_segment_is_dropped_too() {
    let world = World::rewritten();
    let store = world.open();
    let (orders, last) = (store.events("orders"), store.counted("orders").1);
    store.close();
    let (seq, _) = orders.iter().find(|(seq, _)| world.find("orders", *seq).0.starts_with("kept-")).unwrap();
    let (name, ..) = world.spoil("orders", *seq);
    world.doctor(&[]).ends_with(1).says(&format!("orders: seq {seq}"));
    world.doctor(&["--drop-damaged"]).ends_with(0).says(&format!("{name} is now kept-"));
    let store = world.open();
    let expected: Vec<_> = orders.iter().filter(|(other, _)| other != seq).cloned().collect();
    assert_eq!(store.events("orders"), expected);
    works(&store, last, 60);
}

#[test]
fn relaxed_events_of_a_hub_that_was_killed_are_there_after_a_repair() {
    let world = World::new();
    let store = world.open();
    for n in 1..=40 {
        store.publish_as("orders", n, true);
    }
    drop(store);
    let (name, ..) = world.spoil("orders", 3);
    assert_eq!(name, "log-00000001");
    world.doctor(&["--drop-damaged"]).ends_with(0);
    let store = world.open();
    works(&store, 40, 40);
}

#[test]
fn without_a_copy_nothing_is_changed() {
    let world = World::full();
    let (name, ..) = world.spoil("orders", 20);
    // No directory can be made where a file is.
    world.write("quarantine", "in the way");
    let contents = |world: &World| -> Vec<_> {
        let files = world.files().into_iter().filter(|(path, _)| !path.ends_with("lock"));
        files.map(|(path, (bytes, _))| (path, bytes)).collect()
    };
    let before = contents(&world);
    let ran = world.doctor(&["--drop-damaged"]);
    ran.ends_with(2);
    let expected = format!("{name} could not be copied to quarantine");
    assert!(ran.err.contains(&expected) && ran.err.contains("--drop-damaged changed nothing"), "{}", ran.err);
    assert!(contents(&world) == before);
}

#[test]
fn only_what_is_asked_for_is_repaired() {
    let world = World::full();
    let (name, ..) = world.spoil("orders", 20);
    let bad = world.bytes(&name);
    let sidecar = format!("{}.idx", world.named("log-")[0]);
    world.remove(&sidecar);
    world.doctor(&["--restore-format"]).ends_with(1).says("the format file is as it should be");
    assert!(!world.file(&sidecar).exists() && world.bytes(&name) == bad);
    world.doctor(&["--rebuild-sidecars"]).ends_with(1).says(&format!("LOSS: {name}"));
    assert!(world.file(&sidecar).exists() && world.bytes(&name) == bad);
}
