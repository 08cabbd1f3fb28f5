//! A member between two owners: what its user says meanwhile counts when it has arrived.

use super::find::{self, FirstTime, Opened, Opening, Spot};
use super::hand::{Hand, unknown};
use super::link::Trouble;
use super::member::Roving;
use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use hub_core::store::HubId;
use hub_core::{Luggage, Millis};
use hub_proto::{Error, EventId, Result, TopicName};
use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The first wait before the owner is looked for again; it doubles.
const FIRST: Duration = Duration::from_millis(20);
/// The longest one.
const LONGEST: Duration = Duration::from_millis(250);

/// See the module.
pub(super) struct Moving {
    pub hand: Hand,
    /// Where it was, if that was another hub: leases there may go on as they were.
    pub from: Option<HubId>,
    /// What the user said since it left.
    pub words: HashMap<EventId, Word, RandomState>,
    step: Step,
    wait: Duration,
    /// The last trouble, and since when there is some.
    trouble: Cow<'static, str>,
    since: Instant,
    told: bool,
    /// Of a member that its client opens.
    first_time: Option<FirstTime>,
}

/// What a user said about an event, to be passed on.
#[derive(Debug)]
pub(super) enum Word {
    Ack(Option<u32>),
    Nack(Option<u32>, Option<Millis>, String),
    Extend(Option<u32>, Millis),
    GiveBack(Option<u32>, Millis),
}

enum Step {
    Look(BoxFuture<'static, Result<Spot, Trouble>>),
    Open(BoxFuture<'static, Result<Opened, Trouble>>),
    Wait(Pin<Box<Sleep>>),
}

impl Moving {
    pub fn new(roving: &Roving, hand: Hand, from: Option<HubId>, first_time: Option<FirstTime>) -> Self {
        Self {
            hand,
            from,
            words: HashMap::default(),
            step: Step::Look(Box::pin(find::look(roving.hub.clone(), roving.ask.clone()))),
            wait: FIRST,
            trouble: Cow::Borrowed("there was no answer"),
            since: Instant::now(),
            told: false,
            first_time,
        }
    }

    /// Until it has arrived.
    ///
    /// # Errors
    /// What cannot be helped by looking again.
    pub fn poll(&mut self, roving: &mut Roving, context: &mut Context<'_>) -> Poll<Result<Opened>> {
        loop {
            let trouble = match &mut self.step {
                Step::Wait(sleep) => {
                    ready!(sleep.as_mut().poll(context));
                    self.step = Step::Look(Box::pin(find::look(roving.hub.clone(), roving.ask.clone())));
                    continue;
                }
                Step::Look(look) => match ready!(look.as_mut().poll(context)) {
                    Ok(spot) => {
                        let opening = Opening {
                            hub: roving.hub.clone(),
                            ask: roving.ask.clone(),
                            member: roving.id,
                            recall: roving.recall.clone(),
                            luggage: self.luggage(roving),
                            paused: roving.resting,
                            first_time: self.first_time.clone(),
                        };
                        self.step = Step::Open(Box::pin(find::open(spot, opening)));
                        continue;
                    }
                    Err(trouble) => trouble,
                },
                Step::Open(open) => match ready!(open.as_mut().poll(context)) {
                    Ok(opened) => return Poll::Ready(Ok(opened)),
                    Err(trouble) => trouble,
                },
            };
            match trouble {
                Trouble::Ended(error) => return Poll::Ready(Err(error)),
                Trouble::Again(why) => self.later(roving, why),
            }
        }
    }

    fn later(&mut self, roving: &Roving, why: Cow<'static, str>) {
        if !self.told && self.since.elapsed() > Duration::from_secs(5) {
            self.told = true;
            let (topic, group) = (&roving.ask.name.topic, &roving.ask.group);
            tracing::warn!(%topic, %group, %why, "a member has no owner of its group yet; looking on");
        }
        self.trouble = why;
        self.step = Step::Wait(Box::pin(tokio::time::sleep(self.wait)));
        self.wait = (2 * self.wait).min(LONGEST);
    }

    /// What the next owner has to know, as of now.
    fn luggage(&self, roving: &Roving) -> Luggage {
        let mut held = self.hand.list(roving.ask.ack_timeout);
        // Those are settled; the ones that were nacked are handed back when the owner knows who has them.
        held.retain(|held| !matches!(self.words.get(&held.id), Some(Word::Ack(_))));
        Luggage { hub: roving.me, members: roving.counted.all(), held, settled: roving.settled.list() }
    }

    /// For somebody who does not want to wait any longer.
    pub fn gave_up(&self) -> Error {
        Error::unavailable(format!(
            "the hub that serves this group cannot be reached: {}; try again",
            self.trouble
        ))
    }

    // ---- what the user says ----

    pub fn topic_of(&self, id: EventId) -> Option<&TopicName> {
        self.hand.topic_of(id).filter(|_| !self.is_settled(id))
    }

    pub fn seq_of(&self, id: EventId) -> Option<u64> {
        self.hand.seq_of(id)
    }

    fn is_settled(&self, id: EventId) -> bool {
        matches!(self.words.get(&id), Some(Word::Ack(_) | Word::Nack(..) | Word::GiveBack(..)))
    }

    /// Keeps what the user says about an event that it has.
    pub fn say(&mut self, id: EventId, attempt: Option<u32>, word: Word) -> Result<hub_core::Held> {
        if self.is_settled(id) {
            return Err(unknown(id, attempt));
        }
        let held = self.hand.check(id, attempt)?.clone();
        self.words.insert(id, word);
        Ok(held)
    }
}
