//! Directories with nothing wrong, and the promise that looking changes nothing.

use crate::world::World;
use hub_core::store::CleanPolicy;

#[test]
fn a_directory_that_was_closed_is_healthy() {
    let world = World::full();
    assert!(world.named("log-").len() > 3, "{:?}", world.named("log-"));
    let ran = world.doctor(&[]);
    ran.ends_with(0).says("80 events in 2 topics, 1 group").says("healthy");
    assert_eq!(ran.err, "");
    assert!(
        !ran.out.contains("PROBLEM") && !ran.out.contains("LOSS") && !ran.out.contains("note"),
        "{}",
        ran.out
    );
}

#[test]
fn a_directory_that_never_had_a_full_segment_is_healthy() {
    let mut world = World::new();
    world.segment_bytes = 1 << 20;
    world.open().close();
    world.doctor(&[]).ends_with(0).says("0 events in 0 topics").says("healthy");
    let store = world.open();
    store.publish("orders", 1);
    store.close();
    world.doctor(&[]).ends_with(0).says("1 event in 1 topic").says("healthy");
}

#[test]
fn a_directory_that_was_cleaned_and_rewritten_is_healthy() {
    let world = World::rewritten();
    world.doctor(&[]).ends_with(0).says("healthy");
    // Cleaned away, and not rewritten yet: gone for readers, and still there.
    let store = world.open();
    (61..=70).for_each(|n| _ = store.publish("orders", n));
    store.clean("orders", &CleanPolicy { compact: true, ..CleanPolicy::default() });
    store.close();
    world.doctor(&[]).ends_with(0).says("healthy");
}

#[test]
fn a_store_that_was_killed_leaves_nothing_that_is_wrong() {
    let world = World::full();
    let store = world.open();
    (61..=75).for_each(|n| _ = store.publish("orders", n));
    // Not closed: as after a kill.
    drop(store);
    world.doctor(&[]).ends_with(0).says("95 events").says("healthy");
}

#[test]
fn looking_changes_no_byte_and_no_time() {
    let world = World::rewritten();
    let (name, at, _) = world.spoil("orders", 58);
    assert!(at > 0, "{name}");
    let file = world.named("kept-").remove(0);
    world.remove(&format!("{file}.idx"));
    world.write("stranger", "hello");
    let before = world.files();
    world.doctor(&[]).ends_with(1);
    world.doctor(&["--json"]).ends_with(1);
    world.stat(&[]).ends_with(0);
    assert_eq!(world.files(), before);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_examined() {
    let world = World::full();
    world.remove("lock");
    let before = world.files();
    world.doctor(&[]).ends_with(0).says("healthy");
    world.stat(&[]).ends_with(0);
    assert_eq!(world.files(), before, "not even a lock file");
}

#[test]
fn the_json_of_a_healthy_directory_says_so() {
    let world = World::full();
    let json = world.doctor(&["--json"]).ends_with(0).json();
    assert_eq!(json["healthy"], true);
    assert_eq!(json["directory"], world.text());
    assert_eq!(json["examined"]["events"], 80);
    assert_eq!(json["examined"]["topics"], 2);
    assert_eq!(json["examined"]["groups"], 1);
    assert_eq!(json["examined"]["segments"], world.named("log-").len());
    assert_eq!((&json["findings"], &json["repairs"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert_eq!((&json["lost_events"], &json["more_findings"]), (&0.into(), &0.into()));
}
