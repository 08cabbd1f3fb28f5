//! The command line.

use crate::{bus, http, mongo, outbox, push, store, tenants, wire};
use std::path::PathBuf;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask bench bus   [--json] [--quick] [PART...]
       cargo xtask bench store [--json] [--quick] [--full] [--dir DIR] [PART...]
       cargo xtask bench wire  [--json] [--quick] [--dir DIR] [PART...]
       cargo xtask bench mongo [--json] [--quick] [PART...]
       cargo xtask bench outbox [--json] [--quick] [--dir DIR] [PART...]
       cargo xtask bench tenants [--json] [--quick] [--dir DIR] [PART...]
       cargo xtask bench http  [--json] [--quick] [--dir DIR] [PART...]
       cargo xtask bench push [--json] [--quick]

Without a PART, all of them.

bus: the bus in one process, on the memory store.

  publish    publishers that wait for their answer, and batches
  tail       delivery with an ack per event, out of memory: one group, 100 groups, key order, 4 members
  live       publishing and delivering at the same time
  catch-up   delivery with an ack per event, out of the store
  idle       what 10,000 topics and 1,000 idle groups cost
  handle     publishing and a group through the trait that the bus shares with clients, beside the bus itself

store: the bus on the embedded store, on a disk, beside what that disk can do.

  publish    publishers that wait for their answer, beside a bare loop that writes and syncs the same commits; relaxed too
  mixed      how long a durable publish takes while a relaxed topic is under full load
  scan       reading a topic from its beginning
  tail       delivery with an ack per event: out of memory, and out of the store
  lookup     by id, by key, and publishing what is there already
  cursors    saving what groups have done
  reopen     after a kill with a million events: time, memory, disk

wire: the hub in a process of its own, on the embedded store; its clients in another, on loopback, read every frame they get.

  publish    events in flight over sockets, one by one and in batches, beside publishers in the hub's own process
  consume    a backlog, with an ack per event and with an ack per read
  latency    from PUBLISH to EVENT at 2,000/s, beside a sync of the disk and an echo of bare axum
  fan-out    one publisher to many connections, beside bare axum that flushes once per drained queue
  memory     10,000 idle connections; 20 that never read
  schemas    64 events in flight to a topic with a JSON Schema of 20 properties, and to one without
  sdk        the Rust client, beside a client that only writes and reads the same frames

mongo: hubs on MongoDB, a replica set of one node that is started for it, beside its driver alone.

  publish    publishers that wait for their answer, beside a bare insertMany of the same documents in the same batches;
             over sockets; two hubs on one topic
  news       from one hub's answer to a delivery by another, at 500/s
  catch-up   a group that lags, with an ack per event, beside a bare find

outbox: outboxes, each drained into a hub on the embedded store, beside claiming and marking rows without publishing them, and
beside claiming, publishing and marking one row at a time; how soon a row is published when nothing else happens.

  mongo      on MongoDB
  postgres   on PostgreSQL
  sqlite     on SQLite

tenants: a hub with 50,000 topics and the limits and quotas of one beyond loopback; what one subject's durable publishes notice
while another subject attacks, in turns with peace, and what the hub's memory grows by.

  junk-topics      a new topic with every event
  junk-groups      a new group over thousands of topics with every SUBSCRIBE
  pauses           PAUSE and RESUME of a pattern over thousands of topics
  lists            lists of all topics and groups, with all rights and with none
  twins            1 MiB under a known id, written in another way each time
  watches          subscriptions without a group to lists of a thousand topics
  unauthenticated  a thousand sockets without AUTH, each with as much as it may send

http: the HTTP side of a hub in a process of its own, on the embedded store.

  export     a million events by /export, beside the store's own scan; memory
  events     one publisher to 100 readers of /events, beside as many WebSockets
  viewers    what a scrape every 5 s and 100 readers of /events add at 2,000 events/s

push: a push subscription with 64 requests under way, beside a bare HTTP client that sends as many to the same endpoint.

  --json     one line of JSON per figure
  --quick    a tenth of the events: does it run, and roughly how fast
  --full     reopen with ten million events too
  --dir DIR  where to put the store: on a disk, not in memory; the system's directory for temporary files unless set";

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// The help text.
    Help,
    /// The benchmark of the bus.
    Bus(Options<bus::Part>),
    /// The benchmark of the embedded store.
    Store(Options<store::Part>),
    /// The benchmark of the gateway.
    Wire(Options<wire::Part>),
    /// The benchmark of hubs on MongoDB.
    Mongo(Options<mongo::Part>),
    /// The benchmark of outboxes.
    Outbox(Options<outbox::Part>),
    /// The benchmark of a hub that subjects share.
    Tenants(Options<tenants::Attack>),
    /// The hub of that, on a directory, with so many topics.
    TenantsServer(String, usize),
    /// The benchmark of HTTP.
    Http(Options<http::Part>),
    /// The benchmark of push subscriptions.
    Push(Options<push::Part>),
    /// The hub that clients connect to: on a directory, or on a MongoDB.
    Server(String),
    /// A process that the benchmark of the store starts, to kill it.
    Victim(store::Victim),
}

/// How to run a benchmark with the parts `P`.
#[derive(Debug)]
pub struct Options<P> {
    /// Print JSON.
    pub json: bool,
    /// Use fewer events.
    pub quick: bool,
    /// Take the time for the largest ones.
    pub full: bool,
    /// Where files go.
    pub dir: Option<PathBuf>,
    /// What to measure; empty: everything.
    pub parts: Vec<P>,
}

impl<P: PartialEq + Copy> Options<P> {
    /// Whether `part` is to be measured.
    pub fn wants(&self, part: P) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// Reads the words after the program's name; an error is a sentence.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let command = match words.next().as_deref() {
        Some("bus") => {
            let options = options(words, bus::Part::parse)?;
            if let Some(Options { full: true, .. } | Options { dir: Some(_), .. }) = &options {
                return Err("--full and --dir are for `store`".into());
            }
            options.map(Command::Bus)
        }
        Some("store") => options(words, store::Part::parse)?.map(Command::Store),
        Some("wire") => {
            let options = options(words, wire::Part::parse)?;
            if let Some(Options { full: true, .. }) = &options {
                return Err("--full is for `store`".into());
            }
            options.map(Command::Wire)
        }
        Some("mongo") => {
            let options = options(words, mongo::Part::parse)?;
            if let Some(Options { full: true, .. } | Options { dir: Some(_), .. }) = &options {
                return Err("--full and --dir are for `store`".into());
            }
            options.map(Command::Mongo)
        }
        Some("outbox") => {
            let options = options(words, outbox::Part::parse)?;
            if let Some(Options { full: true, .. }) = &options {
                return Err("--full is for `store`".into());
            }
            options.map(Command::Outbox)
        }
        Some("tenants") => {
            let options = options(words, tenants::Attack::parse)?;
            if let Some(Options { full: true, .. }) = &options {
                return Err("--full is for `store`".into());
            }
            options.map(Command::Tenants)
        }
        Some("http") => {
            let options = options(words, http::Part::parse)?;
            if let Some(Options { full: true, .. }) = &options {
                return Err("--full is for `store`".into());
            }
            options.map(Command::Http)
        }
        Some("push") => {
            let options = options(words, push::Part::parse)?;
            if let Some(Options { full: true, .. } | Options { dir: Some(_), .. }) = &options {
                return Err("--full and --dir are for `store`".into());
            }
            options.map(Command::Push)
        }
        Some(tenants::SERVER) => {
            let arguments = words.next().zip(words.next().and_then(|topics| topics.parse().ok()));
            let (data, topics) =
                arguments.ok_or_else(|| format!("{} is for the benchmark itself", tenants::SERVER))?;
            Some(Command::TenantsServer(data, topics))
        }
        Some(wire::SERVER) => {
            let directory =
                words.next().ok_or_else(|| format!("{} is for the benchmark itself", wire::SERVER))?;
            Some(Command::Server(directory))
        }
        Some(store::VICTIM) => Some(Command::Victim(store::Victim::parse(words)?)),
        Some("--help" | "-h") => None,
        Some(other) => {
            return Err(format!(
                "no benchmark `{other}`; there is: bus, store, wire, mongo, outbox, tenants, http, push"
            ));
        }
        None => return Err("which benchmark?".into()),
    };
    Ok(command.unwrap_or(Command::Help))
}

/// The options of a benchmark; `None` if help is asked for.
fn options<P>(
    mut words: impl Iterator<Item = String>,
    part: impl Fn(&str) -> Option<P>,
) -> Result<Option<Options<P>>, String> {
    let mut options = Options { json: false, quick: false, full: false, dir: None, parts: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => options.json = true,
            "--quick" => options.quick = true,
            "--full" => options.full = true,
            "--dir" => options.dir = Some(words.next().ok_or("--dir needs a directory")?.into()),
            name => options.parts.push(part(name).ok_or_else(|| format!("no part `{name}`"))?),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bus::Part;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn parts_are_picked_by_name_and_all_are_the_default() {
        let Ok(Command::Bus(options)) = parsed("bus --json tail catch-up") else { panic!("not understood") };
        assert!(options.json && !options.quick);
        assert!(options.wants(Part::Tail) && options.wants(Part::CatchUp) && !options.wants(Part::Idle));

        let Ok(Command::Bus(options)) = parsed("bus --quick") else { panic!("not understood") };
        assert!(options.quick && options.wants(Part::Idle));
    }

    #[test]
    fn the_store_has_parts_and_options_of_its_own() {
        let Ok(Command::Store(options)) = parsed("store --full --dir /data scan") else {
            panic!("not understood")
        };
        assert!(options.full && options.dir.is_some_and(|dir| dir.ends_with("data")));
        assert_eq!(options.parts, [store::Part::Scan]);
        assert!(parsed("bus --full").is_err());
        assert!(parsed("store --dir").is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        assert!(parsed("bus tails").is_err_and(|problem| problem.contains("`tails`")));
        assert!(parsed("wires").is_err_and(|problem| problem.contains("`wires`")));
        assert!(parsed("").is_err());
    }
}
