//! Files that a backup copies: the store removes none of them meanwhile.

use crate::manifest;
use crate::shared::Shared;
use hub_core::store::{LogEnd, PinnedFiles, StoreError, StoreResult};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts the backups that copy files at present.
#[derive(Debug, Default)]
pub struct Pins(AtomicUsize);

impl Pins {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.0.load(SeqCst) > 0
    }
}

/// One backup.
struct Pin(Arc<Pins>);

impl Pin {
    fn new(pins: &Arc<Pins>) -> Self {
        pins.0.fetch_add(1, SeqCst);
        Self(pins.clone())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

/// Pins the files of the store as they are now.
///
/// The order matters. The pin comes first: a manifest that is read after it names no file that is removed. The end of the log comes
/// last: it lies behind everything that the manifest covers.
pub fn pin(shared: &Shared) -> StoreResult<PinnedFiles> {
    let guard = Box::new(Pin::new(&shared.pins));
    let read = || -> io::Result<(PathBuf, Vec<u8>)> {
        let newest = manifest::newest(&*shared.disk)?;
        let newest = newest.ok_or_else(|| io::Error::other("no copy of the manifest can be read"))?;
        let directory = match shared.disk.path_of("") {
            Some(path) => path.canonicalize()?,
            None => PathBuf::from(shared.disk.place()),
        };
        Ok((directory, newest.encode()))
    };
    let (directory, manifest) = read().map_err(|error| shared.refused("pinning files", &error))?;
    let tail = shared.tail();
    if let Some(why) = &tail.failed {
        let why = format!("{}: the end of the log is not known after an error: {why}", shared.disk.place());
        return Err(StoreError::Unavailable(why));
    }
    // What was written and is not synced yet counts, too: the copy reads it, and syncs it in its own place.
    let end = LogEnd {
        segment: tail.segment.id.number(),
        nonce: tail.segment.nonce,
        bytes: tail.end,
        commit: tail.number,
    };
    drop(tail);
    Ok(PinnedFiles { directory, manifest, end, guard })
}
