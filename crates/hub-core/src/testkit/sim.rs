//! The simulator: the real engine on a manual clock and a failing store, against a model, step by step.
//!
//! A run is a list of [`Op`]s made from a seed. Each is carried out, the engine comes to rest, and the model is asked
//! whether what happened was allowed: order, no gap, the floor, one holder per lease, key order, attempts, failures,
//! dead letters, nothing lost, nothing stuck. At the end every group is drained and everything must be accounted for. A
//! crash drops the runtime with everything in it, whatever it was at; the store stays.
//!
//! The same seed gives the same run. A failing one is shrunk to the few steps that matter.

mod checks;
mod member;
mod model;
mod op;
mod resuming;
mod rng;
mod steps;
mod target;
mod watching;
mod world;

pub use op::Op;

use crate::store::EventStore;
use crate::store::memory::MemoryStore;
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the simulated hub stores its data in, and what a crash does to it.
pub trait SimStore {
    /// Opens the store; the one opened before was closed, or crashed.
    fn open(&mut self) -> Arc<dyn EventStore>;

    /// The process dies. Nothing more is written by it; `luck` decides what of the unfinished survives.
    fn crash(&mut self, luck: u64);
}

/// Memory survives crashes of the engine: a commit is done, or not.
impl SimStore for MemoryStore {
    fn open(&mut self) -> Arc<dyn EventStore> {
        Arc::new(self.clone())
    }

    fn crash(&mut self, _luck: u64) {}
}

/// A step that was not allowed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Which of the steps it was.
    pub step: usize,
    /// What was wrong.
    pub what: String,
    /// The steps, shrunk if [`shrink`] was at work.
    pub ops: Vec<Op>,
    /// What happened at each step, if [`shrink`] was at work.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} failed at step {} of {}: {}", self.seed, self.step, self.ops.len(), self.what)?;
        for (step, op) in self.ops.iter().enumerate() {
            writeln!(f, "  {step:>4}  {op:?}")?;
        }
        self.story.iter().try_for_each(|line| writeln!(f, "        {line}"))
    }
}

/// What a run did, for a look at whether it did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Steps carried out.
    pub steps: u64,
    /// Events committed.
    pub events: u64,
    /// Events handed to a consumer.
    pub deliveries: u64,
    /// Of those, not for the first time.
    pub redeliveries: u64,
    /// Events settled by an ack.
    pub acks: u64,
    /// Acks that had to be refused, and were.
    pub refused: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Crashes and restarts.
    pub restarts: u64,
    /// Calls to the store that failed.
    pub faults: u64,
    /// A digest of everything that happened, in order.
    pub digest: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.events += other.events;
        self.deliveries += other.deliveries;
        self.redeliveries += other.redeliveries;
        self.acks += other.acks;
        self.refused += other.refused;
        self.dead_letters += other.dead_letters;
        self.restarts += other.restarts;
        self.faults += other.faults;
        self.digest = self.digest.rotate_left(7) ^ other.digest;
    }
}

/// Runs one seed over the memory store.
pub fn run(seed: u64, steps: usize) -> Result<Stats, Box<Failure>> {
    run_over(seed, steps, MemoryStore::new())
}

/// Runs one seed over a given store.
pub fn run_over(seed: u64, steps: usize, store: impl SimStore) -> Result<Stats, Box<Failure>> {
    run_ops(seed, &op::generate(seed, steps), store)
}

/// Runs many seeds on all cores, each over a store of its own, which may depend on the seed. The first that fails comes
/// back shrunk.
pub fn run_seeds<S: SimStore>(
    seeds: Range<u64>,
    steps: usize,
    store: impl Fn(u64) -> S + Sync,
) -> Result<Stats, Box<Failure>> {
    let next = AtomicU64::new(seeds.start);
    let outcome = Mutex::new((Stats::default(), None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            match run_over(seed, steps, store(seed)) {
                Ok(stats) => outcome.lock().0 += stats,
                Err(failure) => {
                    next.store(seeds.end, Relaxed);
                    outcome.lock().1.get_or_insert(failure);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    match outcome.into_inner() {
        (stats, None) => Ok(stats),
        (_, Some(failure)) => {
            let seed = failure.seed;
            Err(Box::new(shrink(*failure, || store(seed))))
        }
    }
}

/// Runs given steps over a given store.
pub fn run_ops(seed: u64, ops: &[Op], store: impl SimStore) -> Result<Stats, Box<Failure>> {
    run_telling(seed, ops, store, &mut None)
}

fn run_telling(
    seed: u64,
    ops: &[Op],
    store: impl SimStore,
    story: &mut Option<Vec<String>>,
) -> Result<Stats, Box<Failure>> {
    world::run(seed, ops, store, story)
        .map_err(|(step, what)| Box::new(Failure { seed, step, what, ops: ops.to_vec(), story: Vec::new() }))
}

/// The same failure with as few steps as can be found: chunks are left out for as long as it still fails.
pub fn shrink<S: SimStore>(failure: Failure, mut store: impl FnMut() -> S) -> Failure {
    let mut best = failure;
    best.ops.truncate(best.step + 1);
    let mut chunk = best.ops.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < best.ops.len() {
            let mut fewer = best.ops.clone();
            fewer.drain(at..(at + chunk).min(fewer.len()));
            match run_ops(best.seed, &fewer, store()) {
                Err(smaller) => {
                    best = *smaller;
                    best.ops.truncate(best.step + 1);
                }
                Ok(_) => at += chunk,
            }
        }
        chunk /= 2;
    }
    let mut story = Some(Vec::new());
    let _ = run_telling(best.seed, &best.ops, store(), &mut story);
    best.story = story.unwrap_or_default();
    best
}
