//! Members whose connection is lost, and who come back or do not.

use super::SimStore;
use super::member::{Feed, Held, Member, Named, SharedById};
use super::steps::pick;
use super::world::{At, Life, Step, World};
use crate::subscribe::ById;
use hub_proto::EventId;
use std::collections::BTreeSet;

impl<S: SimStore> World<'_, S> {
    /// The connection of a member is lost.
    pub(super) fn detach(&mut self, life: &mut Life, member: u64) -> Step {
        let is_it = |member: &Member| by_id(member).is_some() && member.detached.is_none();
        let Some(at) = pick_of(&life.members, member, is_it) else { return Ok(()) };
        let member = &mut life.members[at];
        let Some(feed) = by_id(member) else { return Ok(()) };
        let parked = feed.with(|feed| {
            feed.park();
            feed.oldest()
        });
        let held = member.hand.iter().filter(|held| self.holds(held));
        let oldest = held.min_by_key(|held| held.order).and_then(Held::id);
        if parked != Some(oldest) {
            return Err(format!("member {} has {oldest:?} as its oldest, and not {parked:?}", member.id));
        }
        member.detached = Some(oldest);
        Ok(())
    }

    /// A member is back, and names some of what it has in hand; `which` are its bits.
    pub(super) fn reattach(&mut self, life: &mut Life, member: u64, which: u64) -> Step {
        let is_it = |member: &Member| member.detached.is_some();
        let Some(at) = pick_of(&life.members, member, is_it) else { return Ok(()) };
        // Some that it had once, or never, are named too.
        let mut named: Named = life.stale.iter().filter_map(Held::id).take((which % 3) as usize).collect();
        named.insert(EventId::derived(&[b"never delivered"]));
        let member = &mut life.members[at];
        let hand = std::mem::take(&mut member.hand);
        let is_kept = |at: usize| which >> (at % 64) & 1 == 1;
        let ids = hand.iter().enumerate().filter(|(at, _)| is_kept(*at)).filter_map(|(_, held)| held.id());
        named.extend(ids);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for held in hand {
            match (self.holds(&held), held.id().is_some_and(|id| named.contains(&id))) {
                (true, true) => kept.push(held),
                (true, false) => dropped.push(held),
                (false, _) => life.stale.push(held),
            }
        }
        let Some(feed) = by_id(member) else { return Ok(()) };
        let left = feed.with(|feed| {
            feed.keep_only(&named);
            feed.subscription().resume();
            held_ids(feed)
        });
        let expected: BTreeSet<EventId> = kept.iter().filter_map(Held::id).collect();
        if left.as_ref() != Some(&expected) {
            return Err(format!("member {} goes on with {left:?} and not {expected:?}", member.id));
        }
        member.hand = kept;
        (member.detached, member.paused, member.asleep) = (None, false, false);
        for held in dropped {
            self.model.returned(&held.at, held.seq(), 0);
            life.stale.push(held);
        }
        Ok(())
    }

    /// A member that does not come back in time has vanished: answers the event that counts a failure.
    pub(super) fn give_up(&mut self, member: &Member, blame: Option<EventId>) -> Vec<(At, u64)> {
        if let Some(feed) = by_id(member).and_then(SharedById::take) {
            feed.vanish(blame);
        }
        let is_blamed = |held: &&Held| self.holds(held) && blame.is_some() && held.id() == blame;
        member.hand.iter().filter(is_blamed).map(|held| (held.at.clone(), held.seq())).collect()
    }
}

fn by_id(member: &Member) -> Option<&SharedById> {
    match &member.feed {
        Feed::ById(feed) => Some(feed),
        Feed::Stream(_) => None,
    }
}

fn held_ids(feed: &ById) -> BTreeSet<EventId> {
    feed.held().into_iter().map(|held| held.id).collect()
}

/// One of those members that `is_it` names.
fn pick_of(members: &[Member], which: u64, is_it: impl Fn(&Member) -> bool) -> Option<usize> {
    let some: Vec<usize> = (0..members.len()).filter(|&at| is_it(&members[at])).collect();
    pick(&some, which).map(|at| some[at])
}
