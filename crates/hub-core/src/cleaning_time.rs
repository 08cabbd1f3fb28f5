//! The time that cleaning goes by.
//!
//! Retention, tombstones, remembered ids and idle groups all compare a stored time with the wall clock: a clock that is set a month ahead would
//! delete a month of data. Cleaning therefore trusts the wall clock only where something else confirms it:
//!
//! - **While the hub runs** the steady clock does: trusted time passes no faster than steady time.
//! - **Over a restart** the trusted time is stored, on the system topic of clocks. Without an entry it is the newest commit time of the store.
//! - **On a store with a clock of its own** (MongoDB) the time is never later than the store's.
//!
//! A wall clock that is ahead of the trusted time by more than [`TOLERANCE`] is either wrong or right after a long downtime, and the hub cannot
//! tell which. It goes on with the trusted time, reports the lead in the log and in a metric, and believes the wall clock after a tenth of the
//! lead: an hour at least, and [`Config::clock_jump_wait`](crate::Config) at most. Meanwhile events are kept longer than they need to be;
//! bounds in bytes hold all the time.

use crate::Millis;
use crate::engine::Engine;
use crate::position::refused;
use crate::system::{self, SystemEntry, SystemTopic};
use hub_proto::{Key, Result};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;

const HOUR: Millis = 60 * 60 * 1000;
/// A wall clock may be ahead of the trusted time by this much: time servers correct clocks, and a restart takes a while.
const TOLERANCE: Millis = HOUR;
/// The trusted time is stored this often, and when the wall clock jumps.
const SAVE_INTERVAL: Millis = 24 * HOUR;
/// The store is asked for its time this often.
const ASK_INTERVAL: Millis = 10 * 1000;
/// The key of the trusted time on the system topic.
const KEY: &str = "cleaning";

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Millis,
    steady: Millis,
}

/// A wall clock that is ahead of the trusted time.
#[derive(Clone, Copy, Debug)]
struct Jump {
    lead: Millis,
    /// The steady time at which it was noticed.
    noticed: Millis,
}

/// What became of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It is ahead of the trusted time.
    Ahead { lead: Millis, wait: Millis },
    /// It was ahead for long enough to be believed.
    Believed { lead: Millis },
    /// It is where it should be again.
    Corrected,
}

/// The rule, without clocks and stores.
#[derive(Debug)]
struct Trust {
    last: Reading,
    jump: Option<Jump>,
    max_wait: Millis,
}

impl Trust {
    fn new(start: Reading, max_wait: Millis) -> Self {
        Self { last: start, jump: None, max_wait }
    }

    /// How long a lead has to last before it is believed.
    fn wait(&self, lead: Millis) -> Millis {
        (lead / 10).max(HOUR).min(self.max_wait)
    }

    /// The trusted time at a reading of the clocks.
    fn observe(&mut self, now: Reading) -> (Millis, Option<Change>) {
        let expected = self.last.wall + now.steady.saturating_sub(self.last.steady);
        let lead = now.wall.saturating_sub(expected);
        if lead <= TOLERANCE {
            self.last = now;
            return (now.wall, self.jump.take().map(|_| Change::Corrected));
        }
        // The trusted time has gone on since the jump was noticed, and so has the wall clock: the lead stays what it was.
        let known = self.jump.filter(|jump| lead.abs_diff(jump.lead) <= TOLERANCE);
        let jump = known.unwrap_or(Jump { lead, noticed: now.steady });
        let wait = self.wait(jump.lead);
        self.last = Reading { wall: expected, steady: now.steady };
        self.jump = Some(jump);
        if now.steady.saturating_sub(jump.noticed) >= wait {
            (self.last, self.jump) = (now, None);
            return (now.wall, Some(Change::Believed { lead }));
        }
        (expected, known.is_none().then_some(Change::Ahead { lead, wait }))
    }
}

/// The trusted time of a bus.
pub(crate) struct CleaningTime {
    trust: Mutex<Trust>,
    /// When the store was asked for its time, and how far it was behind the trusted time then.
    asked: Mutex<Option<(Millis, Millis)>>,
    /// The steady time at which it is stored again.
    next_save: Mutex<Millis>,
}

impl CleaningTime {
    pub fn new(wall: Millis, steady: Millis, max_wait: Millis) -> Self {
        let trust = Trust::new(Reading { wall, steady }, max_wait);
        Self {
            trust: Mutex::new(trust),
            asked: Mutex::default(),
            next_save: Mutex::new(steady + SAVE_INTERVAL),
        }
    }

    /// The time that was trusted last, before the hub started.
    pub fn restore(&self, wall: Millis, steady: Millis) {
        self.trust.lock().last = Reading { wall, steady };
    }

    /// The time to clean by.
    ///
    /// # Errors
    /// `unavailable` if the store has a clock and does not answer.
    pub async fn now(&self, engine: &Engine) -> Result<Millis> {
        let steady = engine.clock.steady();
        let reading = Reading { wall: engine.clock.wall(), steady };
        let (now, change) = self.trust.lock().observe(reading);
        if let Some(change) = change {
            report(change);
            // From here on commit times say nothing about the time that was trusted.
            *self.next_save.lock() = steady;
        }
        engine.metrics.set_clock_lead(reading.wall.saturating_sub(now));
        let known = self.asked.lock().filter(|(asked, _)| steady.saturating_sub(*asked) < ASK_INTERVAL);
        let behind = match known {
            Some((_, behind)) => behind,
            None => {
                let store_time = engine.store.time().await.map_err(refused)?;
                let behind = store_time.map_or(0, |store_time| now.saturating_sub(store_time));
                if behind > TOLERANCE {
                    tracing::warn!(
                        behind_ms = behind,
                        "the store's clock is behind; cleaning goes by the store's"
                    );
                }
                *self.asked.lock() = Some((steady, behind));
                behind
            }
        };
        Ok(now.saturating_sub(behind))
    }

    /// Stores the trusted time if that is due.
    pub async fn save(&self, engine: &Arc<Engine>) -> Result<()> {
        let now = self.now(engine).await?;
        let steady = engine.clock.steady();
        if steady < *self.next_save.lock() {
            return Ok(());
        }
        let entry = SystemEntry { key: Key::from(KEY), value: Some(json!({ "wall": now })) };
        system::write(engine, SystemTopic::Clock, &entry).await?;
        *self.next_save.lock() = steady + SAVE_INTERVAL;
        Ok(())
    }
}

/// The trusted time that is stored, if one is.
pub(crate) async fn load(engine: &Engine) -> Result<Option<Millis>> {
    let entries = system::load(engine, SystemTopic::Clock).await?;
    let entry = entries.into_iter().find(|entry| &*entry.key == KEY);
    Ok(entry.and_then(|entry| entry.value?.get("wall")?.as_u64()))
}

fn report(change: Change) {
    match change {
        Change::Ahead { lead, wait } => tracing::warn!(
            ahead_ms = lead,
            believed_after_ms = wait,
            "the wall clock is ahead; cleaning by age is held back until the clock is corrected or believed"
        ),
        Change::Believed { lead } => {
            tracing::warn!(ahead_ms = lead, "the wall clock stayed ahead; cleaning by age goes by it now");
        }
        Change::Corrected => tracing::info!("the wall clock is corrected; cleaning by age goes by it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60 * 1000;
    const DAY: Millis = 24 * HOUR;
    const START: Millis = 20_000 * DAY;

    fn trust() -> Trust {
        Trust::new(Reading { wall: START, steady: 0 }, DAY)
    }

    fn at(wall: Millis, steady: Millis) -> Reading {
        Reading { wall: START + wall, steady }
    }

    #[test]
    fn a_wall_clock_that_goes_with_the_steady_one_is_trusted() {
        let mut trust = trust();
        for minutes in 0..1000 {
            let now = at(minutes * MINUTE + 7, minutes * MINUTE);
            assert_eq!(trust.observe(now), (now.wall, None));
        }
        assert_eq!(trust.observe(at(40 * DAY, 40 * DAY)).0, START + 40 * DAY, "a machine that slept");
    }

    #[test]
    fn a_jump_ahead_is_not_trusted_before_its_time() {
        let mut trust = trust();
        let (now, change) = trust.observe(at(30 * DAY, MINUTE));
        assert_eq!(
            (now, change),
            (START + MINUTE, Some(Change::Ahead { lead: 30 * DAY - MINUTE, wait: DAY }))
        );
        // Told once; the trusted time goes on.
        assert_eq!(trust.observe(at(30 * DAY + HOUR, HOUR + MINUTE)), (START + HOUR + MINUTE, None));
        let (now, change) = trust.observe(at(31 * DAY, DAY + MINUTE));
        assert_eq!(now, START + 31 * DAY);
        assert!(matches!(change, Some(Change::Believed { .. })));
        assert_eq!(trust.observe(at(31 * DAY + 5, DAY + MINUTE + 5)).1, None);
    }

    #[test]
    fn a_jump_that_is_corrected_leaves_nothing_behind() {
        let mut trust = trust();
        trust.observe(at(30 * DAY, MINUTE));
        assert_eq!(trust.observe(at(2 * MINUTE, 2 * MINUTE)), (START + 2 * MINUTE, Some(Change::Corrected)));
        // The next jump waits as long as the first one.
        trust.observe(at(30 * DAY, HOUR));
        assert_eq!(trust.observe(at(30 * DAY + 23 * HOUR, 24 * HOUR)).0, START + 24 * HOUR);
    }

    #[test]
    fn a_second_jump_begins_to_wait_anew() {
        let mut trust = trust();
        trust.observe(at(10 * DAY, 0));
        let (_, change) = trust.observe(at(50 * DAY, 23 * HOUR));
        assert!(matches!(change, Some(Change::Ahead { .. })));
        assert_eq!(trust.observe(at(50 * DAY + 2 * HOUR, 25 * HOUR)).0, START + 25 * HOUR);
    }

    #[test]
    fn a_short_downtime_is_believed_after_an_hour_and_a_setting_of_nothing_at_once() {
        let mut trust = trust();
        assert_eq!(trust.observe(at(8 * HOUR, 0)).1, Some(Change::Ahead { lead: 8 * HOUR, wait: HOUR }));
        assert_eq!(trust.observe(at(9 * HOUR, HOUR)).0, START + 9 * HOUR);
        let mut at_once = Trust::new(Reading { wall: START, steady: 0 }, 0);
        assert_eq!(at_once.observe(at(300 * DAY, 0)).0, START + 300 * DAY);
    }

    #[test]
    fn a_clock_that_goes_back_is_followed() {
        let mut trust = trust();
        let back = Reading { wall: START - 5 * DAY, steady: MINUTE };
        assert_eq!(trust.observe(back), (back.wall, None));
    }
}
