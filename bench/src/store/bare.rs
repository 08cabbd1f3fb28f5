//! The limit: what was recorded of the log, written and synced by a bare loop, on one thread.

use super::tape::Step;
use crate::measure::Latencies;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Zeros written at once.
const STRIDE: usize = 1 << 20;

/// How the loop went.
pub struct Bare {
    /// All of it.
    pub wall: Duration,
    /// Microseconds from a write to the end of the sync that follows, one per sync.
    pub latencies: Latencies,
}

/// Does `steps` to a file of `directory` that is filled with zeros before, as segments are.
///
/// Blocks the thread; the file is gone afterwards.
pub fn replay(directory: &Path, steps: &[Step]) -> Result<Bare> {
    let path = directory.join("bare");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let sizes = steps.iter().map(|step| if let Step::Write(len) = step { *len as usize } else { 0 });
    let (total, largest) = (sizes.clone().sum::<usize>(), sizes.max().unwrap_or(0));
    let zeros = vec![0; STRIDE];
    for at in (0..total).step_by(STRIDE) {
        file.write_all_at(&zeros, at as u64)?;
    }
    file.sync_all()?;
    let bytes: Vec<u8> = (0..largest).map(|at| b'!' + (at % 90) as u8).collect();
    let mut latencies = Latencies::default();
    let mut offset = 0;
    let mut since = None;
    let started = Instant::now();
    for step in steps {
        match step {
            Step::Write(len) => {
                since.get_or_insert_with(Instant::now);
                file.write_all_at(&bytes[..*len as usize], offset)?;
                offset += u64::from(*len);
            }
            Step::Sync => {
                file.sync_data()?;
                latencies.extend(since.take().map(|since: Instant| since.elapsed().as_secs_f64() * 1e6));
            }
        }
    }
    let wall = started.elapsed();
    std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    Ok(Bare { wall, latencies })
}
