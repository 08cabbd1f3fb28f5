//! A server and the processes that it has started: PostgreSQL has one per connection and some of its own, MongoDB none.
//!
//! A crash of the machine, or of a container, ends them all at once. Somebody who kills the first alone leaves the others
//! to find out, and until they have, the server cannot be started again.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Child;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal, waitid,
};

/// What a shell does that ends servers: `finish DIRECTORY PROCESS…` kills them with what they have started, and removes
/// their data. They are stopped first, so that they start nothing more and the numbers of their children stay theirs.
///
/// The last line of it is about PostgreSQL, which has a few bytes of System V shared memory that nobody frees when it is
/// killed; its number is the second of two on a line of a file.
pub const FINISH: &str = r#"
finish() {
    dir=$1
    shift
    for one in "$@"; do kill -STOP "$one"; done
    for one in "$@"; do
        children=$(cat "/proc/$one/task/$one/children") && [ -n "$children" ] && kill -9 $children
    done
    for one in "$@"; do kill -9 "$one"; done
    for file in "$dir"/data-*/postmaster.pid; do
        [ -f "$file" ] && ipcrm -m "$(sed -n 's/^ *[0-9][0-9]*  *\([0-9][0-9]*\) *$/\1/p' "$file")"
    done
    rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }
}
"#;

/// A family whose head, a child of this process, is stopped. Its members cannot become more.
#[derive(Debug)]
pub struct Family {
    head: Pid,
    others: Vec<OwnedFd>,
}

impl Family {
    /// Stops `head`, and finds what it has started.
    pub fn stop(head: &Child) -> Result<Self> {
        let head = pid_of(head)?;
        kill_process(head, Signal::STOP).context("cannot stop a server")?;
        // It is stopped a moment later. Looked at only: its end, should it have ended, is for others to take note of.
        let looked_at = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(head), looked_at)).context("cannot wait for a server to stop")?;
        let number = head.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        // Where the kernel does not tell, they end by themselves when the head is gone.
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw));
        let others = children.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
        Ok(Self { head, others })
    }

    /// Stops all of it: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.tell_others(Signal::STOP);
        Ok(())
    }

    /// Lets all of it go on.
    pub fn thaw(&self) -> Result<()> {
        self.tell_others(Signal::CONT);
        kill_process(self.head, Signal::CONT).context("cannot continue a server")
    }

    /// Kills all of it. The head is left for its parent to wait for.
    pub fn kill(&self) -> Result<()> {
        self.tell_others(Signal::KILL);
        kill_process(self.head, Signal::KILL).context("cannot kill a server")?;
        for other in &self.others {
            let mut ended = [PollFd::new(other, PollFlags::IN)];
            retry_on_intr(|| poll(&mut ended, None)).context("cannot wait for a server's end")?;
        }
        Ok(())
    }

    fn tell_others(&self, signal: Signal) {
        for other in &self.others {
            // It may have ended by itself.
            let _ = pidfd_send_signal(other, signal);
        }
    }
}

/// The id of a child, as the system calls want it.
pub fn pid_of(child: &Child) -> Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process has this id")
}
