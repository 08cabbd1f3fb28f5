//! A directory with a `package.json` and a lock file: TypeScript that is checked and tested under Node.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::counts;
use crate::process::{self, Stream};
use crate::steps::Report;
use crate::workspace::Workspace;

/// The oldest Node that the tools run on.
const LEAST_NODE: u32 = 20;

/// See the module.
#[derive(Debug)]
pub struct Project {
    /// The directory, in the clone.
    pub home: &'static str,
}

impl Project {
    /// Why nothing can be run here.
    pub fn missing() -> Option<String> {
        for program in ["node", "npm"] {
            if !process::succeeds_quietly(Command::new(program).arg("--version")) {
                return Some(format!("{program} is not installed"));
            }
        }
        let test =
            format!("process.exit(Number(process.versions.node.split('.')[0]) < {LEAST_NODE} ? 1 : 0)");
        let is_new = process::succeeds_quietly(Command::new("node").args(["-e", &test]));
        (!is_new).then(|| format!("node is older than version {LEAST_NODE}"))
    }

    /// Installs the packages of the lock file into `node_modules`, unless they are there. The report says why that is not possible.
    pub fn install(&self, workspace: &Workspace) -> Result<Option<Report>> {
        if let Some(why) = Self::missing() {
            return Ok(Some(Report::skipped(why)));
        }
        let lock = workspace.read(&format!("{}/package-lock.json", self.home))?;
        // Beside the packages: the lock file that they were installed by.
        let stamp = format!("{}/node_modules/.installed-by", self.home);
        if workspace.has(&stamp) && workspace.read(&stamp)? == lock {
            return Ok(None);
        }
        let words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        let mut npm = self.command(workspace, &words);
        println!("    {}", process::shown(&npm));
        if !process::succeeds(&mut npm)? {
            return Ok(Some(Report::failed(format!("the packages of {} could not be installed", self.home))));
        }
        fs::write(workspace.path(&stamp), lock).with_context(|| format!("cannot write {stamp}"))?;
        Ok(None)
    }

    /// Runs commands, each of which checks something; the first report of one that fails.
    pub fn check(&self, workspace: &Workspace, checks: &[(&[&str], &str)]) -> Result<Option<Report>> {
        for (words, what) in checks {
            let mut command = self.command(workspace, words);
            println!("    {}", process::shown(&command));
            if !process::succeeds(&mut command)? {
                return Ok(Some(Report::failed(format!("{what} did not pass"))));
            }
        }
        Ok(None)
    }

    /// Runs a command that prints the counts of Node's test runner.
    pub fn test(&self, mut command: Command) -> Result<Report> {
        println!("    {}", process::shown(&command));
        let (success, output) = process::read_along(&mut command, Stream::Stdout)?;
        Ok(Report::tests(success, counts::of_node(&output)))
    }

    /// A command in the directory.
    pub fn command(&self, workspace: &Workspace, words: &[&str]) -> Command {
        let (program, arguments) =
            words.split_first().map_or(("true", &[][..]), |(first, rest)| (*first, rest));
        let mut command = workspace.command(program);
        command.args(arguments).current_dir(workspace.path(self.home));
        command
    }
}
