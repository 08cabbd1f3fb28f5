//! News of what others have committed: one change stream on `events`, cut down to topic and seq.

use crate::db::Db;
use crate::error::Trouble;
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use futures_util::future::poll_fn;
use hub_core::store::{Changes, StoreError, StoreResult};
use hub_proto::TopicName;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

/// The most changes that are told at once; what is behind them comes with the next call.
const AT_ONCE: usize = 10_000;
/// How long the server waits for news before it says that there are none.
const PATIENCE: Duration = Duration::from_secs(1);

/// A change stream. What it has read ahead stays in it when a call is given up.
pub struct Listening {
    stream: ChangeStream<RawDocumentBuf>,
    /// Highest seqs that were taken from the stream and not told yet.
    heard: BTreeMap<TopicName, u64>,
}

/// Starts to listen.
pub async fn listen(db: &Db) -> Result<Listening, Trouble> {
    let inserts = doc! { "$match": { "operationType": "insert" } };
    let place = doc! { "$project": { "fullDocument.topic": 1, "fullDocument.seq": 1 } };
    let watch = db.events.watch().pipeline([inserts, place]).max_await_time(PATIENCE);
    let stream = db.call(watch).await?.with_type::<RawDocumentBuf>();
    Ok(Listening { stream, heard: BTreeMap::new() })
}

impl Changes for Listening {
    fn next(&mut self) -> BoxFuture<'_, StoreResult<Vec<(TopicName, u64)>>> {
        Box::pin(async move {
            if self.heard.is_empty() {
                let change = self.stream.next().await;
                self.take(change)?;
            }
            // Whatever else is there without waiting.
            for _ in 1..AT_ONCE {
                let Poll::Ready(change) =
                    poll_fn(|context| Poll::Ready(self.stream.poll_next_unpin(context))).await
                else {
                    break;
                };
                self.take(change)?;
            }
            Ok(std::mem::take(&mut self.heard).into_iter().collect())
        })
    }
}

impl Listening {
    fn take(&mut self, change: Option<mongodb::error::Result<RawDocumentBuf>>) -> StoreResult<()> {
        let lost =
            |why: String| StoreError::Unavailable(format!("the change stream on events has ended: {why}"));
        let change = change.ok_or_else(|| lost("the collection is gone".into()))?;
        let change = change.map_err(|error| lost(crate::error::words(&error)))?;
        let place = change.get_document("fullDocument");
        let found =
            place.ok().and_then(|place| Some((place.get_str("topic").ok()?, place.get_i64("seq").ok()?)));
        // What is no event was written by somebody else.
        if let Some((topic, seq)) = found
            && let (Ok(topic), Ok(seq)) = (TopicName::stored(topic), u64::try_from(seq))
        {
            let highest = self.heard.entry(topic).or_default();
            *highest = seq.max(*highest);
        }
        Ok(())
    }
}
