//! Where stores are put, and a bus over one of them.

use super::tape::{Tape, TapedDisk};
use anyhow::{Context, Result, bail};
use hub_core::{Bus, Config};
use hub_store_embedded::{EmbeddedStore, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What file systems in memory say they are.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory on a disk.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    /// The directory, if it is on a disk.
    pub fn on_disk(directory: Option<&Path>) -> Result<Self> {
        let directory = directory.map_or_else(std::env::temp_dir, Path::to_owned);
        let shown = directory.display();
        std::fs::create_dir_all(&directory).with_context(|| format!("making {shown}"))?;
        let found = rustix::fs::statfs(&directory).with_context(|| format!("looking at {shown}"))?;
        if IN_MEMORY.contains(&(found.f_type as i64)) {
            bail!("{shown} is in memory: name a directory on a disk with --dir");
        }
        Ok(Self(directory))
    }

    /// A directory of its own within it, which goes with the answer.
    pub fn fresh(&self) -> Result<TempDir> {
        let made = tempfile::Builder::new().prefix("hub-bench-").tempdir_in(&self.0);
        made.with_context(|| format!("making a directory in {}", self.0.display()))
    }
}

/// A bus over an embedded store.
pub struct Hub {
    pub bus: Bus,
    /// The store under it.
    pub store: Arc<EmbeddedStore>,
    /// What was done to the disk.
    pub tape: Arc<Tape>,
    /// Where it is; another file may be put beside it.
    pub directory: TempDir,
}

impl Hub {
    /// Opens an empty store with its default options, and waits until it is ready for full speed.
    pub async fn open(place: &Place, config: Config) -> Result<Self> {
        let directory = place.fresh()?;
        let (disk, tape) = TapedDisk::new(&directory.path().join("data"))?;
        let store = Arc::new(EmbeddedStore::open_on(Arc::new(disk), Options::default())?);
        let bus = Bus::builder_over(store.clone()).config(config).open().await?;
        tape.settle().await;
        Ok(Self { bus, store, tape, directory })
    }

    /// Closes the store and removes it.
    pub async fn close(self) -> Result<()> {
        self.bus.stop().await?;
        let removed = tokio::task::spawn_blocking(move || self.directory.close()).await?;
        removed.context("removing the store")
    }
}
