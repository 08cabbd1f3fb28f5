//! `event-hub cluster …`: the hubs on a MongoDB, as the database has them.

use crate::config::Config;
use crate::config::sources::{Flags, hidden};
use crate::text::{columns, finish, plural, time};
use anyhow::{Context, Result, bail};
use hub_core::store::{Heartbeat, HubId, Ownership};
use hub_server::auth::Secret;
use hub_store_mongo::{ConnectError, Observer};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// After this long a living hub has written a heartbeat, unless the machine is busy.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Between further looks.
const PAUSE: Duration = Duration::from_millis(500);
/// A hub whose heartbeat stands still for this long is dead: hubs see it so, too.
const DEAD_AFTER: Duration = Duration::from_secs(4);
/// Names that are shown in one line.
const SHOWN: usize = 12;

/// Look at the hubs on a MongoDB
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
}

/// List the hubs on a MongoDB, and which groups each of them serves
///
/// It asks the database, not the hubs, so it works when none of them can be reached. A hub is alive if its heartbeat goes on
/// while this watches: a second, or four if one of them stands still. The configuration counts as it does for `serve`.
///
/// Exit code: 0, or 2 if the database could not be read.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "EVENT_HUB_CONFIG")]
    config: Option<PathBuf>,

    /// The MongoDB; with a password, better in the environment: others can see flags [env: MONGO_URL]
    #[arg(long, value_name = "URL", value_parser = hidden)]
    mongo_url: Option<Secret>,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    hubs: Vec<Hub>,
    /// Names that nobody serves: their groups have no members.
    unowned: Vec<String>,
    /// Names whose hub is dead: the next hub with a member takes them over.
    orphaned: Vec<Orphan>,
}

#[derive(Serialize)]
struct Hub {
    id: String,
    address: String,
    version: String,
    /// By its own clock.
    started: u64,
    alive: bool,
    /// It is the one that removes what topics do not keep.
    cleans: bool,
    groups: Vec<String>,
}

#[derive(Serialize)]
struct Orphan {
    group: String,
    hub: String,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    let Command::Ls(args) = command;
    let flags = Flags { config: args.config.clone(), mongo_url: args.mongo_url.clone(), ..Flags::default() };
    let config = Config::load(&flags, &|name| std::env::var_os(name))?;
    let Some(mongo) = config.mongo else {
        bail!(
            "there is no MongoDB to look at: set MONGO_URL or --mongo-url, or name a file that has it with --config; a \
             hub on a data directory is alone there"
        );
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listing = runtime.context("starting the runtime")?.block_on(async {
        let observer = Observer::connect(&mongo.options()).await?;
        let look = async {
            let (beats, alive) = watch(&observer).await?;
            Ok(listing(beats, &alive, observer.names().await?))
        };
        let looked: Result<_, ConnectError> = look.await;
        observer.close().await;
        looked
    })?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&listing)? + "\n",
        false => words(&mongo.address.to_string(), &listing),
    };
    finish(&text, 0)
}

/// Everybody's heartbeat, and who of them lives.
async fn watch(observer: &Observer) -> Result<(Vec<Heartbeat>, BTreeSet<HubId>), ConnectError> {
    let counts =
        |beats: &[Heartbeat]| beats.iter().map(|beat| (beat.hub.id, beat.count)).collect::<BTreeMap<_, _>>();
    let before = counts(&observer.hubs().await?);
    let began = Instant::now();
    tokio::time::sleep(FIRST_LOOK).await;
    loop {
        let beats = observer.hubs().await?;
        let moved = |&(hub, count): &(HubId, u64)| before.get(&hub) != Some(&count);
        let alive: BTreeSet<HubId> = counts(&beats).into_iter().filter(moved).map(|(hub, _)| hub).collect();
        if alive.len() == beats.len() || began.elapsed() >= DEAD_AFTER {
            return Ok((beats, alive));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn listing(beats: Vec<Heartbeat>, alive: &BTreeSet<HubId>, names: Vec<(String, Ownership)>) -> Listing {
    let mut owned: BTreeMap<HubId, Vec<String>> = BTreeMap::new();
    let (mut unowned, mut orphaned) = (Vec::new(), Vec::new());
    let mut cleans = None;
    for (name, owner) in names {
        // A duty, no group: those do not begin so.
        let is_group = !name.starts_with('~');
        match owner.hub {
            Some(hub) if !is_group => cleans = Some(hub),
            Some(hub) => {
                if !alive.contains(&hub) {
                    orphaned.push(Orphan { group: name.clone(), hub: hub.to_string() });
                }
                owned.entry(hub).or_default().push(name);
            }
            None if is_group => unowned.push(name),
            None => {}
        }
    }
    unowned.sort_unstable();
    orphaned.sort_by(|a, b| a.group.cmp(&b.group));
    let hub = |beat: Heartbeat| {
        let mut groups = owned.remove(&beat.hub.id).unwrap_or_default();
        groups.sort_unstable();
        Hub {
            alive: alive.contains(&beat.hub.id),
            cleans: cleans == Some(beat.hub.id),
            id: beat.hub.id.to_string(),
            address: beat.hub.address,
            version: beat.hub.version,
            started: beat.hub.started,
            groups,
        }
    };
    let mut hubs: Vec<Hub> = beats.into_iter().map(hub).collect();
    hubs.sort_by(|a, b| (!a.alive, a.started, &a.id).cmp(&(!b.alive, b.started, &b.id)));
    Listing { hubs, unowned, orphaned }
}

fn words(place: &str, listing: &Listing) -> String {
    let mut text = format!("MongoDB at {place}\n\n");
    let header = ["hub", "address", "version", "started (UTC)", "", "groups"].map(str::to_owned).to_vec();
    let row = |hub: &Hub| {
        let state = match (hub.alive, hub.cleans) {
            (true, true) => "alive, cleans",
            (true, false) => "alive",
            (false, _) => "dead",
        };
        let (id, address, version) = (hub.id.clone(), hub.address.clone(), hub.version.clone());
        vec![id, address, version, time(hub.started), state.to_owned(), some(&hub.groups)]
    };
    let rows: Vec<_> = std::iter::once(header).chain(listing.hubs.iter().map(row)).collect();
    text += &columns(&rows);
    let alive = listing.hubs.iter().filter(|hub| hub.alive).count() as u64;
    let dead = listing.hubs.len() as u64 - alive;
    let _ = writeln!(text, "\n  {} alive, {dead} dead", plural(alive, "hub"));
    if !listing.unowned.is_empty() {
        let _ = writeln!(text, "  without members, so served by nobody: {}", some(&listing.unowned));
    }
    if !listing.orphaned.is_empty() {
        let names: Vec<String> = listing.orphaned.iter().map(|orphan| orphan.group.clone()).collect();
        let _ = writeln!(text, "  of a dead hub, until one with a member takes them over: {}", some(&names));
    }
    text
}

/// The first of some names.
fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let first = names[..names.len() - more].join(", ");
    match (names.len(), more) {
        (0, _) => "-".to_owned(),
        (_, 0) => first,
        _ => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub_core::store::HubInfo;

    fn beat(n: u8, started: u64) -> Heartbeat {
        let id = HubId::parse(&format!("{n:032x}")).expect("a UUID");
        let hub = HubInfo { id, address: format!("ws://h{n}/"), started, version: "0.1.0".into() };
        Heartbeat { hub, count: 1 }
    }

    #[test]
    fn names_are_with_their_hub_or_with_nobody() {
        let (a, b, gone) = (beat(1, 20), beat(2, 10), beat(3, 0).hub.id);
        let owner = |hub| Ownership { hub, epoch: 1, edges: Vec::new() };
        let names = [
            ("mail", Some(a.hub.id)),
            ("billing", Some(a.hub.id)),
            ("audit", Some(b.hub.id)),
            ("old", Some(gone)),
            ("idle", None),
            ("~cleaning", Some(a.hub.id)),
        ];
        let names = names.map(|(name, hub)| (name.to_owned(), owner(hub))).to_vec();
        let alive = BTreeSet::from([a.hub.id]);
        let listing = listing(vec![b, a], &alive, names);
        let shown: Vec<_> = listing
            .hubs
            .iter()
            .map(|hub| (hub.address.as_str(), hub.alive, hub.cleans, hub.groups.join(",")))
            .collect();
        assert_eq!(
            shown,
            [
                ("ws://h1/", true, true, "billing,mail".to_owned()),
                ("ws://h2/", false, false, "audit".to_owned())
            ]
        );
        assert_eq!(listing.unowned, ["idle"]);
        let orphaned: Vec<_> = listing.orphaned.iter().map(|orphan| orphan.group.as_str()).collect();
        assert_eq!(orphaned, ["audit", "old"]);
        let text = words("db:1, database shop", &listing);
        assert!(
            text.contains("1 hub alive, 1 dead") && text.contains("alive, cleans  billing, mail\n"),
            "{text}"
        );
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let names: Vec<String> = (1..=14).map(|n| n.to_string()).collect();
        assert_eq!(some(&names), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more");
        assert_eq!(some(&[]), "-");
    }
}
