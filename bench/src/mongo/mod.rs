//! Hubs on MongoDB, on a replica set of one node on this machine, beside what its driver does by itself.

mod bare;
mod catch_up;
mod news;
mod place;
mod publish;
mod tape;

use crate::cli::Options;
use crate::measure::Scale;
use crate::report::Report;
use anyhow::Result;
use place::Place;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// See [`publish`].
    Publish,
    /// See [`news`].
    News,
    /// See [`catch_up`].
    CatchUp,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "publish" => Some(Self::Publish),
            "news" => Some(Self::News),
            "catch-up" => Some(Self::CatchUp),
            _ => None,
        }
    }
}

/// Measures the parts that `options` name.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    let place = Place::start().await?;
    if options.wants(Part::Publish) {
        publish::run(&place, scale, report).await?;
    }
    if options.wants(Part::News) {
        news::run(&place, scale, report).await?;
    }
    if options.wants(Part::CatchUp) {
        catch_up::run(&place, scale, report).await?;
    }
    Ok(())
}
