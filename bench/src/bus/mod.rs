//! The bus in one process, on the memory store: what the engine itself costs, without disk and sockets.
//!
//! Measurements open buses of their own ([`hub`]), so that none inherits another's memory, and what is compared takes turns.

mod catch_up;
mod handle;
mod hub;
mod idle;
mod live;
mod publish;
mod tail;

use crate::cli::Options;
use crate::measure::Scale;
use crate::report::Report;
use anyhow::Result;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// See [`publish`].
    Publish,
    /// See [`tail`].
    Tail,
    /// See [`live`].
    Live,
    /// See [`catch_up`].
    CatchUp,
    /// See [`idle`].
    Idle,
    /// See [`handle`].
    Handle,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "publish" => Some(Self::Publish),
            "tail" => Some(Self::Tail),
            "live" => Some(Self::Live),
            "catch-up" => Some(Self::CatchUp),
            "idle" => Some(Self::Idle),
            "handle" => Some(Self::Handle),
            _ => None,
        }
    }
}

/// Measures the parts that `options` name.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    if options.wants(Part::Publish) {
        publish::run(scale, report).await?;
    }
    if options.wants(Part::Tail) {
        tail::run(scale, report).await?;
    }
    if options.wants(Part::Live) {
        live::run(scale, report).await?;
    }
    if options.wants(Part::CatchUp) {
        catch_up::run(scale, report).await?;
    }
    if options.wants(Part::Idle) {
        idle::run(scale, report).await?;
    }
    if options.wants(Part::Handle) {
        handle::run(scale, report).await?;
    }
    Ok(())
}
