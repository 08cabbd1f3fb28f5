//! What the gateway and HTTP share, and how all of it stops.

use crate::audit::Audit;
use crate::auth::revoked::{Revocations, revoked};
use crate::auth::tickets::Tickets;
use crate::auth::{Authenticator, ClusterKey, Identity, Rejected, Revoked};
use crate::connections::Connections;
use crate::edge::{DetachedMembers, Edge};
use crate::http::Sampler;
use crate::jobs::Jobs;
use crate::limits::{Attempt, Buckets, FailedAuth, Live};
use crate::net::{ClientCertificate, Door};
use crate::outboxes::Outboxes;
use crate::push::Push;
use crate::quota_metrics;
use crate::settings::Settings;
use hub_core::{Bus, Millis, SystemTopic};
use hub_proto::Result;
use hub_schema::Schemas;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::any::Any;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often a hub that stops looks which groups have no members any more.
const HAND_OVER: Duration = Duration::from_millis(10);

/// How often revocations are forgotten that no token needs any more.
const TIDY: Duration = Duration::from_secs(10 * 60);
/// How long to wait before the store is asked again for what others have revoked.
const RETRY: Duration = Duration::from_millis(250);
/// How often rates are sampled.
const SAMPLE: Duration = Duration::from_secs(1);

/// A running hub: the bus, who may use it, and how much. Clones are handles to the same.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Bus,
    /// When it was built, on the wall clock.
    started: Millis,
    auth: Authenticator,
    revocations: Revocations,
    following: OnceLock<()>,
    sampling: OnceLock<()>,
    sampler: Sampler,
    settings: watch::Sender<Arc<Settings>>,
    buckets: Arc<Buckets>,
    registry: Registry,
    quota_registry: Registry,
    connections: Gauge,
    door: Door,
    waiting_room: Door,
    live: Live,
    open_connections: Connections,
    failed_auth: FailedAuth,
    tickets: Tickets,
    edge: Edge,
    detached_members: DetachedMembers,
    outboxes: Outboxes,
    jobs: Jobs,
    audit: Audit,
    push: Push,
    draining: CancellationToken,
    sessions: TaskTracker,
    /// Workers of push subscriptions.
    pushing: TaskTracker,
    /// Cancelled when the last handle is gone.
    ended: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// A hub in the making: [`Hub::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct HubBuilder {
    bus: Bus,
    auth: Authenticator,
    settings: Settings,
    registry: Registry,
    cluster_key: Option<ClusterKey>,
    cluster_roots: Option<Vec<u8>>,
    audit: Audit,
    cluster_certificate: Option<hub_client::Certificate>,
}

impl HubBuilder {
    /// Limits and rules to begin with.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The registry that `/metrics` shows: the one that the bus was opened with.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// What this hub shows to the others on its store, and they to it; the same for all of them. Without it, groups that
    /// another hub serves cannot be reached.
    pub fn cluster_key(mut self, key: ClusterKey) -> Self {
        self.cluster_key = Some(key);
        self
    }

    /// Certificates, in PEM, that are trusted beside the public ones when other hubs are at `wss://` addresses.
    pub fn cluster_roots(mut self, pem: Vec<u8>) -> Self {
        self.cluster_roots = Some(pem);
        self
    }

    /// Where refusals and admin actions are logged; without it, nowhere. [`Audit::close`] it after the hub has drained.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// The certificate that this hub shows to others that ask for one.
    pub fn cluster_certificate(mut self, certificate: hub_client::Certificate) -> Self {
        self.cluster_certificate = Some(certificate);
        self
    }

    /// The hub. It does nothing by itself: serve its [`gateway`](Hub::gateway) and its [`ops`](Hub::ops).
    pub fn build(mut self) -> Hub {
        let connections = Gauge::default();
        self.registry.register("ws_connections", "open WebSocket connections", connections.clone());
        let door = Door::register(&mut self.registry);
        let outboxes = Outboxes::default();
        self.registry.register_collector(Box::new(outboxes.clone()));
        let push = Push::default();
        self.registry.register_collector(Box::new(push.clone()));
        self.audit.register(&mut self.registry);
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("store", self.bus.store_name())]);
        self.registry.register("event_hub_build", "The version of the hub, and the kind of its store", build);
        let revocations = Revocations::default();
        self.registry.register(
            "revocations",
            "Revoked subjects and tokens that are remembered",
            revocations.gauge().clone(),
        );
        let sampler = Sampler::register(&mut self.registry);
        let buckets = Arc::new(Buckets::new(&self.settings.limits));
        let (live, settings) = (Live::default(), watch::Sender::new(Arc::new(self.settings)));
        Hub {
            inner: Arc::new(Inner {
                quota_registry: quota_metrics::registry(&self.bus, &live, settings.subscribe()),
                started: self.bus.now(),
                bus: self.bus,
                auth: self.auth,
                revocations,
                following: OnceLock::new(),
                sampling: OnceLock::new(),
                sampler,
                buckets,
                settings,
                registry: self.registry,
                connections,
                waiting_room: door.beside(),
                door,
                live,
                open_connections: Connections::default(),
                failed_auth: FailedAuth::default(),
                tickets: Tickets::default(),
                edge: Edge::new(self.cluster_key, self.cluster_roots, self.cluster_certificate),
                detached_members: DetachedMembers::default(),
                outboxes,
                jobs: Jobs::default(),
                audit: self.audit,
                push,
                draining: CancellationToken::new(),
                sessions: TaskTracker::new(),
                pushing: TaskTracker::new(),
                ended: CancellationToken::new(),
            }),
        }
    }
}

impl Hub {
    /// A hub over a bus, for those whom `auth` knows.
    pub fn builder(bus: Bus, auth: Authenticator) -> HubBuilder {
        HubBuilder {
            bus,
            auth,
            settings: Settings::default(),
            registry: Registry::default(),
            cluster_key: None,
            cluster_roots: None,
            audit: Audit::off(),
            cluster_certificate: None,
        }
    }

    /// The bus.
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// When the hub was built, on the wall clock.
    pub(crate) fn started(&self) -> Millis {
        self.inner.started
    }

    /// Who knows whom.
    pub fn auth(&self) -> &Authenticator {
        &self.inner.auth
    }

    /// Who a token speaks for, or without one a client certificate, unless it was revoked. `from` is the address that a failure counts for, if it does for any.
    ///
    /// # Errors
    /// Those of [`Authenticator::identify`], `token_revoked`, and `rate_limited` if the address has failed too often.
    pub(crate) async fn identify(
        &self,
        from: Option<IpAddr>,
        token: Option<&str>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Identity, Rejected> {
        let Inner { auth, failed_auth, .. } = &*self.inner;
        let per_minute = self.inner.settings.borrow().limits.failed_auth_per_address;
        // Without a token there is nothing to verify, and nothing was tried.
        let attempt = from.zip(token).map(|(from, token)| Attempt { from, token, per_minute });
        let now = || auth.steady() * 1_000_000;
        attempt.map_or(Ok(()), |attempt| failed_auth.check(attempt, now()))?;
        let identified = self.verify(token, certificate).await;
        if let Some(attempt) = attempt {
            failed_auth.settle(attempt, identified.as_ref().err().map(|rejected| rejected.error.code), now());
        }
        identified
    }

    async fn verify(
        &self,
        token: Option<&str>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Identity, Rejected> {
        let identity = self.inner.auth.identify_with(token, certificate).await?;
        self.inner.revocations.load(&self.inner.bus).await?;
        self.follow_revocations();
        match self.check_revoked(&identity) {
            Ok(()) => Ok(identity),
            Err(error) => Err(Rejected::of(identity, error)),
        }
    }

    /// Refuses somebody whose token was taken back, or whose key is not one of the hub's any more.
    pub(crate) fn check_revoked(&self, identity: &Identity) -> Result<()> {
        self.inner.revocations.check(identity)?;
        match self.inner.auth.covers(identity) {
            true => Ok(()),
            false if identity.certificate.is_some() => {
                Err(revoked("the authority that signed the client certificate is not trusted any more"))
            }
            false => Err(revoked("the key that signed the token is not used any more; get a new token")),
        }
    }

    /// Takes tokens back: open sockets that came with them end, and nobody comes in with them, on any hub of the store.
    ///
    /// # Errors
    /// `unavailable` if that could not be stored; then nothing has changed.
    pub async fn revoke(&self, what: Revoked) -> Result<()> {
        let Inner { bus, auth, revocations, .. } = &*self.inner;
        revocations.load(bus).await?;
        revocations.revoke(bus, what, auth.max_lifetime()).await?;
        self.recheck();
        Ok(())
    }

    /// How many revocations are remembered.
    pub(crate) fn revocations(&self) -> usize {
        self.inner.revocations.len()
    }

    /// Has every session look again whether its token holds, and what it may do.
    fn recheck(&self) {
        self.inner.settings.send_modify(|_| {});
    }

    /// Hears what other hubs revoke, from the first token on.
    fn follow_revocations(&self) {
        if self.inner.following.set(()).is_err() {
            return;
        }
        // It keeps no hub alive.
        let (hub, bus) = (Arc::downgrade(&self.inner), self.inner.bus.clone());
        let (draining, ended) = (self.inner.draining.clone(), self.inner.ended.clone());
        let follow = async move {
            let mut watch = loop {
                let watch = bus.system_watch(SystemTopic::Revoked).await;
                // What was written before the watch began.
                let entries = bus.system_entries(SystemTopic::Revoked).await;
                let Some(inner) = hub.upgrade() else { return };
                if let (Ok(watch), Ok(entries)) = (watch, entries) {
                    entries.iter().for_each(|entry| inner.revocations.learn(entry));
                    inner.settings.send_modify(|_| {});
                    break watch;
                }
                drop(inner);
                tokio::time::sleep(RETRY).await;
            };
            let mut tidy = tokio::time::interval(TIDY);
            loop {
                let heard = tokio::select! {
                    heard = watch.recv() => heard,
                    _ = tidy.tick() => {
                        let Some(inner) = hub.upgrade() else { return };
                        inner.revocations.tidy(&inner.bus).await;
                        continue;
                    }
                };
                let Some(inner) = hub.upgrade() else { return };
                match heard {
                    Ok(Some(entry)) => inner.revocations.learn(&entry),
                    Ok(None) => {
                        let entries = inner.bus.system_entries(SystemTopic::Revoked).await;
                        entries.into_iter().flatten().for_each(|entry| inner.revocations.learn(&entry));
                    }
                    Err(_) => {
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                }
                inner.settings.send_modify(|_| {});
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = draining.cancelled() => {}
                () = ended.cancelled() => {}
                () = follow => {}
            }
        });
    }

    /// Samples the rates of topics and groups once a second, and while somebody watches what `GET /live` shows. Needs a runtime; once is enough.
    pub(crate) fn sample_rates(&self) {
        if tokio::runtime::Handle::try_current().is_err() || self.inner.sampling.set(()).is_err() {
            return;
        }
        // It keeps no hub alive.
        let (hub, ended) = (Arc::downgrade(&self.inner), self.inner.ended.clone());
        let (sampled, ticks) = watch::channel(());
        let live = self.inner.sampler.clone().run(self.inner.bus.clone(), ticks);
        let sample = async move {
            let mut seconds = tokio::time::interval(SAMPLE);
            // A sample says what was done since the one before, however long that is.
            seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                seconds.tick().await;
                let Some(inner) = hub.upgrade() else { return };
                inner.bus.sample_rates();
                sampled.send_replace(());
            }
        };
        let live_ended = ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = sample => {}
            }
        });
        tokio::spawn(async move {
            tokio::select! {
                () = live_ended.cancelled() => {}
                () = live => {}
            }
        });
    }

    /// What `GET /live` shows.
    pub(crate) fn sampler(&self) -> &Sampler {
        &self.inner.sampler
    }

    /// Limits and rules as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        self.inner.settings.borrow().clone()
    }

    /// Sets other limits and rules. Sessions follow at once: a right that was lost ends its subscriptions.
    pub fn apply(&self, settings: Settings) {
        self.inner.buckets.apply(&settings.limits);
        self.inner.settings.send_replace(Arc::new(settings));
    }

    /// Shows another certificate to other hubs from the next connection on.
    pub fn set_cluster_certificate(&self, certificate: Option<hub_client::Certificate>) {
        self.inner.edge.set_certificate(certificate);
    }

    /// For those who have to know when settings change.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Settings>> {
        self.inner.settings.subscribe()
    }

    /// Rates of subjects and topics.
    pub(crate) fn buckets(&self) -> &Arc<Buckets> {
        &self.inner.buckets
    }

    /// What `/metrics` shows.
    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// What `/metrics` shows of quotas to those who may see other subjects.
    pub(crate) fn quota_registry(&self) -> &Registry {
        &self.inner.quota_registry
    }

    /// What each listener's count of connections is made of.
    pub(crate) fn door(&self) -> &Door {
        &self.inner.door
    }

    /// What subjects have open.
    pub(crate) fn live(&self) -> &Live {
        &self.inner.live
    }

    /// The connections that are open.
    pub(crate) fn open_connections(&self) -> &Connections {
        &self.inner.open_connections
    }

    /// The tickets that were given out and not used yet.
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.inner.tickets
    }

    /// Counts WebSocket connections that have not said who they are.
    pub(crate) fn waiting_room(&self) -> &Door {
        &self.inner.waiting_room
    }

    /// What it needs to reach other hubs.
    pub(crate) fn edge(&self) -> &Edge {
        &self.inner.edge
    }

    /// Members that wait for their client, or its hub, to come back.
    pub(crate) fn detached_members(&self) -> &DetachedMembers {
        &self.inner.detached_members
    }

    /// The outboxes that are drained here.
    pub fn outboxes(&self) -> &Outboxes {
        &self.inner.outboxes
    }

    /// The schemas of topics; `None` if the bus was opened without.
    pub fn schemas(&self) -> Option<&Schemas> {
        let checks: &dyn Any = &**self.inner.bus.payload_checks()?;
        checks.downcast_ref()
    }

    /// The push subscriptions.
    pub fn push(&self) -> &Push {
        &self.inner.push
    }

    /// Delivers push subscriptions from now on, until the hub drains. To be called once.
    pub fn start_push(&self) {
        let Inner { bus, push, pushing, draining, ended, buckets, .. } = &*self.inner;
        let (draining, ended, stop) = (draining.clone(), ended.clone(), CancellationToken::new());
        let run = push.clone().run(bus.clone(), buckets.clone(), pushing.clone(), stop.clone());
        // It keeps no hub alive.
        pushing.spawn(async move {
            let stopping = async {
                tokio::select! {
                    () = draining.cancelled() => {}
                    () = ended.cancelled() => {}
                }
                stop.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = run => {}
                () = stopping => {}
            }
        });
    }

    /// What goes on behind requests.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.inner.jobs
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// Open WebSocket connections.
    pub(crate) fn connections(&self) -> &Gauge {
        &self.inner.connections
    }

    /// Cancelled once the hub takes no new work.
    pub fn draining(&self) -> &CancellationToken {
        &self.inner.draining
    }

    /// What a stop waits for.
    pub fn sessions(&self) -> &TaskTracker {
        &self.inner.sessions
    }

    /// Takes no new work; sessions get the answers to what they have sent, their acks are taken, and they are told to come
    /// back (1012). Waits until they are gone, at most `patience`; answers how many were left. The bus goes on, but gives
    /// each group to other hubs as soon as its last member here is gone.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.inner.bus.wind_down();
        self.inner.draining.cancel();
        self.inner.sessions.close();
        self.inner.pushing.close();
        let handing_over = async {
            loop {
                self.inner.bus.hand_over().await;
                tokio::time::sleep(HAND_OVER).await;
            }
        };
        let ended = async { tokio::join!(self.inner.sessions.wait(), self.inner.pushing.wait()) };
        tokio::select! {
            _ = tokio::time::timeout(patience, ended) => {}
            () = handing_over => {}
        }
        self.inner.sessions.len()
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("bus", &self.inner.bus).finish_non_exhaustive()
    }
}
