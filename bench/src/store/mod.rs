//! The bus on the embedded store: what a disk gives, beside what it can give.
//!
//! Stores are put into directories of their own on a real disk, with the options a hub runs with. What publishing is held
//! to is measured in the same run ([`bare`]).

pub mod bare;
mod cursors;
mod lookup;
mod mixed;
pub mod place;
pub mod publish;
mod reopen;
mod scan;
mod tail;
pub mod tape;
mod victim;

pub use victim::{VICTIM, Victim};

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
    /// See [`mixed`].
    Mixed,
    /// See [`scan`].
    Scan,
    /// See [`tail`].
    Tail,
    /// See [`lookup`].
    Lookup,
    /// See [`cursors`].
    Cursors,
    /// See [`reopen`].
    Reopen,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "publish" => Some(Self::Publish),
            "mixed" => Some(Self::Mixed),
            "scan" => Some(Self::Scan),
            "tail" => Some(Self::Tail),
            "lookup" => Some(Self::Lookup),
            "cursors" => Some(Self::Cursors),
            "reopen" => Some(Self::Reopen),
            _ => None,
        }
    }
}

/// Measures the parts that `options` name.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    let place = Place::on_disk(options.dir.as_deref())?;
    if options.wants(Part::Publish) {
        publish::run(&place, scale, report).await?;
    }
    if options.wants(Part::Mixed) {
        mixed::run(&place, scale, report).await?;
    }
    if options.wants(Part::Scan) {
        scan::run(&place, scale, report).await?;
    }
    if options.wants(Part::Tail) {
        tail::run(&place, scale, report).await?;
    }
    if options.wants(Part::Lookup) {
        lookup::run(&place, scale, report).await?;
    }
    if options.wants(Part::Cursors) {
        cursors::run(&place, scale, report).await?;
    }
    if options.wants(Part::Reopen) {
        reopen::run(&place, scale, options.full, report).await?;
    }
    Ok(())
}
