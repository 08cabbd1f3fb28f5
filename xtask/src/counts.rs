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

/// Counts in the output of Node's test runner (`--test-reporter=spec`): one line per outcome at the end.
///
/// `None` if there are none, which means that nothing was loaded or run.
pub fn of_node(output: &str) -> Option<Counts> {
    // The last ones: tests print lines of their own before.
    let number = |name: &str| {
        let of_line = |line: &str| line.strip_prefix("ℹ ")?.strip_prefix(name)?.trim().parse::<u64>().ok();
        output.lines().rev().find_map(of_line)
    };
    Some(Counts {
        passed: number("pass ")?,
        failed: number("fail ")? + number("cancelled ")?,
        skipped: number("skipped ")? + number("todo ")?,
    })
}

/// Counts in the output of `pytest -q`: the last line, such as `1 failed, 7 passed, 2 skipped, 1 error in 0.12s`.
///
/// `None` if there is none, which means that nothing was loaded or run.
pub fn of_pytest(output: &str) -> Option<Counts> {
    let line =
        output.lines().rev().map(|line| line.trim_matches(['=', ' '])).find(|line| !line.is_empty())?;
    let (numbers, time) = line.rsplit_once(" in ")?;
    if !time.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let total = sum(numbers.split(','));
    (total != Counts::default()).then_some(total)
}

/// Adds up parts such as `3 passed`.
fn sum<'a>(parts: impl Iterator<Item = &'a str>) -> Counts {
    let mut total = Counts::default();
    for part in parts {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match what.trim() {
            "passed" => total.passed += number,
            "failed" | "exec failed" | "timed out" | "error" | "errors" => total.failed += number,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    // The fixtures are what the programs really printed, for a small workspace made to pass, fail, hang and not build.

    #[test]
    fn nextest_is_read_from_its_summary() {
        assert_eq!(of_nextest(include_str!("../fixtures/nextest-success.txt")), counts(1, 0, 0));
        assert_eq!(of_nextest(include_str!("../fixtures/nextest-failure.txt")), counts(6, 1, 1));
    }

    #[test]
    fn a_test_that_nextest_killed_has_failed() {
        assert_eq!(of_nextest(include_str!("../fixtures/nextest-timeout.txt")), counts(5, 2, 1));
    }

    #[test]
    fn details_in_parentheses_are_not_counted_again() {
        let line = "     Summary [   1.5s] 9/12 tests run: 4 passed (1 slow, 2 leaky), 3 failed (1 due to being leaky), \
                    2 exec failed, 5 skipped";
        assert_eq!(of_nextest(line), counts(4, 5, 5));
    }

    #[test]
    fn cargo_test_is_summed_over_its_binaries() {
        assert_eq!(of_cargo_test(include_str!("../fixtures/cargo-test.txt")), counts(6, 1, 1));
    }

    #[test]
    fn doctests_are_summed_over_crates_and_bundles() {
        assert_eq!(of_cargo_test(include_str!("../fixtures/doctests.txt")), counts(3, 1, 1));
    }

    #[test]
    fn nodes_runner_is_read_from_its_last_lines() {
        assert_eq!(of_node(include_str!("../fixtures/node.txt")), counts(1, 2, 2));
        assert_eq!(of_node("ℹ pass 3\nsomething broke\n"), None);
        assert_eq!(of_node(""), None);
    }

    #[test]
    fn pytest_is_read_from_its_last_line() {
        assert_eq!(of_pytest(include_str!("../fixtures/pytest.txt")), counts(2, 2, 1));
        assert_eq!(of_pytest("...\n==== 3 passed in 61.20s (0:01:01) ====\n"), counts(3, 0, 0));
        assert_eq!(of_pytest("1 passed, 1 warning in 0.01s"), counts(1, 0, 0));
        assert_eq!(of_pytest("no tests ran in 0.00s"), None);
        assert_eq!(of_pytest("ImportError while loading conftest"), None);
        assert_eq!(of_pytest(""), None);
    }

    #[test]
    fn output_that_tests_print_themselves_is_not_counted() {
        assert_eq!(of_cargo_test(include_str!("../fixtures/nocapture.txt")), counts(2, 0, 0));
    }

    #[test]
    fn what_did_not_build_has_no_counts() {
        let output = include_str!("../fixtures/nextest-no-build.txt");
        assert_eq!(of_nextest(output), None);
        assert_eq!(of_cargo_test(output), None);
        assert_eq!(of_cargo_test(""), None);
    }

    #[test]
    fn skipped_is_only_said_when_there_is_something_skipped() {
        assert_eq!(Counts::PASSED.to_string(), "1 passed, 0 failed");
        assert_eq!(Counts::SKIPPED.to_string(), "0 passed, 0 failed, 1 skipped");
    }
}
