//! Ends servers whose test is gone.
//!
//! A destructor does not run in a process that is killed, and Linux's "signal me when my parent dies" is about the thread
//! that started the child, which in a test ends long before the process. So a small shell stands by. It reads a pipe whose
//! other end only this process has; when the pipe ends, for whatever reason, it kills what it was told to guard and
//! removes the directory. It has a process group of its own: what is sent to the group of the test does not reach it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::family::FINISH;
use crate::scratch::Scratch;

const SCRIPT: &str = r#"
pids=
while read -r what pid; do
    case $what in
        guard) pids="$pids $pid" ;;
        forget)
            rest=
            for one in $pids; do [ "$one" = "$pid" ] || rest="$rest $one"; done
            pids=$rest ;;
        leave) exit 0 ;;
    esac
done
finish "$1" $pids
"#;

/// A watchdog, and the directory that it removes in the end. Dropping it ends everything that it guards.
#[derive(Debug)]
pub struct Watchdog {
    scratch: Scratch,
    shell: Child,
}

impl Watchdog {
    /// Starts one, over a new directory.
    pub(crate) fn start() -> Result<Self> {
        let scratch = Scratch::new()?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg([FINISH, SCRIPT].concat()).arg("testbed-watchdog").arg(scratch.path());
        command.stdin(Stdio::piped()).stdout(scratch.held_by_child()?).stderr(Stdio::null());
        command.current_dir("/").process_group(0);
        let shell = command.spawn().context("cannot start /bin/sh, which guards the servers")?;
        Ok(Self { scratch, shell })
    }

    /// The directory.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Kills the process `pid` when this process is gone.
    pub(crate) fn guard(&mut self, pid: u32) -> Result<()> {
        self.tell("guard", pid)
    }

    /// The process `pid` is gone, or about to go for certain.
    pub(crate) fn forget(&mut self, pid: u32) -> Result<()> {
        self.tell("forget", pid)
    }

    /// Ends the watchdog without ending or removing anything: somebody else guards it all from now on.
    pub(crate) fn leave(&mut self) -> Result<()> {
        self.tell("leave", 0)
    }

    fn tell(&mut self, what: &str, pid: u32) -> Result<()> {
        let pipe = self.shell.stdin.as_mut().context("the watchdog was sent away")?;
        pipe.write_all(format!("{what} {pid}\n").as_bytes()).context("the watchdog is gone; was it killed?")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The end of the pipe is the sign. Waiting makes sure that the directory is gone when the test is over.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
