//! Time, processor time, and what repetitions of a measurement say.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// As little as it takes to see whether it runs.
    pub quick: bool,
}

impl Scale {
    /// Turns that things which are compared take.
    pub const TURNS: usize = 7;

    /// So many events, or a tenth of them.
    pub fn events(self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }
}

/// What something took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Time on the clock.
    pub wall: Duration,
    /// Processor time of the whole process, all threads.
    pub cpu: Duration,
}

impl Cost {
    /// How many per second, by the clock.
    pub fn rate(self, count: usize) -> f64 {
        count as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of processor time for each.
    pub fn cpu_each(self, count: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count as f64
    }
}

/// A running measurement.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { cpu: cpu_time(), started: Instant::now() }
    }

    /// What it took until now.
    pub fn stop(self) -> Cost {
        Cost { wall: self.started.elapsed(), cpu: cpu_time() - self.cpu }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// One number per repetition.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a repetition.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Each repetition against the one of `other` that was measured beside it.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }

    /// The value in the middle; 0 without repetitions.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            len if len % 2 == 1 => sorted[len / 2],
            len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
        }
    }

    /// The smallest and the largest.
    pub fn spread(&self) -> (f64, f64) {
        let (min, max) = (f64::min, f64::max);
        (self.0.iter().copied().fold(f64::INFINITY, min), self.0.iter().copied().fold(0.0, max))
    }
}

/// Microseconds that many of the same took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    /// Adds more of them.
    pub fn extend(&mut self, micros: impl IntoIterator<Item = f64>) {
        self.0.extend(micros);
    }

    /// The time that `percent` of them took at most; 0 without any.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        let at = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
        match sorted.len() {
            0 => 0.0,
            len => *sorted.select_nth_unstable_by(at.clamp(1, len) - 1, f64::total_cmp).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples(values.to_vec())
    }

    #[test]
    fn the_median_does_not_care_about_order_or_outliers() {
        assert_eq!(samples(&[9.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(samples(&[4.0, 1.0, 100.0, 2.0]).median(), 3.0);
        assert_eq!(samples(&[]).median(), 0.0);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(99.0), 0.0);
        latencies.extend((1..=200).rev().map(f64::from));
        assert_eq!(latencies.percentile(50.0), 100.0);
        assert_eq!(latencies.percentile(99.0), 198.0);
        assert_eq!(latencies.percentile(100.0), 200.0);
    }

    #[test]
    fn a_ratio_is_taken_turn_by_turn() {
        // Both halve in the second turn, as on a machine that got busy: the ratio stays.
        let ratio = samples(&[10.0, 5.0]).over(&samples(&[20.0, 10.0]));
        assert_eq!(ratio.spread(), (0.5, 0.5));
    }

    #[test]
    fn work_costs_processor_time_and_sleep_does_not() {
        let slept = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(5));
        assert!(slept.stop().wall >= Duration::from_millis(5));

        let worked = Stopwatch::start();
        while worked.started.elapsed() < Duration::from_millis(5) {}
        assert!(worked.stop().cpu > Duration::ZERO);
    }
}
