//! Events that are published in their order, none without those before it.

use crate::Millis;
use crate::burst::{Added, Burst};
use crate::committer::{self, Sent};
use crate::engine::{Drafts, Engine};
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use hub_proto::{Error, EventId, NewEvent, Receipt, Result};
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Events that are to be published in their order, none without those before it: see
/// [`Bus::in_order`](crate::Bus::in_order).
///
/// Events that a commit cannot bring to different ends go together, as one run: events of one topic that are good in
/// themselves and whose ids the topic does not have. An event with a known id goes alone, because it may be another event. A
/// run goes when the one before it is stored.
///
/// Another publisher that stores one of these ids with other content at the same moment is not foreseen: then events behind
/// it in its run may be stored.
#[must_use = "events are published by sending them"]
pub struct InOrder {
    engine: Arc<Engine>,
    subject: Option<Arc<str>>,
    events: Vec<NewEvent>,
    /// Ids of these events that may be stored in a moment.
    in_flight: HashSet<EventId, RandomState>,
    waits_for_room: bool,
}

/// How far events of an [`InOrder`] have come when the last run is in line.
#[derive(Debug)]
#[must_use = "it has what became of the events"]
pub struct SentInOrder {
    /// What became of the first events. If the last of these is an error, the events behind it were not published.
    pub settled: Vec<Result<Receipt>>,
    /// The run behind them, which is in line.
    pub sent: Option<Sent>,
    /// Why the event behind all of those cannot be published; nothing behind it was.
    pub refused: Option<Error>,
}

impl InOrder {
    pub(crate) fn new(engine: Arc<Engine>, events: Vec<NewEvent>) -> Self {
        Self { engine, subject: None, events, in_flight: HashSet::default(), waits_for_room: true }
    }

    /// Topics that this brings into being count for the [`Quota`](crate::Quota) of a subject.
    pub fn on_behalf_of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Names ids that are in line already: the topic may not have them yet, and has them in a moment.
    pub fn with_in_flight<'a>(mut self, ids: impl IntoIterator<Item = &'a EventId>) -> Self {
        let own: HashSet<EventId, RandomState> =
            self.events.iter().filter_map(|event| event.options.id).collect();
        self.in_flight.extend(ids.into_iter().filter(|id| own.contains(*id)));
        self
    }

    /// Refuses events for which there is no room in line, instead of waiting for room.
    pub fn without_waiting_for_room(mut self) -> Self {
        self.waits_for_room = false;
        self
    }

    /// Publishes run after run, until the last one is in line or one fails. Takes no longer than a publish may. Dropping this
    /// leaves the first runs published, and takes nothing back.
    pub async fn send(self) -> SentInOrder {
        let patience = Duration::from_millis(self.engine.config.publish_timeout);
        let time = Time { since: self.engine.clock.steady(), deadline: Instant::now() + patience };
        let goes_alone = self.look_up(time.deadline).await;
        let Self { engine, subject, events, waits_for_room, .. } = self;
        let mut events = events.into_iter().zip(goes_alone).peekable();
        let mut settled = Vec::new();
        loop {
            let (drafts, refused) = next_run(&engine, subject.as_deref(), &mut events);
            if drafts.is_empty() {
                return SentInOrder { settled, sent: None, refused };
            }
            let mut burst = Burst::new(engine.clone());
            if let Some(subject) = &subject {
                burst.set_subject(subject);
            }
            let sent = put_in_line(burst, drafts, time, waits_for_room).await;
            if refused.is_some() || events.peek().is_none() || sent.is_refused() {
                return SentInOrder { settled, sent: Some(sent), refused };
            }
            settled.extend(sent.await);
            if settled.iter().any(Result::is_err) {
                return SentInOrder { settled, sent: None, refused: None };
            }
        }
    }

    /// Which events go alone: a topic has their ids, or may have them in a moment, or did not say so in time.
    async fn look_up(&self, deadline: Instant) -> Vec<bool> {
        let mut goes_alone = vec![self.events.len() > 1; self.events.len()];
        if self.events.len() < 2 {
            return goes_alone;
        }
        let (mut seen, mut looking) = (HashSet::<_, RandomState>::default(), JoinSet::new());
        for (at, event) in self.events.iter().enumerate() {
            let Some(id) = event.options.id else {
                goes_alone[at] = false;
                continue;
            };
            if self.in_flight.contains(&id) || !seen.insert((&event.topic, id)) {
                continue;
            }
            let (store, topic) = (self.engine.store.clone(), event.topic.clone());
            looking.spawn(async move { (at, matches!(store.seq_of(&topic, id).await, Ok(None))) });
        }
        while let Ok(Some(looked)) = tokio::time::timeout_at(deadline, looking.join_next()).await {
            if let Ok((at, is_new)) = looked {
                goes_alone[at] = !is_new;
            }
        }
        goes_alone
    }
}

impl SentInOrder {
    /// What became of the first events: an error is the last one, and nothing behind it was published.
    pub async fn results(self) -> Vec<Result<Receipt>> {
        let Self { settled: mut results, sent, refused } = self;
        if let Some(sent) = sent {
            results.extend(sent.await);
        }
        results.extend(refused.map(Err));
        let failed = results.iter().position(Result::is_err);
        results.truncate(failed.map_or(results.len(), |at| at + 1));
        results
    }
}

/// Since when events wait, and until when they may.
#[derive(Clone, Copy)]
struct Time {
    /// On the clock of the bus.
    since: Millis,
    deadline: Instant,
}

/// The next events that go together; and why the one behind them cannot be published, if it is bad in itself.
fn next_run(
    engine: &Arc<Engine>,
    subject: Option<&str>,
    events: &mut Peekable<impl Iterator<Item = (NewEvent, bool)>>,
) -> (Drafts, Option<Error>) {
    let mut drafts = Drafts::new();
    let mut is_open = true;
    while is_open
        && let Some((event, goes_alone)) = events.next_if(|(event, goes_alone)| match drafts.first() {
            Some((topic, _)) => !goes_alone && topic.name == event.topic,
            None => true,
        })
    {
        match engine.draft(event, subject) {
            Ok(draft) => drafts.push(draft),
            Err(error) => return (drafts, Some(error)),
        }
        is_open = !goes_alone;
    }
    (drafts, None)
}

/// Puts a run in line, as an ordinary batch is.
async fn put_in_line(mut burst: Burst, drafts: Drafts, time: Time, waits_for_room: bool) -> Sent {
    let ids = drafts.iter().map(|(_, draft)| draft.id()).collect();
    let no_room =
        || Error::unavailable("the store does not keep up: the event was not stored, try again later");
    match burst.add_drafts(drafts, time.since) {
        Err(_) => Sent::refused(ids, committer::stopped()),
        Ok(Added::Taken) => burst.send_since(time.since).unwrap_or_else(|| Sent::refused(ids, no_room())),
        Ok(Added::Crowded(room)) if waits_for_room => {
            match tokio::time::timeout_at(time.deadline, room).await {
                Ok(sent) => sent,
                Err(_) => Sent::refused(ids, no_room()),
            }
        }
        Ok(Added::Crowded(_)) => Sent::refused(ids, no_room()),
    }
}
