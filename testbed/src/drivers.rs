//! The databases' own drivers for Python and Node (`pymongo` and `psycopg`, `mongodb` and `pg`), and packages for Python that
//! read and write CloudEvents, verify webhooks and test HTTP APIs (`cloudevents`, `standardwebhooks`, `schemathesis`).
//!
//! For tests that use a database, or the hub, as somebody else's program would. Versions and hashes are pinned in
//! `testbed/drivers`; pip and npm get them by name into the cache, once. Nothing of a package is run on the way, and nothing
//! is installed system-wide.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{self, SHA256};

use crate::cache;
use crate::download;
use crate::program::find_on_path;

const REQUIREMENTS: &str = include_str!("../drivers/python/requirements.txt");
const CLOUDEVENTS: &str = include_str!("../drivers/python/cloudevents.txt");
const SCHEMATHESIS: &str = include_str!("../drivers/python/schemathesis.txt");
const PACKAGE: &str = include_str!("../drivers/node/package.json");
const PACKAGE_LOCK: &str = include_str!("../drivers/node/package-lock.json");
/// What tests of the protocol need: a WebSocket, and the compiler of TypeScript.
const PROTOCOL: &str = include_str!("../../protocol/node/package.json");
const PROTOCOL_LOCK: &str = include_str!("../../protocol/node/package-lock.json");
/// How directories begin in which something is not finished.
const PART: &str = "drivers-part-";

/// A Python that can import `pymongo` and `psycopg`; `None`, said on standard error, where there is no Python 3 with pip.
/// What is not in the cache yet is gotten. Blocks.
pub fn python() -> Result<Option<PathBuf>> {
    python_with("python", REQUIREMENTS, "pymongo, psycopg, psycopg_binary")
}

/// The same with `cloudevents` and `standardwebhooks`.
pub fn python_cloudevents() -> Result<Option<PathBuf>> {
    python_with("python-cloudevents", CLOUDEVENTS, "cloudevents.core, standardwebhooks")
}

/// The same with `schemathesis`.
pub fn python_schemathesis() -> Result<Option<PathBuf>> {
    python_with("python-schemathesis", SCHEMATHESIS, "schemathesis.cli")
}

fn python_with(name: &str, requirements: &str, modules: &str) -> Result<Option<PathBuf>> {
    // Older ones have no packages of these versions.
    let asks =
        ["-c", "import sys, pip, venv; assert sys.version_info >= (3, 10); print(sys.version, sys.prefix)"];
    let Some(version) = answer("python3", &asks) else {
        eprintln!("testbed: no Python: python3, 3.10 or later, with pip is not installed");
        return Ok(None);
    };
    let home = cached(name, &[requirements, &version], |home| install_python(home, requirements, modules))?;
    Ok(Some(home.join("bin/python")))
}

/// The `NODE_PATH` with which Node finds `mongodb` and `pg`; `None`, said on standard error, where there is no Node with npm.
/// What is not in the cache yet is gotten. Blocks.
pub fn node() -> Result<Option<PathBuf>> {
    node_with("node", PACKAGE, PACKAGE_LOCK, "require('mongodb'); require('pg')")
}

/// The same with `typescript`.
pub fn node_typescript() -> Result<Option<PathBuf>> {
    node_with("node-typescript", PROTOCOL, PROTOCOL_LOCK, "require('typescript')")
}

fn node_with(name: &str, package: &str, lock: &str, check: &str) -> Result<Option<PathBuf>> {
    if find_on_path("node").is_none() || find_on_path("npm").is_none() {
        eprintln!("testbed: no Node: node and npm are not installed");
        return Ok(None);
    }
    let home = cached(name, &[lock], |home| install_node(home, package, lock, check))?;
    Ok(Some(home.join("node_modules")))
}

/// Gets all, and says what there is, for a person.
pub fn describe() -> Result<String> {
    let said = |name: &str, path: Option<PathBuf>| match path {
        Some(path) => format!("{name}: {}", path.display()),
        None => format!("{name}: not on this machine"),
    };
    let cloudevents = said("Python for CloudEvents", python_cloudevents()?);
    let schemathesis = said("Python for Schemathesis", python_schemathesis()?);
    let typescript = said("Node with TypeScript", node_typescript()?);
    Ok([said("Python", python()?), cloudevents, schemathesis, said("Node", node()?), typescript].join("\n"))
}

/// The directory for what `install` makes of the texts, by their hash: made if need be, all of it or nothing.
fn cached(name: &str, texts: &[&str], install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let hash = digest::digest(&SHA256, texts.concat().as_bytes());
    let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let parent = cache::subdir("drivers")?;
    let home = parent.join(format!("{name}-{hash}"));
    if home.exists() {
        return Ok(home);
    }
    let lock = cache::lock_file(&parent.join("lock"))?;
    lock.lock().context("cannot lock the cache")?;
    // Another one may have been faster.
    if !home.exists() {
        download::remove_parts(&parent, PART);
        let work = tempfile::Builder::new().prefix(PART).tempdir_in(&parent);
        let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        let ready = work.path().join("ready");
        fs::create_dir(&ready)?;
        eprintln!("testbed: getting drivers for {name} into {}", home.display());
        install(&ready)?;
        fs::rename(&ready, &home)
            .with_context(|| format!("cannot move the drivers to {}", home.display()))?;
    }
    Ok(home)
}

/// A virtual environment. Without a pip of its own, which Debian's Python cannot put there: the machine's fills it.
fn install_python(home: &Path, packages: &str, modules: &str) -> Result<()> {
    const HINT: &str = "packages for Python need pip and the network";
    download::run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(home), HINT)?;
    let python = home.join("bin/python");
    let site = ["-c", "import sysconfig; print(sysconfig.get_path('platlib'))"];
    let site = download::run(Command::new(&python).args(site), HINT)?;
    let requirements = home.join("requirements.txt");
    fs::write(&requirements, packages)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    // Only what needs no building: that would run what the package says.
    pip.args(["--require-hashes", "--only-binary=:all:", "--target", site.trim(), "-r"]).arg(&requirements);
    download::run(&mut pip, HINT)?;
    download::run(Command::new(&python).args(["-c", &format!("import {modules}")]), HINT)?;
    Ok(())
}

fn install_node(home: &Path, package: &str, lock: &str, check: &str) -> Result<()> {
    const HINT: &str = "packages for Node need npm and the network";
    fs::write(home.join("package.json"), package)?;
    fs::write(home.join("package-lock.json"), lock)?;
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(home);
    download::run(npm.current_dir(home), HINT)?;
    let mut node = Command::new("node");
    node.args(["-e", check]).env("NODE_PATH", home.join("node_modules"));
    download::run(node.current_dir("/"), HINT)?;
    Ok(())
}

/// What a program prints, if it is there and succeeds.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
