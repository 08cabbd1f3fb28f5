//! Logs: one line per event on standard error, by RUST_LOG.

use crate::term::wants_colour;
use anyhow::{Result, anyhow};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging.
pub fn start() -> Result<()> {
    let filter = match std::env::var_os("RUST_LOG") {
        None => EnvFilter::new("info"),
        Some(text) => {
            let text = text.to_str().ok_or_else(|| anyhow!("RUST_LOG is not UTF-8 text"))?;
            EnvFilter::try_new(text).map_err(|error| {
                anyhow!(
                    "RUST_LOG is {text:?}: {error}; it is a level (error, warn, info, debug, trace, off) or levels of \
                     parts, such as info,hub_server=debug"
                )
            })?
        }
    };
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    format.with_ansi(std::io::stderr().is_terminal() && wants_colour()).init();
    Ok(())
}
