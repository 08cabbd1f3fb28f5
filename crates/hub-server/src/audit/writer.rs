//! The thread that writes the audit log. It may block as long as it likes: a disk that hangs holds up nobody else.

use super::queue::{Queue, Sink, Work};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two log lines about a sink that does not take lines.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// Starts it; it ends after the queue is closed.
pub(super) fn start(queue: Arc<Queue>, sink: Sink) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("audit".into());
    thread.spawn(move || {
        let mut writer = Writer { sink, is_torn: false, complained: None };
        loop {
            let Work { sink, text, is_last } = queue.next();
            if let Some(sink) = sink {
                (writer.sink, writer.is_torn) = (sink, false);
            }
            let lines = writer.write(text);
            queue.written.inc_by(lines.written);
            queue.dropped.inc_by(lines.lost);
            if is_last {
                return queue.end();
            }
        }
    })?;
    Ok(())
}

pub(super) struct Writer {
    pub sink: Sink,
    /// The last write ended in the middle of a line.
    pub is_torn: bool,
    /// When the sink failed and a log line told of it.
    pub complained: Option<Instant>,
}

/// What became of lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub written: u64,
    pub lost: u64,
}

impl Writer {
    /// Writes lines; those that cannot be written are lost.
    pub fn write(&mut self, mut text: Vec<u8>) -> Lines {
        if text.is_empty() {
            return Lines { written: 0, lost: 0 };
        }
        let all = count(&text);
        let was_torn = self.is_torn;
        if was_torn {
            // What follows half a line must not become part of it.
            text.insert(0, b'\n');
        }
        let (length, failed) = self.write_bytes(&text);
        let (written, rest) = text.split_at(length);
        let lost = count(rest).min(all);
        self.is_torn = written.last().map_or(was_torn, |last| *last != b'\n');
        match failed {
            None => self.complained = None,
            Some(error) => self.complain(&error, lost),
        }
        Lines { written: all - lost, lost }
    }

    /// Writes as much as the sink takes: how much that is, and why not all.
    fn write_bytes(&mut self, text: &[u8]) -> (usize, Option<io::Error>) {
        let mut length = 0;
        while length < text.len() {
            match self.sink.write(&text[length..]) {
                Ok(0) => return (length, Some(io::ErrorKind::WriteZero.into())),
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (length, Some(error)),
            }
        }
        (length, self.sink.flush().err())
    }

    fn complain(&mut self, error: &io::Error, lost: u64) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
            self.complained = Some(Instant::now());
            tracing::error!(%error, lost, "audit log cannot be written");
        }
    }
}

fn count(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
