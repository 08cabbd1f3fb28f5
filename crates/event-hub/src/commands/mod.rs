//! One module per command: its arguments, and what it does.

pub mod backup;
pub mod cluster;
pub mod codegen;
pub mod completions;
pub mod config;
pub mod dlq;
pub mod doctor;
pub mod event;
pub mod export;
pub mod groups;
pub mod import;
pub mod jobs;
pub mod outbox;
pub mod policy;
pub mod publish;
pub mod push;
pub mod replay;
pub mod revoke;
pub mod schemas;
pub mod serve;
pub mod store;
pub mod subscribe;
pub mod token;
pub mod top;
pub mod topics;

use anyhow::{Context, bail};
use hub_store_embedded::disk::RealDisk;
use std::io;
use std::path::Path;

/// A data directory that is there already.
fn directory(path: &Path, read_only: bool) -> anyhow::Result<RealDisk> {
    if std::env::var_os("MONGO_URL").is_some() {
        let place = path.display();
        note!(
            "note: MONGO_URL is set, and a hub with it keeps its events in MongoDB; this is about the embedded store in \
             {place} alone (`event-hub cluster ls` shows the hubs on MongoDB)"
        );
    }
    let opened = if read_only { RealDisk::read_only(path) } else { RealDisk::existing(path) };
    let place = path.display();
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("{place} does not exist"),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            bail!("{place} is not a directory; the data directory of a hub is expected")
        }
        opened => opened.with_context(|| format!("{place} cannot be read")),
    }
}
