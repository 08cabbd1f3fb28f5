//! Draining outboxes into a hub on the embedded store, beside what their databases can do.

mod bare;
mod databases;
mod drain;
mod idle;

use crate::cli::Options;
use crate::measure::Scale;
use crate::report::Report;
use anyhow::Result;
use databases::Database;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// MongoDB.
    Mongo,
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Part {
    /// The part with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "mongo" => Some(Self::Mongo),
            "postgres" => Some(Self::Postgres),
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }
}

/// Measures the parts that `options` name.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    if options.wants(Part::Mongo) {
        one(&databases::Mongo::start().await?, options, scale, report).await?;
    }
    if options.wants(Part::Postgres) {
        one(&databases::Postgres::start().await?, options, scale, report).await?;
    }
    if options.wants(Part::Sqlite) {
        one(&databases::Sqlite::start(options.dir.as_deref())?, options, scale, report).await?;
    }
    Ok(())
}

async fn one(
    database: &impl Database,
    options: &Options<Part>,
    scale: Scale,
    report: &mut Report,
) -> Result<()> {
    drain::run(database, options.dir.as_deref(), scale, report).await?;
    idle::run(database, options.dir.as_deref(), scale, report).await
}
