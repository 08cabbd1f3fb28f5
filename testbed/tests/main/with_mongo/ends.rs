//! How servers end: with their users, whatever ends those.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use hub_testbed::URI_VARIABLE;
use hub_testbed::programs::Programs;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

/// A program that runs under `hub-testbed mongo run`, with a directory for temporary files and a cache of its own. It
/// ends when its input does.
struct Run {
    process: Child,
    says: BufReader<ChildStdout>,
    server: String,
}

impl Run {
    fn start(world: &World, options: &[&str]) -> Self {
        let mut command = world.command();
        let script = format!("echo ${URI_VARIABLE}; cat");
        command.args(options).args(["--", "sh", "-c", &script]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut says = BufReader::new(process.stdout.take().unwrap());
        let mut uri = String::new();
        says.read_line(&mut uri).unwrap();
        let server = uri.strip_prefix("mongodb://").unwrap().split('/').next().unwrap().to_owned();
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
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tmp", "cache"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        // What is in the real cache is not gotten again.
        let home = Programs::get().unwrap().path().parent().unwrap().to_owned();
        let name = home.file_name().unwrap();
        if name.to_string_lossy().starts_with("mongodb-") {
            symlink(&home, dir.path().join("cache").join(name)).unwrap();
        }
        Self { dir }
    }

    fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hub-testbed"));
        command.args(["mongo", "run"]).env_remove(URI_VARIABLE);
        command.env("TMPDIR", self.tmp()).env("EVENT_HUB_CACHE", self.dir.path().join("cache"));
        command
    }

    /// The one directory of a server.
    fn directory(&self) -> PathBuf {
        let found: Vec<_> = fs::read_dir(self.tmp()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }
}

/// Waits until nobody holds the directory any more: no server, no watchdog, no process that made it.
fn released(lock: &File) {
    lock.lock().unwrap();
}

/// The process of the server in `directory`, as it has written it down itself.
fn process_of(directory: &Path, server: &str) -> Pid {
    let port = server.rsplit(':').next().unwrap();
    let pid = fs::read_to_string(directory.join(format!("data-{port}/mongod.lock"))).unwrap();
    Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
}

/// A server by its process. Its port tells nothing once it is free: another may have taken it by then.
struct Server(OwnedFd);

impl Server {
    fn of(process: Pid) -> Self {
        Self(pidfd_open(process, PidfdFlags::empty()).unwrap())
    }

    /// The locks of a process that ends may be free before it has ended.
    fn ended(&self) {
        retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None)).unwrap();
    }
}

fn lock_of(directory: &Path) -> File {
    File::open(directory.join("lock")).unwrap()
}

#[test]
fn a_process_that_is_killed_leaves_no_server_and_no_data() {
    let world = World::new();
    let run = Run::start(&world, &[]);
    assert!(run.listens());
    let directory = world.directory();
    let lock = lock_of(&directory);
    assert!(lock.try_lock().is_err());
    // It could notice that its files are gone, and end by itself; frozen, it cannot.
    let process = process_of(&directory, &run.server);
    let server = Server::of(process);
    kill_process(process, Signal::STOP).unwrap();
    run.kill();
    released(&lock);
    server.ended();
    assert!(!directory.exists());
}

#[test]
fn a_command_that_ends_leaves_nothing_and_its_exit_code_is_passed_on() {
    let world = World::new();
    let run = Run::start(&world, &[]);
    let server = Server::of(process_of(&world.directory(), &run.server));
    run.end();
    server.ended();
    assert_eq!(fs::read_dir(world.tmp()).unwrap().count(), 0);

    let code = |script: &str| world.command().args(["--", "sh", "-c", script]).status().unwrap().code();
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -9 $$"), Some(128 + 9));
    assert_eq!(fs::read_dir(world.tmp()).unwrap().count(), 0);
}

#[test]
fn a_shared_server_outlives_whoever_started_it_and_ends_after_the_last() {
    let world = World::new();
    let first = Run::start(&world, &["--shared"]);
    let second = Run::start(&world, &["--shared"]);
    let server = first.server.clone();
    assert_eq!(second.server, server);
    let directory = world.directory();
    let process = Server::of(process_of(&directory, &server));
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
