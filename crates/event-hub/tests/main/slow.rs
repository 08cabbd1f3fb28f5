//! Readers that do not read, and many that do: the memory of the real program.

use crate::hub::{Hub, Place};
use crate::socket::{End, Socket, clients};
use serde_json::json;
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// Memory of its own that the process has, in bytes: files and their caches do not count.
pub fn memory(hub: &Hub) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", hub.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Connections that subscribe and never read again.
async fn stuck(hub: &Hub, n: usize) -> Vec<Socket> {
    let mut sockets = Vec::new();
    for n in 0..n {
        let mut socket = Socket::open(hub.ws(), hub.token()).await;
        let mut subscribe = json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}});
        match n % 3 {
            0 => {}
            1 => subscribe["group"] = json!(format!("own-{n}")),
            _ => subscribe["group"] = json!("shared"),
        }
        socket.ok(subscribe).await;
        sockets.push(socket);
    }
    sockets
}

/// Publishes thousands of events of 1 KiB, and calls `look` after each thousand.
async fn publish(hub: &Hub, thousands: usize, mut look: impl FnMut()) {
    let mut publisher = Socket::open(hub.ws(), hub.token()).await;
    let event = json!({"topic": "t", "payload": "x".repeat(1024)});
    for _ in 0..thousands {
        publisher.ok(json!({"op": "PUBLISH", "events": vec![&event; 1000]})).await;
        look();
    }
}

/// Thousands of events after which every stuck reader's buffers are full: each takes a tenth of that.
const WARM_UP: usize = 60;
/// Thousands of events that pass by after that.
const MEASURED: usize = 60;

#[test]
fn memory_stays_within_bounds_however_slow_readers_are_and_others_get_everything() {
    let place = Place::new();
    let config = place.write("hub.toml", "[limits]\ntail_bytes = \"16MiB\"\n");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    clients(async {
        let sockets = stuck(&hub, 20).await;
        let mut reader = Socket::open(hub.ws(), hub.token()).await;
        let opts = json!({"batch": true, "batchSize": 500});
        reader.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "quick", "opts": opts})).await;
        let idle = memory(&hub);
        let mut taken = Vec::new();
        let read = async {
            let mut next = 1;
            while next <= 1000 * (WARM_UP + MEASURED) as u64 {
                let frame = reader.next().await.unwrap();
                let events = frame["events"].as_array().unwrap();
                let ids: Vec<_> = events.iter().map(|each| each["event"]["id"].clone()).collect();
                for each in events {
                    assert_eq!(each["event"]["seq"], next);
                    next += 1;
                }
                let ack = json!({"op": "ACK", "topic": "t", "group": "quick", "ids": ids});
                reader.send(&ack).await.unwrap();
            }
        };
        let write = publish(&hub, WARM_UP + MEASURED, || taken.push(memory(&hub)));
        futures_util::future::join(read, write).await;
        let most = |of: &[u64]| of.iter().max().copied().unwrap_or_default() / MIB;
        let (idle, warm, all) = (idle / MIB, most(&taken[..WARM_UP]), most(&taken));
        println!("idle {idle} MiB, at most {warm} MiB after {WARM_UP},000 events, {all} MiB in all");
        // What the hub keeps for all, and what each of the twenty may have waiting for it.
        assert!(all < idle + 16 + 20 * (4 + 1) + 32, "idle {idle} MiB, at most {all} MiB");
        // Readers that are stuck take no more. One copy of what passes by would be 70 MiB, a copy for each reader 1.4 GiB.
        assert!(all < warm + 48, "{warm} MiB at first, then {all} MiB");
        drop(sockets);
    });
    hub.stop();
}

#[test]
fn sigterm_ends_it_in_time_with_readers_that_are_stuck() {
    let place = Place::new();
    let mut hub = Hub::start(&place.path("data"), &[], &[]);
    let took = clients(async {
        let sockets = stuck(&hub, 20).await;
        let mut idle = Socket::open(hub.ws(), hub.token()).await;
        publish(&hub, 20, || {}).await;
        let begun = Instant::now();
        hub.process.signal("TERM");
        assert_eq!(idle.next().await, Err(End::Closed(1012)));
        drop(idle);
        let ended = hub.process.ended();
        assert_eq!(ended, 0, "{}", hub.process.log());
        drop(sockets);
        begun.elapsed()
    });
    // The promise of the contract.
    assert!(took.as_secs() < 10, "{took:?}");
    assert!(hub.process.log().contains("stopped"), "{}", hub.process.log());
}

#[test]
fn two_thousand_connections_each_subscribe_and_get_an_event() {
    // The hub inherits the limit. A few files are for other things.
    let limit = crate::crowd::raise_the_limit_on_files();
    let n = usize::try_from(limit.saturating_sub(200)).unwrap_or(usize::MAX).min(2000);
    if n < 2000 {
        println!("only {n} connections: the limit on open files is {limit}");
    }
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    clients(async {
        let mut sockets = Vec::new();
        for n in 0..n {
            let mut socket = Socket::open(hub.ws(), hub.token()).await;
            // Half of them read the same, half have a group each.
            let mut subscribe = json!({"op": "SUBSCRIBE", "topic": "t"});
            if n % 2 == 0 {
                subscribe["group"] = json!(format!("g{n}"));
            }
            socket.ok(subscribe).await;
            sockets.push(socket);
        }
        let mut publisher = Socket::open(hub.ws(), hub.token()).await;
        let answer = publisher.ok(json!({"op": "PUBLISH", "topic": "t", "payload": "hello"})).await;
        for socket in &mut sockets {
            let event = socket.next().await.unwrap();
            assert_eq!((&event["op"], &event["event"]["id"]), (&json!("EVENT"), &answer["id"]), "{event}");
        }
        println!("{n} connections, {} MiB", memory(&hub) / MIB);
    });
    hub.stop();
}
