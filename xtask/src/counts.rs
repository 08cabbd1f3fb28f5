//! How many tests passed, read from what the test runners print.

use std::fmt;
use std::ops::AddAssign;

/// Outcomes of tests or checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ran and held.
    pub passed: u64,
    /// Ran and did not hold, or could not be run.
    pub failed: u64,
    /// Left out: ignored tests, and checks that do not apply.
    pub skipped: u64,
}

impl Counts {
    /// One check that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One check that failed.
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One check that was left out.
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Counts in the output of `cargo test`, doctests included: one result line per test binary.
///
/// `None` if there is no such line, which means that nothing was built or run.
pub fn of_cargo_test(output: &str) -> Option<Counts> {
    let mut total = None;
    for line in output.lines() {
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            continue;
        };
        *total.get_or_insert_default() += sum(numbers.split(';'));
    }
    total
}

/// Counts in the output of `cargo nextest run`: one summary line, the last one.
///
/// `None` if there is none, which means that nothing was built or run.
pub fn of_nextest(output: &str) -> Option<Counts> {
    let line = output.lines().rev().find_map(|line| line.trim_start().strip_prefix("Summary ["))?;
    let (_, numbers) = line.split_once(" run: ")?;
    Some(sum(without_parentheses(numbers).split(',')))
}

/// Adds up parts such as `3 passed`.
fn sum<'a>(parts: impl Iterator<Item = &'a str>) -> Counts {
    let mut total = Counts::default();
    for part in parts {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match what.trim() {
            "passed" => total.passed += number,
            "failed" | "exec failed" | "timed out" => total.failed += number,
            "ignored" | "skipped" => total.skipped += number,
            _ => {}
        }
    }
    total
}

/// Without the details that nextest puts in parentheses, as in `2 passed (1 slow, 1 leaky), 0 skipped`: they are part of
/// the number before them.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let keep = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return (depth == 0).then_some(c),
        }
        None
    };
    text.chars().filter_map(keep).collect()
}
