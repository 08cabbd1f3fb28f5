//! `event-hub backup`: a copy of a hub that runs, and a hub on the copy.

use crate::hub::{Hub, Place, Running, run_with};
use crate::socket::Socket;
use crate::world::Ran;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const PUBLISHERS: usize = 2;
/// Small segments, so that they are sealed while the test looks.
const CONFIG: &str = "[store]\nsegment_size = \"1MiB\"\n";

/// The ids that were acknowledged, with their seqs.
type Acknowledged = Mutex<HashMap<String, u64>>;

/// Publishes until it is told to stop, or the hub is gone.
async fn publish((url, token): (&str, &str), me: usize, acknowledged: &Acknowledged, stop: &AtomicBool) {
    let mut socket = Socket::open(url, token).await;
    let padding = "x".repeat(8 << 10);
    for n in 0.. {
        if stop.load(SeqCst) {
            return;
        }
        let payload = json!({"by": me, "n": n, "padding": padding});
        let publish = json!({"op": "PUBLISH", "topic": "t", "payload": payload});
        if socket.send(&publish).await.is_err() {
            return;
        }
        let Ok(answer) = socket.next().await else { return };
        assert_eq!(answer["op"], "OK", "{answer}");
        let id = answer["id"].as_str().unwrap().to_owned();
        acknowledged.lock().unwrap().insert(id, answer["seq"].as_u64().unwrap());
    }
}

/// Takes events of a group and acks them, until the hub is gone or it is told to stop.
async fn consume((url, token): (&str, &str), stop: &AtomicBool) {
    let mut socket = Socket::open(url, token).await;
    socket
        .send(&json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"from": "earliest"}}))
        .await
        .unwrap();
    while !stop.load(SeqCst) {
        let Ok(frame) = socket.next().await else { return };
        if frame["op"] == "EVENT" {
            let id = frame["event"]["id"].as_str().unwrap();
            let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": id});
            if socket.send(&ack).await.is_err() {
                return;
            }
        }
    }
}

fn cursor(hub: &Hub) -> u64 {
    let (status, body) = hub.ask(Method::GET, "cursors?topic=t", Some(hub.token()), "");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let cursors = body["cursors"].as_array().unwrap();
    cursors.iter().find(|cursor| cursor["group"] == "g").map_or(0, |cursor| cursor["seq"].as_u64().unwrap())
}

fn events(hub: &Hub) -> BTreeMap<u64, String> {
    let (status, log) = hub.ask(Method::GET, "export?topic=t&ndjson=1", Some(hub.token()), "");
    assert_eq!(status, 200);
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["seq"].as_u64().unwrap(), event["id"].as_str().unwrap().to_owned())
    };
    log.lines().map(event).collect()
}

/// A hub with small segments, and a directory for backups of it.
struct World {
    place: Place,
    hub: Hub,
}

impl World {
    fn new() -> Self {
        let place = Place::new();
        let config = place.write("hub.toml", CONFIG);
        let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
        Self { place, hub }
    }

    fn back_up(&self, name: &str, args: &[&str]) -> Ran {
        let (target, data) = (self.place.text(name), self.place.text("data"));
        let fixed = ["backup", &target, "--ops-url", self.hub.http(), "--data", &data];
        run_with(&[&fixed[..], args].concat(), &[])
    }

    fn publish(&self, count: usize) {
        let acknowledged = Acknowledged::default();
        let stop = AtomicBool::new(false);
        crate::socket::clients(async {
            let enough = async {
                while acknowledged.lock().unwrap().len() < count {
                    tokio::task::yield_now().await;
                }
                stop.store(true, SeqCst);
            };
            futures_util::join!(publish((self.hub.ws(), self.hub.token()), 0, &acknowledged, &stop), enough);
        });
    }
}

#[test]
fn a_hub_on_a_backup_has_everything_acknowledged_before_it_and_the_cursors() {
    let World { place, mut hub } = World::new();
    let (acknowledged, stop) = (Acknowledged::default(), AtomicBool::new(false));
    let (target, data) = (place.text("backup"), place.text("data"));
    let [url, ws, token] = [hub.http(), hub.ws(), hub.token()].map(str::to_owned);
    let client = (&*ws, &*token);
    let back_up = || {
        let args = ["backup", &target, "--ops-url", &url, "--data", &data, "--json"];
        run_with(&args, &[])
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (known, settled, outcomes) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            runtime.block_on(async {
                let publishing = (0..PUBLISHERS).map(|me| publish(client, me, &acknowledged, &stop));
                futures_util::join!(futures_util::future::join_all(publishing), consume(client, &stop));
            });
        });
        let count = || acknowledged.lock().unwrap().len();
        let wait_for_more = |more: usize| {
            let enough = count() + more;
            while count() < enough {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        };
        // Enough for several segments.
        wait_for_more(600);
        let first = back_up();
        wait_for_more(100);
        let (known, settled) = (acknowledged.lock().unwrap().clone(), cursor(&hub));
        let second = back_up();
        wait_for_more(50);
        hub.process.signal("KILL");
        load.join().unwrap();
        (known, settled, [first, second])
    });
    assert_eq!(hub.process.ended(), -1, "by a signal");
    let [first, second] = outcomes.map(|ran| ran.ends_with(0).json());
    assert!(first["linked"]["files"].as_u64() >= Some(4), "{first}");
    // Under load, segments that were filled just now may not be sealed yet: they are copied. What was linked once stays linked.
    for what in ["files", "bytes"] {
        assert!(second["linked"][what].as_u64() >= first["linked"][what].as_u64(), "{first} {second}");
    }

    let config = place.text("hub.toml");
    let restored = Hub::start(&place.path("backup"), &["--config", &config], &[]);
    let stored = events(&restored);
    assert!(stored.keys().copied().eq(1..=stored.len() as u64), "no seq is missing");
    for (id, seq) in &known {
        assert_eq!(stored.get(seq), Some(id), "acknowledged before the backup began");
    }
    let found = cursor(&restored);
    assert!(settled > 0 && settled <= found && found <= stored.len() as u64, "{settled} {found}");
    // A backup that a hub was started on is a data directory.
    let refused = run_with(&["backup", &target, "--ops-url", restored.http(), "--data", &target], &[]);
    refused.ends_with(1);
    assert!(refused.err.contains("is the data directory itself"), "{}", refused.err);
    restored.stop();
}

#[test]
fn copies_are_used_again_and_only_new_files_are_copied() {
    let world = World::new();
    world.publish(500);
    // Segments are sealed one after the other: the manifest names the first two by then.
    while !world.place.path("data/log-00000003.idx").exists() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let first = world.back_up("backup", &["--copy", "--json"]).ends_with(0).json();
    let names = std::fs::read_dir(world.place.path("backup")).unwrap();
    let sidecars =
        names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "idx"));
    let sealed = 2 * sidecars.count() as u64;
    assert!(first["linked"]["files"] == 0 && first["copied"]["files"].as_u64() > Some(sealed), "{first}");
    world.publish(100);
    let second = world.back_up("backup", &["--copy", "--json"]).ends_with(0).json();
    assert!(sealed >= 4 && second["reused"]["files"] == sealed, "{sealed} files were sealed: {second}");
    let checked = run_with(&["doctor", &world.place.text("backup")], &[]);
    checked.ends_with(0).says("healthy");
    world.hub.stop();
}

#[test]
fn a_backup_says_what_it_did_and_is_quiet_in_a_pipe() {
    let world = World::new();
    world.publish(10);
    let ran = world.back_up("backup", &[]);
    ran.ends_with(0).says("copied 1 file").says("verified 1 segment");
    assert_eq!(ran.err, "");
    world.hub.stop();
}

#[test]
fn a_stopped_hub_is_backed_up_without_asking_it() {
    let world = World::new();
    world.publish(10);
    let data = world.place.text("data");
    let busy = world.back_up("backup", &["--offline"]);
    busy.ends_with(2);
    assert!(busy.err.contains("leave --offline out"), "{}", busy.err);
    let World { place, hub } = world;
    hub.stop();
    let target = place.text("backup");
    let gone = run_with(&["backup", &target, "--ops-url", "http://127.0.0.1:9/", "--data", &data], &[]);
    gone.ends_with(1);
    assert!(gone.err.contains("no hub answers") && gone.err.contains("--offline"), "{}", gone.err);
    let before = run_with(&["store", "stat", &data, "--json"], &[]).json();
    let offline = ["backup", &target, "--offline", "--data", &data, "--json"];
    let outcome = run_with(&offline, &[]).ends_with(0).json();
    assert_eq!(outcome["verified"]["events"], before["totals"]["events"], "{outcome}");
    let restored = Hub::start(&place.path("backup"), &[], &[]);
    assert!(events(&restored).len() >= 10);
    restored.stop();
}

#[test]
fn a_token_without_the_admin_right_and_a_directory_that_holds_something_are_refused() {
    let world = World::new();
    world.publish(3);
    let data = world.place.text("data");
    let token = run_with(&["token", "--data", &data, "--scope", "admin:t"], &[]).out;
    let refused = world.back_up("backup", &["--token", token.trim()]);
    refused.ends_with(1);
    assert!(refused.err.contains("admin:**"), "{}", refused.err);
    world.place.write("letter", "dear");
    let file = world.back_up("letter", &[]);
    file.ends_with(1);
    assert!(file.err.contains("is not a directory"), "{}", file.err);
    let inside = world.back_up("data/backup", &[]);
    inside.ends_with(1);
    assert!(inside.err.contains("is inside the data directory"), "{}", inside.err);
    world.hub.stop();
}

#[test]
fn a_backup_that_is_killed_leaves_nothing_that_opens_and_the_next_one_is_whole() {
    let world = World::new();
    world.publish(1000);
    let (target, partial) = (world.place.path("backup"), world.place.path("backup.partial"));
    let (text, data) = (world.place.text("backup"), world.place.text("data"));
    let args = ["backup", &text, "--copy", "--ops-url", world.hub.http(), "--data", &data];
    let mut killed = 0;
    for _ in 0..5 {
        for left in [&target, &partial].into_iter().filter(|path| path.exists()) {
            std::fs::remove_dir_all(left).unwrap();
        }
        let mut process = Running::start(&args, &[]);
        while !partial.join("log-00000001").exists() && !target.exists() {
            std::thread::yield_now();
        }
        process.signal("KILL");
        let is_killed = process.ended() == -1 && !target.exists();
        if is_killed && !partial.join("format").exists() {
            let half = run_with(&["doctor", &world.place.text("backup.partial")], &[]);
            assert_ne!(half.code, 0, "half a copy is not healthy: {}", half.out);
            let opened =
                run_with(&["serve", "--data", &world.place.text("backup.partial"), "--ws-port", "0"], &[]);
            assert_ne!(opened.code, 0, "half a copy does not open: {}", opened.out);
            killed += 1;
        }
    }
    println!("{killed} of 5 backups were killed before they were whole");
    world.back_up("backup", &["--copy"]).ends_with(0);
    assert!(!partial.exists());
    run_with(&["doctor", &text], &[]).ends_with(0).says("healthy");
    world.hub.stop();
}

#[test]
fn a_hub_stops_while_a_client_holds_its_files() {
    let World { place: _place, hub } = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = format!("{}backup", hub.http());
    let token = hub.token().to_owned();
    let mut answer = runtime.block_on(async {
        let answer = reqwest::Client::new().post(url).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        answer
    });
    let first = runtime.block_on(answer.chunk()).unwrap().unwrap();
    let first: Value = serde_json::from_slice(&first).unwrap();
    assert!(first["commit"].as_u64() > Some(0) && first["manifest"].is_string(), "{first}");
    hub.stop();
    assert!(
        runtime.block_on(answer.chunk()).is_err(),
        "the client is told that the files are not held any more"
    );
}
