//! Push subscriptions: groups that the hub itself delivers, by HTTP POST.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which there are, where they are stored, what runs | here |
//! | what one is, and what it may be | `definition` |
//! | which addresses it may have | `address` |
//! | signatures | `secret` |
//! | one request and its answer | `request` |
//! | delivering: who may send what when | `worker`, `breaker`, `pace` |
//! | how one is doing, metrics | `status`, `metrics` |
//!
//! Definitions come from the configuration of this hub, or from the system topic `_hub.push`, which all hubs on a store read.
//! There, `endpoint/NAME` has a definition with its secrets, and `paused/NAME` why an endpoint is paused. With several hubs, the
//! one that serves an endpoint's group delivers; `docs/push.md` is for users.

mod address;
mod breaker;
mod definition;
mod metrics;
mod pace;
mod request;
mod secret;
mod status;
mod worker;

pub use breaker::ProbeTimes;
pub use definition::{PushDefinition, PushEndpoint, PushFrom, PushMode};
pub use secret::SigningSecret;

pub(crate) use definition::PushTarget;
pub(crate) use status::{LastFailure, PushState, Status};

use crate::limits::{Buckets, From, Meter};
use hub_core::{Bus, Millis, SystemEntry, SystemTopic};
use hub_proto::{Code, Error, Result};
use parking_lot::RwLock;
use request::Clients;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use worker::{Switch, Worker};

/// Endpoints of one store: each costs a task on every hub.
const MAX_ENDPOINTS: usize = 1000;
/// How long to wait before the store is asked again.
const RETRY: Duration = Duration::from_millis(250);

/// Where a definition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration of this hub.
    File,
    /// A PUT.
    Stored,
}

/// An endpoint that is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub reason: String,
    pub at: Millis,
}

/// One endpoint, as it stands.
#[derive(Clone)]
pub(crate) struct Entry {
    pub endpoint: Arc<PushEndpoint>,
    pub origin: Origin,
    pub paused: Option<Pause>,
    pub status: Arc<Status>,
}

/// The push subscriptions of a hub. Clones are handles to the same.
#[derive(Clone, Default)]
pub struct Push {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    known: RwLock<Known>,
    loaded: OnceCell<()>,
    changed: Notify,
    clients: Arc<Clients>,
    times: RwLock<ProbeTimes>,
}

#[derive(Default)]
struct Known {
    file: BTreeMap<String, Arc<PushEndpoint>>,
    stored: BTreeMap<String, Arc<PushEndpoint>>,
    paused: BTreeMap<String, Pause>,
    /// How the endpoints that there are, or were a moment ago, are doing.
    statuses: BTreeMap<String, Arc<Status>>,
    switches: BTreeMap<String, watch::Sender<Switch>>,
}

impl Known {
    /// Those that count, by name: what the configuration says comes before what is stored.
    fn effective(&self) -> BTreeMap<&str, (Origin, &Arc<PushEndpoint>)> {
        let stored = self.stored.iter().map(|(name, endpoint)| (name.as_str(), (Origin::Stored, endpoint)));
        let file = self.file.iter().map(|(name, endpoint)| (name.as_str(), (Origin::File, endpoint)));
        stored.chain(file).collect()
    }

    fn status(&mut self, name: &str) -> Arc<Status> {
        self.statuses.entry(name.to_owned()).or_default().clone()
    }

    fn switch(&mut self, name: &str) -> &watch::Sender<Switch> {
        let paused = self.paused.get(name).map(|pause| pause.reason.clone());
        self.switches
            .entry(name.to_owned())
            .or_insert_with(|| watch::Sender::new(Switch { paused, resumed: 0 }))
    }

    fn set_paused(&mut self, name: &str, pause: Option<Pause>) {
        let reason = pause.as_ref().map(|pause| pause.reason.clone());
        let is_resumed = pause.is_none();
        match pause {
            Some(pause) => drop(self.paused.insert(name.to_owned(), pause)),
            None => drop(self.paused.remove(name)),
        }
        self.switch(name).send_modify(|switch| {
            switch.paused = reason;
            switch.resumed += u64::from(is_resumed);
        });
    }
}

impl Push {
    /// How long failing endpoints are left alone, from the next start of a worker on.
    pub fn set_probe_times(&self, times: ProbeTimes) {
        *self.shared.times.write() = times;
    }

    /// Sets the endpoints of the configuration, in place of those that it had.
    pub fn set_configured(&self, endpoints: Vec<PushEndpoint>) {
        let file =
            endpoints.into_iter().map(|endpoint| (endpoint.name.clone(), Arc::new(endpoint))).collect();
        self.shared.known.write().file = file;
        self.shared.changed.notify_one();
    }

    /// Reads what is stored, once.
    pub(crate) async fn load(&self, bus: &Bus) -> Result<()> {
        let load = async {
            let entries = bus.system_entries(SystemTopic::Push).await?;
            entries.iter().for_each(|entry| self.learn(entry));
            Ok(())
        };
        self.shared.loaded.get_or_try_init(|| load).await.map(drop)
    }

    /// All endpoints, by name.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let mut known = self.shared.known.write();
        let effective: Vec<_> = known
            .effective()
            .into_iter()
            .map(|(name, (origin, endpoint))| (name.to_owned(), origin, endpoint.clone()))
            .collect();
        let entry = |(name, origin, endpoint): (String, Origin, Arc<PushEndpoint>)| Entry {
            endpoint,
            origin,
            paused: known.paused.get(&name).cloned(),
            status: known.status(&name),
        };
        effective.into_iter().map(entry).collect()
    }

    /// One endpoint.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        let mut known = self.shared.known.write();
        let (origin, endpoint) =
            known.effective().remove(name).map(|(origin, endpoint)| (origin, endpoint.clone()))?;
        Some(Entry { endpoint, origin, paused: known.paused.get(name).cloned(), status: known.status(name) })
    }

    /// Stores an endpoint, for all hubs.
    ///
    /// # Errors
    /// `bad_request` if there are too many, or its name is one of the configuration; `unavailable` if it could not be stored.
    pub(crate) async fn store(&self, bus: &Bus, endpoint: &PushEndpoint) -> Result<()> {
        let name = &endpoint.name;
        {
            let known = self.shared.known.read();
            if known.file.contains_key(name) {
                return Err(of_configuration(name));
            }
            if !known.stored.contains_key(name) && known.effective().len() >= MAX_ENDPOINTS {
                return Err(Error::new(
                    Code::QuotaExceeded,
                    format!("there are {MAX_ENDPOINTS} push subscriptions, which is the limit; delete one"),
                ));
            }
        }
        let value = endpoint.definition.to_stored();
        self.write(bus, format!("endpoint/{name}"), Some(value)).await
    }

    /// Deletes a stored endpoint, for all hubs. Its group stays.
    pub(crate) async fn delete(&self, bus: &Bus, name: &str) -> Result<()> {
        if self.shared.known.read().file.contains_key(name) {
            return Err(of_configuration(name));
        }
        self.write(bus, format!("endpoint/{name}"), None).await?;
        // One that is made again under the name begins anew.
        self.write(bus, format!("paused/{name}"), None).await
    }

    /// An endpoint that is paused goes on, and one that fails is tried at once, on whichever hub delivers.
    pub(crate) async fn resume(&self, bus: &Bus, name: &str) -> Result<()> {
        self.write(bus, format!("paused/{name}"), None).await
    }

    async fn write(&self, bus: &Bus, key: String, value: Option<Value>) -> Result<()> {
        let entry = SystemEntry { key: key.into(), value };
        bus.system_write(SystemTopic::Push, &entry).await?;
        self.learn(&entry);
        Ok(())
    }

    /// Takes note of an entry of the system topic.
    fn learn(&self, entry: &SystemEntry) {
        let mut known = self.shared.known.write();
        match entry.key.split_once('/') {
            Some(("endpoint", name)) => {
                let definition = entry.value.as_ref().and_then(PushDefinition::from_stored);
                let endpoint = definition.and_then(|definition| match PushEndpoint::new(name, definition) {
                    Ok(endpoint) => Some(endpoint),
                    Err(error) => {
                        // Stored by another version, which allowed something else.
                        tracing::warn!(push = name, error = %error.msg, "a stored push subscription cannot be used");
                        None
                    }
                });
                match endpoint {
                    Some(endpoint) => drop(known.stored.insert(name.to_owned(), Arc::new(endpoint))),
                    None => drop(known.stored.remove(name)),
                }
            }
            Some(("paused", name)) => {
                let pause = entry.value.as_ref().and_then(|value| {
                    let reason = value.get("reason")?.as_str()?.to_owned();
                    Some(Pause { reason, at: value.get("at")?.as_u64()? })
                });
                known.set_paused(name, pause);
            }
            _ => {}
        }
        drop(known);
        self.shared.changed.notify_one();
    }

    /// An endpoint has answered 410: it is paused at once here, and for all hubs once that is stored.
    fn pause(&self, bus: &Bus, tasks: &TaskTracker, name: &str, reason: String) {
        let at = bus.now();
        {
            let mut known = self.shared.known.write();
            if known.paused.contains_key(name) {
                return;
            }
            known.set_paused(name, Some(Pause { reason: reason.clone(), at }));
        }
        let (push, bus, name, push_tasks) = (self.clone(), bus.clone(), name.to_owned(), tasks.clone());
        tasks.spawn(async move {
            let entry = SystemEntry {
                key: format!("paused/{name}").into(),
                value: Some(json!({"reason": reason, "at": at})),
            };
            let is_paused = || push.shared.known.read().paused.get(&name).is_some_and(|pause| pause.at == at);
            // Not if somebody has resumed it meanwhile.
            while is_paused()
                && !push_tasks.is_closed()
                && bus.system_write(SystemTopic::Push, &entry).await.is_err()
            {
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    /// Delivers until `stop` is cancelled. Tasks are spawned on `tasks`.
    pub(crate) async fn run(
        self,
        bus: Bus,
        buckets: Arc<Buckets>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        let mut running: BTreeMap<String, RunningWorker> = BTreeMap::new();
        let following = self.follow(&bus);
        tokio::pin!(following);
        loop {
            self.reconcile(&bus, &buckets, &tasks, &mut running);
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.shared.changed.notified() => {}
                () = &mut following => {}
            }
        }
        running.values().for_each(|worker| worker.stop.cancel());
        for (_, worker) in running {
            let _ = worker.task.await;
        }
    }

    /// Hears what this and other hubs store, for ever.
    async fn follow(&self, bus: &Bus) {
        loop {
            let watch = bus.system_watch(SystemTopic::Push).await;
            // What was written before the watch began.
            let entries = bus.system_entries(SystemTopic::Push).await;
            let (Ok(mut watch), Ok(entries)) = (watch, entries) else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            self.relearn(&entries);
            let _ = self.load(bus).await;
            loop {
                match watch.recv().await {
                    Ok(Some(entry)) => self.learn(&entry),
                    Ok(None) => match bus.system_entries(SystemTopic::Push).await {
                        Ok(entries) => self.relearn(&entries),
                        Err(_) => break,
                    },
                    Err(_) => break,
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Takes note of everything that is stored: what is not there any more is over.
    fn relearn(&self, entries: &[SystemEntry]) {
        let is_there = |kind: &str, name: &str| {
            entries.iter().any(|entry| entry.key.split_once('/') == Some((kind, name)))
        };
        {
            let mut known = self.shared.known.write();
            known.stored.retain(|name, _| is_there("endpoint", name));
            let over: Vec<String> =
                known.paused.keys().filter(|name| !is_there("paused", name)).cloned().collect();
            over.iter().for_each(|name| known.set_paused(name, None));
        }
        entries.iter().for_each(|entry| self.learn(entry));
    }

    /// Starts and stops workers, so that there is one for each endpoint as it is defined now.
    fn reconcile(
        &self,
        bus: &Bus,
        buckets: &Arc<Buckets>,
        tasks: &TaskTracker,
        running: &mut BTreeMap<String, RunningWorker>,
    ) {
        let wanted: BTreeMap<String, Entry> =
            self.all().into_iter().map(|entry| (entry.endpoint.name.clone(), entry)).collect();
        let mut ending: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
        let is_over = |name: &String, worker: &RunningWorker| {
            wanted.get(name).is_none_or(|entry| entry.endpoint != worker.endpoint)
        };
        for (name, worker) in running.extract_if(.., |name, worker| is_over(name, worker)) {
            worker.stop.cancel();
            ending.insert(name, worker.task);
        }
        for (name, entry) in wanted {
            if running.contains_key(&name) {
                continue;
            }
            let (stop, before) = (CancellationToken::new(), ending.remove(&name));
            let switch = self.shared.known.write().switch(&name).subscribe();
            let (push, paused_bus, paused_tasks, paused_name) =
                (self.clone(), bus.clone(), tasks.clone(), name.clone());
            let worker = Worker {
                bus: bus.clone(),
                endpoint: entry.endpoint.clone(),
                status: entry.status,
                clients: self.shared.clients.clone(),
                times: *self.shared.times.read(),
                switch,
                meter: Meter::for_request(buckets, entry.endpoint.definition.maker.as_deref(), From::Peer),
                gone: Box::new(move |reason| push.pause(&paused_bus, &paused_tasks, &paused_name, reason)),
                stop: stop.clone(),
            };
            let task = tasks.spawn(async move {
                // Its group has one member at a time.
                if let Some(before) = before {
                    let _ = before.await;
                }
                worker.run().await;
            });
            running.insert(name, RunningWorker { endpoint: entry.endpoint, stop, task });
        }
        let mut known = self.shared.known.write();
        known.statuses.retain(|name, _| running.contains_key(name));
        known.switches.retain(|name, _| running.contains_key(name));
    }
}

/// A worker, and what it goes by.
struct RunningWorker {
    endpoint: Arc<PushEndpoint>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn of_configuration(name: &str) -> Error {
    Error::new(
        Code::Forbidden,
        format!("push subscription {name} is one of the configuration file; change it there and send SIGHUP"),
    )
}

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> =
            self.shared.known.read().effective().into_keys().map(str::to_owned).collect();
        f.debug_tuple("Push").field(&names).finish()
    }
}
