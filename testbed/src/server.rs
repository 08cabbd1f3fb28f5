//! One server process: started, killed, frozen, started again, on the same port and the same data.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

use crate::ports::Port;
use crate::programs::Program;
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
    /// A server that is not started yet. `arguments` come on top of port, address and log.
    pub fn new(
        program: Program,
        port: Port,
        arguments: Vec<OsString>,
        watchdog: Arc<Mutex<Watchdog>>,
    ) -> Self {
        let log = guard_of(&watchdog).scratch().path().join(format!("{}.log", port.number()));
        Self { program, arguments, log, port, watchdog, state: Mutex::new(State::Down) }
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
        let mut watchdog = guard_of(&self.watchdog);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", BECOME, "testbed-server"]).arg(&self.program.path).args(&self.arguments);
        command.args(["--bind_ip", "127.0.0.1", "--port"]).arg(self.port.number().to_string());
        command.arg("--logpath").arg(&self.log).arg("--logappend");
        if let Some(path) = &self.program.libraries {
            command.env("LD_LIBRARY_PATH", path);
        }
        command.stdin(Stdio::piped()).stdout(watchdog.scratch().held_by_child()?).stderr(Stdio::null());
        command.current_dir(watchdog.scratch().path()).process_group(0);
        let mut child = command.spawn().context("cannot start /bin/sh")?;
        watchdog.guard(child.id())?;
        let mut go = child.stdin.take().context("the server has no input")?;
        go.write_all(b"go\n").context("the server did not wait to be started")?;
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
                self.last_words()
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
            bail!("the server on {} has ended ({status}){}", self.address(), self.last_words());
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
        let killed = child.kill();
        // Before it is waited for: until then nobody else can have its number.
        let told = guard_of(&self.watchdog).forget(child.id());
        child.wait().context("cannot wait for a server's end")?;
        killed.context("cannot kill a server")?;
        told
    }

    /// `SIGSTOP`: its connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP, State::Frozen)
    }

    /// `SIGCONT`: it goes on as if no time had passed.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT, State::Running)
    }

    fn signal(&self, signal: Signal, next: impl FnOnce(Child) -> State) -> Result<()> {
        let mut state = self.state();
        let (State::Running(child) | State::Frozen(child)) = &*state else {
            bail!("the server on {} is down", self.address());
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process has this id")?;
        kill_process(pid, signal).context("cannot signal a server")?;
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

    /// The end of its log, for an error message.
    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        if last.is_empty() {
            ", without a log".into()
        } else {
            format!("; its log ends:\n{}", last.join("\n"))
        }
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

/// The watchdog, also after a panic elsewhere: it has no state that could be half changed.
pub fn guard_of(watchdog: &Mutex<Watchdog>) -> MutexGuard<'_, Watchdog> {
    watchdog.lock().unwrap_or_else(PoisonError::into_inner)
}
