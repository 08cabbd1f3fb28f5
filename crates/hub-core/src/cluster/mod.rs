//! Several hubs over one store.
//!
//! Everybody publishes and reads. **Groups have one owner**: the hub that owns a group's name dispatches all groups of
//! that name, on every topic, with the subscriptions to patterns and lists that drive them; so order, leases, attempts
//! and the floor are the same with one hub or twenty. Members elsewhere are served through the owner; that is the
//! gateway's part, this module only says who the owner is ([`Cluster::own`]).
//!
//! # Why nothing is done twice
//! - A hub writes a heartbeat with a counter, and watches those of the others ([`peers`]). One is dead when its counter
//!   stood still for `dead_after` on the observer's steady clock; wall clocks are never compared.
//! - Ownership has an epoch, and everything stored about a group is fenced by it: who lost a name moves no cursor.
//! - An owner delivers only until `serve_for` after the start of its last heartbeat that came through, which is before
//!   anybody can find it dead ([`pulse`]). After such a lapse it claims all its names again before it goes on, which raises
//!   their epochs. A hub that is about to take a name over reads its epoch first and the heartbeats then: either it sees
//!   that the owner is back, or its claim names an old epoch.
//! - A new owner waits for the hubs that had members to say what those hold ([`tenure`]), before it delivers anything.
//!
//! | what | where |
//! | --- | --- |
//! | who is alive | [`peers`] |
//! | how long this hub may deliver | [`pulse`] |
//! | claiming, losing and giving up names | [`names`] |
//! | one name while it is owned here | [`tenure`] |
//! | hearing of others' commits | [`news`] |
//! | groups that are not served here | [`elsewhere`] |

mod elsewhere;
mod names;
mod news;
mod peers;
mod pulse;
mod tenure;

pub use elsewhere::Elsewhere;
pub(crate) use names::{Owned, not_owner};
pub(crate) use tenure::{Stay, Tenure};

use crate::Millis;
use crate::config::DAY;
use crate::engine::Engine;
use crate::position::refused;
use crate::store::{HubId, HubInfo, SharedStore, StoreError, StoreResult};
use crate::supervise;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{EventId, GroupName, Result, TopicName};
use parking_lot::{Mutex, RwLock};
use peers::Peers;
use pulse::Pulse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How a hub takes part in a cluster. Every default is the one of the contract.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Where other hubs reach this one's gateway; empty: nowhere, so groups that it owns are served here only.
    pub address: String,
    /// The version it shows.
    pub version: String,
    /// How often it writes a heartbeat and reads those of the others.
    pub beat_every: Millis,
    /// A hub whose heartbeat stood still for so long is dead.
    pub dead_after: Millis,
    /// How long after a heartbeat an owner delivers; less than `dead_after`.
    pub serve_for: Millis,
    /// How long a new owner waits for hubs that had members to report on the first, and after each report for the next one;
    /// ten times as long in all.
    pub report_for: Millis,
    /// A name without members is given up after so long.
    pub idle_for: Millis,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            address: String::new(),
            version: String::new(),
            beat_every: 500,
            dead_after: 4_000,
            serve_for: 3_000,
            report_for: 1_000,
            idle_for: 5_000,
        }
    }
}

/// Which hub serves a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This one.
    Here,
    /// Another one, which is alive.
    There(HubInfo),
}

/// An event in the hands of a member that comes from another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its topic.
    pub topic: TopicName,
    /// Its id.
    pub id: EventId,
    /// Its place.
    pub seq: u64,
    /// Which delivery the member has.
    pub attempt: u32,
    /// The group's epoch when it was delivered. A seek raises it, and what was delivered before counts for nothing then.
    pub epoch: u64,
    /// What is left of its time, if the member has asked for more than it usually has.
    pub left: Option<Millis>,
}

/// What a member brings along from another owner.
#[derive(Clone, Debug)]
pub struct Luggage {
    /// The hub that the member is connected to.
    pub hub: HubId,
    /// How many members of the group that hub has.
    pub members: u32,
    /// What the member has in hand.
    pub held: Vec<Held>,
    /// What it acked and the owner before may not have saved.
    pub settled: Vec<Held>,
}

/// This hub among the others.
pub(crate) struct Cluster {
    pub me: HubInfo,
    config: ClusterConfig,
    shared: SharedStore,
    peers: Mutex<Peers>,
    names: RwLock<HashMap<GroupName, Arc<Tenure>, RandomState>>,
    /// Names whose owners are looked for now.
    lookups: Mutex<HashMap<String, Arc<Lookup>, RandomState>>,
    pulse: Mutex<Pulse>,
    /// Deliveries end here, on the steady clock: what `pulse` says.
    serves_until: AtomicU64,
    /// A lapse of the heartbeat is over: names have to be claimed again.
    lapsed: Notify,
    /// The epoch under which this hub cleans; `None` if another one does.
    cleans: Mutex<Option<u64>>,
    /// Heartbeats that were begun.
    beats_begun: AtomicU64,
    /// One heartbeat at a time: the number of the last one, and what came of it.
    beating: tokio::sync::Mutex<(u64, Result<()>)>,
    /// Another hub was seen for the first time.
    joined: Notify,
    /// Counts up when a hub is not there any more.
    gone: watch::Sender<u64>,
    /// This hub is about to stop: it gives names up, and takes none.
    leaving: AtomicBool,
    /// It has left.
    pub over: CancellationToken,
}

/// A search for the owner of a name. Any number of members may need it at once, when their hub has lost the one before.
#[derive(Default)]
struct Lookup {
    /// Searches that were begun.
    begun: AtomicU64,
    /// One at a time: the number of the last one that found no owner here, and what it found.
    last: tokio::sync::Mutex<Option<(u64, Result<HubInfo>)>>,
}

/// A hub that is dead for so many times `dead_after` is forgotten.
const FORGET_AFTER: Millis = 150;
/// Between two tries to claim names again.
const RENEW_RETRY: Duration = Duration::from_millis(100);

impl Cluster {
    pub fn new(shared: SharedStore, config: ClusterConfig, started: Millis) -> Self {
        let (address, version) = (config.address.clone(), config.version.clone());
        let peers = Mutex::new(Peers::new(config.dead_after));
        Self {
            me: HubInfo { id: HubId::random(), address, started, version },
            config,
            shared,
            peers,
            names: RwLock::default(),
            lookups: Mutex::default(),
            pulse: Mutex::default(),
            serves_until: AtomicU64::new(0),
            lapsed: Notify::new(),
            cleans: Mutex::new(None),
            beats_begun: AtomicU64::new(0),
            beating: tokio::sync::Mutex::new((0, Ok(()))),
            joined: Notify::new(),
            gone: watch::Sender::new(0),
            leaving: AtomicBool::new(false),
            over: CancellationToken::new(),
        }
    }

    /// Whether an owner may deliver at this time.
    pub fn serves(&self, now: Millis) -> bool {
        now < self.serves_until.load(SeqCst) && !self.is_leaving()
    }

    /// This hub is about to stop. From here on it delivers nothing: what a member that leaves gives back belongs to the
    /// next owner, which hears from the member that it has it in hand.
    pub fn wind_down(&self) {
        self.leaving.store(true, SeqCst);
    }

    /// The hubs that are alive, this one included.
    pub fn alive(&self) -> Vec<HubInfo> {
        self.peers.lock().alive()
    }

    /// Whether a hub is alive, as far as is known here.
    pub fn is_alive(&self, hub: HubId) -> bool {
        self.peers.lock().living(hub).is_some()
    }

    /// For those who have to know when a hub is gone.
    pub fn departures(&self) -> watch::Receiver<u64> {
        self.gone.subscribe()
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(SeqCst)
    }

    fn has_others(&self) -> bool {
        self.peers.lock().alive().iter().any(|hub| hub.id != self.me.id)
    }

    /// Starts what runs until the hub has left, which is later than its stop: until then its groups are its own. Heartbeats
    /// have a task of their own: they wait for nothing that takes longer the more a hub owns.
    pub fn start(engine: &Arc<Engine>) {
        let Some(over) = engine.cluster.as_ref().map(|cluster| cluster.over.clone()) else { return };
        supervise::run_until(engine, over.clone(), "heartbeat", |engine| async move {
            if let Some(cluster) = &engine.cluster {
                cluster.beats(&engine).await;
            }
        });
        supervise::run_until(engine, over.clone(), "renewal of group names", |engine| async move {
            if let Some(cluster) = &engine.cluster {
                cluster.renewals(&engine).await;
            }
        });
        supervise::run_until(engine, over, "release of idle group names", |engine| async move {
            if let Some(cluster) = &engine.cluster {
                cluster.tidies(&engine).await;
            }
        });
    }

    /// Gives up idle names and forgets dead hubs, now and then.
    async fn tidies(&self, engine: &Arc<Engine>) {
        loop {
            tokio::time::sleep(Duration::from_millis(self.config.beat_every)).await;
            if self.serves(engine.clock.steady()) {
                self.tidy(engine).await;
            }
        }
    }

    /// Claims all names again after each lapse of the heartbeat.
    async fn renewals(&self, engine: &Arc<Engine>) {
        loop {
            self.lapsed.notified().await;
            loop {
                let unrenewed = self.pulse.lock().unrenewed();
                let Some(lapse) = unrenewed else { break };
                match self.renew(engine).await {
                    Ok(names) => {
                        let mut pulse = self.pulse.lock();
                        pulse.renew(lapse);
                        self.serves_until.store(pulse.serves_until(), SeqCst);
                        tracing::info!(names, "names claimed again after a lapse of the heartbeat");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "names could not be claimed again; groups pause until they are");
                        tokio::time::sleep(RENEW_RETRY).await;
                    }
                }
            }
        }
    }

    async fn beats(&self, engine: &Arc<Engine>) {
        let mut failing = false;
        loop {
            match self.beat(engine).await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "the heartbeat failed; groups pause until it comes through");
                    }
                    failing = true;
                }
            }
            tokio::time::sleep(Duration::from_millis(self.config.beat_every)).await;
        }
    }

    /// Shows that this hub is alive, and sees who else is. A heartbeat that another task begins after this was called is as
    /// good as one of this task's own, so any number of callers cost two.
    pub async fn beat(&self, engine: &Arc<Engine>) -> Result<()> {
        let called = self.beats_begun.load(SeqCst);
        let mut last = self.beating.lock().await;
        if last.0 > called {
            return last.1.clone();
        }
        let number = self.beats_begun.fetch_add(1, SeqCst) + 1;
        let beat = self.beat_in_turn(engine).await;
        *last = (number, beat.clone());
        beat
    }

    async fn beat_in_turn(&self, engine: &Arc<Engine>) -> Result<()> {
        let sent = engine.clock.steady();
        let beats = self.in_time(self.shared.beat(&self.me)).await.map_err(refused)?;
        let lapsed = {
            let mut pulse = self.pulse.lock();
            let lapsed = pulse.beat(sent, engine.clock.steady(), self.config.serve_for);
            self.serves_until.store(pulse.serves_until(), SeqCst);
            lapsed
        };
        if lapsed {
            // For a while others may have found this hub dead, and be about to act on it.
            self.lapsed.notify_one();
        }
        let (before, is_new, after) = {
            let mut peers = self.peers.lock();
            let before = peers.living_ids();
            let is_new = peers.observe(sent, engine.clock.steady(), beats);
            (before, is_new, peers.living_ids())
        };
        if before.iter().any(|hub| !after.contains(hub)) {
            self.gone.send_modify(|times| *times += 1);
        }
        if is_new {
            self.joined.notify_one();
        }
        Ok(())
    }

    /// Gives up what nobody here needs any more, and forgets hubs that are long dead.
    async fn tidy(&self, engine: &Arc<Engine>) {
        if !self.is_leaving() {
            self.give_up_idle(engine, self.config.idle_for).await;
            self.update_edges().await;
        }
        let gone = self.peers.lock().dead_for(self.config.dead_after * FORGET_AFTER);
        if !gone.is_empty()
            && let Err(error) = self.in_time(self.shared.forget(&gone)).await
        {
            tracing::debug!(%error, "hubs that are long dead could not be forgotten");
        }
    }

    /// Whether this hub is the one that cleans; it becomes that if nobody is.
    pub async fn cleans(&self, engine: &Arc<Engine>) -> Result<bool> {
        let seen = self.in_time(self.shared.owner(CLEANING)).await.map_err(refused)?;
        let mine = *self.cleans.lock();
        if seen.hub == Some(self.me.id) && mine == Some(seen.epoch) {
            return Ok(self.serves(engine.clock.steady()));
        }
        *self.cleans.lock() = None;
        if let Some(hub) = seen.hub
            && hub != self.me.id
            && self.peer(engine, hub).await?.is_some()
        {
            return Ok(false);
        }
        let claim = self.in_time(self.shared.claim(CLEANING, seen.epoch, self.me.id)).await;
        if let crate::store::Claim::Won { epoch, .. } = claim.map_err(refused)? {
            *self.cleans.lock() = Some(epoch);
            return Ok(true);
        }
        Ok(false)
    }

    /// Owns the names of groups that may have expired, for as long as the stays are kept. Those that another hub serves are
    /// left out: they have members, or had a moment ago.
    pub async fn idle(&self, engine: &Arc<Engine>) -> Vec<Stay> {
        let days = engine.config.group_expire_days;
        if days == 0 {
            return Vec::new();
        }
        let before = engine.now_unset().saturating_sub(Millis::from(days) * DAY);
        let names = match self.in_time(self.shared.idle_since(before)).await {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(%error, "groups without members could not be looked for");
                return Vec::new();
            }
        };
        let mut stays = Vec::new();
        for name in names.iter().filter_map(|name| GroupName::parse(name).ok()) {
            if let Ok(Owned::Here(stay)) = self.own(engine, &name).await {
                stays.push(stay);
            }
        }
        stays
    }

    /// A store that does not answer is as good as one that refuses.
    async fn in_time<T>(&self, asked: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        within(Duration::from_millis(self.config.serve_for), asked).await
    }
}

async fn within<T>(patience: Duration, asked: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let late = || Err(StoreError::Unavailable("the store did not answer in time".into()));
    tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| late())
}

/// The name of the duty to clean. No group can be called so.
const CLEANING: &str = "~cleaning";
