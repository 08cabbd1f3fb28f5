//! Members of groups, wherever the group is served.
//!
//! One hub owns a group's name and dispatches all groups of that name. A member that is connected elsewhere is served by
//! its own hub, the **edge**, through a connection to the owner: the edge keeps the user's socket, rights and limits, the
//! owner has a member for it like any other. When the owner changes, every member looks for the new one and brings along
//! the leases that its user holds, and what the user acked that may not be saved; the user notices nothing but a pause.
//!
//! ```text
//!            SUBSCRIBE            ┌──────── Here: a member of the bus ◄──────┐
//!  session ────────────► Member ──┼──────── Moving: looks, claims, connects ─┤ the owner is gone, or is another one
//!                                 └──────── There: a client of the owner ◄───┘
//! ```
//!
//! | to know about | look at |
//! | --- | --- |
//! | one member, whichever way it is served | [`Member`] |
//! | served by another hub | `remote` |
//! | between two owners | `moving`, `find` |
//! | members that wait for their client, or its hub, to come back | `detached` |
//! | the leases that the user holds, and what it acked that may not be saved | `hand`, `settled`, `confirm` |
//! | what it asked for, to be asked for again | [`Ask`] |
//! | a connection to another hub | `link` |
//! | placing and deleting groups that another hub owns | `admin` |

mod admin;
mod ask;
mod confirm;
mod detached;
mod find;
mod hand;
mod link;
mod member;
mod moving;
mod remote;
mod settled;

pub(crate) use admin::{Act, act, act_here, list_at_owner};
pub(crate) use ask::{Ask, events as leases};
pub(crate) use detached::{
    Arriving, DetachedMembers, Detachment, MemberIdentity, MemberKey, Recall, Recalled, client_member_id,
    taken_over,
};
pub(crate) use find::{Joining, join_here};
pub(crate) use member::{Extended, Given, Member, Opener, check_delay};

use crate::auth::ClusterKey;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_client::Certificate;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// What a hub needs to be an edge of others.
#[derive(Default)]
pub(crate) struct Edge {
    /// What it shows them, and they show it.
    pub key: Option<ClusterKey>,
    /// Certificates that are trusted beside the public ones, in PEM.
    pub roots: Option<Vec<u8>>,
    /// What it shows to those that ask for a certificate.
    certificate: RwLock<Option<Certificate>>,
    members: Members,
}

/// How many members of each group name this hub has. A new owner waits for so many reports.
#[derive(Clone, Default)]
struct Members(Arc<Mutex<HashMap<String, u32, RandomState>>>);

impl Edge {
    pub fn new(key: Option<ClusterKey>, roots: Option<Vec<u8>>, certificate: Option<Certificate>) -> Self {
        Self { key, roots, certificate: RwLock::new(certificate), members: Members::default() }
    }

    pub fn set_certificate(&self, certificate: Option<Certificate>) {
        *self.certificate.write() = certificate;
    }

    fn certificate(&self) -> Option<Certificate> {
        self.certificate.read().clone()
    }

    /// One more member of a group, for as long as this is kept.
    fn count(&self, group: &str) -> Counted {
        *self.members.0.lock().entry_ref(group).or_default() += 1;
        Counted { members: self.members.clone(), group: group.into() }
    }
}

/// See [`Edge::count`].
struct Counted {
    members: Members,
    group: Box<str>,
}

impl Counted {
    /// How many there are now.
    fn all(&self) -> u32 {
        self.members.0.lock().get(&*self.group).copied().unwrap_or(1)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut members = self.members.0.lock();
        if let Some(count) = members.get_mut(&*self.group) {
            *count -= 1;
            if *count == 0 {
                members.remove(&*self.group);
            }
        }
    }
}
