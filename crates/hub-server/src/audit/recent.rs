//! The newest lines, in memory, for `GET /audit`: also without an audit log.
//!
//! Allowed admin actions and refusals are kept apart, so that a flood of refusals pushes no admin action out. Both have a rate: a
//! line over it takes a short lock and is not even put together.

use super::queue::Class;
use crate::limits::gcra::{self, FullAt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Instant;

/// Lines of each class that are kept.
pub(super) const KEPT_LINES: usize = 1000;
/// Lines of each class that are taken per second.
pub(super) const LINES_PER_SECOND: u32 = 100;

/// See the module.
pub(super) struct Recent {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last line.
    last: u64,
    /// Lines that were over the rate.
    dropped: u64,
    classes: [Lines; 2],
}

/// The lines of a class, the oldest first.
#[derive(Default)]
struct Lines {
    full_at: FullAt,
    kept: VecDeque<RecentLine>,
}

/// A line, and its number since the hub started.
#[derive(Clone, Debug)]
pub(crate) struct RecentLine {
    pub number: u64,
    /// A JSON object.
    pub text: Box<str>,
}

/// The newest lines, and how many are not among them because there were too many at a time.
#[derive(Debug, Default)]
pub(crate) struct RecentLines {
    /// The newest first.
    pub lines: Vec<RecentLine>,
    pub dropped: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }
}

impl Recent {
    /// Keeps a line, which `write` appends with its end, unless there are too many.
    pub fn offer(&self, class: Class, write: impl FnOnce(&mut Vec<u8>)) {
        self.offer_at(self.started.elapsed().as_nanos() as u64, class, write);
    }

    pub(super) fn offer_at(&self, now: u64, class: Class, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        let State { last, dropped, classes } = &mut *state;
        let Lines { full_at, kept } = &mut classes[class as usize];
        match gcra::after(*full_at, now, LINES_PER_SECOND, 1) {
            Ok(next) => *full_at = next,
            Err(_) => {
                *dropped += 1;
                return;
            }
        }
        let mut text = Vec::new();
        write(&mut text);
        text.truncate(text.trim_ascii_end().len());
        // JSON of strings and numbers is always a text.
        let Ok(text) = String::from_utf8(text) else { return };
        *last += 1;
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(RecentLine { number: *last, text: text.into() });
    }

    /// The newest lines of both classes, at most `most`.
    pub fn newest(&self, most: usize) -> RecentLines {
        let state = self.state.lock();
        let newest = state.classes.iter().flat_map(|class| class.kept.iter().rev().take(most));
        let mut lines: Vec<RecentLine> = newest.cloned().collect();
        let dropped = state.dropped;
        drop(state);
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.number));
        lines.truncate(most);
        RecentLines { lines, dropped }
    }
}
