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
    /// Those that were refused, in their places, and the others.
    Several(Vec<Option<Error>>, PendingBatch),
}

impl Publishing {
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
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
            Answer::Several(refused, pending) => {
                let mut results = ready!(Pin::new(pending).poll(context)).into_iter();
                let lost = || Err(Error::internal("an event was not answered"));
                let place = |refused: Option<Error>| match refused {
                    Some(error) => Err(error),
                    None => results.next().unwrap_or_else(lost),
                };
                let results: Vec<_> = std::mem::take(refused).into_iter().map(place).collect();
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
            Self::Several(refused, _) => refused.len().max(1),
        }
    }
}
