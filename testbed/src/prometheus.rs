//! A real Prometheus for tests: it scrapes a hub and answers queries. And `promtool`, which checks metrics and rules.
//!
//! Both programs are the machine's own where they are on `PATH`; otherwise they come from Debian's package, pinned, unpacked into
//! the cache and not installed. Tests that need them live in a module `with_prometheus`.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::apt::Package;
use crate::cache;
use crate::download;
use crate::ports::Port;
use crate::program::{Program, find_on_path};
use crate::server::{LIMIT, PAUSE, Server, guard_of};
use crate::watchdog::Watchdog;

const PACKAGE: Package = Package {
    // A release that does not change any more, so that the version stays.
    release: "bullseye",
    name: "prometheus=2.24.1+ds-1+b7",
    sha256: "7f98887c0fa36e0dd81bb39abc57a9e2535c2a0dc20442a431255ebc0b87b73a",
    hint: "Prometheus is taken from Debian 11 with apt-get and dpkg-deb; or install it and put prometheus and promtool on PATH",
};
const VERSION: &str = "2.24.1";
/// How directories begin in which a download is not finished.
const PART: &str = "prometheus-part-";

/// The programs, ready to run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The server.
    pub prometheus: PathBuf,
    /// What checks metrics, rules and configurations.
    pub promtool: PathBuf,
}

impl Programs {
    /// Finds them, or gets them, which takes a download of 15 MB, once. Processes that do so at the same time wait for the
    /// first. Blocks.
    pub fn get() -> Result<Self> {
        if let (Some(prometheus), Some(promtool)) = (find_on_path("prometheus"), find_on_path("promtool")) {
            return Ok(Self { prometheus, promtool });
        }
        let home = cache::dir()?.join(format!("prometheus-{VERSION}"));
        if !home.exists() {
            let lock = cache::lock_file(&cache::dir()?.join("prometheus.lock"))?;
            lock.lock().context("cannot lock the cache")?;
            // Another process may have been faster.
            if !home.exists() {
                install(&home)?;
            }
        }
        Ok(Self { prometheus: home.join("prometheus"), promtool: home.join("promtool") })
    }

    /// The version and where it is, for a person.
    pub fn describe(&self) -> Result<String> {
        let printed = version(&self.prometheus)?;
        let first = printed.lines().next().unwrap_or_default();
        Ok(format!("{first}, {}", self.prometheus.display()))
    }
}

fn version(path: &Path) -> Result<String> {
    Program { path: path.to_owned(), libraries: None, user: None }.version()
}

/// Puts the package at `home`: all of it, or nothing. Only the process that has the cache's lock may do so.
fn install(home: &Path) -> Result<()> {
    ensure!(cfg!(all(target_os = "linux", target_arch = "x86_64")), "{}", PACKAGE.hint);
    eprintln!("testbed: getting Prometheus {VERSION} (15 MB, once) into {}", home.display());
    let parent = home.parent().context("the cache is a directory in another one")?;
    download::remove_parts(parent, PART);
    let work = tempfile::Builder::new().prefix(PART).tempdir_in(parent);
    let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
    let unpacked = PACKAGE.unpack(work.path())?;
    let ready = work.path().join("ready");
    fs::create_dir(&ready)?;
    for name in ["prometheus", "promtool"] {
        fs::copy(unpacked.join("usr/bin").join(name), ready.join(name))
            .with_context(|| format!("{name} is not where Debian puts it"))?;
        download::make_executable(&ready.join(name))?;
        version(&ready.join(name)).context("the package was gotten but does not run here")?;
    }
    fs::rename(&ready, home).with_context(|| format!("cannot move the programs to {}", home.display()))
}

/// A Prometheus that scrapes one address every second. It is gone, with its data, when this value is dropped.
#[derive(Debug)]
pub struct Prometheus(Server);

impl Prometheus {
    /// Starts one that scrapes `/metrics` of `target` and evaluates the rules of the file `rules`, if there is one.
    pub async fn start(target: SocketAddr, rules: Option<&Path>) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        let watchdog = Arc::new(Mutex::new(Watchdog::start()?));
        let port = Port::take()?;
        let home = guard_of(&watchdog).scratch().path().to_owned();
        let rules =
            rules.map(|path| format!("rule_files: [{:?}]\n", path.display().to_string())).unwrap_or_default();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{rules}\
             scrape_configs: [{{job_name: event-hub, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
        );
        let path = home.join("prometheus.yml");
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        let argument =
            |name: &str, value: &dyn std::fmt::Display| OsString::from(format!("--{name}={value}"));
        let arguments = vec![
            argument("config.file", &path.display()),
            argument("storage.tsdb.path", &home.join("data").display()),
            argument("web.listen-address", &port.address()),
        ];
        let program = Program { path: programs.prometheus, libraries: None, user: None };
        let server = Server::new(program, port, arguments, watchdog);
        server.start()?;
        server.listening().await?;
        let prometheus = Self(server);
        prometheus.ready().await?;
        Ok(prometheus)
    }

    /// Waits until it answers queries, which is a moment after it listens.
    async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            if answer.split(' ').nth(1) == Some("200") {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "Prometheus is not ready after {LIMIT:?}: {answer}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Where its HTTP API is.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// `promtool` with these arguments and input: whether it is content, and everything that it printed.
pub fn promtool(arguments: &[&str], input: &str) -> Result<(bool, String)> {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = Command::new(Programs::get()?.promtool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start promtool")?;
    let mut stdin = child.stdin.take().context("promtool has no input")?;
    // It reads its whole input before it prints anything.
    stdin.write_all(input.as_bytes()).context("promtool does not read its input")?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((output.status.success(), printed.concat()))
}
