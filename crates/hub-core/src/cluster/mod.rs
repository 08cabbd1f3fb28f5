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
//!   anybody can find it dead. After such a lapse it asks what it still owns before it goes on.
//! - A new owner waits for the hubs that had members to say what those hold ([`tenure`]), before it delivers anything.
//!
//! | what | where |
//! | --- | --- |
//! | who is alive | [`peers`] |
//! | claiming, losing and giving up names | [`names`] |
//! | one name while it is owned here | [`tenure`] |
//! | hearing of others' commits | [`news`] |
//! | groups that are not served here | [`elsewhere`] |

mod elsewhere;
mod names;
mod news;
mod peers;
mod tenure;

pub use elsewhere::Elsewhere;
pub(crate) use names::{Owned, not_owner};
pub(crate) use tenure::{Stay, Tenure};

use crate::Millis;
use crate::config::DAY;
use crate::engine::Engine;
use crate::position::refused;
use crate::store::{HubId, HubInfo, SharedStore, StoreError, StoreResult};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{EventId, GroupName, Result, TopicName};
use parking_lot::{Mutex, RwLock};
use peers::Peers;
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
    /// How long a new owner waits for hubs that had members.
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
    /// What it acked lately: the owner before may not have saved that.
    pub settled: Vec<Held>,
}

/// This hub among the others.
pub(crate) struct Cluster {
    pub me: HubInfo,
    config: ClusterConfig,
    shared: SharedStore,
    peers: Mutex<Peers>,
    names: RwLock<HashMap<GroupName, Arc<Tenure>, RandomState>>,
    /// A name is claimed or given up by one task at a time.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>, RandomState>>,
    /// Deliveries end here, on the steady clock.
    serves_until: AtomicU64,
    /// The epoch under which this hub cleans; `None` if another one does.
    cleans: Mutex<Option<u64>>,
    /// One heartbeat at a time.
    beating: tokio::sync::Mutex<()>,
    /// Another hub was seen for the first time.
    joined: Notify,
    /// Counts up when a hub is not there any more.
    gone: watch::Sender<u64>,
    /// This hub is about to stop: it gives names up, and takes none.
    leaving: AtomicBool,
    /// It has left.
    pub over: CancellationToken,
}

/// A hub that is dead for so many times `dead_after` is forgotten.
const FORGET_AFTER: Millis = 150;

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
            turns: Mutex::default(),
            serves_until: AtomicU64::new(0),
            cleans: Mutex::new(None),
            beating: tokio::sync::Mutex::default(),
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

    /// Beats until the hub has left, which is later than its stop: until then its groups are its own.
    pub async fn run(&self, engine: &Arc<Engine>) {
        tokio::select! {
            biased;
            () = self.over.cancelled() => {}
            () = self.beats(engine) => {}
            () = self.tidies(engine) => {}
        }
    }

    /// Tidies up beside the heartbeat, which must not wait for it.
    async fn tidies(&self, engine: &Arc<Engine>) {
        loop {
            tokio::time::sleep(Duration::from_millis(self.config.beat_every)).await;
            if self.serves(engine.clock.steady()) {
                self.tidy(engine).await;
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

    /// Shows that this hub is alive, and sees who else is.
    pub async fn beat(&self, engine: &Arc<Engine>) -> Result<()> {
        let _turn = self.beating.lock().await;
        let sent = engine.clock.steady();
        let beats = self.in_time(self.shared.beat(&self.me)).await.map_err(refused)?;
        let before = self.serves_until.load(SeqCst);
        if before > 0 && engine.clock.steady() >= before {
            // For a while others may have found this hub dead, and be about to act on it.
            self.renew(engine).await.map_err(refused)?;
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
        self.serves_until.store(sent + self.config.serve_for, SeqCst);
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
