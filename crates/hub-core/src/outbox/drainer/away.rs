//! A hub that takes no events at the moment: it is waited for, and others go on with the rows if they can.

use super::{AWAY, Done, Drainer};
use crate::Millis;
use hub_proto::{Code, Error};
use std::time::Duration;
use tokio::time::Instant;

/// For how many leases a drainer that has left its slots to others does so, the first time and at most.
const STEP_BACK: (Millis, Millis) = (1, 10);

/// The hub takes no events at the moment.
#[derive(Clone, Copy)]
pub(super) struct Away {
    pub since: Instant,
    /// When it is tried again; somebody tries if this is empty.
    pub until: Option<Instant>,
    pub tries: u32,
    /// It does not take anything, and not just too much.
    pub is_unavailable: bool,
}

impl Drainer {
    /// The hub is away, and is waited for. Several answers that come together count once.
    pub(super) fn was_away(&mut self, error: &Error) {
        let now = Instant::now();
        let (since, tries) = match self.away {
            Some(Away { until: Some(_), .. }) => return,
            Some(Away { until: None, since, tries, .. }) => (since, tries + 1),
            None => {
                let outbox = self.store.name();
                tracing::warn!(outbox, %error, "the hub takes no events at the moment; they wait");
                (now, 0)
            }
        };
        let asked = Duration::from_millis(error.retry_after_ms.unwrap_or(0));
        let until = Some(now + self.luck.wait(AWAY, tries).max(asked));
        self.away = Some(Away { since, until, tries, is_unavailable: error.code == Code::Unavailable });
    }

    /// Tries whether the hub is there again, with the events of one key; without any, if others have them.
    pub(super) fn probe(&mut self) {
        let Some(away) = self.away.take() else { return };
        if self.stepped_back {
            self.away = Some(Away { until: None, ..away });
            let available = self.publisher.is_available();
            self.work.spawn(async move { Done::Available(available.await) });
        } else if let Some(run) = self.again.pop_front() {
            self.away = Some(Away { until: None, ..away });
            self.send(run);
        }
    }

    pub(super) fn asked_whether_available(&mut self, is_available: bool) {
        let Some(away) = self.away.filter(|_| self.stepped_back) else { return };
        // What it says may not be the whole truth, so the hub is tried now and then.
        if is_available || away.since.elapsed() >= Duration::from_millis(3 * STEP_BACK.1 * self.options.lease)
        {
            return self.come_back();
        }
        let until = self.step_back_until(0);
        self.away = Some(Away { until, ..away });
    }

    fn step_back_until(&mut self, tries: u32) -> Option<Instant> {
        let lease = self.options.lease;
        Some(Instant::now() + self.luck.wait((STEP_BACK.0 * lease, STEP_BACK.1 * lease), tries))
    }

    /// A drainer whose hub is away leaves its slots to others, if there are any.
    pub(super) fn look_after_slots(&mut self) {
        let others = self.shares.has_present_other(&self.me);
        if self.stepped_back && !others {
            self.come_back();
        }
        let third = Duration::from_millis(self.options.lease / 3);
        let is_long = |away: &Away| away.is_unavailable && away.since.elapsed() >= third;
        let Some(away) = self.away.filter(is_long).filter(|_| others && !self.stepped_back) else { return };
        tracing::warn!(
            outbox = self.store.name(),
            "the hub takes no events; other drainers go on with its rows"
        );
        self.give_back();
        let until = self.step_back_until(self.step_backs);
        self.away = Some(Away { until, ..away });
        (self.stepped_back, self.attends_now) = (true, true);
        self.step_backs += 1;
    }

    /// Whatever the hub says, it is there.
    pub(super) fn is_back(&mut self) {
        self.away = None;
        if self.stepped_back {
            self.come_back();
        }
    }

    /// Takes its part of the slots again.
    fn come_back(&mut self) {
        (self.away, self.stepped_back) = (None, false);
        (self.hungry, self.attends_now) = (true, true);
    }
}
