//! Events that are put in line together.

use crate::Millis;
use crate::committer::{self, NoRoom, Room, Sent, TakenTopics};
use crate::engine::{Drafts, Engine};
use crate::topic::Topic;
use futures_core::future::BoxFuture;
use hub_proto::{Draft, Error, NewEvent, Receipt, Result};
use std::sync::Arc;

/// Events that are put in line together: see [`Bus::burst`](crate::Bus::burst). What was added is published by
/// [`Burst::send`] and not by dropping this. Until then it takes room in line that others may be waiting for: send it before
/// waiting for anything.
#[must_use = "events are published by sending them"]
pub struct Burst {
    engine: Arc<Engine>,
    /// Whom topics count for that it brings into being.
    subject: Option<Arc<str>>,
    drafts: Drafts,
    /// Room in line for them.
    room: Option<Room>,
    /// Their topics, if a subject may have only so many in line.
    taken: Option<TakenTopics>,
}

/// What became of events that were added to a burst.
pub enum Added {
    /// They go with it.
    Taken,
    /// There is no room in line. This waits for some, and puts them there by themselves. Send the burst before: what is in it
    /// comes first, and it has some of the room.
    Crowded(BoxFuture<'static, Sent>),
}

/// Which of several events are bad in themselves, and why.
#[derive(Debug)]
pub struct Checked(Vec<Option<Error>>);

impl Burst {
    /// So much is better sent than added to.
    const BYTES: usize = 256 << 10;
    const EVENTS: usize = 1024;
    /// Where there is one there may be a few.
    const FIRST: usize = 16;

    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine, subject: None, drafts: Vec::new(), room: None, taken: None }
    }

    /// From now on on behalf of a subject: topics that this brings into being count for its [`Quota`](crate::Quota).
    pub fn set_subject(&mut self, subject: &str) {
        self.subject = Some(subject.into());
    }

    /// Adds an event. Its receipt follows those of the events before it.
    ///
    /// # Errors
    /// If the event is bad in itself, or the hub stops.
    pub fn add(&mut self, event: NewEvent) -> Result<Added> {
        let draft = self.engine.draft(event, self.subject.as_deref())?;
        match self.take_room(std::slice::from_ref(&draft)) {
            Ok(()) => {
                if self.drafts.capacity() == 0 {
                    self.drafts.reserve(Self::FIRST);
                }
                self.drafts.push(draft);
                Ok(Added::Taken)
            }
            Err(NoRoom::Full) => {
                let since = self.engine.clock.steady();
                Ok(self.crowded(vec![draft], since))
            }
            Err(NoRoom::Closed) => Err(stopped(&draft)),
        }
    }

    /// Adds several events, which get into one commit. One that was found bad before keeps its error in its place. If the hub
    /// stops, that is the error of all others.
    pub fn add_all(&mut self, events: Vec<Result<NewEvent>>) -> (Checked, Added) {
        let (drafts, mut checked) = self.engine.drafts(events, self.subject.as_deref());
        let since = self.engine.clock.steady();
        match self.add_drafts(drafts, since) {
            Ok(added) => (checked, added),
            Err(drafts) => {
                checked.refuse(drafts.iter().map(stopped));
                (checked, Added::Taken)
            }
        }
    }

    /// Adds events that were checked, and wait since a time.
    ///
    /// # Errors
    /// The events, if the hub stops.
    pub(crate) fn add_drafts(&mut self, mut drafts: Drafts, since: Millis) -> Result<Added, Drafts> {
        match self.take_room(&drafts) {
            Ok(()) => {
                self.drafts.append(&mut drafts);
                Ok(Added::Taken)
            }
            Err(NoRoom::Full) => Ok(self.crowded(drafts, since)),
            Err(NoRoom::Closed) => Err(drafts),
        }
    }

    /// Whether it should be sent before more is added.
    pub fn is_full(&self) -> bool {
        self.drafts.len() >= Self::EVENTS
            || self.room.as_ref().is_some_and(|room| room.bytes() >= Self::BYTES)
    }

    /// Puts in line what was added, all at once, and leaves nothing behind; `None` if there was nothing. The receipts come in
    /// the order in which events were taken.
    pub fn send(&mut self) -> Option<Sent> {
        // Nothing waits in most of the bursts that are sent: the clock is not asked for those.
        self.room.as_ref()?;
        self.send_since(self.engine.clock.steady())
    }

    /// The same, for events that wait since a time.
    pub(crate) fn send_since(&mut self, since: Millis) -> Option<Sent> {
        let room = self.room.take()?;
        let drafts = std::mem::take(&mut self.drafts);
        Some(self.engine.committer.send(room, self.taken.take(), drafts, since))
    }

    /// Whether its subject may have the topics of these in line, which are taken then.
    fn takes_topics(&mut self, drafts: &[(Arc<Topic>, Draft)]) -> bool {
        let (Some(topics), Some(subject)) = (&self.engine.topics_in_flight, &self.subject) else {
            return true;
        };
        let taken = self.taken.get_or_insert_with(|| TakenTopics::new(topics, subject));
        taken.try_take(drafts.iter().map(|(topic, _)| topic.number))
    }

    /// Takes room for more events, if there is some. Events of topics that are held up go by themselves: others do not wait for
    /// their room.
    fn take_room(&mut self, drafts: &[(Arc<Topic>, Draft)]) -> Result<(), NoRoom> {
        let Some((topic, _)) = drafts.first() else { return Ok(()) };
        if !self.takes_topics(drafts) || drafts.iter().any(|(topic, _)| topic.is_held_up()) {
            return Err(NoRoom::Full);
        }
        let bytes = drafts.iter().map(|(_, draft)| draft.len()).sum();
        let room = self.engine.committer.try_room(topic, bytes)?;
        match &mut self.room {
            Some(all) => all.merge(room),
            none => *none = Some(room),
        }
        Ok(())
    }

    #[expect(clippy::async_yields_async, reason = "one is to be in line, the other to be committed")]
    fn crowded(&mut self, drafts: Drafts, since: Millis) -> Added {
        if self.drafts.is_empty() {
            // Nothing that could be sent holds them.
            self.taken = None;
        }
        let (engine, subject) = (self.engine.clone(), self.subject.clone());
        Added::Crowded(Box::pin(async move {
            match (&engine.topics_in_flight, &subject) {
                (Some(topics), Some(subject)) => {
                    engine.committer.send_in_parts(topics, subject, drafts, since).await
                }
                _ => engine.committer.send_later(drafts, since).await,
            }
        }))
    }
}

/// The error of an event that comes when nothing is taken any more.
fn stopped((_, draft): &(Arc<Topic>, Draft)) -> Error {
    committer::stopped().with_id(draft.id())
}

impl Checked {
    pub(crate) fn new(errors: Vec<Option<Error>>) -> Self {
        Self(errors)
    }

    /// Gives the good ones these errors, in their order.
    fn refuse(&mut self, errors: impl IntoIterator<Item = Error>) {
        self.0
            .iter_mut()
            .filter(|error| error.is_none())
            .zip(errors)
            .for_each(|(place, error)| *place = Some(error));
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why those that are bad are, in their order.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.0.iter().flatten()
    }

    /// How many of them are good: there is a receipt for each.
    pub fn good(&self) -> usize {
        self.0.iter().filter(|error| error.is_none()).count()
    }

    /// What became of each, given the receipts of the good ones.
    pub fn merge(self, receipts: impl IntoIterator<Item = Result<Receipt>>) -> Vec<Result<Receipt>> {
        let mut receipts = receipts.into_iter();
        let lost = || Err(Error::internal("an event was not answered"));
        let merge = |error: Option<Error>| match error {
            Some(error) => Err(error),
            None => receipts.next().unwrap_or_else(lost),
        };
        self.0.into_iter().map(merge).collect()
    }
}
