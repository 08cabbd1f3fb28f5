//! The Python SDK: types, lint, and its tests with a real hub. Its packages go to the cache, pinned by hash.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::args::Args;
use crate::cache;
use crate::counts;
use crate::process::{self, Stream};
use crate::steps::{Report, Steps};
use crate::testbed::POSTGRES;
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask python

Checks the Python SDK as `cargo xtask test` does: types, lint, its tests with a hub that this builds, kills and starts
again and with a PostgreSQL, the programs of its pages, and its package. Its Python packages are installed into the cache,
outside the clone.";

/// Where it is.
const HOME: &str = "sdk/python";
/// What its checks and tests need: pinned, with hashes.
const PACKAGES: &str = "sdk/python/requirements.txt";
/// The oldest Python for which there are packages of these versions. The SDK itself runs on 3.10, too.
const ASK_VERSION: &str =
    "import sys, pip, venv; assert sys.version_info >= (3, 11); print(sys.version, sys.prefix)";

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    let mut steps = Steps::default();
    let programs = ["build", "--workspace", "--all-features", "--bin", "event-hub", "--bin", "hub-testbed"];
    steps.command("build", &mut workspace.cargo(programs));
    steps.run("python", || check(&workspace, |_| ()));
    Ok(steps.finish())
}

/// Runs all of it, with the hub that the tests have built, or says what is missing.
pub fn check(workspace: &Workspace, settings: impl FnOnce(&mut Command)) -> Result<Report> {
    let Some(version) = answer(Command::new("python3").args(["-c", ASK_VERSION])) else {
        return Ok(Report::skipped("python3, 3.11 or later, with pip is not installed"));
    };
    let Some(cache) = cache::dir() else {
        return Ok(Report::skipped("there is no cache to install packages for Python into"));
    };
    let Some(python) = install(workspace, &cache, &version)? else {
        return Ok(Report::failed(format!("the packages of {PACKAGES} could not be installed")));
    };
    // What the tools remember stays out of the clone.
    let remembered = cache.join("python/remembered");
    let command = |words: &[&str]| {
        let mut command = workspace.command(&python);
        command.args(words).current_dir(workspace.path(HOME));
        command.env("PYTHONPYCACHEPREFIX", remembered.join("pycache"));
        command.env("MYPY_CACHE_DIR", remembered.join("mypy")).env("RUFF_CACHE_DIR", remembered.join("ruff"));
        command
    };
    let checks: &[(&[&str], &str)] = &[
        (&["-m", "ruff", "check", "--quiet", "."], "the lint"),
        (&["-m", "ruff", "format", "--quiet", "--check", "."], "the format"),
        (&["-m", "mypy"], "the types"),
    ];
    for (words, what) in checks {
        let mut command = command(words);
        println!("    {}", process::shown(&command));
        if !process::succeeds(&mut command)? {
            return Ok(Report::failed(format!("{what} did not pass")));
        }
    }
    let mut tests =
        command(&["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3", "--dist", "loadgroup"]);
    tests.env("EVENT_HUB_BIN", workspace.target().join("debug/event-hub"));
    settings(&mut tests);
    let mut tests = POSTGRES.around(workspace, tests)?;
    tests.current_dir(workspace.path(HOME));
    println!("    {}", process::shown(&tests));
    let (success, output) = process::read_along(&mut tests, Stream::Stdout)?;
    Ok(Report::tests(success, counts::of_pytest(&output)))
}

/// The Python of an environment with the packages, by their file's content; made if need be. `None` if that fails.
fn install(workspace: &Workspace, cache: &Path, version: &str) -> Result<Option<PathBuf>> {
    let mut hash = DefaultHasher::new();
    (workspace.read(PACKAGES)?, version).hash(&mut hash);
    let home = cache.join("python").join(format!("sdk-{:016x}", hash.finish()));
    if home.is_dir() {
        return Ok(Some(home.join("bin/python")));
    }
    // Aside and moved into place as a whole: an install that is cut off, or another clone's, does no harm.
    let aside = home.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&aside).with_context(|| format!("cannot create {}", aside.display()))?;
    // Without a pip of its own, which Debian's Python cannot put there: the machine's fills it.
    let made = process::succeeds(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&aside))?;
    let place = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let site = answer(Command::new(aside.join("bin/python")).args(["-c", place]));
    let (true, Some(site)) = (made, site) else { return Ok(None) };
    let mut pip = workspace.command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    // Only what needs no building: that would run what the package says.
    pip.args(["--require-hashes", "--only-binary=:all:", "--target", site.trim(), "-r", PACKAGES]);
    println!("    {}", process::shown(&pip));
    let installed = process::succeeds(&mut pip)? && (fs::rename(&aside, &home).is_ok() || home.is_dir());
    if aside.is_dir() {
        fs::remove_dir_all(&aside)?;
    }
    Ok(installed.then(|| home.join("bin/python")))
}

/// What a program prints, if it is there and succeeds.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
