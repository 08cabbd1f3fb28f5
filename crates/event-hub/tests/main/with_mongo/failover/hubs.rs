//! Hubs over one database, each a process, and how to reach them.

use super::ledger::{How, Ledger};
use super::{GROUP, PATIENCE, TOPIC};
use crate::hub::{Hub, Place};
use hub_client::{Connection, EventId, Target};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The processes. Whoever is ended is started again where clients look for it.
pub struct Hubs {
    place: Place,
    hubs: Vec<One>,
    ledger: Arc<Ledger>,
}

struct One {
    hub: Hub,
    mongo: String,
    runs: bool,
}

/// Where hubs are, for clients.
#[derive(Clone)]
pub struct Addresses {
    pub urls: Arc<[String]>,
    pub token: Arc<str>,
}

impl Hubs {
    /// One for each of these addresses of MongoDB. They share a directory, and so the secret that is kept there.
    pub fn start(mongo: &[String], ledger: &Arc<Ledger>) -> Self {
        let place = Place::new();
        let start = |mongo: &String| {
            let hub = Hub::start(&place.path("data"), &[], &[("MONGO_URL", mongo)]);
            One { hub, mongo: mongo.clone(), runs: true }
        };
        let hubs = mongo.iter().map(start).collect();
        Self { place, hubs, ledger: ledger.clone() }
    }

    pub fn addresses(&self) -> Addresses {
        let urls = self.hubs.iter().map(|one| one.hub.ws().to_owned()).collect();
        Addresses { urls, token: self.hubs[0].hub.token().into() }
    }

    pub fn len(&self) -> usize {
        self.hubs.len()
    }

    /// `kill -9`.
    pub fn kill(&mut self, hub: usize) -> Instant {
        let at = self.ledger.harmed(hub, How::Killed);
        let one = &mut self.hubs[hub];
        one.hub.process.signal("KILL");
        assert_eq!(one.hub.process.ended(), -1, "by a signal");
        one.runs = false;
        at
    }

    /// SIGTERM; does not wait for the end.
    pub fn stop(&mut self, hub: usize) -> Instant {
        let at = self.ledger.harmed(hub, How::Stopped);
        self.hubs[hub].hub.process.signal("TERM");
        self.hubs[hub].runs = false;
        at
    }

    /// Waits for the end of one that was stopped.
    pub fn ended(&mut self, hub: usize) {
        let process = &mut self.hubs[hub].hub.process;
        assert_eq!(process.ended(), 0, "{}", process.log());
    }

    pub fn start_again(&mut self, hub: usize) {
        let one = &mut self.hubs[hub];
        one.hub.start_again_with(&self.place.path("data"), &[("MONGO_URL", &one.mongo)]);
        one.runs = true;
        self.ledger.healed(hub);
    }

    /// SIGSTOP.
    pub fn freeze(&mut self, hub: usize) -> Instant {
        let at = self.ledger.harmed(hub, How::Frozen);
        self.hubs[hub].hub.process.signal("STOP");
        self.hubs[hub].runs = false;
        at
    }

    /// SIGCONT.
    pub fn thaw(&mut self, hub: usize) {
        self.hubs[hub].hub.process.signal("CONT");
        self.hubs[hub].runs = true;
        self.ledger.healed(hub);
    }

    /// Waits until a hub that runs says that the group is served there, and answers which.
    pub async fn owner(&self) -> usize {
        self.owner_but(None).await
    }

    /// The same; `not` is not the one that is waited for.
    pub async fn owner_but(&self, not: Option<usize>) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for (at, one) in self.hubs.iter().enumerate().filter(|(at, one)| one.runs && Some(*at) != not) {
                let Ok(found) = self.ask(one, &format!("groups?topic={TOPIC}")).await else { continue };
                let found: Value = serde_json::from_str(&found).unwrap_or_default();
                let group = found["groups"].as_array().into_iter().flatten().find(|it| it["group"] == GROUP);
                if group.is_some_and(|it| it["owner"].is_null() && it["members"].as_u64() > Some(0)) {
                    return at;
                }
            }
            assert!(Instant::now() < deadline, "no hub serves the group");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until everything is settled in the group, by the word of its owner.
    pub async fn caught_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let owner = self.owner().await;
            let lag = self.ask(&self.hubs[owner], &format!("lag?topic={TOPIC}&group={GROUP}")).await;
            let lag: Value = serde_json::from_str(&lag.unwrap_or_default()).unwrap_or_default();
            if lag["lag"] == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "something is stuck: {lag}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// All events of the topic, as every hub that runs has them.
    pub async fn exports(&self) -> Vec<Vec<(u64, EventId, String)>> {
        let mut all = Vec::new();
        for one in self.hubs.iter().filter(|one| one.runs) {
            let text = self.ask(one, &format!("export?topic={TOPIC}&ndjson=1")).await.unwrap();
            let event = |line: &str| {
                let event: Value = serde_json::from_str(line).unwrap();
                let id = event["id"].as_str().unwrap().parse().unwrap();
                (event["seq"].as_u64().unwrap(), id, event["payload"].to_string())
            };
            all.push(text.lines().map(event).collect());
        }
        all
    }

    /// Asks over HTTP; an error if there is no answer, or another one than 200.
    async fn ask(&self, one: &One, path: &str) -> Result<String, reqwest::Error> {
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let token = self.hubs[0].hub.token();
        let asked = client.get(format!("{}{path}", one.hub.http())).bearer_auth(token).send();
        asked.await?.error_for_status()?.text().await
    }

    /// Waits until the log of a hub has `words`.
    pub fn logs(&mut self, hub: usize, words: &str) {
        self.hubs[hub].hub.process.logs(words);
    }

    /// A number that a hub has counted.
    pub async fn counted(&self, hub: usize, metric: &str) -> u64 {
        let all = self.ask(&self.hubs[hub], "metrics").await.unwrap();
        let line = all.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse::<f64>().ok());
        line.unwrap_or_else(|| panic!("{metric} is not in:\n{all}")) as u64
    }
}

impl Addresses {
    /// A connection to the first hub that answers, from `home` on.
    pub async fn connect(&self, home: usize) -> (usize, Connection) {
        loop {
            for hub in (home..self.urls.len()).chain(0..home) {
                let target = self.target(hub);
                if let Ok(connection) = Connection::connect(&target).await
                    && connection.authenticate(&self.token).await.is_ok()
                {
                    return (hub, connection);
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn target(&self, hub: usize) -> Target {
        Target::new(&*self.urls[hub]).unwrap().connect_timeout(Duration::from_secs(2))
    }
}
