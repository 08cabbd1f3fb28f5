//! One member of a group, whichever hub serves it.

use super::detached::{Arriving, Detachment, MemberAttachment, Recall};
use super::find::{FirstTime, Joining, Opened, OpenedThere, join_here};
use super::hand::Hand;
use super::link::Trouble;
use super::moving::{Moving, Word};
use super::remote::Remote;
use super::settled::{SaveMarks, Settled};
use super::{Ask, Counted};
use crate::Hub;
use crate::acl::Policy;
use futures_util::future::BoxFuture;
use hub_core::store::HubId;
use hub_core::{ById, Event, Held, Millis};
use hub_proto::{Code, Error, EventId, Result, TopicName, limits};
use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A SUBSCRIBE is answered within this.
const PATIENCE: Duration = Duration::from_secs(15);
/// A hub that is told of a member's end has so long to take note.
const GOODBYE: Duration = Duration::from_secs(3);

/// How often a member that is served here looks which of its acks are saved.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// On the way from another hub, in milliseconds.
const A_MOMENT: Millis = 50;

/// See the module.
pub(crate) struct Member {
    place: Place,
    /// What it needs to go elsewhere; `None` on a hub that is alone, and for members of other hubs.
    roving: Option<Box<Roving>>,
    /// Of one that is served here and can be found when its connection was lost.
    attachment: Option<MemberAttachment>,
    /// Of one that is served here: which of its acks are saved.
    marks: SaveMarks,
}

enum Place {
    Here(Box<ById>),
    There(Box<Remote>),
    Moving(Box<Moving>),
    /// Only while it goes from one to the other.
    Nowhere,
}

/// What a member has wherever it is.
pub(super) struct Roving {
    pub hub: Hub,
    pub me: HubId,
    /// What owners know the member by when it comes again.
    pub id: Uuid,
    pub ask: Arc<Ask>,
    pub settled: Settled,
    /// When it was looked which of them are saved.
    pub looked: Instant,
    pub counted: Counted,
    /// The user wants nothing for now.
    pub resting: bool,
    /// Tells the session to release the member.
    pub recall: Arc<Recall>,
}

/// How a client opens a member.
pub(crate) struct Opener {
    /// Says whether a list of topics may be replaced.
    pub policy: Policy,
    /// What the client still works on, of a member that it resumes.
    pub held: Option<Arc<HashSet<EventId>>>,
    /// Tells the session to release the member.
    pub recall: Arc<Recall>,
}

/// An event for the user.
pub(crate) struct Given {
    pub event: Arc<Event>,
    pub attempt: u32,
    pub max_attempts: u32,
    /// The group's epoch.
    pub epoch: u64,
    /// What is left of its time to be acked.
    pub left: Millis,
}

/// The answer to a MODACK: the time left.
pub(crate) enum Extended {
    Now(Result<Millis>),
    /// The hub that serves the group says.
    Later(BoxFuture<'static, Result<Millis>>),
}

impl Member {
    /// Joins a group, wherever it is served.
    pub async fn open(hub: Hub, ask: Ask, opener: Opener) -> Result<Self> {
        let Opener { policy, held, recall } = opener;
        let (id, ask) = (Uuid::now_v7(), Arc::new(ask));
        let Some(me) = hub.bus().hub().map(|hub| hub.id) else {
            if let Some(stored) = hub.bus().subscription(&ask.name.topic, &ask.group) {
                ask.may_replace(&stored.topics, &policy)?;
            }
            let arriving = Arriving::of_client(&ask, id, true, recall);
            let joining = Joining { ask: &ask, arriving, luggage: None, resumed: held.as_deref() };
            let (feed, attachment) = join_here(&hub, joining).await?;
            return Ok(Self::of_session(feed, attachment));
        };
        let counted = hub.edge().count(&ask.group);
        let (settled, looked) = (Settled::default(), Instant::now());
        let mut roving =
            Box::new(Roving { hub, me, id, ask, settled, looked, counted, resting: false, recall });
        let mut moving = Moving::new(&roving, Hand::default(), None, Some(FirstTime { policy, held }));
        let opening = std::future::poll_fn(|context| moving.poll(&mut roving, context));
        let opened = tokio::time::timeout(PATIENCE, opening).await;
        let opened = opened.map_err(|_| moving.gave_up())??;
        let mut member = Self::new(Place::Nowhere, Some(roving), None);
        member.arrive(moving, opened);
        Ok(member)
    }

    /// One that stays: of a hub that is alone, or of another hub, which looks for the next owner itself.
    pub fn of_session(feed: Box<ById>, attachment: Option<MemberAttachment>) -> Self {
        Self::new(Place::Here(feed), None, attachment)
    }

    fn new(place: Place, roving: Option<Box<Roving>>, attachment: Option<MemberAttachment>) -> Self {
        Self { place, roving, attachment, marks: SaveMarks::default() }
    }

    /// What it is told by from others that its client, or its hub, connects anew.
    pub fn ticket(&self) -> Option<u64> {
        self.attachment.as_ref().map(MemberAttachment::ticket)
    }

    /// What the user holds of a member that is served here, with what is left of the time of each.
    pub fn leases(&self) -> Vec<Held> {
        match &self.place {
            Place::Here(feed) => feed.leases(),
            Place::There(_) | Place::Moving(_) | Place::Nowhere => Vec::new(),
        }
    }

    /// How many topics it covered when it was opened; one if another hub serves it.
    pub fn topics(&self) -> usize {
        match &self.place {
            Place::Here(feed) => feed.subscription().topics(),
            Place::There(_) | Place::Moving(_) | Place::Nowhere => 1,
        }
    }

    /// Events that were given to the user and are not settled, as far as this hub knows.
    pub fn in_flight(&self) -> usize {
        match &self.place {
            Place::Here(feed) => feed.in_hand(),
            Place::There(remote) => remote.hand().len(),
            Place::Moving(moving) => moving.hand.len(),
            Place::Nowhere => 0,
        }
    }

    // ---- events ----

    /// The next event; `ack_timeout` is the time that it has when it is from here.
    pub fn poll_recv(&mut self, ack_timeout: Millis, context: &mut Context<'_>) -> Poll<Result<Given>> {
        loop {
            let trouble = match &mut self.place {
                Place::Here(feed) => match ready!(feed.poll_recv(context)) {
                    Ok(handed) => {
                        let given = Given {
                            event: handed.event,
                            attempt: handed.attempt,
                            max_attempts: handed.max_attempts,
                            epoch: handed.epoch,
                            left: ack_timeout,
                        };
                        return Poll::Ready(Ok(given));
                    }
                    Err(error) => self.ended_here(error),
                },
                Place::There(remote) => match ready!(remote.poll_recv(context)) {
                    Ok(came) => {
                        let given = Given {
                            event: came.event,
                            attempt: came.attempt,
                            max_attempts: came.max_attempts,
                            epoch: came.epoch,
                            // What it took to come here is not worth a word.
                            left: if came.left + A_MOMENT >= ack_timeout { ack_timeout } else { came.left },
                        };
                        return Poll::Ready(Ok(given));
                    }
                    Err(trouble) => trouble,
                },
                Place::Moving(_) => {
                    ready!(self.poll_move(context))?;
                    continue;
                }
                Place::Nowhere => return Poll::Pending,
            };
            self.troubled(trouble)?;
        }
    }

    /// Does what has to be done while the user takes no events: follows the group to another owner. Ready when the
    /// subscription has ended.
    pub fn tend(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        loop {
            let trouble = match &mut self.place {
                _ if self.roving.is_none() => return Poll::Pending,
                Place::Here(feed) => {
                    let error = ready!(feed.poll_ended(context));
                    self.ended_here(error)
                }
                Place::There(remote) => ready!(remote.tend(context)),
                Place::Moving(_) => match ready!(self.poll_move(context)) {
                    Ok(()) => continue,
                    Err(error) => return Poll::Ready(error),
                },
                Place::Nowhere => return Poll::Pending,
            };
            if let Err(error) = self.troubled(trouble) {
                return Poll::Ready(error);
            }
        }
    }

    /// Of a subscription of this hub's own: it ends, or goes on elsewhere.
    fn ended_here(&self, error: Error) -> Trouble {
        match error.code {
            Code::NotOwner if self.roving.is_some() => Trouble::Again(error.msg),
            _ => Trouble::Ended(error),
        }
    }

    fn troubled(&mut self, trouble: Trouble) -> Result<()> {
        match trouble {
            Trouble::Ended(error) => Err(self.ended(error)),
            Trouble::Again(why) => {
                self.set_out(&why);
                Ok(())
            }
        }
    }

    /// The subscription has ended. If its client goes on with it through another connection, there is nothing to leave.
    fn ended(&mut self, error: Error) -> Error {
        if error.code == Code::AlreadySubscribed
            && let Place::There(remote) = std::mem::replace(&mut self.place, Place::Nowhere)
        {
            remote.hang_up();
        }
        error
    }

    /// Leaves the place where it is, with what the user has in hand.
    fn set_out(&mut self, why: &str) {
        let Some(roving) = &mut self.roving else { return };
        // What they stand for is saved here, or not: the next owner says what it has saved.
        self.marks = SaveMarks::default();
        self.attachment = None;
        let (topic, group) = (&roving.ask.name.topic, &roving.ask.group);
        tracing::debug!(%topic, %group, %why, "a member looks for the owner of its group");
        let (mut hand, from) = match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Here(feed) => {
                let held = feed.held();
                feed.close();
                (Hand::of(held), None)
            }
            Place::There(remote) => {
                let from = remote.owner;
                (remote.into_hand(), Some(from))
            }
            moving => {
                self.place = moving;
                return;
            }
        };
        hand.set_out();
        self.place = Place::Moving(Box::new(Moving::new(roving, hand, from, None)));
    }

    fn poll_move(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let (Place::Moving(moving), Some(roving)) = (&mut self.place, &mut self.roving) else {
            return Poll::Ready(Ok(()));
        };
        let opened = match ready!(moving.poll(roving, context)) {
            Ok(opened) => opened,
            Err(error) => return Poll::Ready(Err(self.ended(error))),
        };
        if let Place::Moving(moving) = std::mem::replace(&mut self.place, Place::Nowhere) {
            self.arrive(*moving, opened);
        }
        Poll::Ready(Ok(()))
    }

    /// Goes on at the owner, and says there what the user said on the way.
    fn arrive(&mut self, moving: Moving, opened: Opened) {
        let Some(roving) = &mut self.roving else { return };
        let Moving { mut hand, from, words, .. } = moving;
        self.place = match opened {
            Opened::Here(feed, attachment) => {
                // It may have changed on the way.
                set_paused(&feed, roving.resting);
                self.attachment = attachment;
                Place::Here(feed)
            }
            Opened::There(opened) => {
                let OpenedThere { owner, connection, deliveries, resumed, is_paused } = *opened;
                let anew = Instant::now() + Duration::from_millis(roving.ask.ack_timeout);
                hand.arrive((from != Some(owner)).then_some(anew));
                for held in resumed {
                    let until = held.left.map(|left| Instant::now() + Duration::from_millis(left));
                    hand.add(held, until.unwrap_or(anew));
                }
                let gone = Box::pin(roving.hub.bus().gone(owner));
                let (bytes, resting) = (roving.ask.bytes, roving.resting);
                let (link, tracker) = ((connection, deliveries), roving.hub.sessions().clone());
                let mut remote = Remote::new((owner, gone), link, hand, bytes, is_paused, tracker);
                remote.rest(resting);
                Place::There(Box::new(remote))
            }
        };
        for (id, word) in words {
            match &mut self.place {
                Place::Here(feed) => repeat(feed, id, word),
                Place::There(remote) => remote.repeat(id, word),
                Place::Moving(_) | Place::Nowhere => {}
            }
        }
        // The owner has heard of all of them by now.
        if let Place::There(remote) = &self.place
            && !roving.settled.is_empty()
        {
            remote.acked(roving.settled.last());
        }
    }

    /// Gives the user nothing more for now, or goes on.
    pub fn rest(&mut self, resting: bool) {
        if let Some(roving) = &mut self.roving {
            roving.resting = resting;
        }
        match &mut self.place {
            Place::Here(feed) => set_paused(feed, resting),
            Place::There(remote) => remote.rest(resting),
            Place::Moving(_) | Place::Nowhere => {}
        }
    }

    // ---- settling ----

    /// The topic of the event `id`, if the user has it in hand.
    pub fn topic_of(&self, id: EventId) -> Option<&TopicName> {
        match &self.place {
            Place::Here(feed) => feed.topic_of(id),
            Place::There(remote) => remote.hand().topic_of(id),
            Place::Moving(moving) => moving.topic_of(id),
            Place::Nowhere => None,
        }
    }

    /// The seq of an event that this member holds.
    pub fn seq_of(&self, id: EventId) -> Option<u64> {
        match &self.place {
            Place::Here(feed) => feed.held_of(id).map(|held| held.seq),
            Place::There(remote) => remote.hand().seq_of(id),
            Place::Moving(moving) => moving.seq_of(id),
            Place::Nowhere => None,
        }
    }

    /// Settles the event `id`.
    pub fn ack(&mut self, id: EventId, attempt: Option<u32>) -> Result<()> {
        loop {
            let acked = match (&mut self.place, &self.roving) {
                (Place::Here(feed), None) => return feed.ack(id, attempt),
                (Place::Here(feed), Some(_)) => {
                    let held = feed.held_of(id);
                    match feed.ack(id, attempt) {
                        Ok(()) => held,
                        Err(error) => {
                            self.refused_here(error)?;
                            continue;
                        }
                    }
                }
                (Place::There(remote), _) => Some(remote.ack(id, attempt)?),
                (Place::Moving(moving), _) => Some(moving.say(id, attempt, Word::Ack(attempt))?),
                (Place::Nowhere, _) => None,
            };
            self.keep_ack(acked);
            return Ok(());
        }
    }

    /// Keeps what was acked until it is saved.
    fn keep_ack(&mut self, acked: Option<Held>) {
        let (Some(held), Some(roving)) = (acked, &mut self.roving) else { return };
        let number = roving.settled.push(held);
        if let Place::There(remote) = &self.place {
            remote.acked(number);
        }
        if roving.looked.elapsed() >= LOOK_EVERY {
            self.tidy();
        }
    }

    /// Hands the event `id` back as failed.
    pub fn nack(
        &mut self,
        id: EventId,
        attempt: Option<u32>,
        delay: Option<Millis>,
        reason: &str,
    ) -> Result<()> {
        if let Some(delay) = delay {
            check_delay("delay_ms", delay)?;
        }
        loop {
            match &mut self.place {
                Place::Here(feed) => match feed.nack(id, attempt, delay, reason) {
                    Err(error) => self.refused_here(error)?,
                    Ok(()) => return Ok(()),
                },
                Place::There(remote) => return remote.nack(id, attempt, delay, reason),
                Place::Moving(moving) => {
                    let word = Word::Nack(attempt, delay, reason.to_owned());
                    return moving.say(id, attempt, word).map(drop);
                }
                Place::Nowhere => return Ok(()),
            }
        }
    }

    /// Gives the event `id` back, which is not its failure.
    pub fn give_back(&mut self, id: EventId, attempt: Option<u32>, delay: Millis) -> Result<()> {
        check_delay("delay_ms", delay)?;
        loop {
            match &mut self.place {
                Place::Here(feed) => match feed.give_back(id, attempt, delay) {
                    Err(error) => self.refused_here(error)?,
                    Ok(()) => return Ok(()),
                },
                Place::There(remote) => return remote.give_back(id, attempt, delay),
                Place::Moving(moving) => {
                    return moving.say(id, attempt, Word::GiveBack(attempt, delay)).map(drop);
                }
                Place::Nowhere => return Ok(()),
            }
        }
    }

    /// Puts the deadline of the event `id` off.
    pub fn extend(&mut self, id: EventId, attempt: Option<u32>, extend: Millis) -> Extended {
        if let Err(error) = check_delay("extend_ms", extend) {
            return Extended::Now(Err(error));
        }
        loop {
            let extended = match &mut self.place {
                Place::Here(feed) => match feed.extend(id, attempt, extend) {
                    Ok(left) => Ok(left),
                    Err(error) => match self.refused_here(error) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                },
                Place::There(remote) => match remote.extend(id, attempt, extend) {
                    Ok(answer) => return Extended::Later(answer),
                    Err(error) => Err(error),
                },
                // The next owner begins the time anew, and hears of this.
                Place::Moving(moving) => {
                    moving.say(id, attempt, Word::Extend(attempt, extend)).map(|_| extend)
                }
                Place::Nowhere => Ok(extend),
            };
            return Extended::Now(extended);
        }
    }

    /// Another hub has the group, and nobody has noticed yet: then it is said on the way there.
    fn refused_here(&mut self, error: Error) -> Result<()> {
        match error.code {
            Code::NotOwner if self.roving.is_some() => {
                self.set_out(&error.msg);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Events that never reached the user of another hub.
    pub fn unsent(&mut self, id: EventId, attempt: Option<u32>) -> Result<()> {
        match &mut self.place {
            Place::Here(feed) => feed.unsent(id, attempt),
            _ => Ok(()),
        }
    }

    /// Forgets acks that are saved by now.
    pub fn tidy(&mut self) {
        let Some(roving) = self.roving.as_mut().filter(|roving| !roving.settled.is_empty()) else { return };
        roving.looked = Instant::now();
        let saved = match &self.place {
            Place::Here(feed) => self.marks.ask(roving.settled.last(), feed),
            Place::There(remote) => remote.saved(),
            Place::Moving(_) | Place::Nowhere => 0,
        };
        roving.settled.saved(saved);
    }

    /// Of another hub's member: everything up to its ack `number` was said by now. Answers up to which one all is saved.
    pub fn saved(&mut self, number: u64) -> u64 {
        match &self.place {
            Place::Here(feed) => self.marks.ask(number, feed),
            Place::There(_) | Place::Moving(_) | Place::Nowhere => 0,
        }
    }

    // ---- the end ----

    /// Leaves the group; nothing counts as failed. Answers what is still to be waited for.
    pub fn leave(self) -> Option<BoxFuture<'static, ()>> {
        match self.place {
            Place::Here(feed) => {
                feed.close();
                None
            }
            Place::There(remote) => {
                let held = remote.hand().list(Millis::MAX);
                Some(Box::pin(goodbye(remote.unsubscribe(), held, self.roving, Ending::Left)))
            }
            Place::Moving(_) | Place::Nowhere => {
                self.follow(Ending::Left);
                None
            }
        }
    }

    /// The same, without waiting.
    pub fn close(self) {
        let tracker = self.roving.as_ref().map(|roving| roving.hub.sessions().clone());
        if let (Some(leaving), Some(tracker)) = (self.leave(), tracker) {
            tracker.spawn(leaving);
        }
    }

    /// The user has vanished: the event that it has had for longest may be what killed it. A client that can resume the member has
    /// some time to come back.
    pub fn vanish(self) {
        let blame = match &self.place {
            Place::Here(feed) if self.attachment.is_some() => feed.oldest(),
            Place::There(remote) => remote.hand().oldest(),
            // With no owner of the group nobody knows what the user still held.
            Place::Here(_) | Place::Moving(_) | Place::Nowhere => None,
        };
        match (self.place, self.attachment) {
            // A subscription that is dropped blames its oldest event.
            (Place::Here(feed), None) => drop(feed),
            (place, attachment) => Self { place, attachment, ..self }.vanish_with(blame),
        }
    }

    /// The connection of the user ends, and that is no fault of an event: the hub stops, or its token has run out. A client that can
    /// resume the member has some time to come back.
    pub fn suspend(self) {
        match self.can_resume() {
            true => self.vanish_with(None),
            false => self.close(),
        }
    }

    fn can_resume(&self) -> bool {
        let roving = self.roving.as_ref().is_some_and(|roving| roving.ask.client_member.is_some());
        roving || self.attachment.is_some()
    }

    fn vanish_with(self, blame: Option<EventId>) {
        let can_resume = self.can_resume();
        match self.place {
            Place::Here(feed) => match self.attachment {
                Some(attachment) => attachment.detach(feed, Detachment::ClientLost(blame)),
                None => feed.close(),
            },
            Place::There(remote) => {
                if let Some(roving) = self.roving {
                    let held = remote.hand().list(Millis::MAX);
                    let tracker = roving.hub.sessions().clone();
                    let released = remote.release(can_resume, blame);
                    tracker.spawn(goodbye(released, held, Some(roving), Ending::of(can_resume, blame)));
                }
            }
            Place::Moving(_) | Place::Nowhere => self.follow(Ending::of(can_resume, blame)),
        }
    }

    /// The user has left, and was told that events are settled of which no owner may have heard: the next one does. If its client
    /// can resume the member, the next owner keeps its leases.
    fn follow(mut self, ending: Ending) {
        let (Place::Moving(moving), Some(roving)) = (&self.place, &mut self.roving) else { return };
        let hub = roving.hub.clone();
        let has_leases = matches!(ending, Ending::Lost(_)) && moving.hand.len() > 0;
        let has_words = !roving.settled.is_empty() || !moving.words.is_empty();
        if !(has_leases || has_words) || hub.draining().is_cancelled() {
            return;
        }
        // There is nobody to take events.
        roving.resting = true;
        let draining = hub.draining().clone().cancelled_owned();
        hub.sessions().spawn(async move {
            let arriving = std::future::poll_fn(|context| self.poll_move(context));
            let arrived = tokio::select! {
                arrived = tokio::time::timeout(PATIENCE, arriving) => matches!(arrived, Ok(Ok(()))),
                () = draining => false,
            };
            if !arrived {
                return tracing::debug!("a member that has left found no owner to tell what it acked last");
            }
            match (ending, self.place, self.attachment) {
                (Ending::Lost(blame), Place::Here(feed), Some(attachment)) => {
                    attachment.detach(feed, Detachment::ClientLost(blame));
                }
                (Ending::Lost(blame), Place::There(remote), _) => {
                    remote.release(true, blame).await;
                }
                (_, Place::There(remote), _) => {
                    remote.unsubscribe().await;
                }
                (_, Place::Here(feed), _) => feed.close(),
                (_, Place::Moving(_) | Place::Nowhere, _) => {}
            }
        });
    }

    /// Of another hub's member, or one that has come back through another connection: waits to be found.
    pub fn detach(self, why: Detachment) {
        match (self.place, self.attachment) {
            (Place::Here(feed), Some(attachment)) => attachment.detach(feed, why),
            (Place::Here(feed), None) => feed.close(),
            _ => {}
        }
    }

    /// A member of another hub has vanished there, with this event to blame.
    pub fn release(self, blame: Option<EventId>) {
        if let Place::Here(feed) = self.place {
            feed.vanish(blame);
        }
    }
}

/// How a member ends that has no owner at the moment.
#[derive(Clone, Copy)]
enum Ending {
    /// It has left its group.
    Left,
    /// Its client is gone, and may come back; else this event is to blame.
    Lost(Option<EventId>),
}

impl Ending {
    fn of(can_resume: bool, blame: Option<EventId>) -> Self {
        if can_resume { Self::Lost(blame) } else { Self::Left }
    }
}

/// Waits until the owner has taken note of a member's end. If it does not, it may not have heard what the user said before,
/// and hears again what the user `held`: that was delivered.
async fn goodbye(
    leaving: impl Future<Output = bool>,
    held: Vec<Held>,
    roving: Option<Box<Roving>>,
    ending: Ending,
) {
    let told = tokio::time::timeout(GOODBYE, leaving).await.unwrap_or(false);
    if let Some(roving) = roving.filter(|_| !told) {
        let moving = Box::new(Moving::new(&roving, Hand::of(held), None, None));
        Member::new(Place::Moving(moving), Some(roving), None).follow(ending);
    }
}

fn set_paused(feed: &ById, paused: bool) {
    match paused {
        true => feed.subscription().pause(),
        false => feed.subscription().resume(),
    }
}

fn repeat(feed: &mut ById, id: EventId, word: Word) {
    // Events that are not held any more are nobody's fault.
    let _ = match word {
        Word::Ack(attempt) => feed.ack(id, attempt),
        Word::Nack(attempt, delay, reason) => feed.nack(id, attempt, delay, &reason),
        Word::Extend(attempt, extend) => feed.extend(id, attempt, extend).map(drop),
        Word::GiveBack(attempt, delay) => feed.give_back(id, attempt, delay),
    };
}

/// Refuses what is longer than a lease may last.
pub(crate) fn check_delay(name: &str, millis: Millis) -> Result<()> {
    if millis > limits::MAX_DELAY_MS {
        let max = limits::MAX_DELAY_MS;
        return Err(Error::bad_request(format!("{name} is {millis}; it must be at most {max} (12 hours)")));
    }
    Ok(())
}
