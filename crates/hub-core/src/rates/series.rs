//! Samples over time, in three steps: the last minute by the second, 15 minutes by 15 seconds, a day by 10 minutes.

use crate::Millis;
use serde::Serialize;
use std::collections::VecDeque;

const MINUTE: Millis = 60_000;
/// How long events that were given up are remembered.
const HOUR: Millis = 60 * MINUTE;

/// What is counted, and how it becomes a sample.
pub(crate) trait Counts: Clone + Default {
    /// Per second.
    type Sample: Clone + Default;
    fn is_zero(&self) -> bool;
    fn merge(&mut self, other: &Self);
    fn sample(&self, seconds: f64) -> Self::Sample;
    /// Events that were given up, which are remembered for an hour.
    fn given_up(&self) -> u64 {
        0
    }
}

/// So many in so many seconds; two digits behind the point are enough.
pub(super) fn rate(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds * 100.0).round() / 100.0
}

/// How far back a history goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// A minute, by the second.
    Minute,
    /// 15 minutes, by 15 seconds.
    Quarter,
    /// A day, by 10 minutes.
    Day,
}

impl Range {
    /// The time between two samples.
    pub const fn step(self) -> Millis {
        match self {
            Self::Minute => 1000,
            Self::Quarter => 15_000,
            Self::Day => 600_000,
        }
    }

    /// All of it.
    pub const fn length(self) -> Millis {
        match self {
            Self::Minute => 60_000,
            Self::Quarter => 15 * 60_000,
            Self::Day => 24 * 60 * 60_000,
        }
    }
}

/// A sample and when it began, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rated<S> {
    /// When its time began.
    pub ts: Millis,
    /// What was counted in it, per second.
    #[serde(flatten)]
    pub sample: S,
}

/// What happens now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates<S> {
    /// In the last second.
    pub second: S,
    /// In the last minute.
    pub minute: S,
}

/// Samples of one step. Times in which nothing was counted have none.
struct Steps<C: Counts> {
    range: Range,
    /// The step that is being counted, by its beginning.
    open: Option<(Millis, C)>,
    closed: VecDeque<Rated<C::Sample>>,
}

impl<C: Counts> Steps<C> {
    fn new(range: Range) -> Self {
        Self { range, open: None, closed: VecDeque::new() }
    }

    fn add(&mut self, counted: &C, now: Millis) {
        let begin = now - now % self.range.step();
        self.close_before(begin);
        if !counted.is_zero() {
            self.open.get_or_insert_with(|| (begin, C::default())).1.merge(counted);
        }
        let oldest = now.saturating_sub(self.range.length());
        while self.closed.front().is_some_and(|first| first.ts < oldest) {
            self.closed.pop_front();
        }
    }

    /// Closes the open step if it is over.
    fn close_before(&mut self, begin: Millis) {
        if let Some((ts, counted)) = self.open.take_if(|(ts, _)| *ts != begin) {
            self.closed.push_back(Rated { ts, sample: self.sample(&counted) });
        }
    }

    fn sample(&self, counted: &C) -> C::Sample {
        counted.sample(self.range.step() as f64 / 1000.0)
    }

    fn history(&self, now: Millis) -> Vec<Rated<C::Sample>> {
        let oldest = now.saturating_sub(self.range.length());
        let open = self.open.as_ref().map(|(ts, counted)| {
            let seconds = now.saturating_sub(*ts).clamp(1000, self.range.step()) as f64 / 1000.0;
            Rated { ts: *ts, sample: counted.sample(seconds) }
        });
        self.closed.iter().cloned().chain(open).filter(|rated| rated.ts >= oldest).collect()
    }
}

/// The samples of a topic, or of a group.
pub(crate) struct Series<C: Counts> {
    /// When the last sample was taken, the time that it covers, and what was counted in it.
    second: (Millis, Millis, C),
    /// What was counted by the second, of the last minute.
    minute: VecDeque<(Millis, Millis, C)>,
    quarter: Steps<C>,
    day: Steps<C>,
    /// Events that were given up, by the minute, of the last hour.
    given_up: VecDeque<(Millis, u64)>,
    last_active: Millis,
}

impl<C: Counts> Default for Series<C> {
    fn default() -> Self {
        Self {
            second: (0, 1000, C::default()),
            minute: VecDeque::new(),
            quarter: Steps::new(Range::Quarter),
            day: Steps::new(Range::Day),
            given_up: VecDeque::new(),
            last_active: 0,
        }
    }
}

impl<C: Counts> Series<C> {
    /// Adds what was counted in the `elapsed` milliseconds before `now`.
    pub fn add(&mut self, counted: &C, now: Millis, elapsed: Millis) {
        self.second = (now, elapsed, counted.clone());
        if !counted.is_zero() {
            self.last_active = now;
            self.minute.push_back((now, elapsed, counted.clone()));
        }
        self.trim(now);
        self.quarter.add(counted, now);
        self.day.add(counted, now);
        self.add_given_up(counted.given_up(), now);
    }

    fn add_given_up(&mut self, count: u64, now: Millis) {
        let oldest = now.saturating_sub(HOUR);
        while self.given_up.front().is_some_and(|(at, _)| *at < oldest) {
            self.given_up.pop_front();
        }
        match self.given_up.back_mut() {
            _ if count == 0 => {}
            // Within one minute; the time is that of the newest.
            Some((at, counted)) if *at / MINUTE == now / MINUTE => (*at, *counted) = (now, *counted + count),
            _ => self.given_up.push_back((now, count)),
        }
    }

    fn trim(&mut self, now: Millis) {
        let oldest = now.saturating_sub(Range::Minute.length());
        while self.minute.front().is_some_and(|(at, ..)| *at <= oldest) {
            self.minute.pop_front();
        }
    }

    pub fn last_active(&self) -> Millis {
        self.last_active
    }

    /// Whether nothing was counted for a minute.
    pub fn is_idle(&self, now: Millis) -> bool {
        now.saturating_sub(self.last_active) > Range::Minute.length()
    }

    /// What was counted in the last second, and how long that was.
    pub fn last_second(&self, now: Millis) -> Option<(Millis, &C)> {
        let (at, elapsed, counted) = &self.second;
        // Samples are taken once a second: one that is much older speaks of another time.
        (now.saturating_sub(*at) <= 3000).then_some((*elapsed, counted))
    }

    /// How many events were given up in the last hour, and when the last one was.
    pub fn given_up(&self, now: Millis) -> Option<(u64, Millis)> {
        let oldest = now.saturating_sub(HOUR);
        let recent = self.given_up.iter().filter(|(at, _)| *at >= oldest);
        recent.copied().reduce(|(_, count), (at, more)| (at, count + more)).map(|(at, count)| (count, at))
    }

    pub fn rates(&self, now: Millis) -> Rates<C::Sample> {
        let second = self.last_second(now).map(|(elapsed, counted)| counted.sample(elapsed as f64 / 1000.0));
        let second = second.unwrap_or_default();
        let oldest = now.saturating_sub(Range::Minute.length());
        let mut counted = C::default();
        self.minute.iter().filter(|(at, ..)| *at > oldest).for_each(|(.., more)| counted.merge(more));
        Rates { second, minute: counted.sample(Range::Minute.length() as f64 / 1000.0) }
    }

    pub fn history(&self, range: Range, now: Millis) -> Vec<Rated<C::Sample>> {
        match range {
            Range::Minute => {
                let oldest = now.saturating_sub(range.length());
                let recent = self.minute.iter().filter(|(at, ..)| *at > oldest);
                let rated = |(at, elapsed, counted): &(Millis, Millis, C)| Rated {
                    ts: at.saturating_sub(*elapsed),
                    sample: counted.sample(*elapsed as f64 / 1000.0),
                };
                recent.map(rated).collect()
            }
            Range::Quarter => self.quarter.history(now),
            Range::Day => self.day.history(now),
        }
    }
}
