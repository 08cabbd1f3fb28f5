//! Taking events of those subscriptions that have some.

use super::answer::Lease;
use super::request::Name;
use super::session::{OUT_BYTES, Phase, Session, size};
use super::subscriptions::Feed;
use crate::edge::Member;
use hub_core::Watched;
use hub_proto::Error;
use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

/// Events of one subscription in one round, before another has its turn.
const ROUND_EVENTS: usize = 64;
/// An `EVENTS` ends at about so many bytes.
const BATCH_BYTES: usize = 256 << 10;

impl Session {
    /// Whether events go out at all.
    pub(super) fn delivers(&self) -> bool {
        !self.blocked
            && self.held_until.is_none()
            && self.phase == Phase::Open
            && self.who.as_ref().is_some_and(|who| who.expired.is_none())
    }

    /// Takes events of those that have some; whether it stopped for want of room.
    pub(super) fn deliver(&mut self, context: &mut Context<'_>) -> bool {
        let is_hub = self.peer().is_some();
        while self.out_bytes < OUT_BYTES {
            if !is_hub && let Some(wait) = self.meter.wait_bytes_out() {
                self.held_until = Some(Instant::now() + wait);
                self.alarm.ring();
                return false;
            }
            let Poll::Ready(at) = self.subscriptions.poll_ready(context) else { return false };
            let before = self.out_bytes;
            self.deliver_from(at, is_hub);
            if !is_hub {
                self.meter.owe_bytes_out(self.out_bytes - before);
            }
        }
        true
    }

    /// Nothing is delivered at the moment; but members of groups that get another owner follow them. Whether there is
    /// something to be written.
    pub(super) fn tend(&mut self, context: &Context<'_>) -> bool {
        if self.phase != Phase::Open || self.hub.bus().hub().is_none() {
            return false;
        }
        let mut has_ended = false;
        for at in self.subscriptions.untended(context) {
            let Some((slot, waker)) = self.subscriptions.at(at) else { continue };
            slot.listens = true;
            let Feed::Group(feed) = &mut slot.feed else { continue };
            if let Poll::Ready(error) = feed.tend(&mut Context::from_waker(&waker)) {
                let name = slot.name.clone();
                self.end_subscription(&name, &error);
                has_ended = true;
            }
        }
        has_ended
    }

    /// Delivers from one subscription; what goes to another hub is charged where its readers are.
    fn deliver_from(&mut self, at: u32, is_hub: bool) {
        let Some((slot, waker)) = self.subscriptions.at(at) else { return };
        let context = &mut Context::from_waker(&waker);
        let (writer, out) = (&mut self.writer, &mut self.out);
        // Of an `EVENTS` in the making.
        let (mut events, mut bytes) = (0, 0);
        let mut ended = None;
        let mut taken = 0;
        let most = slot.batch.unwrap_or(ROUND_EVENTS);
        let limits_topics = !is_hub && self.meter.limits_topic_bytes_out();
        let mut held = None;
        while taken < most && bytes < BATCH_BYTES {
            if limits_topics {
                held = self.meter.wait_topic_bytes_out(|pattern| slot.reads.intersects(pattern));
                if held.is_some() {
                    break;
                }
            }
            let (event, lease) = match &mut slot.feed {
                Feed::Group(feed) => match feed.poll_recv(slot.ack_timeout, context) {
                    Poll::Ready(Ok(given)) => {
                        let lease = Lease::of(&given);
                        (given.event, Some(lease))
                    }
                    Poll::Ready(Err(error)) => {
                        ended = Some(error);
                        break;
                    }
                    Poll::Pending => break,
                },
                Feed::Watch(_) if slot.paused => break,
                Feed::Watch(feed) => match feed.poll_next(context) {
                    Poll::Ready(Ok(Watched::Event(event))) => (event, None),
                    Poll::Ready(Ok(Watched::Lagged { topic, missed })) => {
                        if events > 0 {
                            // In its place: behind what came before.
                            self.out_bytes += push(out, writer.end_events());
                            events = 0;
                        }
                        self.out_bytes += push(out, writer.lagged(&slot.name, &topic, missed));
                        continue;
                    }
                    Poll::Ready(Err(error)) => {
                        ended = Some(error);
                        break;
                    }
                    Poll::Pending => break,
                },
            };
            taken += 1;
            bytes += event.json().len();
            if limits_topics {
                self.meter.owe_topic_bytes_out(event.topic(), event.json().len());
            }
            if slot.batch.is_none() {
                self.out_bytes += push(out, writer.event(&slot.heading, &event, lease));
            } else {
                if events == 0 {
                    writer.begin_events(&slot.heading, event.json().len());
                }
                writer.add_event(events == 0, &event, lease);
                events += 1;
            }
        }
        if events > 0 {
            self.out_bytes += push(out, writer.end_events());
        }
        let more = taken == most || bytes >= BATCH_BYTES;
        slot.listens = !more && held.is_none();
        if held.is_some()
            && let Feed::Group(feed) = &mut slot.feed
            && let Poll::Ready(error) = feed.tend(context)
        {
            ended = Some(error);
        }
        let ended = ended.map(|error| (slot.name.clone(), error));
        self.subscriptions.recount(at);
        match (ended, held) {
            (Some((name, error)), _) => self.end_subscription(&name, &error),
            (None, Some(wait)) => self.hold_subscription(at, wait),
            (None, None) if more => self.subscriptions.again(at),
            (None, None) => {}
        }
    }

    /// Delivers from a subscription again after `wait`.
    fn hold_subscription(&mut self, at: u32, wait: Duration) {
        let until = Instant::now() + wait;
        self.subscriptions.hold(at, until);
        let first = self.subscription_held_until.map_or(until, |first| first.min(until));
        self.subscription_held_until = Some(first);
        self.alarm.ring();
    }

    /// Ends a subscription that cannot go on. Nothing is settled by that, and nothing counts as failed.
    pub(super) fn end_subscription(&mut self, name: &Name, error: &Error) {
        if let Some(feed) = self.take_subscription(name, Some(error)) {
            feed.close();
        }
    }

    /// Ends a subscription, says why unless that was said before, and answers its member.
    pub(super) fn take_subscription(&mut self, name: &Name, error: Option<&Error>) -> Option<Box<Member>> {
        let slot = self.subscriptions.remove(name)?;
        if let Some(live) = &mut self.live {
            live.unsubscribe(slot.topics);
        }
        if let Some(error) = error {
            let message = self.writer.ended(name, error);
            self.send(message);
        }
        match slot.feed {
            Feed::Group(feed) => Some(feed),
            Feed::Watch(_) => None,
        }
    }
}

fn push(out: &mut VecDeque<Message>, message: Message) -> usize {
    let bytes = size(&message);
    out.push_back(message);
    bytes
}
