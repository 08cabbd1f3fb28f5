//! How far a long command is: a bar on a terminal, nothing in a pipe.

use crate::listing::per_second;
use crate::text::{bytes, count};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two looks at the clock: often enough for the eye.
const REDRAW: Duration = Duration::from_millis(100);
/// Rates are those of the last seconds.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// A bar on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    drawn: Instant,
    samples: VecDeque<(Instant, u64)>,
}

impl Progress {
    /// A bar that is full at `total`, in whatever it counts; without a total it shows no end.
    pub fn new(total: Option<u64>) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match total {
                Some(total) => (ProgressBar::new(total), "{wide_bar} {percent:>3}%  {msg}  {eta} left"),
                None => (ProgressBar::no_length(), "{spinner}  {msg}  {elapsed}"),
            };
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style.progress_chars("━━ "))
        });
        Self { bar, drawn: now, samples: VecDeque::from([(now, 0)]) }
    }

    /// Shows how far it is: `position` of the total, with so many events and bytes done.
    pub fn set(&mut self, position: u64, events: u64, size: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        let now = Instant::now();
        if now.duration_since(self.drawn) < REDRAW {
            return;
        }
        self.drawn = now;
        self.samples.push_back((now, events));
        while self.samples.len() > 2 && now.duration_since(self.samples[0].0) > RATE_WINDOW {
            self.samples.pop_front();
        }
        let (since, before) = self.samples[0];
        let rate = events.saturating_sub(before) as f64 / now.duration_since(since).as_secs_f64().max(0.001);
        let size = size.map(|size| format!("  {}", bytes(size))).unwrap_or_default();
        bar.set_position(position);
        bar.set_message(format!("{} events{size}  {}/s", count(events), per_second(rate)));
    }

    /// Shows how far it is, in words.
    pub fn show(&mut self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
    }

    /// Shows how many bytes of the total are done, and of what.
    pub fn set_bytes(&mut self, done: u64, what: &str) {
        let Some(bar) = &self.bar else { return };
        let now = Instant::now();
        if now.duration_since(self.drawn) < REDRAW {
            return;
        }
        self.drawn = now;
        bar.set_position(done);
        bar.set_message(format!("{what}  {}", bytes(done)));
    }

    /// A line above the bar, or on standard error without one.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note!("{text}")),
            None => note!("{text}"),
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
