//! How fast rows are drained.

use super::bare;
use super::databases::Database;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::Bus;
use hub_core::outbox::{Drainer, DrainerOptions, NewRow, OutboxStore};
use hub_proto::Payload;
use hub_store_embedded::{EmbeddedStore, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Rows of a turn, over so many keys.
const ROWS: usize = 20_000;
const KEYS: usize = 1_000;
/// Of what goes one by one, a part is enough.
const ONE_BY_ONE: usize = 20;
/// Of the ceiling at least, and times what goes one by one.
const OF_BARE: f64 = 0.6;
const OF_ONE: f64 = 8.0;

/// A hub on a disk, in a directory that goes with it.
pub struct Hub {
    pub bus: Bus,
    _directory: tempfile::TempDir,
}

impl Hub {
    pub async fn open(dir: Option<&Path>) -> Result<Self> {
        let directory = match dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        };
        let path = directory.path().join("data");
        let store =
            tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, Options::default())).await??;
        Ok(Self { bus: Bus::builder(store).open().await?, _directory: directory })
    }
}

async fn fill(store: &dyn OutboxStore, rows: usize) -> Result<()> {
    for from in (0..rows).step_by(1_000) {
        let some = (from..rows.min(from + 1_000)).map(|n| {
            Ok(NewRow::new("orders", Payload::of(&(n as i64 + (1 << 33)))?)
                .key(format!("order-{}", n % KEYS)))
        });
        store.add(some.collect::<Result<_>>()?).await?;
    }
    Ok(())
}

/// Measures and reports.
pub async fn run<D: Database>(
    database: &D,
    dir: Option<&Path>,
    scale: Scale,
    report: &mut Report,
) -> Result<()> {
    let rows = scale.events(ROWS);
    let (mut drained, mut bare, mut one) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        bare.push(ceiling(database, rows).await?);
        drained.push(turn(database, dir, rows).await?);
        one.push(one_by_one(database, dir, rows / ONE_BY_ONE).await?);
    }
    let name = D::NAME;
    report.figure(Figure::new(format!("{name}: drained"), &drained, "rows/s"));
    report.figure(Figure::new(format!("{name}: claimed and marked alone"), &bare, "rows/s"));
    report.figure(Figure::new(format!("{name}: one by one"), &one, "rows/s"));
    let figure = Figure::ratio(format!("{name}: drained to claimed and marked alone"), &drained, &bare);
    report.figure(figure.limit(Limit::AtLeast(OF_BARE)));
    let figure = Figure::ratio(format!("{name}: drained to one by one"), &drained, &one);
    report.figure(figure.limit(Limit::AtLeast(OF_ONE)));
    Ok(())
}

async fn ceiling<D: Database>(database: &D, rows: usize) -> Result<f64> {
    let outbox = database.fresh().await?;
    fill(&*outbox.store, rows).await?;
    let watch = Stopwatch::start();
    bare::run(&*outbox.store, rows, DrainerOptions::default().batch_size).await?;
    Ok(watch.stop().rate(rows))
}

async fn turn<D: Database>(database: &D, dir: Option<&Path>, rows: usize) -> Result<f64> {
    let (outbox, hub) = (database.fresh().await?, Hub::open(dir).await?);
    fill(&*outbox.store, rows).await?;
    let watch = Stopwatch::start();
    let bus = Arc::new(hub.bus.clone());
    let drainer = Drainer::new(outbox.store.clone(), bus, DrainerOptions::default());
    let (progress, stop) = (drainer.progress(), CancellationToken::new());
    let running = tokio::spawn(drainer.run(stop.clone()));
    while progress.drained().sent < rows as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    // What is not marked yet is marked by then.
    running.await?;
    let cost = watch.stop();
    hub.bus.stop().await?;
    Ok(cost.rate(rows))
}

async fn one_by_one<D: Database>(database: &D, dir: Option<&Path>, rows: usize) -> Result<f64> {
    let (outbox, hub) = (database.fresh().await?, Hub::open(dir).await?);
    fill(&*outbox.store, rows).await?;
    let watch = Stopwatch::start();
    let mut done = 0;
    while (outbox.one_by_one)(hub.bus.clone()).await? {
        done += 1;
    }
    let cost = watch.stop();
    hub.bus.stop().await?;
    anyhow::ensure!(done == rows, "{done} of {rows} rows were published");
    Ok(cost.rate(rows))
}
