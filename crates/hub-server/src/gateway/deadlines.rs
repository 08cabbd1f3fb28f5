//! What happens now and then: other settings, a stop, a token that runs out, a connection that has gone quiet.

use super::request::{Corr, Name};
use super::session::{End, LAST_ACKS, LAST_ANSWERS, Phase, QUIET, Session, Who};
use super::subscriptions::{Feed, Subscription};
use crate::auth::Identity;
use crate::edge::{Detachment, Recalled, taken_over};
use crate::settings::Settings;
use bytes::Bytes;
use hub_core::Millis;
use hub_proto::{Code, Error};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// What another hub still has to say of a member that has come back through another connection has to come within this.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// So many pings have to go unanswered.
const PINGS: u32 = 3;

pub(super) fn ping_interval(settings: &Settings) -> Duration {
    Duration::from_millis((settings.limits.idle_timeout / u64::from(PINGS)).max(1))
}

impl Session {
    /// What happens now and then: other settings, a stop, a deadline.
    pub(super) fn rare(&mut self) -> Poll<End> {
        let waker = self.alarm.waker();
        let context = &mut Context::from_waker(&waker);
        while let Poll::Ready(next) = self.changed.as_mut().poll(context) {
            match next {
                Some(receiver) => self.change(receiver),
                None => self.changed = Box::pin(std::future::pending()),
            }
        }
        for recalled in self.recall.take(&waker) {
            if !self.recalled.contains(&recalled) {
                self.recalled.push(recalled);
            }
        }
        if self.phase == Phase::Open && self.draining.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if self.peer().is_some() {
                // It is on its way to the next owner, and takes what it has said along.
                self.close(CloseCode::Restart, "the hub is stopping; another one serves its groups");
                return self.watch_time(context);
            }
            self.phase = Phase::Draining { next: now + QUIET, until: now + LAST_ANSWERS };
            self.leaves = (self.hub.bus().hubs().len() > 1).then_some(now + LAST_ACKS);
            self.heard = false;
        }
        self.watch_time(context)
    }

    /// Releases the members that have come back through another connection. Everything that came by this one was read before. One
    /// that is being opened is released when it is there.
    pub(super) fn release_recalled(&mut self) {
        if self.recalled.is_empty() || self.job.is_some() {
            return;
        }
        match self.peer() {
            Some(_) => self.announce_recalled(),
            None => self.release_members(Some(&taken_over())),
        }
    }

    /// Tells another hub that its member has come back through another connection. The hub may still have something to say of it,
    /// and then ends this one. If it does not in time, the member is released all the same.
    fn announce_recalled(&mut self) {
        if self.releases_at.is_some() {
            return;
        }
        for Recalled { name, ticket } in std::mem::take(&mut self.recalled) {
            if let Some((_, Subscription { feed: Feed::Group(feed), .. })) = self.subscriptions.named(&name)
                && feed.ticket() == Some(ticket)
            {
                feed.rest(true);
                let message = self.writer.ended(&name, &taken_over());
                self.send(message);
                self.releases_at = Some(Instant::now() + LAST_WORDS);
                self.alarm.ring();
                self.recalled.push(Recalled { name, ticket });
            }
        }
    }

    /// Releases the members that were recalled, and says why, if that was not said yet.
    fn release_members(&mut self, why: Option<&Error>) {
        for Recalled { name, ticket } in std::mem::take(&mut self.recalled) {
            let is_it = |slot: &Subscription| matches!(&slot.feed, Feed::Group(feed) if feed.ticket() == Some(ticket));
            if !self.subscriptions.named(&name).is_some_and(|(_, slot)| is_it(slot)) {
                continue;
            }
            if let Some(feed) = self.take_subscription(&name, why) {
                feed.detach(Detachment::Recalled);
            }
        }
    }

    /// Does what is due, and sleeps until something is.
    fn watch_time(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let now = Instant::now();
            let due = self.next_due();
            if due <= now {
                if let Some(end) = self.act(now) {
                    return Poll::Ready(end);
                }
                continue;
            }
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn next_due(&self) -> Instant {
        if let Phase::Closing(next) | Phase::Ending(next) | Phase::Draining { next, .. } = self.phase {
            return self.leaves.map_or(next, |leaves| leaves.min(next));
        }
        let own = match &self.who {
            None => Some(self.opened + Duration::from_millis(self.settings.limits.auth_timeout)),
            Some(Who { expired: Some(end), .. }) => Some(*end),
            Some(Who { expires, .. }) => *expires,
        };
        let held = [self.held_until, self.subscription_held_until, self.reads_at, self.releases_at];
        own.into_iter().chain(held.into_iter().flatten()).fold(self.ping_at, Instant::min)
    }

    /// Something is due.
    fn act(&mut self, now: Instant) -> Option<End> {
        if self.leaves.take_if(|leaves| now >= *leaves).is_some() {
            self.leave_groups();
            return None;
        }
        match self.phase {
            Phase::Closing(_) => return Some(End::Ended),
            Phase::Ending(_) => {
                self.say_goodbye();
                return None;
            }
            Phase::Draining { until, .. } => {
                let unanswered = !self.publishing.is_empty();
                let busy = std::mem::take(&mut self.heard) || unanswered || self.job.is_some();
                // A commit that takes its time is waited for as long as the hub waits for its sessions.
                let overdue = now >= until && (!unanswered || self.blocked);
                match busy && !overdue {
                    true => self.phase = Phase::Draining { next: now + QUIET, until },
                    false => self.close(CloseCode::Restart, "the hub is stopping; come back in a moment"),
                }
                return None;
            }
            Phase::Open => {}
        }
        // The round goes on with what was held up.
        self.held_until.take_if(|held_until| now >= *held_until);
        if self.subscription_held_until.is_some_and(|until| now >= until) {
            self.subscription_held_until = self.subscriptions.release(Some(now));
        }
        self.reads_at.take_if(|reads_at| now >= *reads_at);
        if self.releases_at.take_if(|releases_at| now >= *releases_at).is_some() {
            self.release_members(None);
            // Another hub has a connection for each member.
            if self.subscriptions.len() == 0 {
                return Some(End::Gone);
            }
        }
        match &mut self.who {
            None if now >= self.opened + Duration::from_millis(self.settings.limits.auth_timeout) => {
                let error = Error::new(Code::Unauthorized, "no AUTH came in time");
                self.audit("AUTH", "auth", &error, None, None);
                self.refuse(&Corr::default(), &error);
                self.close(CloseCode::Policy, "no AUTH came in time");
                return None;
            }
            Some(Who { expired: Some(end), .. }) if now >= *end => {
                self.close(CloseCode::Policy, "the token has expired");
                return None;
            }
            Some(who) if who.expired.is_none() && who.expires.is_some_and(|expires| now >= expires) => {
                who.expires = runs_out(&who.identity, self.hub.bus().now(), now);
                if who.expires.is_some_and(|expires| now >= expires) {
                    who.expired = Some(now + Duration::from_millis(self.settings.limits.expiry_grace));
                    self.expire();
                }
                return None;
            }
            _ => {}
        }
        if now >= self.ping_at {
            self.ping_at = now + ping_interval(&self.settings);
            // An issuer may have withdrawn the key meanwhile.
            self.check_revoked();
            for slot in self.subscriptions.iter_mut() {
                if let Feed::Group(feed) = &mut slot.feed {
                    feed.tidy();
                }
            }
            // Who was not asked, or was not listened to, need not have answered.
            let silent = std::mem::take(&mut self.pinged) && self.job.is_none();
            match std::mem::take(&mut self.heard) {
                true => self.unheard = 0,
                false => self.unheard += u32::from(silent),
            }
            if self.unheard >= PINGS {
                return Some(End::Gone);
            }
            if !self.blocked {
                self.send(Message::Ping(Bytes::new()));
                self.pinged = true;
            }
        }
        None
    }

    /// What members have in hand goes back, and their groups can be served elsewhere. Who acks later gets it again. Members that their
    /// clients can resume through another hub keep it, if that is not this hub's to keep.
    fn leave_groups(&mut self) {
        let is_group = |name: &Name| name.group.is_some();
        for name in self.subscriptions.names().into_iter().filter(is_group) {
            if let Some(slot) = self.subscriptions.remove(&name)
                && let Feed::Group(feed) = slot.feed
            {
                feed.suspend();
            }
        }
    }

    /// The token has run out: nothing is delivered, but what is in hand can be settled, and a new token brings it all back.
    fn expire(&mut self) {
        let error = Error::new(Code::TokenExpired, "the token has expired; send AUTH with a new one");
        self.audit("AUTH", "auth", &error, None, None);
        self.refuse(&Corr::default(), &error);
        for slot in self.subscriptions.iter_mut() {
            if let Feed::Group(feed) = &mut slot.feed {
                feed.rest(true);
            }
        }
    }
}

/// When a token runs out. Looked at again after an hour at most: the wall clock may have been set.
pub(super) fn runs_out(identity: &Identity, wall: Millis, now: Instant) -> Option<Instant> {
    let left = identity.expires?.saturating_sub(wall).min(60 * 60 * 1000);
    Some(now + Duration::from_millis(left))
}
