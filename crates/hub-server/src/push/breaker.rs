//! The circuit breaker of an endpoint: when it is tried, and what a failure says about an event.
//!
//! A plain state machine: it has no clock and is told the time.
//!
//! ```text
//!            failures in a row                 a probe succeeds
//!  Closed ──────────────────────► Open ──────────────────────────► Recovering ──► Closed
//!                                  ▲  │ a probe fails:               │  as successes come,
//!                                  │  └─ longer until the next       │  more at a time
//!                                  └─────────────────────────────────┘ any failure
//! ```
//!
//! # What counts against an event
//! A failure that the endpoint can have caused by reading the event counts: a bad status, an answer that did not come. One of an
//! endpoint that was not reached says nothing about the event: it counts while the breaker is closed, as any nack does, but never
//! as the last one, and not at all while it is open. So no event becomes a dead letter because its endpoint is away, for however
//! long.

use hub_core::Millis;

/// Failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// How long an event waits whose next failure would be its last, if its endpoint was not reached.
const LAST_ATTEMPT_WAIT: Millis = 200;

/// How long the breaker stays open.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimes {
    /// Before the first probe; it doubles with each that fails.
    pub first: Millis,
    /// At most.
    pub longest: Millis,
}

impl Default for ProbeTimes {
    fn default() -> Self {
        Self { first: 1_000, longest: 60_000 }
    }
}

/// How an endpoint failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not reached, or a gateway in front of it could not reach it.
    Unreachable,
    /// It was reached, and answered with a server error, or not in time, or not to the end.
    Broken,
}

/// What to do with an event that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It failed, and comes again after the group's backoff.
    Failed,
    /// It failed, and should not come again before this has passed: others are the next probe.
    FailedAfter(Millis),
    /// Nothing is known about it; it comes again after this.
    Unjudged(Millis),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Nothing is sent until then; after it, one probe.
    Open(Millis),
    /// So many at a time.
    Recovering(usize),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    times: ProbeTimes,
    failures_in_a_row: u32,
    /// How long it was, or is, open.
    interval: Millis,
}

impl Breaker {
    pub fn new(times: ProbeTimes) -> Self {
        Self { state: State::Closed, times, failures_in_a_row: 0, interval: times.first }
    }

    /// How many requests may be under way at this time, of `most`.
    pub fn allowed(&self, most: usize, now: Millis) -> usize {
        match self.state {
            State::Closed => most,
            State::Open(until) => usize::from(until <= now),
            State::Recovering(allowed) => allowed.min(most),
        }
    }

    /// Until when nothing is sent, if that is in the future.
    pub fn open_until(&self, now: Millis) -> Option<Millis> {
        match self.state {
            State::Open(until) if until > now => Some(until),
            _ => None,
        }
    }

    /// Whether the endpoint is known to fail.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// An operator says that the endpoint is well again.
    pub fn close_early(&mut self, now: Millis) {
        if self.is_open() {
            self.state = State::Open(now);
            self.interval = self.times.first;
        }
    }

    /// The endpoint answered, whatever it said about the event.
    pub fn answered(&mut self, most: usize) {
        self.failures_in_a_row = 0;
        self.state = match self.state {
            State::Open(_) => State::Recovering(1),
            State::Recovering(allowed) if allowed >= most => {
                self.interval = self.times.first;
                State::Closed
            }
            State::Recovering(allowed) => State::Recovering(allowed + 1),
            State::Closed => State::Closed,
        };
    }

    /// The endpoint failed. Answers what that says about the event, which becomes a dead letter if it fails and this is its last
    /// attempt.
    pub fn failed(&mut self, failure: Failure, is_last_attempt: bool, now: Millis) -> Verdict {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let opens = match self.state {
            State::Closed => self.failures_in_a_row >= FAILURES,
            State::Recovering(_) => true,
            State::Open(until) => {
                // What was under way when it opened is no probe.
                if until <= now {
                    self.interval = (self.interval * 2).min(self.times.longest);
                    self.state = State::Open(now + self.interval);
                }
                return self.verdict_while_open(failure);
            }
        };
        if opens {
            self.state = State::Open(now + self.interval);
            return self.verdict_while_open(failure);
        }
        match failure {
            Failure::Unreachable if is_last_attempt => Verdict::Unjudged(LAST_ATTEMPT_WAIT),
            _ => Verdict::Failed,
        }
    }

    /// The next probe is another event, if there is one.
    fn verdict_while_open(&self, failure: Failure) -> Verdict {
        let later = self.interval + self.interval / 2;
        match failure {
            Failure::Unreachable => Verdict::Unjudged(later),
            Failure::Broken => Verdict::FailedAfter(later),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Failure::{Broken, Unreachable};
    use super::{Breaker, ProbeTimes, Verdict};

    const TIMES: ProbeTimes = ProbeTimes { first: 100, longest: 400 };

    /// One that has opened at 0.
    fn opened() -> Breaker {
        let mut breaker = Breaker::new(TIMES);
        (0..5).for_each(|_| _ = breaker.failed(Unreachable, false, 0));
        assert!(breaker.is_open());
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        let mut breaker = Breaker::new(TIMES);
        for _ in 0..4 {
            assert_eq!(breaker.failed(Unreachable, false, 0), Verdict::Failed);
        }
        breaker.answered(16);
        for _ in 0..4 {
            assert_eq!(breaker.failed(Unreachable, false, 0), Verdict::Failed);
            assert!(!breaker.is_open());
        }
        assert_eq!(breaker.failed(Unreachable, false, 0), Verdict::Unjudged(150));
        assert_eq!((breaker.allowed(16, 99), breaker.allowed(16, 100)), (0, 1));
        assert_eq!(breaker.open_until(99), Some(100));
    }

    #[test]
    fn no_event_is_given_up_because_its_endpoint_is_not_reached() {
        for max_attempts in 1..=10 {
            let mut breaker = Breaker::new(TIMES);
            let (mut failures, mut now) = (0, 0);
            for attempt in 1..=1000 {
                let verdict = breaker.failed(Unreachable, attempt >= max_attempts, now);
                failures += u32::from(!matches!(verdict, Verdict::Unjudged(_)));
                now = breaker.open_until(now).unwrap_or(now);
            }
            assert!(failures < max_attempts, "{failures} of {max_attempts}");
        }
    }

    #[test]
    fn an_endpoint_that_answers_with_errors_is_tried_rarely_and_its_events_are_judged() {
        let mut breaker = Breaker::new(TIMES);
        (0..4).for_each(|_| assert_eq!(breaker.failed(Broken, true, 0), Verdict::Failed));
        assert_eq!(breaker.failed(Broken, true, 0), Verdict::FailedAfter(150));
        assert_eq!(breaker.failed(Broken, true, 100), Verdict::FailedAfter(300));
    }

    #[test]
    fn probes_come_at_growing_intervals() {
        let mut breaker = opened();
        let mut now = 100;
        let mut waits = Vec::new();
        for _ in 0..4 {
            breaker.failed(Broken, false, now);
            let until = breaker.open_until(now).unwrap();
            waits.push(until - now);
            now = until;
        }
        assert_eq!(waits, [200, 400, 400, 400]);
        breaker.close_early(now - 50);
        assert_eq!(breaker.allowed(16, now - 50), 1, "an operator need not wait");
    }

    #[test]
    fn failures_of_what_was_under_way_when_it_opened_are_no_probes() {
        let mut breaker = opened();
        breaker.failed(Unreachable, false, 50);
        assert_eq!(breaker.open_until(50), Some(100));
    }

    #[test]
    fn it_closes_step_by_step_and_opens_again_at_the_first_failure_on_the_way() {
        let mut breaker = Breaker::new(TIMES);
        (0..5).for_each(|_| _ = breaker.failed(Unreachable, false, 0));
        breaker.answered(3);
        assert_eq!(breaker.allowed(3, 100), 1);
        breaker.answered(3);
        assert_eq!(breaker.allowed(3, 100), 2);
        assert!(
            matches!(breaker.failed(Unreachable, false, 100), Verdict::Unjudged(_)),
            "the event is not to blame"
        );
        assert_eq!(breaker.allowed(3, 100), 0);
        for _ in 0..4 {
            breaker.answered(3);
        }
        assert_eq!(breaker.failed(Unreachable, false, 200), Verdict::Failed, "closed");
    }
}
