//! The audit log: JSON lines that tell who was refused and why, and every admin action.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what a line says, and which refusals have one | `entry.rs` |
//! | how many lines there may be, and which are dropped | `queue.rs` |
//! | the thread that writes | `writer.rs` |
//! | the newest lines, for `GET /audit` | `recent.rs` |
//!
//! Recording a line never blocks: it goes into a bounded queue, and one thread writes what has come together. A queue that is full, or
//! a rate that is used up, drops the line and counts it; a line with the event `suppressed` tells later how many were dropped. Allowed
//! admin actions have a queue limit and a rate of their own, so a flood of refusals drops none of them.
//!
//! A line never has a token or a payload. Values that a client chooses are cut and escaped.

mod entry;
mod queue;
mod recent;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use entry::{Entry, Event, Outcome, Via, event_of};
pub(crate) use recent::RecentLines;

use entry::wall_millis;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use queue::Queue;
use recent::Recent;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the audit log goes. Clones write to the same log; the default is none. The newest lines are kept in memory in any case.
#[derive(Clone, Default)]
pub struct Audit {
    log: Option<Arc<Log>>,
    recent: Arc<Recent>,
}

/// The log behind the clones of an [`Audit`]. Its writer ends with the last of them.
struct Log {
    queue: Arc<Queue>,
    /// The file, if it is one: it can be opened again.
    path: Option<PathBuf>,
}

/// A file that [`Audit::prepare_reopen`] has opened.
#[must_use = "lines go to the old file until it is committed"]
#[derive(Debug)]
pub struct Reopened(File);

impl Audit {
    /// No audit log.
    pub fn off() -> Self {
        Self::default()
    }

    /// Appends to a file, which is made if it is missing, readable by its owner only. `rate` is the number of lines per second.
    ///
    /// # Errors
    /// If the file cannot be opened, or is not a regular file or a device, or the writer's thread cannot be started.
    pub fn to_file(path: &Path, rate: u32) -> io::Result<Self> {
        let file = open(path)?;
        Self::start(Box::new(file), Some(path.to_owned()), rate)
    }

    /// Writes to `sink`, on a thread of its own, whole lines at a time.
    ///
    /// # Errors
    /// If the writer's thread cannot be started.
    pub fn to_writer(sink: impl Write + Send + 'static, rate: u32) -> io::Result<Self> {
        Self::start(Box::new(sink), None, rate)
    }

    fn start(sink: queue::Sink, path: Option<PathBuf>, rate: u32) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(rate));
        writer::start(queue.clone(), sink)?;
        Ok(Self { log: Some(Arc::new(Log { queue, path })), recent: Arc::default() })
    }

    /// Records a line, unless there are too many. Never blocks.
    pub(crate) fn record(&self, entry: &Entry<'_>) {
        let now = wall_millis();
        self.recent.offer(entry.class(), |line| entry.write(now, line));
        if let Some(log) = &self.log {
            log.queue.offer(entry.class(), |line| entry.write(now, line));
        }
    }

    /// The newest lines of this hub, at most `most`.
    pub(crate) fn recent(&self, most: usize) -> RecentLines {
        self.recent.newest(most)
    }

    /// Changes the number of lines per second.
    pub fn set_rate(&self, rate: u32) {
        if let Some(log) = &self.log {
            log.queue.set_rate(rate);
        }
    }

    /// Opens the file of [`Audit::to_file`] again, for a log that was renamed by a rotation. Nothing changes yet; `None` for a log that
    /// is no file.
    ///
    /// # Errors
    /// As [`Audit::to_file`]; then the old file stays in use.
    pub fn prepare_reopen(&self) -> io::Result<Option<Reopened>> {
        let path = self.log.as_ref().and_then(|log| log.path.as_ref());
        path.map(|path| open(path).map(Reopened)).transpose()
    }

    /// Writes to the file that was opened again from now on.
    pub fn commit_reopen(&self, reopened: Reopened) {
        if let Some(log) = &self.log {
            log.queue.replace_sink(Box::new(reopened.0));
        }
    }

    /// Writes what is queued and ends the log; lines that come later are dropped. Blocks until that is done, at most for `patience`;
    /// answers whether it was done.
    pub fn close(&self, patience: Duration) -> bool {
        self.log.as_ref().is_none_or(|log| log.queue.close(patience))
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let (lines, dropped) = match &self.log {
            Some(log) => (log.queue.written.clone(), log.queue.dropped.clone()),
            None => (Counter::default(), Counter::default()),
        };
        registry.register("audit_lines", "Lines written to the audit log", lines);
        let help = "Lines that the audit log does not have: over its rate, its queue was full, or they could not be written";
        registry.register("audit_dropped", help, dropped);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close(Duration::ZERO);
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("has_log", &self.log.is_some()).finish_non_exhaustive()
    }
}

/// Opens a file for appending. A pipe could block the start, so it is refused.
fn open(path: &Path) -> io::Result<File> {
    if let Ok(about) = std::fs::metadata(path)
        && !about.is_file()
        && !about.file_type().is_char_device()
    {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a regular file nor a device"));
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
