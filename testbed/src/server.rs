//! One server process: started, killed, frozen, started again, on the same port and the same data.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

use crate::family::Family;
use crate::ports::Port;
use crate::program::Program;
use crate::watchdog::Watchdog;

/// How long anything about a server may take before it counts as broken. Far more than it takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Between two looks at a server.
pub const PAUSE: Duration = Duration::from_millis(25);

/// Waits on its input before it becomes the server, so that the watchdog knows of the process before there is a server. If
/// we die in between, the input ends, and so does this.
const BECOME: &str = r#"read -r go || exit 1; exec "$@" </dev/null"#;

/// A server.
#[derive(Debug)]
pub struct Server {
    program: Program,
    arguments: Vec<OsString>,
    log: PathBuf,
    port: Port,
    watchdog: Arc<Mutex<Watchdog>>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Down,
    Running(Child),
    Frozen(Child),
}

impl Server {
    /// A server that is not started yet. `arguments` are all that it gets; what it complains of goes to its log.
    pub fn new(
        program: Program,
        port: Port,
        arguments: Vec<OsString>,
        watchdog: Arc<Mutex<Watchdog>>,
    ) -> Self {
        let log = log_of(&watchdog, &port);
        Self { program, arguments, log, port, watchdog, state: Mutex::new(State::Down) }
    }

    /// A `mongod` or `mongos` that is not started yet. `arguments` come on top of port, address and log.
    pub fn mongo(
        program: Program,
        port: Port,
        mut arguments: Vec<OsString>,
        watchdog: Arc<Mutex<Watchdog>>,
    ) -> Self {
        arguments.extend(["--bind_ip", "127.0.0.1", "--port"].map(OsString::from));
        arguments.push(port.number().to_string().into());
        arguments.extend(["--logappend", "--logpath"].map(OsString::from));
        arguments.push(log_of(&watchdog, &port).into());
        Self::new(program, port, arguments, watchdog)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The process, if there is one.
    pub fn pid(&self) -> Option<u32> {
        match &*self.state() {
            State::Down => None,
            State::Running(child) | State::Frozen(child) => Some(child.id()),
        }
    }

    /// Whether it runs, and is not frozen.
    pub fn is_running(&self) -> bool {
        matches!(&*self.state(), State::Running(_))
    }

    /// Starts it; it does not listen yet.
    pub fn start(&self) -> Result<()> {
        let mut state = self.state();
        ensure!(matches!(*state, State::Down), "the server on port {} runs already", self.port.number());
        let child = spawn(&self.program, &self.arguments, &self.log, &self.watchdog)?;
        *state = State::Running(child);
        Ok(())
    }

    /// Waits until it takes connections.
    pub async fn listening(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.check_alive()?;
            if TcpStream::connect(self.address()).await.is_ok() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} does not listen after {LIMIT:?}{}",
                self.address(),
                last_words(&self.log)
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// An error if it has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        let mut state = self.state();
        let (State::Running(child) | State::Frozen(child)) = &mut *state else {
            bail!("the server on {} was not started, or was killed", self.address());
        };
        if let Some(status) = child.try_wait()? {
            bail!("the server on {} has ended ({status}){}", self.address(), last_words(&self.log));
        }
        Ok(())
    }

    /// `SIGKILL`, and waits for its end. Nothing happens if it is down.
    pub fn kill(&self) -> Result<()> {
        let mut state = self.state();
        let (State::Running(mut child) | State::Frozen(mut child)) =
            std::mem::replace(&mut *state, State::Down)
        else {
            return Ok(());
        };
        // One that has ended by itself may have been waited for already, and its number be another's.
        if child.try_wait().context("cannot look at a server")?.is_some() {
            return guard_of(&self.watchdog).forget(child.id());
        }
        let killed = Family::stop(&child).and_then(|family| family.kill());
        // What is left of it, should the above have failed; otherwise nothing is.
        let _ = child.kill();
        // Before it is waited for: until then nobody else can have its number.
        let told = guard_of(&self.watchdog).forget(child.id());
        child.wait().context("cannot wait for a server's end")?;
        killed?;
        told
    }

    /// `SIGSTOP`: its connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.turn(Family::freeze, State::Frozen)
    }

    /// `SIGCONT`: it goes on as if no time had passed.
    pub fn thaw(&self) -> Result<()> {
        self.turn(Family::thaw, State::Running)
    }

    fn turn(&self, act: impl FnOnce(&Family) -> Result<()>, next: impl FnOnce(Child) -> State) -> Result<()> {
        let mut state = self.state();
        let (State::Running(child) | State::Frozen(child)) = &mut *state else {
            bail!("the server on {} is down", self.address());
        };
        let ended = child.try_wait().context("cannot look at a server")?;
        ensure!(ended.is_none(), "the server on {} has ended{}", self.address(), last_words(&self.log));
        act(&Family::stop(child)?)?;
        if let State::Running(child) | State::Frozen(child) = std::mem::replace(&mut *state, State::Down) {
            *state = next(child);
        }
        Ok(())
    }

    /// Lets the process live on when this value is gone. Somebody else has to guard it.
    pub fn abandon(&self) -> Result<()> {
        let left = std::mem::replace(&mut *self.state(), State::Down);
        ensure!(matches!(left, State::Running(_)), "only a server that runs can be left alone");
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What cannot be killed here is the watchdog's.
        let _ = self.kill();
    }
}

/// Starts a program that the watchdog knows of before it runs. Its complaints go to the end of `log`.
pub fn spawn(
    program: &Program,
    arguments: &[OsString],
    log: &Path,
    watchdog: &Mutex<Watchdog>,
) -> Result<Child> {
    let mut watchdog = guard_of(watchdog);
    let complaints = OpenOptions::new().create(true).append(true).open(log);
    let complaints = complaints.with_context(|| format!("cannot open {}", log.display()))?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", BECOME, "testbed-server"]).arg(&program.path).args(arguments);
    program.prepare(&mut command);
    command.stdin(Stdio::piped()).stdout(watchdog.scratch().held_by_child()?).stderr(complaints);
    command.current_dir(watchdog.scratch().path()).process_group(0);
    let mut child = command.spawn().context("cannot start /bin/sh")?;
    watchdog.guard(child.id())?;
    let mut go = child.stdin.take().context("the server has no input")?;
    go.write_all(b"go\n").context("the server did not wait to be started")?;
    Ok(child)
}

/// Where the server on `port` complains.
fn log_of(watchdog: &Mutex<Watchdog>, port: &Port) -> PathBuf {
    guard_of(watchdog).scratch().path().join(format!("{}.log", port.number()))
}

/// The end of a log, for an error message.
pub fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    if last.is_empty() { ", without a log".into() } else { format!("; its log ends:\n{}", last.join("\n")) }
}

/// The watchdog, also after a panic elsewhere: it has no state that could be half changed.
pub fn guard_of(watchdog: &Mutex<Watchdog>) -> MutexGuard<'_, Watchdog> {
    watchdog.lock().unwrap_or_else(PoisonError::into_inner)
}
