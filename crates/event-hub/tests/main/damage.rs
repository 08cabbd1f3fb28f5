//! Every kind of damage: which file, where, what it means, what can be done, and the exit code.

use crate::world::World;
use hub_store_embedded::sidecar;

/// A sealed segment with an event of the orders in its middle.
fn sealed(world: &World) -> (String, u64, u64, u64) {
    let (name, at, len) = world.find("orders", 20);
    assert!(world.file(&format!("{name}.idx")).exists(), "{name} is sealed");
    (name, at, len, 20)
}

#[test]
fn a_damaged_event_is_named_with_its_place_topic_and_seq() {
    let world = World::full();
    let (name, at, len, n) = sealed(&world);
    world.spoil("orders", n);
    let ran = world.doctor(&[]);
    ran.ends_with(1);
    ran.says(&format!("LOSS: {name} at byte {at}, {len} bytes"));
    ran.says("acknowledged events are lost: orders: seq 20");
    ran.says("put the file back from a copy of the directory; or `--drop-damaged`");
    ran.says("1 finding with loss, 0 other problems; 1 event is known to be lost");
    let json = world.doctor(&["--json"]).ends_with(1).json();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{json:#}");
    assert_eq!((&findings[0]["code"], &findings[0]["severity"]), (&"damage".into(), &"loss".into()));
    assert_eq!((&findings[0]["file"], &findings[0]["offset"]), (&name.into(), &at.into()));
    assert_eq!((&findings[0]["bytes"], &findings[0]["repair"]), (&len.into(), &"--drop-damaged".into()));
    let lost = serde_json::json!([{"topic": "orders", "events": 1, "seqs": [{"first": 20, "last": 20}]}]);
    assert_eq!(findings[0]["lost"], lost);
    assert_eq!((&json["healthy"], &json["lost_events"]), (&false.into(), &1.into()));
    for field in ["what", "means", "remedy"] {
        assert!(findings[0][field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
}

#[test]
fn a_stretch_over_several_events_of_several_topics_names_them_all() {
    let world = World::full();
    let (name, from, _) = world.find("orders", 20);
    let (same, to, len) = world.find("orders", 22);
    assert_eq!(name, same);
    let mut bytes = world.bytes(&name);
    bytes[from as usize..(to + len) as usize].fill(0xee);
    world.write(&name, bytes);
    let expected = "acknowledged events are lost: orders: seqs 20 to 22; alerts: seq 7";
    world.doctor(&[]).ends_with(1).says(expected).says("4 events are known to be lost");
    // Without the sidecar the seqs that are missing around it tell the same.
    world.remove(&format!("{name}.idx"));
    world.doctor(&[]).ends_with(1).says(expected).says("4 events are known to be lost");
}

#[test]
fn damage_in_the_last_segment_may_have_cost_the_newest_events() {
    let world = World::full();
    let name = world.named("log-").pop().unwrap();
    let (found, at, _) = world.find("orders", 59);
    assert_eq!(found, name, "59 is in the last segment");
    world.spoil("orders", 59);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} at byte {at}"));
    ran.says("orders: seq 59; and the newest events of any topic may have been there");
}

#[test]
fn what_was_cleaned_away_before_is_no_loss() {
    let world = World::full();
    let store = world.open();
    let policy = hub_core::store::CleanPolicy { max_bytes: Some(7000), ..Default::default() };
    store.clean("orders", &policy);
    let first = store.events("orders")[0].0;
    store.close();
    // In the segment of the first one that stays are some that went.
    let gone = (1..first).rev().find(|n| {
        world.named("log-").iter().any(|name| {
            let text = String::from_utf8_lossy(&world.bytes(name)).into_owned();
            text.contains(&format!("\"orders-{n}\""))
        })
    });
    let gone = gone.expect("something that is gone is still there");
    let (name, at, _) = world.spoil("orders", gone);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("PROBLEM: {name} at byte {at}"));
    ran.says("no event is lost that was not cleaned away before").says("1 problem, no event is lost");
}

#[test]
fn a_torn_end_is_normal() {
    let world = World::full();
    let store = world.open();
    store.publish("orders", 61);
    drop(store);
    let (name, at, len) = world.find("orders", 61);
    let mut bytes = world.bytes(&name);
    bytes[(at + len / 2) as usize..].fill(0);
    world.write(&name, bytes);
    let ran = world.doctor(&[]);
    ran.ends_with(0).says(&format!("note: {name} at byte {at},")).says("healthy");
    ran.says("nobody was told that it is safe").says("it will be cut when the hub starts");
    // And so it is.
    assert_eq!(world.open().events("orders").last().unwrap().0, 60);
    world.doctor(&[]).ends_with(0).says("quarantine what: 1 file, ").says(&format!("{name}.torn-{at}"));
}

#[test]
fn a_damaged_header_of_a_segment_that_the_manifest_knows_costs_nothing() {
    let world = World::full();
    world.flip("log-00000001", 5);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says("PROBLEM: log-00000001 at byte 0, 64 bytes").says("bit 5 of byte 5");
    ran.says("the hub knows what the header said").says("1 problem, no event is lost");
}

#[test]
fn a_damaged_header_of_the_last_segment_is_told_before_the_hub_puts_it_away() {
    let world = World::full();
    let name = world.named("log-").pop().unwrap();
    world.flip(&name, 33);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("PROBLEM: {name} at byte 0, 64 bytes"));
    ran.says("the hub knows what the header said");
    // Two bits are more than the hub sees through.
    world.flip(&name, 41);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} at byte 0, 64 bytes"));
    ran.says("the hub would move the whole segment to quarantine").says("80 events");
    // Without its nonce nothing in it can be read.
    world.flip(&name, 24);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} at byte 0, "));
    ran.says("what was there is not known: the newest events of any topic may have been there");
}

#[test]
fn a_segment_that_is_missing_is_named_with_what_was_in_it() {
    let world = World::full();
    let (name, _, _, _) = sealed(&world);
    let there = |n: &u64| world.find("orders", *n).0 == name;
    let lost: Vec<u64> = (1..=60).filter(there).collect();
    world.remove(&name);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} what: it is missing; the manifest lists it"));
    let expected = format!("orders: seqs {} to {}", lost[0], lost[lost.len() - 1]);
    ran.says(&expected).says("alerts: seqs").says("21 events are known to be lost");
    // Without the sidecar the seqs that are missing around it tell the same.
    world.remove(&format!("{name}.idx"));
    world.doctor(&[]).ends_with(1).says(&expected).says("21 events are known to be lost");
}

#[test]
fn a_segment_that_was_cut_short_is_damaged_at_its_end() {
    let world = World::full();
    let (name, at, len) = world.find("orders", 1);
    let bytes = world.bytes(&name);
    world.write(&name, &bytes[..(at + len - 1) as usize]);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} at byte {at}")).says("orders: seq 1");
    ran.says(&format!("the file ends at byte {}", at + len - 1)).says("orders: seqs 2 to");
}

#[test]
fn a_sidecar_that_is_missing_bad_or_another_one_is_told_apart() {
    let world = World::full();
    let (name, ..) = sealed(&world);
    let file = format!("{name}.idx");
    let good = world.bytes(&file);
    world.remove(&file);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("PROBLEM: {file} what: it is missing")).says("--rebuild-sidecars");
    ran.says("no event is lost: it is an index of the segment");

    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    world.write(&file, &bad);
    world.doctor(&[]).ends_with(1).says(&format!("PROBLEM: {file}")).says("the checksum of section");

    // As it was written, and not what the segment says: an entry, a key, an id.
    for (section, expected) in
        [(1, "is at byte"), (2, "the newest records of the keys"), (4, "it does not find the id")]
    {
        let mut other = good.clone();
        let number = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap()) as usize;
        let start = 148 + (0..section).map(|section| number(72 + 12 * section)).sum::<usize>();
        // The offset of an entry; which entry a key's newest is; the hash of an id.
        let within = match section {
            1 => 4,
            2 => 4,
            _ => 0,
        };
        other[start + within] ^= 1;
        sidecar::reseal(&mut other);
        world.write(&file, &other);
        let ran = world.doctor(&[]);
        ran.ends_with(1).says(&format!("PROBLEM: {file} what: it is not what {name} says")).says(expected);
        ran.says("the hub would answer wrongly from it");
    }
    world.write(&file, &good);
    world.doctor(&[]).ends_with(0);
}

#[test]
fn one_bad_copy_of_the_manifest_is_a_problem_and_two_are_worse() {
    let world = World::full();
    world.flip("manifest.2", 100);
    let ran = world.doctor(&[]);
    ran.ends_with(1)
        .says("PROBLEM: manifest.2 what: its checksum is wrong")
        .says("the other copy is good and is used");
    world.remove("manifest.1");
    let ran = world.doctor(&[]);
    ran.ends_with(1).says("PROBLEM: manifest.1 what: it is missing").says("PROBLEM: manifest.2");
    ran.says("everything can be read out of it again").says("80 events in 2 topics, 1 group");
    let rewritten = World::rewritten();
    rewritten.flip("manifest.1", 100);
    rewritten.flip("manifest.2", 100);
    let ran = rewritten.doctor(&[]);
    ran.ends_with(1).says("LOSS: manifest.1").says("the positions of groups and what was cleaned away");
}

#[test]
fn a_format_file_that_is_missing_wrong_or_of_another_store_is_told() {
    let world = World::full();
    let good = world.bytes("format");
    world.remove("format");
    world.doctor(&[]).ends_with(1).says("PROBLEM: format what: it is missing").says("--restore-format");
    world.write("format", "hello\n");
    world.doctor(&[]).ends_with(1).says("PROBLEM: format what: it is not what an event-hub store writes");
    let mut other = good;
    let last = other.len() - 2;
    other[last] = if other[last] == b'0' { b'1' } else { b'0' };
    world.write("format", other);
    world.doctor(&[]).ends_with(1).says("its seed is not the one that the manifest has");
}

#[test]
fn a_segment_that_the_hub_has_moved_to_quarantine_is_not_forgotten() {
    let world = World::full();
    let name = world.named("log-").pop().unwrap();
    world.flip(&name, 33);
    world.flip(&name, 41);
    let store = world.open();
    assert!(store.health().damaged > 0);
    store.close();
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: quarantine/{name} what: a segment without a header"));
    ran.says("put the segment back from a copy of the directory");
}

#[test]
fn a_log_that_goes_on_nowhere_has_lost_its_last_segment() {
    let world = World::full();
    let name = world.named("log-").pop().unwrap();
    world.remove(&name);
    let ran = world.doctor(&[]);
    ran.ends_with(1).says(&format!("LOSS: {name} what: it is missing"));
    ran.says("what was there is not known: the newest events of any topic may have been there");
}

#[test]
fn files_that_nobody_needs_are_notes() {
    let world = World::full();
    world.write("notes.txt", "mine");
    world.write("log-00000099.idx", "what is left");
    world.write("kept-00000007.tmp", "half");
    world.write("kept-00000007", "what a rewrite left");
    std::fs::create_dir_all(world.file("quarantine")).unwrap();
    world.write("quarantine/log-00000001.torn-99", "torn");
    let ran = world.doctor(&[]);
    ran.ends_with(0).says("healthy");
    for expected in [
        "note: notes.txt what: it is no file of the store",
        "note: log-00000099.idx what: its segment is not there",
        "note: kept-00000007.tmp what: a file that was being written",
        "note: kept-00000007 what: what counts of it is in a segment",
        "note: quarantine what: 1 file, 4 bytes: log-00000001.torn-99",
    ] {
        ran.says(expected);
    }
}
