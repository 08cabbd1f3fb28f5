//! The dashboard in a real Chromium, against the hub that the tests have built.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::counts;
use crate::dashboard::WEB;
use crate::process::{self, Stream};
use crate::steps::Report;
use crate::testbed::{CHROMIUM, MONGO};
use crate::workspace::Workspace;

/// Where the tests are, in the dashboard's directory.
const TESTS: &str = "tests/browser";
const SUFFIX: &str = ".test.ts";

/// Runs the tests of these names, or all; `screenshots` are for the documentation. What fails leaves a picture below the build directory.
pub fn check(workspace: &Workspace, names: &[String], screenshots: bool) -> Result<Report> {
    if let Some(report) = WEB.install(workspace)? {
        return Ok(report);
    }
    let files = files(&workspace.path(WEB.home).join(TESTS), names)?;
    // Node would leave one core of two to itself.
    let mut words = vec!["--test", "--test-reporter=spec", "--test-concurrency=2"];
    words.extend(files.iter().map(String::as_str));
    let mut command = node(workspace, &workspace.target().join("debug/event-hub"), &words)?;
    let pictures = workspace.target().join("browser");
    command.env("EVENT_HUB_PICTURES", &pictures);
    if screenshots {
        command.env("EVENT_HUB_SCREENSHOTS", "1");
    }
    println!("    {}", process::shown(&command));
    // Some look at several hubs, which share a database.
    let mut command = MONGO.around(workspace, command)?;
    command.current_dir(workspace.path(WEB.home));
    let (success, output) = process::read_along(&mut command, Stream::Stdout)?;
    if !success {
        println!("    pictures of what failed are in {}", pictures.display());
    }
    Ok(Report::tests(success, counts::of_node(&output)))
}

/// Node in the dashboard's directory, for TypeScript that starts the hub `program` and looks at it in Chromium.
pub fn node(workspace: &Workspace, program: &Path, words: &[&str]) -> Result<Command> {
    let flags = [
        "node",
        "--disable-warning=ExperimentalWarning",
        "--experimental-websocket",
        "--enable-source-maps",
        "--import=./tools/typescript.mjs",
    ];
    let mut command = WEB.command(workspace, &[&flags, words].concat());
    command.env("EVENT_HUB_PROGRAM", program);
    let mut command = CHROMIUM.around(workspace, command)?;
    command.current_dir(workspace.path(WEB.home));
    Ok(command)
}

/// The test files of these names, or all, relative to the dashboard's directory.
fn files(dir: &Path, names: &[String]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(SUFFIX) else { continue };
        if names.is_empty() || names.iter().any(|wanted| wanted == stem) {
            files.push(format!("{TESTS}/{name}"));
        }
    }
    anyhow::ensure!(!files.is_empty(), "no test file in {} is named {}", dir.display(), names.join(" or "));
    files.sort();
    Ok(files)
}
