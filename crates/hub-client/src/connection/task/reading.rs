//! Reading: what has come goes to whoever it is for.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hub_proto::Event;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::{Task, key, lost};
use crate::connection::answer::Answer;
use crate::connection::closed::Closed;
use crate::connection::queue::{Arrival, Delivered};
use crate::connection::waiting::Waiter;
use crate::frame::{self, Delivery, Incoming};
use crate::{Error, ErrorKind, Result};

/// Frames that are read before somebody else has a turn.
pub(super) const ROUND: usize = 256;
/// Events up to here have memory of their own. They are cut out of what was read in one go, and one of them would keep all
/// of that.
const COPIED_BYTES: usize = 16 << 10;

impl Task {
    /// Reads what has come; how many frames.
    pub(super) fn read(&mut self, context: &mut Context<'_>) -> Result<usize, Closed> {
        for read in 0..ROUND {
            if let Some(full) = &self.full {
                if full.poll_room(context).is_pending() {
                    return Ok(read);
                }
                self.full = None;
                self.resumed = Instant::now();
                self.heard = self.resumed;
            }
            let message = match self.socket.poll_next_unpin(context) {
                Poll::Pending => return Ok(read),
                Poll::Ready(None) => {
                    let text = "the hub has gone without a word";
                    return Err(Closed::Lost(Error::new(ErrorKind::Closed, text)));
                }
                Poll::Ready(Some(Err(error))) => return Err(lost(error)),
                Poll::Ready(Some(Ok(message))) => message,
            };
            self.heard = Instant::now();
            self.pinged = false;
            match message {
                Message::Text(text) => self.take(&text).map_err(Closed::Lost)?,
                // The library has put a pong into the buffer.
                Message::Ping(_) => self.dirty = true,
                Message::Pong(_) | Message::Frame(_) => {}
                Message::Binary(bytes) => {
                    let text = format!("the hub sent a binary frame of {} bytes", bytes.len());
                    return Err(Closed::Lost(Error::new(ErrorKind::Protocol, text)));
                }
                Message::Close(close) => {
                    let (code, reason) = close
                        .map_or((1005, String::new()), |close| (close.code.into(), close.reason.to_string()));
                    return Err(Closed::Hub { code, reason });
                }
            }
        }
        Ok(ROUND)
    }

    fn take(&mut self, text: &Utf8Bytes) -> Result<()> {
        if let Some((topic, group, delivery)) = frame::fast_event(text)
            && self.deliver(text, topic, group, &delivery).is_ok()
        {
            return Ok(());
        }
        match frame::read(text)? {
            Incoming::Ok { corr } => {
                if let Some(waiter) = corr.and_then(|corr| self.waiting.remove(corr)) {
                    self.answered(waiter, Answer(text.clone()));
                }
            }
            Incoming::Err { corr, error, of } => self.refused(corr, error, of),
            Incoming::Events { of: (topic, group), events } => {
                for delivery in &events {
                    self.deliver(text, &topic, group.as_deref(), delivery).map_err(|error| {
                        let text = "the hub sent an event that cannot be understood";
                        Error::new(ErrorKind::Protocol, text).with(error)
                    })?;
                }
            }
            Incoming::Lagged { of: (of, group), topic, missed } => {
                let topic = topic.unwrap_or_else(|| of.clone()).into();
                if let Some(queue) = self.find(&of, group.as_deref()) {
                    queue.push(Arrival::Lagged { topic: Some(topic), missed });
                }
            }
            Incoming::Other => tracing::debug!(bytes = text.len(), "a frame that this client does not know"),
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        text: &Utf8Bytes,
        topic: &str,
        group: Option<&str>,
        delivery: &Delivery<'_>,
    ) -> Result<(), hub_proto::Error> {
        // What is still under way to a subscription that has left.
        let Some(queue) = self.find(topic, group) else { return Ok(()) };
        let bytes = match delivery.event.len() < COPIED_BYTES {
            true => Bytes::copy_from_slice(delivery.event.as_bytes()),
            false => AsRef::<Bytes>::as_ref(text).slice_ref(delivery.event.as_bytes()),
        };
        let event = Event::from_hub(bytes, queue.topic.as_ref())?;
        let deadline = |left| Instant::now() + Duration::from_millis(left);
        let delivered = Delivered {
            event,
            name: queue.name.clone(),
            attempt: delivery.ctx.map_or(0, |ctx| ctx.attempt),
            max_attempts: delivery.ctx.map_or(0, |ctx| ctx.max_attempts),
            ack_deadline: delivery.ctx.map(|ctx| deadline(ctx.ack_deadline_ms)),
            epoch: delivery.ctx.map_or(0, |ctx| ctx.epoch),
        };
        if queue.push(Arrival::Event(delivered)) {
            self.full = Some(queue.clone());
        }
        Ok(())
    }

    fn answered(&mut self, waiter: Waiter, answer: Answer) {
        match waiter {
            Waiter::Asked(who) => drop(who.send(Ok(answer))),
            Waiter::Subscribes(queue, who) => {
                // Before its first event, which comes behind the answer.
                let name = queue.name.clone();
                self.subscriptions.insert(key(&name.topic, name.group.as_deref()), queue.clone());
                if who.send(Ok(answer)).is_err() {
                    // Nobody waits for it any more.
                    self.remove(&queue);
                    self.unsubscribe(&name);
                }
            }
            Waiter::Nobody => {}
        }
    }

    fn refused(&mut self, corr: Option<u64>, error: Error, of: Option<frame::Of<'_>>) {
        match (corr, of) {
            (Some(corr), _) => match self.waiting.remove(corr) {
                Some(Waiter::Asked(who) | Waiter::Subscribes(_, who)) => drop(who.send(Err(error))),
                Some(Waiter::Nobody) | None => {}
            },
            (None, Some((topic, group))) => {
                let key = key(&topic, group.as_deref());
                if let Some(queue) = self.subscriptions.remove(&key) {
                    queue.end(error);
                }
            }
            (None, None) => {
                tracing::debug!(code = error.code_text(), "the hub complains");
                let _ = self.notices.send(error);
            }
        }
    }
}
