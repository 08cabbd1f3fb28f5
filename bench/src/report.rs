//! What a benchmark prints: a table for people, or a line of JSON per figure.
//!
//! Every figure is read in the same way: the value is the median of its repetitions, a limit is in the unit of the value,
//! and the ratio is value to limit. A comparison of two things is a figure of its own, whose unit is `x`.

use crate::measure::Samples;
use serde::Serialize;

/// What a figure is held to.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// More is better.
    AtLeast(f64),
    /// Less is better.
    AtMost(f64),
}

impl Limit {
    fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }

    fn shown(self) -> String {
        let sign = if matches!(self, Self::AtLeast(_)) { '≥' } else { '≤' };
        format!("{sign} {}", shown(self.value()))
    }
}

/// One line of the report.
#[derive(Debug)]
pub struct Figure {
    name: String,
    samples: Samples,
    unit: &'static str,
    limit: Option<Limit>,
}

impl Figure {
    /// A figure without a limit: for information.
    pub fn new(name: impl Into<String>, samples: &Samples, unit: &'static str) -> Self {
        Self { name: name.into(), samples: samples.clone(), unit, limit: None }
    }

    /// A comparison: how many times `to` the repetitions of `of` are.
    pub fn ratio(name: impl Into<String>, of: &Samples, to: &Samples) -> Self {
        Self { name: name.into(), samples: of.over(to), unit: "x", limit: None }
    }

    /// The same figure, held to a limit.
    pub fn limit(self, limit: Limit) -> Self {
        self.limited(Some(limit))
    }

    /// The same figure, held to a limit if there is one.
    pub fn limited(mut self, limit: Option<Limit>) -> Self {
        self.limit = limit;
        self
    }
}

/// A figure as JSON; the fields and their order are the same for all benchmarks.
#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    name: &'a str,
    value: f64,
    unit: &'a str,
    limit: Option<f64>,
    ratio: Option<f64>,
}

/// Prints figures as they come.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    json: bool,
    head: bool,
    held: usize,
    missed: Vec<String>,
}

impl Report {
    /// A report on the benchmark `bench`.
    pub fn new(bench: &'static str, json: bool) -> Self {
        Self { bench, json, head: true, held: 0, missed: Vec::new() }
    }

    /// Prints a figure.
    pub fn figure(&mut self, figure: Figure) {
        let value = figure.samples.median();
        let holds = figure.limit.map(|limit| limit.holds(value));
        match self.json {
            true => self.print_json(&figure, value),
            false => self.print_row(&figure, value, holds),
        }
        match holds {
            Some(true) => self.held += 1,
            Some(false) => self.missed.push(figure.name),
            None => {}
        }
    }

    /// Says how many limits were held and which were missed.
    pub fn finish(self) {
        let limits = self.held + self.missed.len();
        if self.json || limits == 0 {
            return;
        }
        println!("\n{} of {limits} limits held", self.held);
        for name in self.missed {
            println!("  missed: {name}");
        }
    }

    fn print_json(&self, figure: &Figure, value: f64) {
        let limit = figure.limit.map(Limit::value);
        let (name, unit, ratio) = (&*figure.name, figure.unit, limit.map(|limit| rounded(value / limit)));
        let line = Line { bench: self.bench, name, value: rounded(value), unit, limit, ratio };
        println!("{}", serde_json::to_string(&line).expect("plain data is JSON"));
    }

    fn print_row(&mut self, figure: &Figure, value: f64, holds: Option<bool>) {
        if std::mem::take(&mut self.head) {
            let (name, median, spread, unit) = (self.bench, "median", "min .. max", "unit");
            println!(
                "{name:<44} {median:>10}  {spread:<23} {unit:<12} {:>10}  {:>5}  mark",
                "limit", "ratio"
            );
        }
        let (min, max) = figure.samples.spread();
        let spread = format!("{} .. {}", shown(min), shown(max));
        let limit = figure.limit.map_or_else(String::new, Limit::shown);
        let ratio = figure.limit.map_or_else(String::new, |limit| shown(value / limit.value()));
        let mark = match holds {
            Some(true) => "pass",
            Some(false) => "MISS",
            None => "",
        };
        let (name, unit, value) = (&figure.name, figure.unit, shown(value));
        let row = format!("{name:<44} {value:>10}  {spread:<23} {unit:<12} {limit:>10}  {ratio:>5}  {mark}");
        println!("{}", row.trim_end());
    }
}

/// Three digits that matter, and thousands set apart.
fn shown(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 1000.0 => format!("{value:.1}"),
        _ => thousands(value.round() as u64),
    }
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// As many digits as a measurement has.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_the_digits_that_matter() {
        assert_eq!(shown(0.6789), "0.68");
        assert_eq!(shown(83.456), "83.5");
        assert_eq!(shown(1_234_567.8), "1,234,568");
        assert_eq!(shown(1000.0), "1,000");
    }

    #[test]
    fn a_limit_holds_on_its_own_side() {
        assert!(Limit::AtLeast(0.6).holds(0.6) && !Limit::AtLeast(0.6).holds(0.59));
        assert!(Limit::AtMost(1.3).holds(1.3) && !Limit::AtMost(1.3).holds(1.31));
    }
}
