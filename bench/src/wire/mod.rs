//! The hub over sockets. It runs in a process of its own; this one has the clients, which read every frame they get.

mod client;
mod consume;
mod fan_out;
mod latency;
mod memory;
mod publish;
mod schemas;
mod sdk;
mod server;

pub use client::{Client, publish, publish_batch, read};
pub use fan_out::{hub as fan_out_to, publish_all};
pub use publish::over_sockets;
pub use server::{SERVER, Server, TOKEN, serve};

use crate::cli::Options;
use crate::measure::Scale;
use crate::report::Report;
use crate::store::place::Place;
use anyhow::Result;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// See [`mod@publish`].
    Publish,
    /// See [`consume`].
    Consume,
    /// See [`latency`].
    Latency,
    /// See [`fan_out`].
    FanOut,
    /// See [`memory`].
    Memory,
    /// See [`schemas`].
    Schemas,
    /// See [`sdk`].
    Sdk,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "publish" => Some(Self::Publish),
            "consume" => Some(Self::Consume),
            "latency" => Some(Self::Latency),
            "fan-out" => Some(Self::FanOut),
            "memory" => Some(Self::Memory),
            "schemas" => Some(Self::Schemas),
            "sdk" => Some(Self::Sdk),
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
    if options.wants(Part::Consume) {
        consume::run(&place, scale, report).await?;
    }
    if options.wants(Part::Latency) {
        latency::run(&place, scale, report).await?;
    }
    if options.wants(Part::FanOut) {
        fan_out::run(&place, scale, report).await?;
    }
    if options.wants(Part::Memory) {
        memory::run(&place, scale, report).await?;
    }
    if options.wants(Part::Schemas) {
        schemas::run(&place, scale, report).await?;
    }
    if options.wants(Part::Sdk) {
        sdk::run(&place, scale, report).await?;
    }
    Ok(())
}
