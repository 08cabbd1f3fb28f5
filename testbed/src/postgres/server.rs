//! A server of a test's own.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::io::retry_on_intr;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::database::{Database, database_on};
use super::programs::Programs;
use super::wire;
use crate::family::pid_of;
use crate::ports::Port;
use crate::server::{self, LIMIT, PAUSE, Server, guard_of};
use crate::user::User;
use crate::watchdog::Watchdog;

/// Who may do everything on our servers, without a password.
pub const USER: &str = "postgres";

/// What differs from PostgreSQL's own settings. `fsync` does not.
const SETTINGS: [(&str, &str); 6] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "100"),
    ("shared_buffers", "16MB"),
    // In files below the data, which go with it, not in the system's shared memory, where they would stay after a kill.
    ("dynamic_shared_memory_type", "mmap"),
    ("logging_collector", "off"),
];

/// A server. It is gone, with its data, when this value is dropped.
#[derive(Debug)]
pub struct Postgres {
    // Before the watchdog, whose end removes its directory.
    server: Server,
    watchdog: Arc<Mutex<Watchdog>>,
}

impl Postgres {
    /// Starts one on a free port, and waits until it answers.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Likewise, with settings as in `postgresql.conf`: `[("wal_level", "logical")]`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        Self::start_from(&programs, settings).await
    }

    /// Likewise, of programs that the caller has chosen.
    pub async fn start_from(programs: &Programs, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_in(programs, settings, &[]).await
    }

    /// One that speaks TLS, with a certificate and its key in PEM.
    pub async fn start_with_tls(certificate: &str, key: &str) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        // Where it looks for them by itself.
        let files = [("server.crt", certificate), ("server.key", key)];
        Self::start_in(&programs, &[("ssl", "on")], &files).await
    }

    /// With files in the directory of its data.
    async fn start_in(
        programs: &Programs,
        settings: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<Self> {
        let watchdog = Arc::new(Mutex::new(Watchdog::start()?));
        let port = Port::take()?;
        let data = guard_of(&watchdog).scratch().path().join(format!("data-{}", port.number()));
        let initialised = tokio::task::spawn_blocking({
            let (programs, data, watchdog) = (programs.clone(), data.clone(), Arc::clone(&watchdog));
            move || initialise(&programs, &data, &watchdog)
        });
        initialised.await??;
        for (name, text) in files {
            let path = data.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            if let Some(user) = programs.postgres().user {
                chown(&path, Some(user.uid), Some(user.gid))?;
            }
        }
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.into(), "-p".into()];
        arguments.push(port.number().to_string().into());
        for (name, value) in SETTINGS.iter().chain(settings) {
            arguments.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        let server = Server::new(programs.postgres(), port, arguments, Arc::clone(&watchdog));
        let started = Self { server, watchdog };
        started.server.start()?;
        started.ready().await?;
        Ok(started)
    }

    /// How clients find it, with the database that every server has.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its first process, unless it was killed.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// A new database on it.
    pub async fn create_database(&self) -> Result<Database> {
        database_on(&self.url()).await
    }

    /// Ends it at once, with all its processes, as a crash does. Nothing happens if it is down already.
    pub fn kill(&self) -> Result<()> {
        self.server.kill()
    }

    /// Stops it in its tracks: connections stay open, nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.server.freeze()
    }

    /// Lets it go on after [`Postgres::freeze`].
    pub fn thaw(&self) -> Result<()> {
        self.server.thaw()
    }

    /// Starts it again with the data that it had, killing it first if it runs, and waits until it answers.
    pub async fn restart(&self) -> Result<()> {
        self.server.kill()?;
        self.server.start()?;
        self.ready().await
    }

    /// Ends the server and removes its data, as dropping does.
    pub fn stop(self) {}

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn guarded_by(&self) -> &Mutex<Watchdog> {
        &self.watchdog
    }

    /// Waits until it answers: it takes connections before it has recovered, and refuses them in words.
    async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.server.check_alive()?;
            let Err(error) = wire::query(&self.url(), "SELECT 1").await else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(error.context(format!("the server is not ready after {LIMIT:?}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Makes the directory of a server, owned by who it runs as, and has `initdb` fill it. Blocks.
fn initialise(programs: &Programs, data: &Path, watchdog: &Mutex<Watchdog>) -> Result<()> {
    let program = programs.initdb();
    let scratch = guard_of(watchdog).scratch().path().to_owned();
    fs::create_dir(data).with_context(|| format!("cannot make {}", data.display()))?;
    if let Some(user) = program.user {
        let_in(user, &scratch)?;
        chown(data, Some(user.uid), Some(user.gid))
            .with_context(|| format!("cannot give {} away", data.display()))?;
    }
    fs::set_permissions(data, fs::Permissions::from_mode(0o700))?;
    let words = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"];
    let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    arguments.push(data.into());
    let log = scratch.join("initdb.log");
    let mut child = server::spawn(&program, &arguments, &log, watchdog)?;
    // Looked at before it is waited for: until then nobody else can have its number, and the watchdog has it.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let pid = pid_of(&child)?;
    retry_on_intr(|| waitid(WaitId::Pid(pid), ended)).context("cannot wait for initdb")?;
    guard_of(watchdog).forget(child.id())?;
    let status = child.wait().context("cannot wait for initdb")?;
    ensure!(status.success(), "{} failed ({status}){}", program.path.display(), server::last_words(&log));
    Ok(())
}

/// Lets `user` through to what it owns in `scratch`. It cannot list what else is there.
fn let_in(user: User, scratch: &Path) -> Result<()> {
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o711))?;
    ensure!(
        user.can_enter(scratch),
        "PostgreSQL runs as another user here, since we are root, and that one cannot get to {}: set TMPDIR to a \
         directory that everybody can enter",
        scratch.display()
    );
    Ok(())
}
