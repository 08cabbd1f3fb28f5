//! Settling events: acks, nacks, deadlines; and holding a subscription back.

use std::sync::Arc;
use std::time::Duration;

use hub_proto::EventId;
use serde::Deserialize;

use super::{Acked, Connection, Outgoing, Returned};
use crate::{Name, Result};

impl Connection {
    /// Acks events in a moment, together with all others that are acked by then. Nobody waits, so this can be said
    /// anywhere. `attempt` is that of the delivery: a late ack cannot settle a later one then. An ack that the hub does
    /// not take is a [notice](Connection::notices), and the event comes again.
    ///
    /// # Errors
    /// `Busy` if 100,000 acks wait already. Nothing is acked then.
    pub fn ack(&self, name: &Arc<Name>, ids: &[EventId], attempt: Option<u32>) -> Result<()> {
        self.later().ack(name, ids, attempt)
    }

    /// Acks events (at most 10,000), and waits for the hub's answer.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn ack_now(&self, name: &Name, ids: &[EventId], attempt: Option<u32>) -> Result<Acked> {
        let corr = self.corr();
        let text = Outgoing::ack(Some(corr), name, ids, attempt).done();
        self.ask(text, corr, None).await?.await?.read()
    }

    /// Hands an event back as failed, and waits for the hub's answer. It comes again after `delay`, or after the group's
    /// backoff.
    ///
    /// # Errors
    /// What the hub refused (`unknown_id`: it is not in hand), or the end of the connection.
    pub async fn nack(
        &self,
        name: &Name,
        id: EventId,
        attempt: Option<u32>,
        delay: Option<Duration>,
        reason: &str,
    ) -> Result<()> {
        let corr = self.corr();
        let mut frame = Outgoing::new("NACK", Some(corr)).name(name).text("id", id.encode(&mut [0; 36]));
        if !reason.is_empty() {
            frame = frame.text("reason", reason);
        }
        let text = frame.maybe("attempt", attempt).maybe("delay_ms", delay.map(millis)).done();
        self.ask(text, corr, None).await?.await.map(drop)
    }

    /// Gives events back (at most 10,000) without a failure, because a dependency is down or the program stops. They come again after
    /// `delay`, here or elsewhere.
    ///
    /// # Errors
    /// `Unsupported` if the hub does not have [`RETURN`](super::RETURN), what it refused, or the end of the connection.
    pub async fn give_back(
        &self,
        name: &Name,
        ids: &[EventId],
        attempt: Option<u32>,
        delay: Duration,
    ) -> Result<Returned> {
        self.needs(super::RETURN)?;
        let corr = self.corr();
        let frame = Outgoing::new("RETURN", Some(corr)).name(name).value("ids", &ids)?;
        let text = frame.maybe("attempt", attempt).maybe("delay_ms", Some(millis(delay))).done();
        self.ask(text, corr, None).await?.await?.read()
    }

    /// Puts the deadline of an event off, to so long from now; answers the time that is left.
    ///
    /// # Errors
    /// What the hub refused (`unknown_id`: it is not in hand), or the end of the connection.
    pub async fn modack(
        &self,
        name: &Name,
        id: EventId,
        attempt: Option<u32>,
        extend: Duration,
    ) -> Result<Duration> {
        #[derive(Deserialize)]
        struct Left {
            ack_deadline_ms: u64,
        }
        let corr = self.corr();
        let frame = Outgoing::new("MODACK", Some(corr)).name(name).text("id", id.encode(&mut [0; 36]));
        let text = frame.maybe("attempt", attempt).maybe("extend_ms", Some(millis(extend))).done();
        let left: Left = self.ask(text, corr, None).await?.await?.read()?;
        Ok(Duration::from_millis(left.ack_deadline_ms))
    }

    /// Holds further events of a subscription back. What is in hand, or under way, stays.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn pause(&self, name: &Name) -> Result<()> {
        let corr = self.corr();
        self.ask(Outgoing::new("PAUSE", Some(corr)).name(name).done(), corr, None).await?.await.map(drop)
    }

    /// Lets them come again.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn resume(&self, name: &Name) -> Result<()> {
        let corr = self.corr();
        self.ask(Outgoing::new("RESUME", Some(corr)).name(name).done(), corr, None).await?.await.map(drop)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
