//! Opening the embedded store.

use crate::config::Config;
use anyhow::{Context, Result, bail};
use hub_store_embedded::{EmbeddedStore, OpenError, Options};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Opens the store of the data directory, which is made if it is not there.
pub async fn open(config: &Config) -> Result<EmbeddedStore> {
    let Config { segment_bytes, disk_reserve, .. } = *config;
    let options = Options { segment_bytes, disk_reserve, ..Options::default() };
    let data = config.data.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let what = format!("making {}", data.display());
        make(&data).map_err(|error| OpenError::Io { what, error })?;
        EmbeddedStore::open(&data, options)
    });
    let opened = opened.await;
    opened.context("opening the store")?.or_else(|error| refused(&config.data, &error))
}

/// Makes a data directory that is not there, for this user only: nothing in it is encrypted. One that is there stays as it
/// is.
pub fn make(data: &Path) -> io::Result<()> {
    if let Some(parent) = data.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(data) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn refused<T>(data: &Path, error: &OpenError) -> Result<T> {
    let data = data.display();
    match error {
        OpenError::Locked(_) => bail!(
            "{data} is in use by another process; a data directory has one hub at a time: stop that one, or choose \
             another directory with --data"
        ),
        OpenError::Damaged(_) => {
            bail!("{error}; `event-hub doctor {data}` says what is wrong and what can be done")
        }
        OpenError::Io { .. } => bail!("{error}; check that {data} can be read and written by this user"),
        OpenError::Newer { .. } => bail!("{error}"),
    }
}
