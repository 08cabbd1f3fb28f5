//! How servers end: with their users, whatever ends those. Told once; each database has tests of its own that call this.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

/// A kind of server.
#[derive(Clone, Copy)]
pub struct Kind {
    /// What the program calls it.
    pub name: &'static str,
    /// Where its address is found.
    pub variable: &'static str,
    /// Where a server has written down the number of its process, in its own directory.
    pub pid_file: &'static str,
    /// The directory in the cache with its programs, if they are a package's.
    pub package: fn() -> Option<PathBuf>,
}

/// A program that runs under `hub-testbed KIND run`, with a directory for temporary files and a cache of its own. It
/// ends when its input does.
struct Run {
    process: Child,
    says: BufReader<ChildStdout>,
    server: String,
}

impl Run {
    fn start(world: &World, options: &[&str]) -> Self {
        let mut command = world.command();
        let script = format!("echo ${}; cat", world.kind.variable);
        command.args(options).args(["--", "sh", "-c", &script]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut says = BufReader::new(process.stdout.take().unwrap());
        let mut uri = String::new();
        says.read_line(&mut uri).unwrap();
        let authority = uri.split_once("://").unwrap().1.split('/').next().unwrap();
        let server = authority.rsplit('@').next().unwrap().to_owned();
        Self { process, says, server }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // Its command does not know yet.
        drop(self.process.stdin.take());
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.says.read_line(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success());
    }

    fn listens(&self) -> bool {
        TcpStream::connect(&self.server).is_ok()
    }
}

struct World {
    kind: Kind,
    dir: TempDir,
}

impl World {
    fn new(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The server may run as another user, if we are root.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["tmp", "cache"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        // What is in the real cache is not gotten again.
        if let Some(home) = (kind.package)() {
            symlink(&home, dir.path().join("cache").join(home.file_name().unwrap())).unwrap();
        }
        Self { kind, dir }
    }

    fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hub-testbed"));
        command.args([self.kind.name, "run"]).env_remove(self.kind.variable);
        command.env("TMPDIR", self.tmp()).env("EVENT_HUB_CACHE", self.dir.path().join("cache"));
        command
    }

    /// The directories of servers.
    fn directories(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.tmp()).unwrap().map(|entry| entry.unwrap());
        let ours =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("event-hub-testbed-"));
        ours.map(|entry| entry.path()).collect()
    }

    /// The one directory of a server.
    fn directory(&self) -> PathBuf {
        let found = self.directories();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }

    /// The process of the server in `directory`, as it has written it down itself.
    fn process_of(&self, directory: &Path, server: &str) -> Pid {
        let port = server.rsplit(':').next().unwrap();
        let noted = directory.join(format!("data-{port}")).join(self.kind.pid_file);
        let noted = fs::read_to_string(noted).unwrap();
        Pid::from_raw(noted.lines().next().unwrap().trim().parse().unwrap()).unwrap()
    }
}

/// Waits until nobody holds the directory any more: no server, no watchdog, no process that made it.
fn released(lock: &File) {
    lock.lock().unwrap();
}

/// A server by its processes. Its port tells nothing once it is free: another may have taken it by then.
struct Server(Vec<OwnedFd>);

impl Server {
    fn of(process: Pid) -> Self {
        let number = process.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap();
        let children = children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap());
        // One that serves a connection may have ended in this moment.
        let children = children.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self(children.chain([pidfd_open(process, PidfdFlags::empty()).unwrap()]).collect())
    }

    /// The locks of a process that ends may be free before it has ended.
    fn ended(&self) {
        for process in &self.0 {
            retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], None)).unwrap();
        }
    }
}

fn lock_of(directory: &Path) -> File {
    File::open(directory.join("lock")).unwrap()
}

pub fn a_process_that_is_killed_leaves_no_server_and_no_data(kind: Kind) {
    let world = World::new(kind);
    let run = Run::start(&world, &[]);
    assert!(run.listens());
    let directory = world.directory();
    let lock = lock_of(&directory);
    assert!(lock.try_lock().is_err());
    // It could notice that its files are gone, and end by itself; frozen, it cannot.
    let process = world.process_of(&directory, &run.server);
    let server = Server::of(process);
    kill_process(process, Signal::STOP).unwrap();
    run.kill();
    released(&lock);
    server.ended();
    assert!(!directory.exists());
}

pub fn a_command_that_ends_leaves_nothing_and_its_exit_code_is_passed_on(kind: Kind) {
    let world = World::new(kind);
    let run = Run::start(&world, &[]);
    let server = Server::of(world.process_of(&world.directory(), &run.server));
    run.end();
    server.ended();
    assert!(world.directories().is_empty());

    let code = |script: &str| world.command().args(["--", "sh", "-c", script]).status().unwrap().code();
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(128 + 9));
    assert!(world.directories().is_empty());
}

pub fn a_shared_server_outlives_whoever_started_it_and_ends_after_the_last(kind: Kind) {
    let world = World::new(kind);
    let first = Run::start(&world, &["--shared"]);
    let second = Run::start(&world, &["--shared"]);
    let server = first.server.clone();
    assert_eq!(second.server, server);
    let directory = world.directory();
    let process = Server::of(world.process_of(&directory, &server));
    let lock = lock_of(&directory);
    first.kill();
    let third = Run::start(&world, &["--shared"]);
    assert_eq!(third.server, server);
    assert!(second.listens());
    second.end();
    third.kill();
    released(&lock);
    process.ended();
    assert!(!directory.exists());
    // The next one does not trust what was written down.
    let fourth = Run::start(&world, &["--shared"]);
    assert!(fourth.listens());
    let lock = lock_of(&world.directory());
    fourth.end();
    released(&lock);
}
