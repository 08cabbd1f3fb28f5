//! Claiming, losing and giving up group names.

use super::{Cluster, Lookup, Stay, Tenure, within};
use crate::Millis;
use crate::engine::{By, Engine, stopped};
use crate::position::refused;
use crate::store::{Bounds, Claim, Estate, HubId, HubInfo, Image, StoreError, StoreResult};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Code, Error, GroupName, Result, TopicName};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How often a name may change hands under somebody who wants it.
const TRIES: usize = 8;
/// Names given up in one go: the rest has time.
const GIVE_UP: usize = 64;
/// Names that are claimed again with one call.
const RENEWED_AT_ONCE: usize = 1_000;

/// How long reading everything of a name may take.
const ESTATE: Duration = Duration::from_secs(30);

/// Who owns a name.
pub(crate) enum Owned {
    /// This hub, at least for as long as the stay.
    Here(Stay),
    There(HubInfo),
}

impl Cluster {
    /// Finds the owner of a group name; a name without a living owner becomes this hub's.
    pub async fn own(&self, engine: &Arc<Engine>, name: &GroupName) -> Result<Owned> {
        if let Some(stay) = self.stay(engine, name) {
            return Ok(Owned::Here(stay));
        }
        engine.check_running()?;
        if self.is_leaving() {
            return Err(stopped());
        }
        let lookup = self.lookups.lock().entry(name.to_string()).or_default().clone();
        let owned = self.look_up(engine, name, &lookup).await;
        drop(lookup);
        self.lookups.lock().retain(|_, lookup| Arc::strong_count(lookup) > 1);
        owned
    }

    /// A search that another task begins after this was called will do.
    async fn look_up(&self, engine: &Arc<Engine>, name: &GroupName, lookup: &Lookup) -> Result<Owned> {
        let called = lookup.begun.load(SeqCst);
        let mut last = lookup.last.lock().await;
        if let Some(stay) = self.stay(engine, name) {
            return Ok(Owned::Here(stay));
        }
        if let Some((number, found)) = &*last
            && *number > called
        {
            return found.clone().map(Owned::There);
        }
        let number = lookup.begun.fetch_add(1, SeqCst) + 1;
        let owned = self.find_or_claim(engine, name).await;
        *last = match &owned {
            Ok(Owned::Here(_)) => None,
            Ok(Owned::There(hub)) => Some((number, Ok(hub.clone()))),
            Err(error) => Some((number, Err(error.clone()))),
        };
        owned
    }

    async fn find_or_claim(&self, engine: &Arc<Engine>, name: &GroupName) -> Result<Owned> {
        for _ in 0..TRIES {
            if let Some(stay) = self.stay(engine, name) {
                return Ok(Owned::Here(stay));
            }
            let lapses = self.pulse.lock().lapses();
            let seen = self.in_time(self.shared.owner(name)).await.map_err(refused)?;
            if let Some(hub) = seen.hub
                && hub != self.me.id
                && let Some(info) = self.peer(engine, hub).await?
            {
                return Ok(Owned::There(info));
            }
            let claim = self.in_time(self.shared.claim(name, seen.epoch, self.me.id)).await;
            if let Claim::Won { epoch, edges } = claim.map_err(refused)? {
                self.take(engine, name, (epoch, lapses), edges).await.map_err(refused)?;
            }
        }
        Err(Error::unavailable(format!("group {name} changes hands too often; try again")))
    }

    /// Takes over what belongs to a name, which was claimed under `epoch` after so many `lapses`.
    async fn take(
        &self,
        engine: &Arc<Engine>,
        name: &GroupName,
        (epoch, lapses): (u64, u64),
        edges: Vec<HubId>,
    ) -> StoreResult<()> {
        // Should this fail, the name stays ours and empty-handed, and whoever asks next claims it again.
        // A pattern over many topics is a lot to read; heartbeats go on beside it.
        let estate = within(ESTATE, self.shared.estate(name, epoch)).await?;
        let is_known = |hub: &HubId| self.peers.lock().is_known(*hub);
        if !edges.iter().all(is_known) {
            // One that started a moment ago. Should this fail, whoever is not known is not waited for.
            let _ = self.beat(engine).await;
        }
        let edges: Vec<HubId> = {
            let peers = self.peers.lock();
            edges.into_iter().filter(|&hub| peers.living(hub).is_some()).collect()
        };
        tracing::info!(group = %name, epoch, groups = estate.groups.len(), edges = edges.len(), "owning a group");
        let now = engine.clock.steady();
        let tenure = Arc::new(Tenure::new(epoch, edges, now, self.config.report_for));
        self.names.write().insert(name.clone(), tenure.clone());
        if self.pulse.lock().lapses() != lapses {
            // Another hub may be about to act on a lapse since the claim, and names may have been claimed again before this one
            // was among them.
            self.drop_names(engine, &[(name.clone(), tenure)]);
            return Err(StoreError::Unavailable("the heartbeat lapsed while a group was taken over".into()));
        }
        let mut unknown: Vec<TopicName> =
            estate.groups.iter().map(|group| group.record.topic.clone()).collect();
        unknown.retain(|topic| engine.find(topic).is_none());
        if !unknown.is_empty() {
            for (topic, last) in self.in_time(self.shared.tails(Some(&unknown))).await? {
                let topic = engine.topic(&topic, By::Hub);
                topic.into_iter().for_each(|topic| drop(topic.learn(Bounds { last, ..Bounds::default() })));
            }
        }
        let _turn = engine.structure.lock().await;
        let Estate { groups, subscriptions } = estate;
        engine.restore(Image { topics: Vec::new(), groups, subscriptions });
        tenure.set_arrived(true);
        if tenure.is_lost() {
            engine.drop_groups(&[(name.clone(), tenure)]);
        }
        Ok(())
    }

    /// A stay at a name that is owned here.
    fn stay(&self, engine: &Engine, name: &GroupName) -> Option<Stay> {
        let names = self.names.read();
        let tenure = names.get(name).filter(|tenure| tenure.has_arrived() && !tenure.is_lost())?;
        Some(tenure.stay(engine.clock.clone()))
    }

    /// The name as it is owned here.
    pub fn tenure(&self, name: &str) -> Option<Arc<Tenure>> {
        self.names.read().get(name).cloned()
    }

    /// Another hub, if it is alive. One that seems to be dead is looked at again: it may have come back since heartbeats were
    /// read, and have claimed its names again. A claim must name an epoch that was read before this.
    pub(super) async fn peer(&self, engine: &Arc<Engine>, hub: HubId) -> Result<Option<HubInfo>> {
        let living = self.peers.lock().living(hub).cloned();
        if living.is_some() {
            return Ok(living);
        }
        self.beat(engine).await?;
        Ok(self.peers.lock().living(hub).cloned())
    }

    /// Names as they are owned now.
    fn tenures(&self) -> Vec<(GroupName, Arc<Tenure>)> {
        self.names.read().iter().map(|(name, tenure)| (name.clone(), tenure.clone())).collect()
    }

    /// Asks what this hub still owns, and lets go of the rest.
    pub async fn verify(&self, engine: &Arc<Engine>) -> StoreResult<()> {
        // What is claimed from here on may be missing in the answer.
        let tenures = self.tenures();
        let owned = self.in_time(self.shared.owned(self.me.id)).await?;
        self.keep(engine, tenures, owned);
        Ok(())
    }

    /// Others may have found this hub dead: claims everything again that it owns, so that whoever is about to act on that
    /// finds it changed, and lets go of what another one has already. Answers how many names it owns.
    pub async fn renew(&self, engine: &Arc<Engine>) -> StoreResult<usize> {
        let tenures = self.tenures();
        for tenures in tenures.chunks(RENEWED_AT_ONCE) {
            let names: Vec<&str> = tenures.iter().map(|(name, _)| name.as_str()).collect();
            let owned = self.in_time(self.shared.renew(&names, self.me.id)).await?;
            self.keep(engine, tenures.to_vec(), owned);
        }
        Ok(tenures.iter().filter(|(_, tenure)| !tenure.is_lost()).count())
    }

    /// Goes on with those names that the hub owns, and lets go of the others.
    fn keep(&self, engine: &Engine, tenures: Vec<(GroupName, Arc<Tenure>)>, owned: Vec<(String, u64)>) {
        let owned: HashMap<String, u64, RandomState> = owned.into_iter().collect();
        let (kept, lost): (Vec<_>, Vec<_>) = tenures.into_iter().partition(|(name, tenure)| {
            owned.get(name.as_str()).is_some_and(|&epoch| epoch >= tenure.epoch())
        });
        for (name, tenure) in kept {
            // The answer to an earlier renewal may have been lost.
            owned.get(name.as_str()).into_iter().for_each(|&epoch| tenure.renewed(epoch));
        }
        for (name, tenure) in &lost {
            tracing::warn!(group = %name, epoch = tenure.epoch(), "another hub has taken over a group");
        }
        self.drop_names(engine, &lost);
    }

    /// Names are not ours any more: their members here have to look for the new owner.
    fn drop_names(&self, engine: &Engine, lost: &[(GroupName, Arc<Tenure>)]) {
        {
            let mut names = self.names.write();
            for (name, tenure) in lost {
                tenure.lose();
                if names.get(name).is_some_and(|there| Arc::ptr_eq(there, tenure)) {
                    names.remove(name);
                }
            }
        }
        engine.drop_groups(lost);
    }

    /// Gives up names that have had no members for so long, so that the next member's hub can own them.
    pub(super) async fn give_up_idle(&self, engine: &Arc<Engine>, idle_for: Millis) {
        let now = engine.clock.steady();
        let idle = |tenure: &Tenure| {
            tenure
                .idle_since()
                .is_some_and(|since| now.saturating_sub(since) >= idle_for)
                .then(|| tenure.visits())
        };
        let names: Vec<(GroupName, u64)> = {
            let names = self.names.read();
            let idle = names.iter().filter_map(|(name, tenure)| Some((name.clone(), idle(tenure)?)));
            idle.take(GIVE_UP).collect()
        };
        if names.is_empty() {
            return;
        }
        // What their members did last is saved before anybody else can read it.
        if engine.saver.flush(engine).await.is_err() {
            return;
        }
        let mut given = Vec::new();
        for (name, visits) in names {
            let tenure = {
                let mut names = self.names.write();
                // Whoever stays was counted under this lock. Who came and went since then may have left something unsaved.
                match names.get(&name) {
                    Some(tenure) if tenure.members() == 0 && tenure.visits() == visits => names.remove(&name),
                    _ => None,
                }
            };
            if let Some(tenure) = tenure {
                tenure.lose();
                given.push((name, tenure));
            }
        }
        engine.drop_groups(&given);
        let given: Vec<_> = given.iter().map(|(name, tenure)| (name.to_string(), tenure.epoch())).collect();
        if let Err(error) = self.in_time(self.shared.release(&given)).await {
            // They stay ours by name; whoever wants one finds out that we do not serve it, and so do we: it is claimed anew.
            tracing::debug!(%error, "idle groups could not be given up");
        }
    }

    /// A member at another hub is about to be served: stored before it is, so that a new owner knows of it.
    pub async fn note_edge(
        &self,
        engine: &Arc<Engine>,
        name: &GroupName,
        stay: &mut Stay,
        edge: HubId,
    ) -> Result<()> {
        stay.at(edge);
        let stored = self.store_edges(name, &stay.tenure).await;
        if matches!(stored, Err(StoreError::Fenced(_))) {
            self.verify(engine).await.map_err(refused)?;
            return Err(not_owner(name));
        }
        stored.map_err(refused)
    }

    /// Edges whose last member has left are forgotten.
    pub(super) async fn update_edges(&self) {
        let names: Vec<_> = {
            let names = self.names.read();
            let changed = names.iter().filter(|(_, tenure)| tenure.edges().unstored().is_some());
            changed.map(|(name, tenure)| (name.clone(), tenure.clone())).collect()
        };
        for (name, tenure) in names {
            if let Err(error) = self.store_edges(&name, &tenure).await {
                tracing::debug!(group = %name, %error, "the hubs with members could not be noted");
            }
        }
    }

    async fn store_edges(&self, name: &GroupName, tenure: &Tenure) -> StoreResult<()> {
        let _turn = tenure.noting.lock().await;
        let Some(edges) = tenure.edges().unstored() else { return Ok(()) };
        self.in_time(self.shared.set_edges(name, tenure.epoch(), &edges)).await?;
        tenure.edges().stored = edges;
        Ok(())
    }

    /// The hub is about to stop: names without members go to whoever wants them, now. Where their members are stays noted,
    /// so that the next owner waits for what those hold.
    pub async fn hand_over(&self, engine: &Arc<Engine>) {
        self.wind_down();
        self.give_up_idle(engine, 0).await;
    }

    /// A clean stop: everything is saved, others may take over at once.
    pub async fn leave(&self) -> StoreResult<()> {
        let mut names: Vec<(String, u64)> =
            self.names.write().drain().map(|(name, tenure)| (name.to_string(), tenure.epoch())).collect();
        names.extend(self.cleans.lock().take().map(|epoch| (super::CLEANING.to_owned(), epoch)));
        let released = self.in_time(self.shared.release(&names)).await;
        released.and(self.in_time(self.shared.forget(&[self.me.id])).await)
    }
}

/// What is answered about a group that another hub owns.
pub(crate) fn not_owner(name: &str) -> Error {
    Error::new(Code::NotOwner, format!("another hub serves group {name}; look again"))
}
