//! The HTTP side of a hub that runs in a process of its own: exports, server-sent events, and what viewers cost others.

mod client;
mod events;
mod export;
mod viewers;

use crate::cli::Options;
use crate::measure::Scale;
use crate::report::Report;
use crate::store::place::Place;
use anyhow::Result;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// See [`export`].
    Export,
    /// See [`events`].
    Events,
    /// See [`viewers`].
    Viewers,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "export" => Some(Self::Export),
            "events" => Some(Self::Events),
            "viewers" => Some(Self::Viewers),
            _ => None,
        }
    }
}

/// Measures the parts that `options` name.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    let place = Place::on_disk(options.dir.as_deref())?;
    if options.wants(Part::Export) {
        export::run(&place, scale, report).await?;
    }
    if options.wants(Part::Events) {
        events::run(&place, scale, report).await?;
    }
    if options.wants(Part::Viewers) {
        viewers::run(&place, scale, report).await?;
    }
    Ok(())
}
