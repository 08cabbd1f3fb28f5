//! Members whose connection was lost.
//!
//! A client that loses its connection comes back in a moment, here or through another hub; so does a hub that loses its
//! connection to this one. Until then the member's subscription waits here with its leases: nobody else gets the events that its
//! consumer works on. A member that does not come back in time leaves its group.
//!
//! A client may be back before its old connection is known to be lost. Then a session still serves the member, and is told to
//! release it.

use super::Ask;
use crate::Hub;
use crate::gateway::Name;
use foldhash::fast::RandomState;
use futures_util::task::AtomicWaker;
use hashbrown::HashMap;
use hub_core::ById;
use hub_core::store::HubId;
use hub_proto::{Code, Error, EventId, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// How long a member waits for its hub, if it is not a client's to resume.
const HUB_GRACE: Duration = Duration::from_secs(2);
/// What is left of a lease at least when its member comes back in the last moment.
const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// How long a session may take to release a member.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most members that wait at once. More leave their groups at once.
const MAX_DETACHED: usize = 10_000;
/// The same, of one subject.
const MAX_DETACHED_OF_SUBJECT: usize = 2_000;

/// What a member is found by when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemberKey {
    pub id: MemberIdentity,
    pub name: Name,
}

/// Who brings a member back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemberIdentity {
    /// Its client, through any hub.
    Client(Uuid),
    /// The hub that serves its client, which has an id for each of its members.
    Hub(HubId, Uuid),
}

/// The id of a member that its client names. The subject is part of it, so nobody resumes another subject's member.
pub(crate) fn client_member_id(subject: &str, member: Uuid) -> Uuid {
    Uuid::new_v5(&member, subject.as_bytes())
}

/// A member that joins here, perhaps not for the first time.
pub(crate) struct Arriving {
    pub key: MemberKey,
    /// One edge's member: another one with the same key is a client that has connected anew.
    pub incarnation: Uuid,
    pub ask: Arc<Ask>,
    /// It was here or at another owner before, and was not opened by its client just now.
    pub is_again: bool,
    /// Whose connection it comes by; `None` for this hub's own clients.
    pub through: Option<HubId>,
    /// Tells the session to release it.
    pub recall: Arc<Recall>,
}

impl Arriving {
    /// A member of a client of this hub, if the client can resume it.
    pub fn of_client(ask: &Arc<Ask>, incarnation: Uuid, is_first: bool, recall: Arc<Recall>) -> Option<Self> {
        let key = MemberKey { id: MemberIdentity::Client(ask.client_member?), name: ask.name.clone() };
        Some(Self { key, incarnation, ask: ask.clone(), is_again: !is_first, through: None, recall })
    }

    fn attachment(&self, hub: &Hub, ticket: u64) -> MemberAttachment {
        let grace = hub.settings().limits.reconnect_grace.min(self.ask.ack_timeout);
        let client_grace = self.ask.client_member.map(|_| Duration::from_millis(grace));
        let (hub, key) = (hub.clone(), self.key.clone());
        MemberAttachment { hub, key, ticket, through: self.through, client_grace }
    }
}

/// The members that a session is to release, because they have come back through another connection.
#[derive(Default)]
pub(crate) struct Recall {
    members: Mutex<Vec<Recalled>>,
    session: AtomicWaker,
}

/// A member that is to be released.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recalled {
    pub name: Name,
    /// Which of all that had this name.
    pub ticket: u64,
}

impl Recall {
    fn release(&self, name: &Name, ticket: u64) {
        let mut members = self.members.lock();
        // Whoever waits asks again whenever a member is released, be it another one.
        if members.iter().all(|recalled| recalled.ticket != ticket) {
            members.push(Recalled { name: name.clone(), ticket });
        }
        drop(members);
        self.session.wake();
    }

    /// What is to be released; `waker` is woken when there is more.
    pub fn take(&self, waker: &Waker) -> Vec<Recalled> {
        self.session.register(waker);
        std::mem::take(&mut *self.members.lock())
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct DetachedMembers {
    inner: Mutex<Inner>,
    /// A member was detached, or a session has let go of one.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    members: HashMap<MemberKey, Known, RandomState>,
    waiting: usize,
    /// Of each subject that has some.
    waiting_of: HashMap<String, usize, RandomState>,
    /// Tells a member from one with the same key before it.
    tickets: u64,
}

struct Known {
    ticket: u64,
    incarnation: Uuid,
    ask: Arc<Ask>,
    state: State,
}

enum State {
    /// A session serves it.
    Attached(Arc<Recall>),
    /// It waits. The task that watches it ends when the sender is dropped.
    Detached { feed: Box<ById>, _watched: oneshot::Sender<()> },
}

/// Why a member waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detachment {
    /// The connection to its hub was lost; the client is still there.
    HubLost,
    /// It has come back through another connection, which is about to fetch it.
    Recalled,
    /// The client is gone, as its hub knows. If it does not come back, this event may be what killed it; `None`: nobody is to
    /// blame.
    ClientLost(Option<EventId>),
}

impl DetachedMembers {
    /// Attaches a member; answers its subscription too if it was here before, on the same terms.
    ///
    /// # Errors
    /// `already_subscribed` if its client has connected anew meanwhile.
    pub async fn attach(hub: &Hub, arriving: &Arriving) -> Result<(MemberAttachment, Option<Box<ById>>)> {
        let members = hub.detached_members();
        let attaching = async {
            loop {
                let changed = members.changed.notified();
                match members.try_attach(arriving) {
                    Ok(None) => changed.await,
                    Ok(Some(attached)) => return Ok(attached),
                    Err(error) => return Err(error),
                }
            }
        };
        // Nothing is awaited once it is attached, so its subscription cannot be lost on the way. A session that does not release it
        // in time finds out that it serves the member no longer.
        let attached = tokio::time::timeout(RELEASE_TIMEOUT, attaching).await;
        let attached = match attached {
            Ok(attached) => attached?,
            Err(_) => members.attach_now(arriving)?,
        };
        let Attached { ticket, before } = attached;
        let feed = before.and_then(|(ask, feed)| {
            if ask.has_terms_of(&arriving.ask) {
                return Some(feed);
            }
            feed.close();
            None
        });
        Ok((arriving.attachment(hub, ticket), feed))
    }

    /// Attaches a member, in one step: of two that arrive at once, the second one has the first one's session release it. `None`
    /// if a session was told to release it, and has not yet.
    fn try_attach(&self, arriving: &Arriving) -> Result<Option<Attached>> {
        let mut inner = self.inner.lock();
        inner.check_incarnation(arriving)?;
        if let Some(Known { ticket, state: State::Attached(recall), .. }) = inner.members.get(&arriving.key) {
            recall.release(&arriving.key.name, *ticket);
            return Ok(None);
        }
        Ok(Some(inner.attach(arriving)))
    }

    /// The same, whether a session has released the member or not.
    fn attach_now(&self, arriving: &Arriving) -> Result<Attached> {
        let mut inner = self.inner.lock();
        inner.check_incarnation(arriving)?;
        Ok(inner.attach(arriving))
    }

    /// Ready when the subscription has ended by itself: another hub has the group, or it was deleted.
    fn poll_ended(&self, key: &MemberKey, ticket: u64, context: &mut Context<'_>) -> Poll<()> {
        match self.inner.lock().members.get_mut(key) {
            Some(Known { ticket: of, state: State::Detached { feed, .. }, .. }) if *of == ticket => {
                feed.poll_ended(context).map(drop)
            }
            _ => Poll::Ready(()),
        }
    }

    /// Takes a member out that nobody came for.
    fn take_overdue(&self, key: &MemberKey, ticket: u64) -> Option<Box<ById>> {
        let mut inner = self.inner.lock();
        let known = inner.members.get(key)?;
        if known.ticket != ticket || matches!(known.state, State::Attached(_)) {
            return None;
        }
        let known = inner.members.remove(key)?;
        inner.detached(known)
    }
}

/// A member that is attached.
struct Attached {
    ticket: u64,
    /// Its subscription, and what was asked for, if it waited.
    before: Option<(Arc<Ask>, Box<ById>)>,
}

impl Inner {
    /// Whether one more member of a subject may wait.
    fn has_room(&self, subject: &str) -> bool {
        let of_subject = self.waiting_of.get(subject).copied().unwrap_or(0);
        self.waiting < MAX_DETACHED && of_subject < MAX_DETACHED_OF_SUBJECT
    }

    /// # Errors
    /// `already_subscribed` if the client of a member that comes again has connected anew meanwhile.
    fn check_incarnation(&self, arriving: &Arriving) -> Result<()> {
        let known = self.members.get(&arriving.key).filter(|_| arriving.is_again);
        match known.is_some_and(|known| known.incarnation != arriving.incarnation) {
            true => Err(taken_over()),
            false => Ok(()),
        }
    }

    /// The member is with this session from now on.
    fn attach(&mut self, arriving: &Arriving) -> Attached {
        let Arriving { key, incarnation, ask, recall, .. } = arriving;
        self.tickets += 1;
        let (ticket, incarnation, ask) = (self.tickets, *incarnation, ask.clone());
        let known = Known { ticket, incarnation, ask, state: State::Attached(recall.clone()) };
        let before = self.members.insert(key.clone(), known);
        let before = before.and_then(|before| {
            let ask = before.ask.clone();
            self.detached(before).map(|feed| (ask, feed))
        });
        Attached { ticket, before }
    }

    /// The subscription of a member that was taken out, if it waited.
    fn detached(&mut self, known: Known) -> Option<Box<ById>> {
        let State::Detached { feed, .. } = known.state else { return None };
        self.waiting -= 1;
        let subject = known.ask.subject.as_deref().unwrap_or_default();
        if let Some(count) = self.waiting_of.get_mut(subject) {
            *count -= 1;
            if *count == 0 {
                self.waiting_of.remove(subject);
            }
        }
        Some(feed)
    }
}

/// A member that is attached to a session, for as long as this is kept.
pub(crate) struct MemberAttachment {
    hub: Hub,
    key: MemberKey,
    ticket: u64,
    through: Option<HubId>,
    /// How long it waits for its client; `None` if no client can resume it.
    client_grace: Option<Duration>,
}

impl MemberAttachment {
    /// Tells it from others with the same key, before it and after it.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The connection was lost: the subscription waits for its member.
    pub fn detach(self, mut feed: Box<ById>, why: Detachment) {
        feed.park();
        let grace = match (why, self.client_grace) {
            (Detachment::HubLost, grace) => grace.map_or(HUB_GRACE, |grace| grace.max(HUB_GRACE)),
            (_, grace) => grace.unwrap_or(HUB_GRACE),
        };
        // No lease ends while its member may come back: it ends with the grace, or goes on.
        feed.hold_for((grace + LEASE_MARGIN).as_millis() as u64);
        let (hub, key, ticket) = (self.hub.clone(), self.key.clone(), self.ticket);
        if hub.draining().is_cancelled() {
            // A hub that stops blames nobody. The attachment that is dropped here tells those that wait for the member.
            return feed.close();
        }
        let (watched, taken) = oneshot::channel();
        let turned_away = {
            let mut inner = hub.detached_members().inner.lock();
            let subject = inner.members.get(&key).and_then(|known| known.ask.subject.clone());
            let subject = subject.unwrap_or_default();
            // One that was recalled does not stay.
            let has_room = matches!(why, Detachment::Recalled) || inner.has_room(&subject);
            match inner.members.get_mut(&key) {
                Some(known) if known.ticket == ticket && has_room => {
                    known.state = State::Detached { feed, _watched: watched };
                    inner.waiting += 1;
                    *inner.waiting_of.entry(subject).or_default() += 1;
                    None
                }
                Some(known) if known.ticket == ticket => Some((feed, why)),
                // Its client has connected anew, and goes on there.
                _ => Some((feed, Detachment::Recalled)),
            }
        };
        if let Some((feed, why)) = turned_away {
            // The attachment that is dropped here tells those that wait for the member.
            return end(feed, why);
        }
        hub.detached_members().changed.notify_waiters();
        // A client that can resume the member may come through another hub than the one that is gone.
        let through = self.through.filter(|_| self.client_grace.is_none());
        let sessions = hub.sessions().clone();
        sessions.spawn(watch(hub, key, ticket, Watched { taken, grace, through, why }));
    }
}

/// What the task has to know that watches a detached member.
struct Watched {
    taken: oneshot::Receiver<()>,
    grace: Duration,
    through: Option<HubId>,
    why: Detachment,
}

/// Ends a detached member that nobody comes for.
async fn watch(hub: Hub, key: MemberKey, ticket: u64, watched: Watched) {
    let Watched { taken, grace, through, why } = watched;
    let draining = hub.draining().clone().cancelled_owned();
    let gone = async {
        match through {
            Some(through) => hub.bus().gone(through).await,
            None => std::future::pending().await,
        }
    };
    let members = hub.detached_members();
    let why = tokio::select! {
        _ = taken => return,
        () = tokio::time::sleep(grace) => why,
        () = gone => why,
        // A hub that stops blames nobody.
        () = draining => Detachment::HubLost,
        () = std::future::poll_fn(|context| members.poll_ended(&key, ticket, context)) => why,
    };
    if let Some(feed) = members.take_overdue(&key, ticket) {
        tracing::debug!(topic = %key.name.topic, group = key.name.group, "detached member did not come back");
        end(feed, why);
    }
}

fn end(feed: Box<ById>, why: Detachment) {
    match why {
        Detachment::ClientLost(blame) => feed.vanish(blame),
        Detachment::HubLost | Detachment::Recalled => feed.close(),
    }
}

impl Drop for MemberAttachment {
    fn drop(&mut self) {
        let members = self.hub.detached_members();
        {
            let mut inner = members.inner.lock();
            match inner.members.get(&self.key) {
                Some(Known { ticket, state: State::Attached(_), .. }) if *ticket == self.ticket => {
                    inner.members.remove(&self.key);
                }
                _ => return,
            }
        }
        members.changed.notify_waiters();
    }
}

/// What the session is told that served a member.
pub(crate) fn taken_over() -> Error {
    let msg = "the member of this subscription has connected anew, and goes on there; nothing was settled";
    Error::new(Code::AlreadySubscribed, msg)
}
