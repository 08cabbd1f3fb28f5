//! The simulator over the embedded store, on a disk whose power fails. `cargo xtask sim` runs more of it.

use hub_core::store::EventStore;
use hub_core::testkit::sim::{self, SimStore};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use std::sync::Arc;

/// A crash is a killed process or a power loss, perhaps again while the store recovers.
struct Crashing {
    disk: SimDisk,
    options: Options,
}

impl Crashing {
    /// Segments of 2 to 8 KiB, as the seed has it: everything is sealed, rewritten and recovered many times.
    fn new(seed: u64) -> Self {
        let segment_bytes = 2048 << (seed % 3);
        let options = Options {
            segment_bytes,
            threads: Threads::None,
            disk_reserve: segment_bytes,
            ..Options::default()
        };
        Self { disk: SimDisk::new(seed), options }
    }

    fn try_open(&self) -> Result<EmbeddedStore, hub_store_embedded::OpenError> {
        EmbeddedStore::open_on(Arc::new(self.disk.for_this_life()), self.options.clone())
    }
}

impl SimStore for Crashing {
    fn open(&mut self) -> Arc<dyn EventStore> {
        let store = self.try_open().unwrap_or_else(|error| panic!("it does not open: {error}"));
        let health = store.health();
        assert_eq!(health, Default::default(), "a crash is no damage");
        Arc::new(store)
    }

    fn crash(&mut self, luck: u64) {
        if luck.is_multiple_of(3) {
            return self.disk.process_death();
        }
        self.disk.power_loss(luck >> 8);
        let mut more = luck >> 16;
        while !more.is_multiple_of(3) {
            self.disk.cut_at(self.disk.ops() + (more >> 4) % 32);
            let opened = self.try_open();
            assert!(self.disk.is_out() || opened.is_ok(), "it does not open: {:?}", opened.err());
            self.disk.power_loss(more >> 8);
            more /= 3;
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}; it must be a number"))
    })
}

/// EVENT_HUB_SIM_SEEDS, EVENT_HUB_SIM_FROM and EVENT_HUB_SIM_STEPS choose what is run.
#[test]
fn the_engine_keeps_every_promise_over_a_disk_that_loses_power() {
    let (seeds, from) = (setting("EVENT_HUB_SIM_SEEDS", 100), setting("EVENT_HUB_SIM_FROM", 0));
    let steps = setting("EVENT_HUB_SIM_STEPS", 500) as usize;
    let started = std::time::Instant::now();
    let total = sim::run_seeds(from..from + seeds, steps, Crashing::new);
    let total = total.unwrap_or_else(|failure| {
        panic!("{failure}\nrun it alone with EVENT_HUB_SIM_FROM={} and EVENT_HUB_SIM_SEEDS=1", failure.seed)
    });
    println!("{seeds} seeds of {steps} steps in {:.1?}: {total:?}", started.elapsed());
    // A simulator that does nothing finds nothing.
    if steps >= 500 && seeds >= 50 {
        assert!(total.events > 50 * seeds && total.acks > 20 * seeds && total.restarts > seeds, "{total:?}");
    }
}

#[test]
fn a_store_in_memory_and_one_on_disk_give_the_same_run() {
    // With odd seeds the store in memory commits topics independently of each other, which this one does not.
    for seed in (0..10).step_by(2) {
        let (memory, disk) = (sim::run(seed, 300), sim::run_over(seed, 300, Crashing::new(seed)));
        assert_eq!(memory.map_err(|failure| failure.what), disk.map_err(|failure| failure.what));
    }
}
