//! A hub under load is killed, again and again, and loses nothing that it said was safe.
//!
//! The hub is this very program, started anew with one test of it chosen ([`child`]). What it says comes through a
//! pipe, and nothing is believed but what was read from there ([`model`]). It is killed while it publishes, seals,
//! cleans and rewrites, and while it opens what the one before has left.

#[path = "kill/child.rs"]
mod child;
#[path = "kill/model.rs"]
mod model;

use hub_store_embedded::{EmbeddedStore, OpenError};
use model::{Model, Tally};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many times; the first seed.
const ROUNDS: &str = "EVENT_HUB_KILL_ROUNDS";
const SEED: &str = "EVENT_HUB_KILL_SEED";
/// What the child is told: where, and what nobody has answered yet.
const CHILD_DIRECTORY: &str = "EVENT_HUB_KILL_DIRECTORY";
const CHILD_RESEND: &str = "EVENT_HUB_KILL_RESEND";
const CHILD: &str = "kill::a_hub_that_runs_until_it_is_killed";

/// Synced, synced a little later, only the newest of each key, only the newest bytes.
const TOPICS: [&str; 4] = ["durable", "relaxed", "compacted", "bounded"];
/// After so many rounds a new directory is begun.
const ROUNDS_PER_DIRECTORY: u64 = 40;
/// The most that is acknowledged in a round, as a power of two.
const ACKS: u64 = 12;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

#[test]
#[ignore = "killed by the other one"]
fn a_hub_that_runs_until_it_is_killed() {
    if std::env::var_os(CHILD_DIRECTORY).is_some() {
        child::run();
    }
}

#[test]
fn a_hub_that_is_killed_again_and_again_loses_nothing_that_it_acknowledged() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let rounds = number(ROUNDS).unwrap_or(5);
    let first = number(SEED).unwrap_or_else(|| std::process::id().into());
    let mut tally = Tally::default();
    let directories = rounds.div_ceil(ROUNDS_PER_DIRECTORY);
    for at in 0..directories {
        let rounds = ROUNDS_PER_DIRECTORY.min(rounds - at * ROUNDS_PER_DIRECTORY);
        Scene::new(first + at).play(rounds, &mut tally);
    }
    println!("{tally}");
    assert_eq!((tally.lost, tally.doubled), (0, 0));
}

#[test]
fn a_directory_opens_whose_first_hub_was_killed_before_it_had_said_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("format.tmp"), "event-hub emb").unwrap();
    EmbeddedStore::open(directory.path(), child::options()).unwrap();
}

/// A directory and what is known of it.
struct Scene {
    directory: TempDir,
    seed: u64,
    random: Random,
    model: Model,
    /// How long the last hub took to open it.
    opening: Duration,
}

/// When a hub is killed.
enum Moment {
    /// While it opens, after this time.
    Opening(Duration),
    /// When so many publishes were answered.
    Acks(u64),
    /// When a file comes into being whose name begins and ends so.
    Sight(&'static str, &'static str),
}

/// Files that are seen while segments are prepared, sealed and rewritten, and the manifest is written.
const SIGHTS: [(&str, &str); 5] =
    [("log-", ".new"), ("log-", ".idx.tmp"), ("kept-", ".tmp"), ("kept-", ".idx"), ("manifest.", ".tmp")];
/// Who waits for a file waits no longer than for so many answers.
const PATIENCE: u64 = 3000;

impl Scene {
    fn new(seed: u64) -> Self {
        // On a real disk, which the directory for temporary files need not be on.
        let directory =
            tempfile::Builder::new().prefix("killed-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let opening = Duration::from_millis(5);
        Self { directory, seed, random: Random::new(seed), model: Model::default(), opening }
    }

    fn play(mut self, rounds: u64, tally: &mut Tally) {
        for round in 0..rounds {
            self.round(round, tally);
            // A hub that is killed while it opens must be followed by another hub, not always by us.
            if round + 1 == rounds || self.random.below(3) == 0 {
                let last = round + 1 == rounds;
                let store = EmbeddedStore::open(self.directory.path(), child::options()).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(self.model.verify(store, &mut self.random, last, tally));
            }
        }
        tally.segments += self.highest("log-");
        tally.rewritten += self.highest("kept-");
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
    }

    /// The highest number of a kind of segment.
    fn highest(&self, kind: &str) -> u64 {
        self.names().filter_map(|name| name.strip_prefix(kind)?.parse().ok()).max().unwrap_or_default()
    }

    fn moment(&mut self) -> Moment {
        match self.random.below(6) {
            0 => {
                let most = self.opening.as_micros() as u64;
                Moment::Opening(Duration::from_micros(self.random.below(most)))
            }
            1 | 2 => {
                let (begin, end) = SIGHTS[self.random.below(SIGHTS.len() as u64) as usize];
                Moment::Sight(begin, end)
            }
            _ => {
                let most = 1 << self.random.below(ACKS + 1);
                Moment::Acks(1 + self.random.below(most))
            }
        }
    }

    fn round(&mut self, round: u64, tally: &mut Tally) {
        let moment = self.moment();
        let before: HashSet<String> = self.names().collect();
        let mut hub = Hub::start(self.directory.path(), &self.model.unanswered());
        tally.rounds += 1;
        let (started, mut opened, mut answers) = (Instant::now(), false, 0);
        if let Moment::Opening(delay) = moment {
            // No signal says how far it is: any moment is as good as another.
            std::thread::sleep(delay);
        }
        loop {
            let due = match moment {
                Moment::Opening(_) => true,
                Moment::Acks(wanted) => answers >= wanted,
                Moment::Sight(begin, end) => {
                    let is_it = |name: &String| name.starts_with(begin) && name.ends_with(end);
                    let seen = opened && self.names().any(|name| is_it(&name) && !before.contains(&name));
                    seen || answers >= PATIENCE
                }
            };
            if due {
                break;
            }
            let line = hub.line().expect("the hub runs until it is killed");
            if line == "open" {
                (self.opening, opened) = (started.elapsed(), true);
                if round == 0 {
                    let second = EmbeddedStore::open(self.directory.path(), child::options());
                    assert!(matches!(second, Err(OpenError::Locked(_))), "{second:?}");
                }
            } else {
                answers += u64::from(self.model.hear(&line, tally));
            }
        }
        for line in hub.kill() {
            if line == "open" {
                opened = true;
            } else {
                self.model.hear(&line, tally);
            }
        }
        self.model.killed();
        tally.killed_while_opening += u64::from(!opened);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!("seed {}, the directory is {}", self.seed, self.directory.path().display());
        }
    }
}

/// A process.
struct Hub {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Hub {
    fn start(directory: &Path, unanswered: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", CHILD, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(CHILD_DIRECTORY, directory).env(CHILD_RESEND, unanswered);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        let mut hub = Self { process, says };
        // The test harness speaks first.
        while hub.line().expect("the hub opens its store") != "opening" {}
        hub
    }

    /// The next line; `None` at the end. One that was cut off does not count.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Ends it, and answers what it had said before.
    fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let rest = std::iter::from_fn(|| self.line()).collect();
        self.process.wait().unwrap();
        rest
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It was waited for, or the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
