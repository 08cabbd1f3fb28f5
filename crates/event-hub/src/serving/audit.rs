//! Opening the audit log, and closing it.

use crate::config::audit::{Audit as Settings, AuditLog};
use anyhow::{Context, Result};
use hub_server::Hub;
use hub_server::audit::Audit;
use std::io;
use std::time::Duration;

/// What is queued has so long to be written when the hub stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the log that the configuration names.
///
/// # Errors
/// If it is a file that cannot be opened.
pub fn open(settings: &Settings) -> Result<Audit> {
    match &settings.log {
        AuditLog::Off => Ok(Audit::off()),
        AuditLog::Stderr => Audit::to_writer(io::stderr(), settings.rate).context("starting the audit log"),
        AuditLog::Stdout => Audit::to_writer(io::stdout(), settings.rate).context("starting the audit log"),
        AuditLog::File(path) => Audit::to_file(path, settings.rate).with_context(|| {
            format!(
                "audit.log is {}, which cannot be opened for appending; choose a file that this user can write, \"stderr\", \
                 \"stdout\" or \"off\"",
                path.display()
            )
        }),
    }
}

/// Writes what is queued.
pub async fn close(hub: &Hub) {
    let audit = hub.audit().clone();
    let closed = tokio::task::spawn_blocking(move || audit.close(CLOSE_TIMEOUT)).await;
    if !closed.unwrap_or(false) {
        tracing::warn!("the audit log takes no lines; the last ones are lost");
    }
}
