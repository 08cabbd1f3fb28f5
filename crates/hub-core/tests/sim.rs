//! The simulator over the memory store. `cargo xtask sim` runs more of it.

use hub_core::MemoryStore;
use hub_core::testkit::sim;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}; it must be a number"))
    })
}

/// EVENT_HUB_SIM_SEEDS, EVENT_HUB_SIM_FROM and EVENT_HUB_SIM_STEPS choose what is run.
#[test]
fn the_engine_keeps_every_promise_whatever_happens() {
    let (seeds, from) = (setting("EVENT_HUB_SIM_SEEDS", 200), setting("EVENT_HUB_SIM_FROM", 0));
    let steps = setting("EVENT_HUB_SIM_STEPS", 500) as usize;
    let started = std::time::Instant::now();
    let total = sim::run_seeds(from..from + seeds, steps, |_| MemoryStore::new());
    let total = total.unwrap_or_else(|failure| {
        panic!("{failure}\nrun it alone with EVENT_HUB_SIM_FROM={} and EVENT_HUB_SIM_SEEDS=1", failure.seed)
    });
    println!("{seeds} seeds of {steps} steps in {:.1?}: {total:?}", started.elapsed());
    // A simulator that does nothing finds nothing.
    if steps >= 500 && seeds >= 50 {
        let per_seed = |count: u64| count / seeds;
        assert!(
            per_seed(total.deliveries) > 50 && per_seed(total.redeliveries) > 10 && per_seed(total.acks) > 20,
            "{total:?}"
        );
        assert!(
            total.dead_letters > seeds
                && total.restarts > seeds
                && total.faults > seeds
                && total.refused > seeds,
            "{total:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        let (first, second) = (sim::run(seed, 300), sim::run(seed, 300));
        assert_eq!(first.map_err(|failure| failure.what), second.map_err(|failure| failure.what));
    }
}
