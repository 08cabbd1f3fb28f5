//! Publishes that wait for their answers. The bus answers them in the order in which they were put in line, so only the
//! first one is waited for, and one wake-up brings all that were committed together.

use super::answer::Writer;
use super::request::Corr;
use axum::extract::ws::Message;
use hub_core::{Pending, PendingBatch};
use hub_proto::Error;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// See the module.
#[derive(Default)]
pub(crate) struct Publishing {
    line: VecDeque<(Corr, Answer)>,
    events: usize,
}

/// What a PUBLISH is answered.
pub(crate) enum Answer {
    /// It was refused; in line so that answers keep their order.
    Refused(Error),
    One(Pending),
    /// So many.
    Several(usize, PendingBatch),
}

impl Publishing {
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Nothing is under way: a line that was long once is not kept so.
    pub fn rest(&mut self) {
        if self.line.is_empty() {
            self.line.shrink_to(32);
        }
    }

    /// Events that wait.
    pub fn events(&self) -> usize {
        self.events
    }

    pub fn push(&mut self, corr: Corr, answer: Answer) {
        self.events += answer.events();
        self.line.push_back((corr, answer));
    }

    /// The next answer.
    pub fn poll_next(&mut self, writer: &mut Writer, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let Some((corr, answer)) = self.line.front_mut() else { return Poll::Ready(None) };
        let events = answer.events();
        let message = match answer {
            Answer::Refused(error) => writer.failed(corr, error),
            Answer::One(pending) => match ready!(Pin::new(pending).poll(context)) {
                Ok(receipt) => writer.published(corr, &receipt),
                Err(error) => writer.failed(corr, &error),
            },
            Answer::Several(_, pending) => {
                let results = ready!(Pin::new(pending).poll(context));
                writer.published_all(corr, &results)
            }
        };
        self.events -= events;
        self.line.pop_front();
        Poll::Ready(Some(message))
    }
}

impl Answer {
    fn events(&self) -> usize {
        match self {
            Self::Refused(_) | Self::One(_) => 1,
            Self::Several(events, _) => (*events).max(1),
        }
    }
}
