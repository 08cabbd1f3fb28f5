//! Whatever is done to the files: the doctor comes to an answer, all repairs together make the directory healthy, and
//! the store then opens, serves what was in files that nobody touched, and gives no seq twice.

use crate::world::World;
use std::collections::BTreeSet;

const SEEDS: u64 = 24;

pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

/// Spoils a file; says what it did.
fn spoil(world: &World, name: &str, rng: &mut Rng) -> String {
    let mut bytes = world.bytes(name);
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(5) {
        0 | 1 => {
            world.flip(name, at as u64);
            format!("{name}: a bit of byte {at} flipped")
        }
        2 => {
            let end = bytes.len().min(at + 1 + rng.below(600) as usize);
            bytes[at..end].fill(rng.below(256) as u8);
            world.write(name, bytes);
            format!("{name}: bytes {at} to {end} overwritten")
        }
        3 => {
            bytes.truncate(at);
            world.write(name, bytes);
            format!("{name}: cut off at {at}")
        }
        _ => {
            world.remove(name);
            format!("{name}: removed")
        }
    }
}

fn try_one(seed: u64) {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let world = if seed.is_multiple_of(2) { World::full() } else { World::rewritten() };
    let store = world.open();
    let live = [store.events("orders"), store.events("alerts")];
    let last = store.counted("orders").1;
    store.close();
    let segments: Vec<String> = world.named("log-").into_iter().chain(world.named("kept-")).collect();
    let mut files: Vec<String> = ["format", "manifest.1", "manifest.2"].map(str::to_string).to_vec();
    files.extend(segments.iter().cloned());
    files.extend(segments.iter().map(|name| format!("{name}.idx")));
    files.retain(|name| world.file(name).exists());
    let place = |topic: &str, seq: u64| (topic.to_string(), seq, world.find(topic, seq).0);
    let places: Vec<(String, u64, String)> = ["orders", "alerts"]
        .iter()
        .zip(&live)
        .flat_map(|(topic, events)| events.iter().map(|(seq, _)| place(topic, *seq)))
        .collect();
    let (mut done, mut touched) = (Vec::new(), BTreeSet::new());
    for _ in 0..=rng.below(4) {
        let name = files[rng.below(files.len() as u64) as usize].clone();
        if world.file(&name).exists() && !world.bytes(&name).is_empty() {
            done.push(spoil(&world, &name, &mut rng));
            touched.insert(name);
        }
    }
    println!("seed {seed}: {done:#?}");
    let found = world.doctor(&[]);
    assert!(found.code < 2, "{}", found.err);
    let all = ["--restore-format", "--rebuild-manifest", "--drop-damaged", "--rebuild-sidecars"];
    let repaired = world.doctor(&all);
    assert_eq!(repaired.code, 0, "{}\n{}", repaired.out, repaired.err);
    let again = world.doctor(&[&all[..], &["--json"]].concat()).ends_with(0).json();
    let repairs = again["repairs"].as_array().unwrap();
    assert!(repairs.iter().all(|repair| repair["changed"] == false), "{again:#}");
    for _ in 0..2 {
        let store = world.open();
        let health = store.health();
        assert_eq!((health.damaged, health.warnings), (0, Vec::<String>::new()), "{}", repaired.out);
        let now = [store.events("orders"), store.events("alerts")];
        for (topic, events) in ["orders", "alerts"].iter().zip(&now) {
            assert!(events.is_sorted(), "{topic}: {events:?}");
            for (seq, mark) in events.iter().filter(|(_, mark)| !mark.ends_with("000")) {
                assert_eq!(*mark, format!("{topic}-{seq}"));
            }
        }
        for (topic, seq, file) in places.iter().filter(|(.., file)| !touched.contains(file)) {
            let events = &now[usize::from(topic == "alerts")];
            assert!(
                events.iter().any(|(there, _)| there == seq),
                "seq {seq} of {topic} in {file}:\n{}",
                repaired.out
            );
        }
        let (seq, _) = store.publish("orders", 1000);
        assert!(seq > last, "seq {seq} is given again:\n{}", repaired.out);
        store.close();
    }
    world.doctor(&[]).ends_with(0);
}

#[test]
fn all_repairs_together_make_any_directory_healthy() {
    for seed in 0..SEEDS {
        try_one(seed);
    }
}
