//! A hub that runs: the real program on free ports, ended when the test is, however it goes.

use crate::world::Ran;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::http::Uri;

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Variables that would change what the program does.
const VARIABLES: [&str; 19] = [
    "OUTBOX_URL",
    "MONGO_URL",
    "ADVERTISE",
    "CLUSTER_SECRET",
    "WS_PORT",
    "OPS_PORT",
    "BIND",
    "EVENT_HUB_DATA",
    "EVENT_HUB_CONFIG",
    "EVENT_HUB_URL",
    "EVENT_HUB_OPS_URL",
    "EVENT_HUB_TOKEN",
    "JWT_JWKS_URL",
    "JWT_SECRET",
    "JWT_AUD",
    "JWT_ISS",
    "JWT_CLOCK_TOLERANCE_SEC",
    "WS_TOKEN",
    "RUST_LOG",
];

/// The program, with nothing set that the test does not set.
pub fn program(args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_event-hub"));
    command.args(args);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

/// Runs it to its end.
pub fn run_with(args: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command = program(args, environment);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let (id, (give, take)) = (child.id().to_string(), channel());
    std::thread::spawn(move || give.send(child.wait_with_output().unwrap()));
    // What should have been refused may be running.
    let output = take.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Command::new("kill").args(["-KILL", &id]).status().unwrap();
        panic!("{args:?} does not end")
    });
    ran(output)
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A process of the program.
pub struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    seen: String,
}

impl Running {
    pub fn start(args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::spawn(program(args, environment))
    }

    /// Starts it after a command of the shell, such as one that sets a limit.
    pub fn start_after(command: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let program = program(args, environment);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{command} && exec \"$@\""), "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Self::spawn(shell)
    }

    fn spawn(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = lines::<ChildStdout>(child.stdout.take().unwrap());
        let err = lines::<ChildStderr>(child.stderr.take().unwrap());
        Self { child, out, err, seen: String::new() }
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let line = self.out.recv_timeout(PATIENCE);
        line.unwrap_or_else(|_| panic!("no further line; log:\n{}", self.log()))
    }

    /// Everything that it has logged so far.
    pub fn log(&mut self) -> &str {
        self.seen.extend(self.err.try_iter());
        &self.seen
    }

    /// Waits until the log has `words`.
    pub fn logs(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(line) => self.seen.push_str(&line),
                Err(_) => panic!("{words:?} is not in the log:\n{}", self.seen),
            }
        }
    }

    /// Forgets what was logged so far: what is waited for next is new.
    pub fn forget_log(&mut self) {
        self.log();
        self.seen.clear();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits for its end; answers everything that it has logged.
    pub fn last_log(&mut self) -> &str {
        self.ended();
        // Its end closes the pipe, so everything that it wrote is there.
        self.seen.extend(self.err.iter());
        &self.seen
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            if Instant::now() > deadline {
                panic!("it does not end; log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("log of the process:\n{}", self.log());
        }
    }
}

/// Lines of a pipe, read by a thread so that nobody waits for room in it.
fn lines<R: Read + Send + 'static>(pipe: R) -> Receiver<String> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if give.send(line + "\n").is_err() {
                return;
            }
        }
    });
    take
}

/// A hub on free ports.
pub struct Hub {
    pub process: Running,
    pub ready: Value,
}

impl Hub {
    pub fn start(data: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let data = data.to_str().unwrap();
        let fixed = ["serve", "--json", "--ws-port", "0", "--ops-port", "0", "--data", data];
        let mut process = Running::start(&[&fixed[..], args].concat(), environment);
        let ready = serde_json::from_str(&process.line()).unwrap();
        Self { process, ready }
    }

    /// Starts it again, after its end, where clients look for it.
    pub fn start_again(&mut self, data: &Path) {
        self.start_again_with(data, &[]);
    }

    /// The same, with these variables.
    pub fn start_again_with(&mut self, data: &Path, environment: &[(&str, &str)]) {
        let url: Uri = self.ws().parse().unwrap();
        let (port, data) = (url.port_u16().unwrap().to_string(), data.to_str().unwrap());
        let args = ["serve", "--json", "--ws-port", &port, "--ops-port", "0", "--data", data];
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut process = Running::start(&args, environment);
            match process.out.recv_timeout(PATIENCE) {
                Ok(ready) => {
                    *self = Self { process, ready: serde_json::from_str(&ready).unwrap() };
                    return;
                }
                // Somebody else may have the port for a moment.
                Err(_) => assert!(Instant::now() < deadline, "it does not start:\n{}", process.log()),
            }
        }
    }

    pub fn ws(&self) -> &str {
        self.ready["ws"].as_str().unwrap()
    }

    pub fn http(&self) -> &str {
        self.ready["http"].as_str().unwrap()
    }

    pub fn token(&self) -> &str {
        self.ready["token"].as_str().unwrap()
    }

    /// Asks over HTTP: status and body.
    pub fn ask(&self, method: reqwest::Method, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
        let url = format!("{}{path}", self.http());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut request = reqwest::Client::new().request(method, url).body(body.to_owned());
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    }

    pub fn stop(mut self) -> String {
        self.process.signal("TERM");
        assert_eq!(self.process.ended(), 0, "{}", self.process.log());
        self.process.last_log().to_owned()
    }
}

/// A directory for one test.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.text(name)
    }
}
