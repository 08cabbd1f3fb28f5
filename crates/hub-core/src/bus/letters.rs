//! Dead letters: what groups gave up.

use super::Bus;
use crate::letters::{self, DeadLetter, LetterFilter, LetterPage, LetterRange, Replay, Replayed};
use hub_proto::{Error, EventId, Result, TopicName, limits};

impl Bus {
    /// The dead letters of a topic that a filter matches, oldest first, at most `limit` (1,000 at most). Discarded ones are left
    /// out. One call looks at about 10,000 letters or 16 MiB: a page can be short, or empty, and have a `next` all the same.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// bus.publish("orders", json!({"order": 17})).await?;
    /// let group = bus.subscribe("orders").group("billing").from(Position::Earliest).max_attempts(1);
    /// let mut group = group.open().await?;
    /// group.recv().await?.nack("no such customer")?;
    /// let letters = loop {
    ///     let page = bus.dead_letters("orders", &LetterFilter::default(), LetterRange::default(), 100).await?;
    ///     if !page.letters.is_empty() { break page.letters }
    ///     tokio::task::yield_now().await;
    /// };
    /// assert_eq!(letters[0].err(), "no such customer");
    ///
    /// // Once the customer is there:
    /// bus.replay_dead_letters(&letters, &Replay::default()).await?;
    /// let again = group.recv().await?;
    /// assert_eq!(again.event().payload(), br#"{"order":17}"#);
    /// again.ack()?;
    /// # bus.stop().await }
    /// ```
    ///
    /// # Errors
    /// `bad_request` for a name that is none, or too many ids.
    pub async fn dead_letters(
        &self,
        topic: &str,
        filter: &LetterFilter,
        range: LetterRange,
        limit: usize,
    ) -> Result<LetterPage> {
        let limit = checked(limit)?;
        letters::page(self.engine(), &TopicName::readable(topic)?, filter, range, limit).await
    }

    /// One dead letter, by its own id; `None` if there is none, or it was discarded.
    pub async fn dead_letter(&self, topic: &str, id: EventId) -> Result<Option<DeadLetter>> {
        letters::find(self.engine(), &TopicName::readable(topic)?, id).await
    }

    /// Replays dead letters, each to the one group that gave it up: the event is appended to its topic again, for that group alone.
    /// Other groups, watchers, `latest_by_key`, compaction and snapshots pass it over. What fails again is a new dead letter.
    ///
    /// A letter is replayed once in each [round](Replay::round): asking again, after a crash or on another hub, appends nothing.
    /// Each letter has a result of its own, in the order given. An edited [payload](Replay::payload) is for one letter.
    ///
    /// # Errors
    /// `bad_request` for more than 1,000 letters, or a payload for several; `too_large` for a payload that is too large.
    pub async fn replay_dead_letters(
        &self,
        letters: &[DeadLetter],
        how: &Replay,
    ) -> Result<Vec<Result<Replayed>>> {
        checked(letters.len().max(1))?;
        if how.payload.is_some() && letters.len() > 1 {
            return Err(Error::bad_request("an edited payload is for exactly one letter"));
        }
        letters::replay(self.engine(), letters, how).await
    }

    /// Discards dead letters: they are listed no more, and not replayed. The records stay on the dead-letter topic for as long as
    /// that keeps them. Answers how many.
    ///
    /// # Errors
    /// `bad_request` for more than 1,000 letters, `unavailable` if the store did not take it: asking again is safe.
    pub async fn discard_dead_letters(&self, letters: &[DeadLetter]) -> Result<usize> {
        checked(letters.len().max(1))?;
        letters::discard(self.engine(), letters).await
    }
}

fn checked(limit: usize) -> Result<usize> {
    match limit {
        1..=limits::BATCH_EVENTS => Ok(limit),
        _ => Err(Error::bad_request(format!(
            "{limit} letters were asked for; it must be 1 to {}",
            limits::BATCH_EVENTS
        ))),
    }
}
