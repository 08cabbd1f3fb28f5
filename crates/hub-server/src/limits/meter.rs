//! What one connection or request may still take.

use super::Work;
use super::buckets::{Buckets, Rates};
use super::bytes::{ByteRates, Direction};
use super::gcra::{self, FullAt, Refused};
use hashbrown::HashMap;
use hub_proto::{Code, Error, Pattern, Result, TopicName};
use std::sync::Arc;
use std::time::Duration;

/// What one connection has left.
#[derive(Debug)]
pub struct Meter {
    buckets: Arc<Buckets>,
    version: u64,
    rates: Arc<Rates>,
    /// The connection's own bucket; a request has none.
    connection: Option<FullAt>,
    who: Who,
    from: From,
    bytes: ByteRates,
}

/// Where somebody comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// From the address at the other end.
    #[default]
    Peer,
    /// Through a proxy, from somewhere else.
    Proxy,
}

/// Whose subject's bucket counts.
#[derive(Debug)]
enum Who {
    /// The connection has not said it yet.
    Unknown,
    /// Its subject; `None`: one without a subject, who shares a bucket with all others of that kind.
    Known(Option<Arc<str>>),
}

impl Who {
    fn byte_rates(&self, rates: &Rates) -> ByteRates {
        match self {
            Self::Unknown => ByteRates::default(),
            Self::Known(subject) => rates.bytes(subject.as_deref()),
        }
    }
}

impl Meter {
    /// For a connection; `subject` if it is known already, else see [`identify`](Self::identify).
    pub fn new(buckets: &Arc<Buckets>, subject: Option<&str>, from: From) -> Self {
        let who = subject.map_or(Who::Unknown, |subject| Who::Known(Some(subject.into())));
        Self::over(buckets, Some(0), who, from)
    }

    /// For one request of somebody known. It comes without a connection's bucket: what one request may carry is bounded
    /// by its size, and how many there are by the subject's.
    pub fn for_request(buckets: &Arc<Buckets>, subject: Option<&str>, from: From) -> Self {
        Self::over(buckets, None, Who::Known(subject.map(Into::into)), from)
    }

    fn over(buckets: &Arc<Buckets>, connection: Option<FullAt>, who: Who, from: From) -> Self {
        let (version, rates) = buckets.rates();
        let bytes = who.byte_rates(&rates);
        Self { buckets: buckets.clone(), version, rates, connection, who, from, bytes }
    }

    /// The connection has said who it is.
    pub fn identify(&mut self, subject: Option<&str>) {
        self.who = Who::Known(subject.map(Into::into));
        self.bytes = self.who.byte_rates(&self.rates);
    }

    /// Refuses what is sent while the subject has used up its bytes of this second.
    ///
    /// # Errors
    /// `rate_limited` with `retry_after_ms`.
    pub fn check_bytes_in(&mut self) -> Result<()> {
        let nanos = self.byte_wait(Direction::In);
        if nanos == 0 {
            return Ok(());
        }
        let ms = nanos.div_ceil(1_000_000).max(1);
        let rate = self.bytes.bytes_in.unwrap_or_default();
        let text = format!(
            "this subject, over all its connections, may send {rate} bytes per second; try again in {ms} ms"
        );
        Err(Error::new(Code::RateLimited, text).with_retry_after(ms))
    }

    /// Charges bytes that were received.
    pub fn owe_bytes_in(&mut self, bytes: usize) {
        self.owe_bytes(Direction::In, bytes);
    }

    /// How long what is sent to the subject has to wait, if it has to.
    pub fn wait_bytes_out(&mut self) -> Option<Duration> {
        match self.byte_wait(Direction::Out) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Charges bytes that were sent.
    pub fn owe_bytes_out(&mut self, bytes: usize) {
        self.owe_bytes(Direction::Out, bytes);
    }

    fn byte_wait(&mut self, direction: Direction) -> u64 {
        self.refresh();
        let (Who::Known(subject), Some(rate)) = (&self.who, self.bytes.of_direction(direction)) else {
            return 0;
        };
        self.buckets.bytes.subjects(direction).wait(subject, rate, self.buckets.clock.now())
    }

    fn owe_bytes(&mut self, direction: Direction, bytes: usize) {
        if let (Who::Known(subject), Some(rate)) = (&self.who, self.bytes.of_direction(direction)) {
            let now = self.buckets.clock.now();
            self.buckets.bytes.subjects(direction).owe(subject, rate, now, bytes as u64);
        }
    }

    /// Whether what is published counts for its topic, in events or in bytes.
    pub fn limits_topics(&mut self) -> bool {
        self.refresh();
        self.rates.of_topics() || self.rates.pattern_bytes(Direction::In).next().is_some()
    }

    /// Refuses an event while a quota of its topic has used up its bytes of this second.
    ///
    /// # Errors
    /// `rate_limited` with `retry_after_ms`.
    pub fn check_topic_bytes_in(&mut self, topic: &TopicName) -> Result<()> {
        let Some((pattern, rate, nanos)) = self.pattern_wait(Direction::In, |rule| rule.matches(topic))
        else {
            return Ok(());
        };
        let ms = nanos.div_ceil(1_000_000).max(1);
        let text = format!(
            "topics of {pattern}, over all who publish to them, take {rate} bytes per second; try again in {ms} ms"
        );
        Err(Error::new(Code::RateLimited, text).with_retry_after(ms))
    }

    /// Charges an event that was taken for its topic.
    pub fn owe_topic_bytes_in(&mut self, topic: &TopicName, bytes: usize) {
        self.owe_patterns(Direction::In, topic, bytes);
    }

    /// Whether what is delivered counts for its topic.
    pub fn limits_topic_bytes_out(&mut self) -> bool {
        self.refresh();
        self.rates.pattern_bytes(Direction::Out).next().is_some()
    }

    /// How long a reader of topics has to wait, if it has to; `reads` says whether it reads topics of a pattern.
    pub fn wait_topic_bytes_out(&mut self, reads: impl Fn(&Pattern) -> bool) -> Option<Duration> {
        let (_, _, nanos) = self.pattern_wait(Direction::Out, reads)?;
        Some(Duration::from_nanos(nanos))
    }

    /// Charges an event that was sent for its topic.
    pub fn owe_topic_bytes_out(&mut self, topic: &TopicName, bytes: usize) {
        self.owe_patterns(Direction::Out, topic, bytes);
    }

    /// The longest wait among the quotas that concern somebody: whose it is, its rate, and the wait in nanoseconds.
    fn pattern_wait(
        &mut self,
        direction: Direction,
        concerns: impl Fn(&Pattern) -> bool,
    ) -> Option<(&Pattern, u32, u64)> {
        self.refresh();
        let table = self.buckets.bytes.patterns(direction);
        let waits = self.rates.pattern_bytes(direction).filter_map(|(pattern, rate)| {
            let nanos = table.wait(pattern, rate, self.buckets.clock.now());
            (nanos > 0 && concerns(pattern)).then_some((pattern, rate, nanos))
        });
        waits.max_by_key(|(_, _, nanos)| *nanos)
    }

    fn owe_patterns(&mut self, direction: Direction, topic: &TopicName, bytes: usize) {
        let table = self.buckets.bytes.patterns(direction);
        for (pattern, rate) in self.rates.pattern_bytes(direction) {
            if pattern.matches(topic) {
                table.owe(pattern, rate, self.buckets.clock.now(), bytes as u64);
            }
        }
    }

    /// Takes room for events to these topics, or for none of them: a batch that is refused costs nothing.
    ///
    /// # Errors
    /// `rate_limited` with `retry_after_ms`: after that time the same batch fits, if nobody else took the room. One that
    /// never fits says how many do.
    pub fn take<'a>(&mut self, topics: impl ExactSizeIterator<Item = &'a TopicName>) -> Result<()> {
        self.take_batch(topics.len(), topics)
    }

    /// The same for a batch of `n` of which not all have a topic: what is refused later costs as much as what is not.
    ///
    /// # Errors
    /// As [`Meter::take`].
    pub fn take_batch<'a>(
        &mut self,
        n: usize,
        topics: impl ExactSizeIterator<Item = &'a TopicName>,
    ) -> Result<()> {
        if !self.limited() {
            return Ok(());
        }
        let n = n as u64;
        let topics = if self.rates.of_topics() { per_topic(&self.rates, topics) } else { Vec::new() };
        self.take_all(n, &topics)
    }

    /// Takes room for a request that is no event but costs as much.
    ///
    /// # Errors
    /// As [`Meter::take`].
    pub fn take_one(&mut self) -> Result<()> {
        if self.limited() { self.take_all(1, &[]) } else { Ok(()) }
    }

    /// As [`owe`](Self::owe), for what was refused or is free: the connection pays for it, its subject's others do not.
    pub fn owe_alone(&mut self, work: Work) {
        let n = work.events();
        if n == 0 || !self.limited() {
            return;
        }
        let now = self.buckets.clock.now();
        if let (Some(full_at), Some(rate)) = (self.connection, self.rates.connection(self.from)) {
            self.connection = Some(gcra::owing(full_at, now, rate, n));
        }
    }

    /// Takes what a request was more than one event, whether there is room for it or not: what follows waits for it.
    pub fn owe(&mut self, work: Work) {
        self.owe_alone(work);
        let n = work.events();
        if n == 0 || !self.limited() {
            return;
        }
        let now = self.buckets.clock.now();
        if let (Who::Known(subject), Some(rate)) = (&self.who, self.rates.subject(self.from)) {
            let mut shared = self.buckets.shared();
            let full_at = gcra::owing(shared.subjects.get(subject), now, rate, n);
            shared.subjects.set(subject, full_at, now);
        }
    }

    /// Whether there is any rate to keep, by the settings of this moment.
    fn limited(&mut self) -> bool {
        self.refresh();
        self.rates.any(self.from)
    }

    /// Goes by the settings of this moment.
    fn refresh(&mut self) {
        if self.version != self.buckets.version() {
            (self.version, self.rates) = self.buckets.rates();
            self.bytes = self.who.byte_rates(&self.rates);
        }
    }

    fn take_all(&mut self, n: u64, topics: &[Share<'_>]) -> Result<()> {
        let now = self.buckets.clock.now();
        let mut verdict = Verdict::default();
        let connection = self.connection.zip(self.rates.connection(self.from));
        let connection = connection.map(|(full_at, rate)| {
            verdict.ask(Limit::Connection, rate, n, gcra::after(full_at, now, rate, n))
        });
        let subject = match (&self.who, self.rates.subject(self.from)) {
            (Who::Known(subject), Some(rate)) => Some((subject, rate)),
            _ => None,
        };
        if subject.is_some() || !topics.is_empty() {
            // All of it under one lock: asked first, taken after, so nobody sees room that comes back.
            let mut shared = self.buckets.shared();
            let subject = subject.map(|(subject, rate)| {
                let next = gcra::after(shared.subjects.get(subject), now, rate, n);
                (subject, verdict.ask(Limit::Subject, rate, n, next))
            });
            for share in topics {
                let next = gcra::after(shared.topics.get(share.topic), now, share.rate, share.n);
                verdict.ask(Limit::Topic(share.topic), share.rate, share.n, next);
            }
            verdict.settle()?;
            if let Some((subject, next)) = subject {
                shared.subjects.set(subject, next, now);
            }
            for share in topics {
                // It said yes a moment ago, and nobody was in between.
                if let Ok(next) = gcra::after(shared.topics.get(share.topic), now, share.rate, share.n) {
                    shared.topics.set(share.topic, next, now);
                }
            }
        } else {
            verdict.settle()?;
        }
        if let Some(next) = connection {
            self.connection = Some(next);
        }
        Ok(())
    }
}

/// The part of a batch that goes to one topic with a rate.
struct Share<'a> {
    topic: &'a TopicName,
    rate: u32,
    n: u64,
}

fn per_topic<'a>(rates: &Rates, topics: impl ExactSizeIterator<Item = &'a TopicName>) -> Vec<Share<'a>> {
    if topics.len() == 1 {
        let shares = topics.filter_map(|topic| Some(Share { topic, rate: rates.topic(topic)?, n: 1 }));
        return shares.collect();
    }
    let mut counts = HashMap::<&TopicName, u64, foldhash::fast::RandomState>::default();
    for topic in topics {
        *counts.entry(topic).or_default() += 1;
    }
    let shares = counts.into_iter();
    shares.filter_map(|(topic, n)| Some(Share { topic, rate: rates.topic(topic)?, n })).collect()
}

/// Which bucket it was.
#[derive(Clone, Copy)]
enum Limit<'a> {
    Connection,
    Subject,
    Topic(&'a TopicName),
}

/// What the buckets said so far: the refusal that lasts longest, for only after that one all of them say yes.
#[derive(Default)]
struct Verdict<'a> {
    worst: Option<(Refused, Limit<'a>, u32, u64)>,
}

impl<'a> Verdict<'a> {
    /// Notes an answer; the point in time that it gave, which means nothing after a refusal.
    fn ask(&mut self, limit: Limit<'a>, rate: u32, n: u64, answer: Result<FullAt, Refused>) -> FullAt {
        match answer {
            Ok(next) => next,
            Err(refused) => {
                if self.worst.is_none_or(|(worst, ..)| rank(refused) > rank(worst)) {
                    self.worst = Some((refused, limit, rate, n));
                }
                0
            }
        }
    }

    fn settle(self) -> Result<()> {
        self.worst.map_or(Ok(()), |(refused, limit, rate, n)| Err(refusal(refused, limit, rate, n)))
    }
}

/// Never is longer than any wait.
fn rank(refused: Refused) -> (bool, u64) {
    match refused {
        Refused::Wait(nanos) => (false, nanos),
        Refused::Never(nanos) => (true, nanos),
    }
}

#[cold]
fn refusal(refused: Refused, limit: Limit<'_>, rate: u32, n: u64) -> Error {
    let whose = match limit {
        Limit::Connection => "this connection may send".to_owned(),
        Limit::Subject => "this subject, over all its connections, may send".to_owned(),
        Limit::Topic(topic) => format!("topic {:.200} takes", topic.as_str()),
    };
    let (nanos, advice) = match refused {
        Refused::Wait(nanos) => (nanos, None),
        Refused::Never(nanos) => {
            (nanos, Some(format!("at most {rate} at once, not {n}: send smaller batches")))
        }
    };
    let ms = nanos.div_ceil(1_000_000).max(1);
    let advice = advice.unwrap_or_else(|| format!("try again in {ms} ms"));
    Error::new(Code::RateLimited, format!("{whose} {rate} events per second; {advice}")).with_retry_after(ms)
}

#[cfg(test)]
mod tests;
