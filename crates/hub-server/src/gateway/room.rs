//! A room for members of other hubs whose connection was lost.
//!
//! Two hubs that are alive can lose the connection between them. The user at the other one is still there, with events in
//! its hands, and its hub comes back in a moment. Until then the member's feed waits here, with its leases: nobody else
//! gets what the user has. A feed that nobody comes for leaves its group, as if it had never waited.
//!
//! The other hub may notice the loss first. Then the member is still with a session, which is called: it ends, and brings
//! its feed here.

use super::request::Name;
use crate::Hub;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::ById;
use hub_core::store::HubId;
use parking_lot::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A feed waits for so long.
const GRACE: Duration = Duration::from_secs(2);
/// A session that is called has so long to bring its feed.
const CALL: Duration = Duration::from_secs(1);
/// So many feeds wait at once; more leave their groups at once.
const MOST: usize = 10_000;

/// A member, as its hub names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Guest {
    pub hub: HubId,
    pub member: Uuid,
    pub name: Name,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Room {
    inner: Mutex<Inner>,
    /// A feed has come, or a session has let go of one.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    guests: HashMap<Guest, Guested, RandomState>,
    waiting: usize,
    /// Tells a guest from one of the same name before it.
    tickets: u64,
}

struct Guested {
    ticket: u64,
    place: Place,
}

enum Place {
    /// With a session, which ends when it is called.
    Served(CancellationToken),
    /// Here. Whoever watches over it sees the sender go.
    Waits { feed: Box<ById>, _watched: oneshot::Sender<()> },
}

impl Room {
    /// The member's feed, if it waits, or if the session that has it brings it in time.
    pub async fn take_back(&self, guest: &Guest) -> Option<Box<ById>> {
        let taking = async {
            loop {
                let changed = self.changed.notified();
                match self.take(guest) {
                    Ok(feed) => return feed,
                    Err(call) => call.cancel(),
                }
                changed.await;
            }
        };
        // What is taken is answered at once, so nothing is lost on the way.
        tokio::time::timeout(CALL, taking).await.ok().flatten()
    }

    /// Takes the feed out if it waits; else how its session is called.
    fn take(&self, guest: &Guest) -> Result<Option<Box<ById>>, CancellationToken> {
        let mut inner = self.inner.lock();
        if let Some(Guested { place: Place::Served(call), .. }) = inner.guests.get(guest) {
            return Err(call.clone());
        }
        Ok(inner.guests.remove(guest).and_then(|guested| inner.unseat(guested)))
    }

    /// A session is about to serve the member; `call` ends it.
    pub fn seat(hub: &Hub, guest: Guest, call: CancellationToken) -> Seat {
        let (ticket, before) = {
            let mut inner = hub.room().inner.lock();
            inner.tickets += 1;
            let ticket = inner.tickets;
            let before = inner.guests.insert(guest.clone(), Guested { ticket, place: Place::Served(call) });
            (ticket, before.and_then(|before| inner.unseat(before)))
        };
        before.into_iter().for_each(|feed| feed.close());
        Seat { hub: hub.clone(), guest, ticket }
    }

    /// Ready when the feed has ended by itself: another hub has the group, or it was deleted.
    fn poll_ended(&self, guest: &Guest, ticket: u64, context: &mut Context<'_>) -> Poll<()> {
        match self.inner.lock().guests.get_mut(guest) {
            Some(Guested { ticket: of, place: Place::Waits { feed, .. } }) if *of == ticket => {
                feed.poll_ended(context).map(drop)
            }
            _ => Poll::Ready(()),
        }
    }

    /// Nobody came for the feed.
    fn dismiss(&self, guest: &Guest, ticket: u64) {
        let feed = {
            let mut inner = self.inner.lock();
            match inner.guests.get(guest) {
                Some(Guested { ticket: of, place: Place::Waits { .. } }) if *of == ticket => {
                    inner.guests.remove(guest).and_then(|guested| inner.unseat(guested))
                }
                _ => None,
            }
        };
        if let Some(feed) = feed {
            tracing::debug!(hub = %guest.hub, "a member of another hub did not come back");
            feed.close();
        }
    }
}

impl Inner {
    /// The feed of one that was taken out, if it waited.
    fn unseat(&mut self, guested: Guested) -> Option<Box<ById>> {
        match guested.place {
            Place::Served(_) => None,
            Place::Waits { feed, .. } => {
                self.waiting -= 1;
                Some(feed)
            }
        }
    }
}

/// A member that a session serves, for as long as this is kept.
pub(crate) struct Seat {
    hub: Hub,
    guest: Guest,
    ticket: u64,
}

impl Seat {
    /// The connection was lost: the feed waits for its member.
    pub fn park(self, feed: Box<ById>) {
        // What it did not get yet goes to others.
        feed.subscription().pause();
        let (hub, guest, ticket) = (self.hub.clone(), self.guest.clone(), self.ticket);
        let (watched, taken) = oneshot::channel();
        let turned_away = {
            let mut inner = hub.room().inner.lock();
            let has_room = inner.waiting < MOST && !hub.draining().is_cancelled();
            match inner.guests.get_mut(&guest) {
                Some(guested) if guested.ticket == ticket && has_room => {
                    guested.place = Place::Waits { feed, _watched: watched };
                    inner.waiting += 1;
                    None
                }
                _ => Some(feed),
            }
        };
        if let Some(feed) = turned_away {
            return feed.close();
        }
        hub.room().changed.notify_waiters();
        let (gone, draining) = (hub.bus().gone(guest.hub), hub.draining().clone().cancelled_owned());
        hub.sessions().clone().spawn(async move {
            tokio::select! {
                _ = taken => {}
                () = tokio::time::sleep(GRACE) => {}
                () = gone => {}
                () = draining => {}
                () = std::future::poll_fn(|context| hub.room().poll_ended(&guest, ticket, context)) => {}
            }
            hub.room().dismiss(&guest, ticket);
        });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let room = self.hub.room();
        {
            let mut inner = room.inner.lock();
            match inner.guests.get(&self.guest) {
                Some(Guested { ticket, place: Place::Served(_) }) if *ticket == self.ticket => {
                    inner.guests.remove(&self.guest);
                }
                _ => return,
            }
        }
        room.changed.notify_waiters();
    }
}
