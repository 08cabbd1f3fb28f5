//! Publishes that wait for their answers. What a connection publishes in one round is put in line together, so its receipts
//! come together and one wake-up brings them all; they answer its frames one after the other.

use super::answer::Writer;
use super::request::Corr;
use hub_core::{Checked, Receipt, Sent};
use hub_proto::{Error, EventId, Result};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;
use tokio_tungstenite::tungstenite::Message;

/// See the module.
#[derive(Default)]
pub(crate) struct Publishing {
    /// Frames.
    line: VecDeque<(Corr, Answer)>,
    /// What brings their receipts, in the same order.
    sent: VecDeque<Sent>,
    /// Those that are here.
    receipts: vec::IntoIter<Result<Receipt>>,
    events: usize,
}

/// What a PUBLISH is answered.
pub(crate) enum Answer {
    /// It was refused; in line so that answers keep their order.
    Refused(Error),
    /// The next receipt.
    One,
    /// The next ones, for those of its events that are good.
    Several(Checked),
    InOrder(InOrderAnswer),
}

/// What a PUBLISH of events in their order is answered.
pub(crate) struct InOrderAnswer {
    /// How many events there were.
    pub events: usize,
    /// What became of the first ones.
    pub settled: Vec<Result<Receipt>>,
    /// How many receipts follow.
    pub receipts: usize,
    /// Why the event behind those was not published.
    pub refused: Option<Error>,
}

impl InOrderAnswer {
    /// A result for each event. Events that went into one commit have what became of them there, be it unknown.
    fn results(self, receipts: impl Iterator<Item = Result<Receipt>>) -> Vec<Result<Receipt>> {
        let Self { events, settled: mut results, refused, .. } = self;
        results.extend(receipts);
        if results.iter().all(Result::is_ok) {
            results.extend(refused.map(Err));
        }
        let not_published =
            || Error::unavailable("not published: an event before it in an ordered batch was refused");
        results.resize_with(events, || Err(not_published()));
        results
    }
}

impl Publishing {
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Nothing is under way: lines that were long once are not kept so.
    pub fn rest(&mut self) {
        if self.line.is_empty() {
            self.line.shrink_to(32);
            self.sent.shrink_to(4);
            self.receipts = vec::IntoIter::default();
        }
    }

    /// Events that wait.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Ids of events that are in line and may not be committed.
    pub fn in_flight(&self) -> impl Iterator<Item = &EventId> {
        self.sent.iter().flat_map(Sent::ids)
    }

    pub fn push(&mut self, corr: Corr, answer: Answer) {
        self.events += answer.events();
        self.line.push_back((corr, answer));
    }

    /// What was taken of the frames that have no receipts yet was put in line.
    pub fn sent(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    /// The next answer.
    pub fn poll_next(&mut self, writer: &mut Writer, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let Some((_, answer)) = self.line.front() else { return Poll::Ready(None) };
        if self.receipts.len() == 0
            && answer.receipts() > 0
            && let Some(sent) = self.sent.front_mut()
        {
            self.receipts = ready!(Pin::new(sent).poll(context)).into_iter();
            self.sent.pop_front();
        }
        let Some((corr, answer)) = self.line.pop_front() else { return Poll::Ready(None) };
        self.events -= answer.events();
        let lost = || Err(Error::internal("an event was not answered"));
        Poll::Ready(Some(match answer {
            Answer::Refused(error) => writer.failed(&corr, &error),
            Answer::One => match self.receipts.next().unwrap_or_else(lost) {
                Ok(receipt) => writer.published(&corr, &receipt),
                Err(error) => writer.failed(&corr, &error),
            },
            Answer::Several(checked) => {
                let good = checked.good();
                writer.published_all(&corr, &checked.merge(self.receipts.by_ref().take(good)))
            }
            Answer::InOrder(answer) => {
                let receipts = answer.receipts;
                writer.published_in_order(&corr, &answer.results(self.receipts.by_ref().take(receipts)))
            }
        }))
    }
}

impl Answer {
    fn events(&self) -> usize {
        match self {
            Self::Refused(_) | Self::One => 1,
            Self::Several(checked) => checked.len().max(1),
            Self::InOrder(answer) => answer.events.max(1),
        }
    }

    /// How many receipts it takes.
    fn receipts(&self) -> usize {
        match self {
            Self::Refused(_) => 0,
            Self::One => 1,
            Self::Several(checked) => checked.good(),
            Self::InOrder(answer) => answer.receipts,
        }
    }
}
