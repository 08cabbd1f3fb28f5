//! The checks of a run: announced, timed, counted, and summed up on the last line.

use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::counts::Counts;
use crate::process;

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    counts: Counts,
    note: Option<String>,
}

impl Report {
    /// A check that holds or does not.
    pub fn check(holds: bool) -> Self {
        Self { counts: if holds { Counts::PASSED } else { Counts::FAILED }, note: None }
    }

    /// A check that failed, and why.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { counts: Counts::FAILED, note: Some(why.into()) }
    }

    /// A step that does not apply, and why.
    pub fn skipped(why: impl Into<String>) -> Self {
        Self { counts: Counts::SKIPPED, note: Some(why.into()) }
    }

    /// A test runner's verdict: whether it succeeded, and the counts it printed, if any.
    ///
    /// The two must agree. A runner that fails without a failed test (a crash, a build error) counts as one failure, and so
    /// does one that claims success without saying of what.
    pub fn tests(success: bool, counts: Option<Counts>) -> Self {
        match (success, counts) {
            (_, None) => {
                Self::failed(if success { "no test results in the output" } else { "did not build or start" })
            }
            (false, Some(mut counts)) if counts.failed == 0 => {
                counts += Counts::FAILED;
                Self { counts, note: Some("the runner failed, although no test did".into()) }
            }
            (_, Some(counts)) => Self { counts, note: Some(counts.to_string()) },
        }
    }

    /// Whether it passed: nothing failed, and it was not left out.
    pub fn holds(&self) -> bool {
        self.counts.failed == 0 && self.counts.passed > 0
    }

    fn verdict(&self) -> &'static str {
        match self.counts {
            Counts { failed: 1.., .. } => "FAILED",
            Counts { passed: 0, skipped: 1.., .. } => "skipped",
            _ => "passed",
        }
    }
}

/// The steps of one run.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(&'static str, Report, Duration)>,
}

impl Steps {
    /// Announces and runs a step. Whatever it returns, the next one can run.
    pub fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<Report>) {
        println!("==> {name}");
        let start = Instant::now();
        let report = step().unwrap_or_else(|error| Report::failed(format!("{error:#}")));
        let took = start.elapsed();
        println!("<== {}\n", line(name, &report, took));
        self.done.push((name, report, took));
    }

    /// A step that is one command, which must succeed.
    pub fn command(&mut self, name: &'static str, command: &mut Command) {
        self.run(name, || {
            println!("    {}", process::shown(command));
            process::succeeds(command).map(Report::check)
        });
    }

    /// Prints a table of all steps, and as the last line the counts alone.
    pub fn finish(self) -> ExitCode {
        let mut total = Counts::default();
        for (name, report, took) in &self.done {
            println!("    {}", line(name, report, *took));
            total += report.counts;
        }
        println!("\n{total}");
        // The last line must be there whatever becomes of the pipe's other end later.
        let flushed = io::stdout().flush().is_ok();
        if flushed && total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn line(name: &str, report: &Report, took: Duration) -> String {
    let note = report.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    format!("{name:<10} {}{note} ({:.1} s)", report.verdict(), took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Counts = Counts { passed: 2, failed: 0, skipped: 0 };

    #[test]
    fn a_runner_and_its_counts_must_agree() {
        assert_eq!(Report::tests(true, Some(TWO)).counts, TWO);
        assert_eq!(Report::tests(false, None).counts, Counts::FAILED);
        assert_eq!(Report::tests(true, None).counts, Counts::FAILED);
        assert_eq!(Report::tests(false, Some(TWO)).counts, Counts { failed: 1, ..TWO });
        let one_failed = Counts { failed: 1, ..TWO };
        assert_eq!(Report::tests(false, Some(one_failed)).counts, one_failed);
    }

    #[test]
    fn a_step_that_breaks_is_a_failure_and_the_next_one_runs() {
        let mut steps = Steps::default();
        steps.run("breaks", || anyhow::bail!("no such tool"));
        steps.run("holds", || Ok(Report::check(true)));
        let verdicts: Vec<_> = steps.done.iter().map(|(_, report, _)| report.verdict()).collect();
        assert_eq!(verdicts, ["FAILED", "passed"]);
        assert_eq!(steps.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn what_is_skipped_does_not_fail_the_run() {
        let mut steps = Steps::default();
        steps.run("absent", || Ok(Report::skipped("not there yet")));
        assert_eq!(steps.done[0].1.verdict(), "skipped");
        assert_eq!(steps.finish(), ExitCode::SUCCESS);
    }
}
