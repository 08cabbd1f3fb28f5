//! The Rust tests: unit and integration tests of all crates, without the simulator.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::counts;
use crate::process::{self, Stream};
use crate::sim;
use crate::steps::Report;
use crate::testbed::Service;
use crate::workspace::Workspace;

/// How they are run: under cargo-nextest, or by cargo alone where that is not installed.
#[derive(Debug)]
pub struct RustTests<'a> {
    workspace: &'a Workspace,
    nextest: bool,
}

impl<'a> RustTests<'a> {
    /// Looks for cargo-nextest.
    pub fn new(workspace: &'a Workspace) -> Self {
        let nextest = process::succeeds_quietly(&mut workspace.cargo(["nextest", "--version"]));
        Self { workspace, nextest }
    }

    /// Builds them, and the examples; true if they could be built.
    pub fn build(&self) -> Result<bool> {
        let mut command = self.command()?;
        command.arg("--no-run");
        println!("    {}", process::shown(&command));
        if !process::succeeds(&mut command)? {
            return Ok(false);
        }
        // Under nextest they are built already.
        let words = ["build", "--profile", "test", "--workspace", "--all-features", "--examples"];
        process::succeeds(&mut self.workspace.cargo(words))
    }

    /// Runs them. Those that need one of the services of `without` are left out, and one of each of `with` is started for
    /// the run. `settings` can tell tests how much to do.
    pub fn run(
        &self,
        with: &[&Service],
        without: &[&Service],
        settings: impl FnOnce(&mut Command),
    ) -> Result<Report> {
        let mut command = self.command()?;
        // Not said when building: nextest refuses the two together.
        command.arg("--no-fail-fast");
        if self.nextest {
            command.args(["-E", &filter(self.workspace.has(sim::SOURCE), without)]);
        } else if !without.is_empty() {
            command.arg("--").args(without.iter().flat_map(|service| ["--skip", service.module]));
        }
        settings(&mut command);
        for service in with {
            command = service.around(self.workspace, command)?;
        }
        self.counted(&mut command)
    }

    /// Runs those of a module that are ignored otherwise.
    pub fn run_ignored(&self, module: &str, settings: impl FnOnce(&mut Command)) -> Result<Report> {
        let mut command = self.command()?;
        if self.nextest {
            command.args(["--run-ignored", "only", "-E", &format!("test(/^{module}/)")]);
        } else {
            command.args(["--", "--ignored", module]);
        }
        settings(&mut command);
        self.counted(&mut command)
    }

    fn counted(&self, command: &mut Command) -> Result<Report> {
        println!("    {}", process::shown(command));
        let stream = if self.nextest { Stream::Stderr } else { Stream::Stdout };
        let (success, output) = process::read_along(command, stream)?;
        let counts = if self.nextest { counts::of_nextest(&output) } else { counts::of_cargo_test(&output) };
        Ok(Report::tests(success, counts))
    }

    fn command(&self) -> Result<Command> {
        if self.nextest {
            let words = ["nextest", "run", "--workspace", "--all-features"];
            return Ok(self.workspace.cargo(words));
        }
        let words = ["test", "--workspace", "--all-features", "--lib", "--bins"];
        let mut command = self.workspace.cargo(words);
        for name in integration_tests(self.workspace)? {
            command.args(["--test", &name]);
        }
        Ok(command)
    }
}

/// What nextest is to run. A filter on a binary that does not exist is an error to it.
fn filter(has_simulator: bool, without: &[&Service]) -> String {
    let mut parts = vec!["all()".to_owned()];
    if has_simulator {
        parts.push("not binary(sim)".into());
    }
    parts.extend(without.iter().map(|service| format!("not test({})", service.module)));
    parts.join(" and ")
}

/// The names of all integration tests but the simulator. `cargo test` can only be told which ones to run, not which one
/// to leave out.
fn integration_tests(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut packages = vec![workspace.path("xtask"), workspace.path("bench"), workspace.path("testbed")];
    for entry in fs::read_dir(workspace.path("crates"))? {
        packages.push(entry?.path());
    }
    let mut names = BTreeSet::new();
    for package in packages {
        let Ok(tests) = fs::read_dir(package.join("tests")) else { continue };
        for entry in tests {
            let path = entry?.path();
            let is_test =
                path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
            names
                .extend(path.file_stem().filter(|_| is_test).map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.remove("sim");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{MONGO, POSTGRES};

    #[test]
    fn what_is_not_there_is_not_filtered() {
        assert_eq!(filter(true, &[]), "all() and not binary(sim)");
        assert_eq!(filter(true, &[&MONGO]), "all() and not binary(sim) and not test(with_mongo::)");
        let neither = "all() and not test(with_mongo::) and not test(with_postgres::)";
        assert_eq!(filter(false, &[&MONGO, &POSTGRES]), neither);
        assert_eq!(filter(false, &[]), "all()");
    }
}
