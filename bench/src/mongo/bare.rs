//! What the driver does by itself: the same documents, with the same indexes and concerns.

use crate::measure::{Cost, Stopwatch};
use anyhow::{Context, Result, ensure};
use futures_util::TryStreamExt;
use hub_testbed::TestDatabase;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::{Acknowledgment, ReadConcern, WriteConcern};
use mongodb::{Collection, IndexModel};

const EVENTS: &str = "events";

fn durable() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build()
}

/// Everything in a database's log, in the order of a topic.
async fn documents(database: &TestDatabase) -> Result<Vec<RawDocumentBuf>> {
    let events: Collection<RawDocumentBuf> = database.connect().await?.collection(EVENTS);
    let found = events.find(doc! {}).sort(doc! { "topic": 1, "seq": 1 }).await?;
    Ok(found.try_collect().await?)
}

/// Inserts the documents of a run again, elsewhere, in commits of these sizes, one after the other.
pub async fn insert(from: &TestDatabase, into: &TestDatabase, sizes: &[usize]) -> Result<Cost> {
    let documents = documents(from).await?;
    ensure!(documents.len() >= sizes.iter().sum(), "fewer events are stored than were committed");
    let (from, into) = (from.connect().await?, into.connect().await?);
    let source: Collection<RawDocumentBuf> = from.collection(EVENTS);
    let mut indexes: Vec<IndexModel> = source.list_indexes().await?.try_collect().await?;
    indexes.retain(|index| index.keys != doc! { "_id": 1 });
    ensure!(indexes.len() > 2, "the log has its indexes");
    let events: Collection<RawDocumentBuf> = into.collection(EVENTS);
    for index in indexes {
        events.create_index(index).await?;
    }
    let mut rest = &documents[..];
    let stopwatch = Stopwatch::start();
    for &size in sizes {
        let (batch, behind) = rest.split_at(size);
        events.insert_many(batch).ordered(true).write_concern(durable()).await?;
        rest = behind;
    }
    Ok(stopwatch.stop())
}

/// Reads a topic from its beginning by the index that hubs read by, and looks at nothing.
pub async fn find(database: &TestDatabase, topic: &str, count: usize) -> Result<Cost> {
    let events: Collection<RawDocumentBuf> = database.connect().await?.collection(EVENTS);
    let stopwatch = Stopwatch::start();
    let found = events.find(doc! { "topic": topic, "seq": { "$gt": 0_i64 } }).sort(doc! { "seq": 1 });
    let mut found =
        found.read_concern(ReadConcern::majority()).batch_size(1024).await.context("a bare find")?;
    let mut read = 0;
    while found.advance().await? {
        std::hint::black_box(found.current().as_bytes().len());
        read += 1;
    }
    ensure!(read == count, "{read} of {count} events were found");
    Ok(stopwatch.stop())
}
