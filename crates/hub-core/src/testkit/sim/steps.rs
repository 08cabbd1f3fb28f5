//! The steps, carried out on the real engine.

use super::SimStore;
use super::member::{Came, Feed, Held, Member, SharedById};
use super::model::{Group, Lease, Model};
use super::op::Op;
use super::target::{group_name, start};
use super::world::{At, BORN, Life, Sent, Step, TOPICS, World, known, settle};
use crate::Millis;
use crate::group::options::GroupOptions;
use crate::testkit::Fault;
use hub_proto::{Code, EventId, NewEvent, Payload, Position, Result as HubResult, TopicName};
use std::collections::BTreeMap;

impl<S: SimStore> World<'_, S> {
    pub(super) async fn carry_out(&mut self, op: &Op, life: &mut Life) -> Step {
        self.tick(life);
        match *op {
            Op::Publish { topic, key, count } => {
                let topic = TOPICS[(topic % TOPICS.len() as u64) as usize];
                let events = (0..count).map(|_| self.event(topic, key)).collect();
                self.publish(life, events).await
            }
            Op::Birth { topic } => {
                let event = self.event(&format!("p.{}", topic % BORN), topic % 3);
                self.publish(life, vec![event]).await
            }
            Op::Republish { which } => {
                let known = self.unknown.len() + self.published.len();
                if known == 0 {
                    return Ok(());
                }
                let at = (which % known as u64) as usize;
                let event = match at.checked_sub(self.unknown.len()) {
                    None => self.unknown.swap_remove(at).1,
                    Some(at) => self.published[at].1.clone(),
                };
                self.publish(life, vec![event]).await
            }
            Op::Conflict { which } => self.conflict(life, which).await,
            Op::Join { group, window, ack_timeout, by_id } => {
                self.join(life, group, window, ack_timeout, by_id).await
            }
            Op::Receive { member, count } => self.receive(life, member, count).await,
            Op::Ack { member, which } => self.settle_one(life, member, which, Held::ack, |model, held| {
                model.acked(&held.at, held.seq());
            }),
            Op::AckAll { member } => {
                let Some(at) = pick(&life.members, member) else { return Ok(()) };
                for _ in 0..life.members[at].hand.len() {
                    self.settle_one(life, member, 0, Held::ack, |model, held| {
                        model.acked(&held.at, held.seq());
                    })?;
                }
                Ok(())
            }
            Op::Nack { member, which, delay } => {
                let delay = (delay > 0).then_some(delay);
                let nack = |held: &Held| held.nack(delay);
                self.settle_one(life, member, which, nack, |model, held| {
                    model.nacked(&held.at, held.seq(), delay);
                })
            }
            Op::Return { member, which, delay } => {
                let give_back = |held: &Held| held.give_back(delay);
                self.settle_one(life, member, which, give_back, |model, held| {
                    model.returned(&held.at, held.seq(), delay);
                })
            }
            Op::Detach { member } => self.detach(life, member),
            Op::Reattach { member, which } => self.reattach(life, member, which),
            Op::Watch { topic } => self.watch(life, topic).await,
            Op::Look { watcher, count } => self.look(life, watcher, count).await,
            Op::Extend { member, which, millis } => self.extend(life, member, which, millis),
            Op::AckStale { which } => match pick(&life.stale, which) {
                Some(at) if !self.is_confused(life, &life.stale[at]) => {
                    self.refused(&life.stale[at], life.stale[at].ack())
                }
                _ => Ok(()),
            },
            Op::AckOther { member, other } => self.ack_other(life, member, other),
            Op::Disconnect { member } => self.leave(life, member, true),
            Op::Leave { member } => self.leave(life, member, false),
            Op::Pause { member } => {
                if let Some(at) = pick(&life.members, member)
                    && let member = &mut life.members[at]
                    && member.detached.is_none()
                {
                    member.paused = !member.paused;
                    member.feed.set_paused(member.paused);
                }
                Ok(())
            }
            Op::Wait { millis } => {
                life.clock.advance(millis).await;
                Ok(())
            }
            Op::Jump { millis } => {
                life.clock.jump(millis);
                Ok(())
            }
            Op::Fault { kind, calls } => {
                let millis = 10 + kind % 700;
                let kinds = [Fault::Refuse, Fault::LoseAnswer, Fault::Delay(millis), Fault::Stall(millis)];
                let mut faults = self.faults.lock();
                (faults.kind, faults.left) = (Some(kinds[(kind % 4) as usize]), calls);
                Ok(())
            }
            Op::Clean { topic } => {
                // A failing store is allowed to fail.
                let _ = life.bus.clean(TOPICS[(topic % TOPICS.len() as u64) as usize]).await;
                Ok(())
            }
            Op::SetCursor { group, to } => self.set_cursor(life, group, to).await,
            Op::Delete { group } => self.delete(life, group).await,
            Op::CutFlush => {
                let mut flush = std::pin::pin!(life.bus.flush());
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = flush.as_mut().poll(&mut cx);
                Ok(())
            }
            Op::Crash { .. } | Op::Restart => Ok(()),
        }
    }

    pub(super) fn event(&mut self, topic: &str, key: u64) -> NewEvent {
        self.next_payload += 1;
        let tombstone = topic == "c.state" && key > 0 && self.rng.chance(15);
        let payload = if tombstone {
            Payload::null()
        } else {
            Payload::from(serde_json::json!({"n": self.next_payload}))
        };
        let mut event = NewEvent::new(topic.parse().expect("a valid name"), payload);
        event.options.key = (key > 0).then(|| format!("k{key}"));
        event
    }

    pub(super) async fn publish(&mut self, life: &mut Life, mut events: Vec<NewEvent>) -> Step {
        let mut ids = Vec::new();
        for event in &mut events {
            // Chosen here, so that an event whose answer is lost can be sent again.
            let id = event.options.id.unwrap_or_else(|| {
                EventId::derived(&[b"sim", &self.next_payload.to_be_bytes(), &ids.len().to_be_bytes()])
            });
            event.options.id = Some(id);
            ids.push((id, event.clone()));
        }
        let bus = life.bus.clone();
        let answer = tokio::spawn(async move { bus.publish_batch(events).await });
        life.sent.push(Sent { ids, answer });
        settle().await;
        Ok(())
    }

    /// Looks at the answers that have come.
    pub(super) async fn answers(&mut self, life: &mut Life) -> Step {
        let (done, rest): (Vec<_>, Vec<_>) = life.sent.drain(..).partition(|sent| sent.answer.is_finished());
        life.sent = rest;
        for sent in done {
            let results = sent.answer.await.map_err(|error| format!("a publish panicked: {error}"))?;
            for ((id, event), result) in sent.ids.into_iter().zip(results) {
                match result {
                    Ok(receipt) => {
                        let log = self.model.topics.get(&event.topic);
                        let known = log.and_then(|log| log.events.get(receipt.seq as usize - 1));
                        if known.is_none_or(|known| known.id != id) {
                            return Err(format!(
                                "{id} was answered with seq {} and is not there",
                                receipt.seq
                            ));
                        }
                        self.published.push((id, event));
                    }
                    Err(error) if error.code == Code::Unavailable => self.unknown.push((id, event)),
                    Err(error) => return Err(format!("a publish was refused: {error}")),
                }
            }
        }
        Ok(())
    }

    pub(super) async fn conflict(&mut self, life: &mut Life, which: u64) -> Step {
        let Some(at) = pick(&self.published, which).filter(|_| self.healthy(life)) else { return Ok(()) };
        let mut event = self.published[at].1.clone();
        event.payload = Payload::from(serde_json::json!("another"));
        match life.bus.send(event).await {
            Err(error) if error.code == Code::IdConflict => Ok(()),
            other => Err(format!("a conflicting id was answered with {other:?}")),
        }
    }

    pub(super) async fn join(
        &mut self,
        life: &mut Life,
        group: u64,
        window: u64,
        ack_timeout: Millis,
        by_id: bool,
    ) -> Step {
        let at = (group % self.targets.len() as u64) as usize;
        if !self.existing.contains(&at) && !self.healthy(life) {
            return Ok(());
        }
        let target = &self.targets[at];
        let subscribe = match target.topics {
            [] => life.bus.subscribe(target.label),
            topics => life.bus.subscribe_all(target.label, topics.iter().copied()),
        };
        let subscribe = subscribe.group(target.group).options(target.request.clone()).from(target.from);
        let subscribe = subscribe.max_in_flight(window as usize).ack_timeout(ack_timeout);
        let feed = match by_id {
            true => subscribe.open_by_id().await.map(|feed| Feed::ById(SharedById::new(feed))),
            false => subscribe.open().await.map(Feed::Stream),
        };
        if target
            .waits_for()
            .is_some_and(|source| !life.bus.has_topic(source) && !life.bus.has_topic(target.label))
        {
            return match feed.map(drop) {
                Err(error) if error.code == Code::BadRequest => Ok(()),
                other => Err(format!("a derived topic without its source was answered with {other:?}")),
            };
        }
        let feed = feed.map_err(|error| format!("joining {}: {error}", target.group))?;
        if self.existing.insert(at) {
            let covered: Vec<_> = self.model.topics.iter().filter(|(name, _)| target.covers(name)).collect();
            let starts: Vec<_> =
                covered.iter().map(|(name, log)| ((*name).clone(), start(target, log))).collect();
            for (topic, start) in starts {
                self.found(at, topic, start);
            }
        }
        let id = self.next_member;
        self.next_member += 1;
        life.members.push(Member {
            id,
            target: at,
            feed,
            window,
            ack_timeout,
            paused: false,
            hand: Vec::new(),
            handed: 0,
            detached: None,
            asleep: false,
            alarm: Default::default(),
        });
        Ok(())
    }

    /// The model gets a group.
    pub(super) fn found(&mut self, target: usize, topic: TopicName, start: u64) {
        let target = &self.targets[target];
        let options = target.request.over(&GroupOptions::default());
        let group = Group::new(&topic, options, start);
        self.model.groups.insert((topic, group_name(target)), group);
    }

    pub(super) async fn receive(&mut self, life: &mut Life, member: u64, count: u64) -> Step {
        let Some(at) = pick(&life.members, member) else { return Ok(()) };
        let mut patience = 3;
        let mut left = count;
        while left > 0 {
            self.tick(life);
            match life.members[at].poll() {
                Some(Ok(came)) if life.members[at].paused => {
                    return Err(format!("a paused member got {:?}", came.event));
                }
                Some(Ok(came)) => {
                    self.sync().await?;
                    self.delivered(&mut life.members[at], came)?;
                    left -= 1;
                }
                Some(Err(error)) => return Err(format!("a subscription ended: {error}")),
                None if patience > 0 => {
                    patience -= 1;
                    settle().await;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    pub(super) fn delivered(&mut self, member: &mut Member, came: Came) -> Step {
        let target = &self.targets[member.target];
        let Came { ref event, attempt, epoch, .. } = came;
        let at = (event.topic().clone(), group_name(target));
        let now = self.model.now;
        let lease = Lease { member: member.id, attempt, epoch, deadline: now + member.ack_timeout };
        self.model.delivered(&at, event.seq(), &known(event), lease)?;
        self.stats.deliveries += 1;
        self.stats.redeliveries += u64::from(attempt > 1);
        self.note(event.seq() << 8 | u64::from(attempt));
        self.say(|| format!("{now}: {at:?} gives {} to {lease:?}", event.seq()));
        member.hold(came, at, lease, now);
        let held = member.hand.iter().filter(|held| self.holds(held)).count() as u64;
        if held > member.window {
            return Err(format!(
                "member {} holds {held} events with a window of {}",
                member.id, member.window
            ));
        }
        Ok(())
    }

    /// Where everybody waits and somebody has room, nothing must be due.
    pub(super) fn nothing_owed(&mut self, life: &Life) -> Step {
        if !self.healthy(life) {
            return Ok(());
        }
        for target in 0..self.targets.len() {
            let members = || life.members.iter().filter(|member| member.target == target);
            let held = |member: &Member| member.hand.iter().filter(|held| self.holds(held)).count() as u64;
            let has_room = |member: &Member| !member.rests() && held(member) < member.window;
            if !members().all(|member| member.rests() || member.is_waiting()) || !members().any(has_room) {
                continue;
            }
            let group = group_name(&self.targets[target]);
            for at in self.model.groups.keys().filter(|at| at.1 == group) {
                if let Some(seq) = self.model.owed(at, self.config.max_parked) {
                    let status = life.bus.group(&at.0, &at.1);
                    return Err(format!("everybody waits, though {seq} of {at:?} is due: {status:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether what is said of this delivery would count for a later one of the same attempt, which an id cannot be told from.
    pub(super) fn is_confused(&self, life: &Life, held: &Held) -> bool {
        let mut others = life.members.iter().flat_map(|member| &member.hand);
        others.any(|other| other.is_taken_for(held) && self.holds(other))
    }

    pub(super) fn holds(&self, held: &Held) -> bool {
        self.model.holds(&held.at, held.seq(), held.lease)
    }

    /// Acks or nacks something in hand; whether that is allowed is the model's to say.
    pub(super) fn settle_one(
        &mut self,
        life: &mut Life,
        member: u64,
        which: u64,
        how: impl Fn(&Held) -> HubResult<()>,
        tell: impl Fn(&mut Model, &Held),
    ) -> Step {
        let Some(member) = pick(&life.members, member) else { return Ok(()) };
        if life.members[member].detached.is_some() {
            return Ok(());
        }
        let Some(at) = pick(&life.members[member].hand, which) else { return Ok(()) };
        let held = life.members[member].hand.swap_remove(at);
        if !self.holds(&held) && self.is_confused(life, &held) {
            return Ok(());
        }
        let answer = how(&held);
        let now = self.model.now;
        self.say(|| format!("{now}: {} of {:?} by {:?}: {answer:?}", held.seq(), held.at, held.lease));
        match self.holds(&held) {
            true => {
                answer.map_err(|error| {
                    format!("the holder of {} of {:?} was refused: {error}", held.seq(), held.at)
                })?;
                tell(&mut self.model, &held);
                self.stats.acks += 1;
            }
            false => self.refused(&held, answer)?,
        }
        if life.stale.len() >= 20 {
            life.stale.remove(0);
        }
        life.stale.push(held);
        Ok(())
    }

    pub(super) fn refused(&mut self, held: &Held, answer: HubResult<()>) -> Step {
        match answer {
            Err(error) if error.code == Code::UnknownId => {
                self.stats.refused += 1;
                Ok(())
            }
            other => Err(format!("{} of {:?} is not held and got {other:?}", held.seq(), held.at)),
        }
    }

    pub(super) fn extend(&mut self, life: &mut Life, member: u64, which: u64, millis: Millis) -> Step {
        let Some(member) = pick(&life.members, member) else { return Ok(()) };
        let Some(at) = pick(&life.members[member].hand, which) else { return Ok(()) };
        let held = &life.members[member].hand[at];
        let is_held = self.holds(held);
        if life.members[member].detached.is_some() || !is_held && self.is_confused(life, held) {
            return Ok(());
        }
        match (is_held, held.extend(millis)) {
            (true, Ok(_)) => self.model.extended(&held.at, held.seq(), self.model.now + millis),
            (false, Err(error)) if error.code == Code::UnknownId => {}
            (holds, answer) => return Err(format!("extending a lease (held: {holds}) got {answer:?}")),
        }
        Ok(())
    }

    pub(super) fn ack_other(&mut self, life: &Life, member: u64, other: u64) -> Step {
        let (Some(a), Some(b)) = (pick(&life.members, member), pick(&life.members, other)) else {
            return Ok(());
        };
        let (Some(mine), Some(theirs)) = (life.members[a].hand.first(), life.members[b].hand.first()) else {
            return Ok(());
        };
        let (Some(mine), Some(delivery)) = (mine.delivery(), theirs.delivery()) else { return Ok(()) };
        if mine.lease.member == delivery.lease.member {
            return Ok(());
        }
        let lease = crate::group::dispatch::Lease { member: mine.lease.member, ..delivery.lease };
        self.refused(theirs, delivery.group.ack(lease))
    }

    pub(super) fn leave(&mut self, life: &mut Life, member: u64, vanish: bool) -> Step {
        let Some(at) = pick(&life.members, member) else { return Ok(()) };
        let member = life.members.swap_remove(at);
        let mut blamed: Vec<(At, u64)> = Vec::new();
        if let (Some(blame), true) = (member.detached, vanish) {
            blamed = self.give_up(&member, blame);
        } else if vanish {
            let mut oldest: BTreeMap<&At, &Held> = BTreeMap::new();
            for held in member.hand.iter().filter(|held| self.holds(held)) {
                let first = oldest.entry(&held.at).or_insert(held);
                if held.seq() < first.seq() {
                    *first = held;
                }
            }
            let earliest = oldest.values().map(|held| held.since).min();
            let to_blame = oldest.values().filter(|held| Some(held.since) == earliest);
            blamed = to_blame.map(|held| (held.at.clone(), held.seq())).collect();
            member.feed.vanish();
        } else {
            member.feed.close();
        }
        self.model.left(member.id, &blamed);
        Ok(())
    }

    pub(super) async fn set_cursor(&mut self, life: &mut Life, group: u64, to: u64) -> Step {
        if !self.healthy(life) {
            return Ok(());
        }
        let groups: Vec<At> = self.model.groups.keys().cloned().collect();
        let Some(at) = pick(&groups, group).map(|at| &groups[at]) else { return Ok(()) };
        let seq = to % (self.model.topics[&at.0].last() + 1);
        let set = life.bus.set_cursor(&at.0, &at.1, Position::AfterSeq(seq)).await;
        set.map_err(|error| format!("setting the cursor of {at:?} to {seq}: {error}"))?;
        self.model.set_cursor(at, seq);
        Ok(())
    }

    pub(super) async fn delete(&mut self, life: &mut Life, group: u64) -> Step {
        let at = (group % self.targets.len() as u64) as usize;
        if !self.healthy(life) || !self.existing.remove(&at) {
            return Ok(());
        }
        let target = &self.targets[at];
        let deleted = match target.topics {
            [] => life.bus.delete_group(target.label, target.group).await,
            _ => life.bus.delete_list(target.label, target.group).await,
        };
        deleted.map_err(|error| format!("deleting {}: {error}", target.group))?;
        let name = group_name(target);
        self.model.groups.retain(|at, _| at.1 != name);
        life.members.retain(|member| member.target != at);
        life.stale.retain(|held| held.at.1 != name);
        Ok(())
    }
}

/// An index into `items`, chosen by remainder.
pub(super) fn pick<T>(items: &[T], which: u64) -> Option<usize> {
    (!items.is_empty()).then(|| (which % items.len() as u64) as usize)
}
