//! Figures, of a directory that is closed, in use, or not whole.

use crate::world::{World, time};

#[test]
fn topics_segments_and_totals_are_shown() {
    let world = World::full();
    let ran = world.stat(&[]);
    ran.ends_with(0).says("topic events bytes first last floor oldest newest");
    ran.says("80 events").says("1 group").says("100.0 % live");
    let json = world.stat(&["--json"]).ends_with(0).json();
    assert_eq!(json["directory"], world.text());
    assert_eq!((&json["in_use"], &json["groups"]), (&false.into(), &1.into()));
    let topics = json["topics"].as_array().unwrap();
    let names: Vec<&str> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["alerts", "orders"]);
    let orders = &topics[1];
    assert_eq!(
        (&orders["events"], &orders["first_seq"], &orders["last_seq"]),
        (&60.into(), &1.into(), &60.into())
    );
    assert_eq!((&orders["oldest"], &orders["newest"]), (&time(1).into(), &time(60).into()));
    let segments = json["segments"].as_array().unwrap();
    let names: Vec<&str> = segments.iter().map(|segment| segment["name"].as_str().unwrap()).collect();
    assert_eq!(names, world.named("log-"));
    let records: u64 = segments.iter().map(|segment| segment["records"].as_u64().unwrap()).sum();
    assert_eq!(records, 80);
    for segment in segments {
        let size = std::fs::metadata(world.file(segment["name"].as_str().unwrap())).unwrap().len();
        assert_eq!((&segment["size"], &segment["live_share"]), (&size.into(), &1.0.into()));
    }
    let on_disk: usize =
        world.files().iter().filter(|(path, _)| !path.ends_with("lock")).map(|(_, file)| file.0.len()).sum();
    assert_eq!(json["totals"]["on_disk"], on_disk);
    assert_eq!((&json["totals"]["events"], &json["totals"]["quarantine_files"]), (&80.into(), &0.into()));
}

#[test]
fn what_is_cleaned_away_counts_as_not_live() {
    let world = World::full();
    let store = world.open();
    let policy = hub_core::store::CleanPolicy { max_bytes: Some(7000), ..Default::default() };
    store.clean("orders", &policy);
    let (first, count) = (store.events("orders")[0].0, store.events("orders").len());
    store.close();
    let json = world.stat(&["--json"]).ends_with(0).json();
    let orders = &json["topics"][1];
    assert_eq!((&orders["events"], &orders["first_seq"]), (&count.into(), &first.into()));
    assert_eq!((&orders["floor"], &orders["oldest"]), (&(first - 1).into(), &time(first).into()));
    let live: u64 =
        json["segments"].as_array().unwrap().iter().map(|one| one["live"].as_u64().unwrap()).sum();
    assert_eq!((live, &json["totals"]["live"]), (count as u64 + 20, &(count + 20).into()));
    assert!(json["totals"]["live_share"].as_f64().unwrap() < 1.0, "{json:#}");
}

#[test]
fn a_directory_in_use_is_shown_with_what_was_published_last() {
    let world = World::full();
    let store = world.open();
    store.publish("orders", 61);
    let ran = world.stat(&[]);
    ran.ends_with(0).says("a hub is using it: as of the last manifest and the log as it was found");
    let json = world.stat(&["--json"]).ends_with(0).json();
    assert_eq!((&json["in_use"], &json["topics"][1]["last_seq"]), (&true.into(), &61.into()));
    assert_eq!(json["topics"][1]["newest"], time(61));
    store.close();
}

#[test]
fn a_missing_sidecar_costs_time_and_nothing_else() {
    let world = World::full();
    let with = world.stat(&["--json"]).json();
    let name = world.named("log-").remove(0);
    world.remove(&format!("{name}.idx"));
    let without = world.stat(&["--json"]).ends_with(0).json();
    assert_eq!(without["topics"], with["topics"]);
    assert_eq!(
        (&with["segments"][0]["sidecar"], &without["segments"][0]["sidecar"]),
        (&true.into(), &false.into())
    );
    assert_eq!(with["segments"][0]["records"], without["segments"][0]["records"]);
}

#[test]
fn without_a_manifest_that_can_be_read_nothing_is_claimed() {
    let world = World::full();
    world.flip("manifest.1", 90);
    world.flip("manifest.2", 90);
    let ran = world.stat(&[]);
    ran.ends_with(2);
    assert!(
        ran.err.contains("no copy of the manifest") && ran.err.contains("event-hub doctor"),
        "{}",
        ran.err
    );
}
