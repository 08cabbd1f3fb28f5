//! A data directory with something in it, and the program to look at it.

use hub_core::store::{
    Appended, CleanPolicy, Commit, EventStore, GroupRecord, GroupState, Progress, ReadLimit, Record,
};
use hub_core::{GroupOptions, Health};
use hub_proto::{Draft, EventId, GroupName, NewEvent, Payload, TopicName};
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use tempfile::TempDir;

/// Bytes of a frame before its JSON.
const BEFORE_JSON: u64 = 21;

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// What the program answered.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        // Lines are broken for people.
        let flat = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{words:?} is not in:\n{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Runs the program.
pub fn run(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_event-hub")).args(args).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Name, bytes and time of every file.
pub type Files = BTreeMap<PathBuf, (Vec<u8>, SystemTime)>;

pub struct World {
    directory: TempDir,
    pub segment_bytes: u64,
}

pub struct Store(pub EmbeddedStore);

impl World {
    /// An empty directory.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), segment_bytes: 4096 }
    }

    /// Several segments of two topics and a group, closed.
    pub fn full() -> Self {
        let world = Self::new();
        let store = world.open();
        store.group("orders", "billing");
        for n in 1..=60 {
            store.publish("orders", n);
            if n % 3 == 0 {
                store.publish("alerts", n / 3);
            }
        }
        store.progress("orders", "billing", 40);
        store.close();
        world
    }

    /// As [`World::full`], and a part of it was cleaned away and rewritten.
    pub fn rewritten() -> Self {
        let world = Self::full();
        let store = world.open();
        store.clean("orders", &CleanPolicy { compact: true, ..CleanPolicy::default() });
        store.clean("alerts", &CleanPolicy { max_bytes: Some(1500), ..CleanPolicy::default() });
        store.close();
        assert!(!world.named("kept-").is_empty(), "{:?}", world.named(""));
        world
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn options(&self) -> Options {
        Options { segment_bytes: self.segment_bytes, threads: Threads::None, ..Options::default() }
    }

    #[track_caller]
    pub fn open(&self) -> Store {
        Store(EmbeddedStore::open(self.path(), self.options()).unwrap())
    }

    pub fn doctor(&self, flags: &[&str]) -> Ran {
        run(&[&["doctor", self.text()], flags].concat())
    }

    pub fn stat(&self, flags: &[&str]) -> Ran {
        run(&[&["store", "stat", self.text()], flags].concat())
    }

    /// Names that begin so, sorted; sidecars and prepared files left out.
    pub fn named(&self, prefix: &str) -> Vec<String> {
        let names = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.starts_with(prefix) && !name.contains('.') || name == prefix);
        names.sort();
        names
    }

    pub fn files(&self) -> Files {
        let mut files = Files::new();
        let mut directories = vec![self.path().to_path_buf()];
        while let Some(directory) = directories.pop() {
            files.insert(
                directory.clone(),
                (Vec::new(), std::fs::metadata(&directory).unwrap().modified().unwrap()),
            );
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    let changed = entry.metadata().unwrap().modified().unwrap();
                    files.insert(entry.path(), (std::fs::read(entry.path()).unwrap(), changed));
                }
            }
        }
        files
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), bytes).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).unwrap();
    }

    pub fn flip(&self, name: &str, at: u64) {
        let mut bytes = self.bytes(name);
        bytes[at as usize] ^= 0x20;
        self.write(name, bytes);
    }

    /// The file that an event is in, where its frame begins, and how long that is.
    #[track_caller]
    pub fn find(&self, topic: &str, n: u64) -> (String, u64, u64) {
        let mark = format!("\"payload\":{{\"mark\":\"{topic}-{n}\"}}");
        for name in self.named("kept-").into_iter().chain(self.named("log-")) {
            let bytes = self.bytes(&name);
            let Some(at) = position(&bytes, mark.as_bytes()) else { continue };
            let json = (0..at).rev().find(|&at| bytes[at..].starts_with(b"{\"id\":\"")).unwrap() as u64;
            let start = json - BEFORE_JSON;
            let len = u32::from_le_bytes(bytes[start as usize + 4..][..4].try_into().unwrap());
            return (name, start, u64::from(len) + 8);
        }
        panic!("{topic}-{n} is nowhere");
    }

    /// Makes an event unreadable: where its frame is.
    pub fn spoil(&self, topic: &str, n: u64) -> (String, u64, u64) {
        let (name, at, len) = self.find(topic, n);
        self.flip(&name, at + len / 2);
        (name, at, len)
    }

    /// The copies that were put aside, by name.
    pub fn quarantine(&self) -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(self.file("quarantine")) else { return BTreeMap::new() };
        let entry = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        };
        entries.map(|each| entry(each.unwrap())).collect()
    }

    /// Whether these bytes of this file were put aside.
    #[track_caller]
    pub fn kept_aside(&self, name: &str, bytes: &[u8], repair: &str) {
        let copies = self.quarantine();
        let copy = copies.iter().find(|(copy, _)| {
            copy.starts_with(&format!("{name}.2")) && copy.ends_with(&format!("Z.{repair}"))
        });
        let (copy, found) = copy.unwrap_or_else(|| panic!("no copy of {name} in {:?}", copies.keys()));
        assert!(found == bytes, "{copy} is not what {name} was");
    }
}

fn position(bytes: &[u8], of: &[u8]) -> Option<usize> {
    bytes.windows(of.len()).position(|window| window == of)
}

fn name(topic: &str) -> TopicName {
    TopicName::parse(topic).unwrap()
}

fn id(topic: &str, n: u64) -> EventId {
    EventId::derived(&[topic.as_bytes(), &n.to_le_bytes()])
}

/// The time of an event.
pub fn time(n: u64) -> u64 {
    1_700_000_000_000 + n * 1000
}

impl Store {
    /// Publishes `{"mark":"TOPIC-N"}` with one of ten keys, or with its own; answers its seq, and whether it is new.
    pub fn publish(&self, topic: &str, n: u64) -> (u64, bool) {
        self.publish_as(topic, n, false)
    }

    pub fn publish_as(&self, topic: &str, n: u64, relaxed: bool) -> (u64, bool) {
        let payload = Payload::from_json(format!("{{\"mark\":\"{topic}-{n}\"}}")).unwrap();
        let key = if n.is_multiple_of(4) { n + 10 } else { n % 10 };
        let event = NewEvent::new(name(topic), payload).with_key(format!("k{key}"));
        let mut draft = Draft::encode(event, id(topic, n), time(n));
        draft.set_relaxed(relaxed);
        let commit = Commit { now: time(n), events: vec![draft], ..Commit::default() };
        match block_on(self.0.commit(commit)).events.remove(0).unwrap() {
            Appended::New { event, .. } => (event.seq(), true),
            Appended::Known { seq, .. } => (seq, false),
            twin @ Appended::Twin { .. } => panic!("it is small: {twin:?}"),
        }
    }

    fn records(&self, records: Vec<Record>) {
        let commit = Commit { now: time(0), records, ..Commit::default() };
        block_on(self.0.commit(commit)).records.into_iter().for_each(|result| result.unwrap());
    }

    pub fn group(&self, topic: &str, group: &str) {
        self.records(vec![Record::Group(GroupRecord {
            topic: name(topic),
            name: GroupName::parse(group).unwrap(),
            options: GroupOptions::default(),
            created: time(0),
            idle_since: None,
            driven: false,
            born: 0,
        })]);
    }

    pub fn progress(&self, topic: &str, group: &str, floor: u64) {
        let progress: Progress = GroupState::at(floor).since(&GroupState::default()).unwrap();
        self.records(vec![Record::Progress(name(topic), GroupName::parse(group).unwrap(), progress)]);
    }

    /// How far groups are.
    pub fn groups(&self) -> Vec<(String, u64)> {
        let groups = block_on(self.0.load()).unwrap().groups.into_iter();
        groups.map(|group| (group.record.name.to_string(), group.state.floor)).collect()
    }

    pub fn clean(&self, topic: &str, policy: &CleanPolicy) {
        block_on(self.0.clean(&name(topic), *policy)).unwrap();
    }

    /// Everything that can be read: seq and mark.
    pub fn events(&self, topic: &str) -> Vec<(u64, String)> {
        let limit = ReadLimit { events: usize::MAX, bytes: usize::MAX };
        let events = block_on(self.0.read(&name(topic), 0, limit)).unwrap();
        let mark = |event: &hub_proto::Event| {
            let payload: serde_json::Value = event.decode().unwrap();
            payload["mark"].as_str().unwrap().to_string()
        };
        events.iter().map(|event| (event.seq(), mark(event))).collect()
    }

    pub fn counted(&self, topic: &str) -> (u64, u64) {
        let bounds = block_on(self.0.bounds(&name(topic))).unwrap();
        (bounds.events, bounds.last)
    }

    pub fn seq_of(&self, topic: &str, n: u64) -> Option<u64> {
        block_on(self.0.seq_of(&name(topic), id(topic, n))).unwrap()
    }

    pub fn health(&self) -> Health {
        self.0.health()
    }

    pub fn close(self) {
        block_on(self.0.close()).unwrap();
    }
}
