//! What wakes a drainer: a change stream on the collection.

use super::MongoOutbox;
use crate::calls::GIVEN_UP;
use crate::error::Trouble;
use futures_util::StreamExt;
use futures_util::future::poll_fn;
use hub_core::outbox::Woken;
use mongodb::Collection;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::options::ReadConcern;
use std::fmt;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How long the server waits for news before it says that there are none.
const PATIENCE: Duration = Duration::from_secs(1);
/// Changes that are passed over at once.
const AT_ONCE: usize = 10_000;

/// The stream, once somebody has asked for news.
pub struct News {
    rows: Collection<RawDocumentBuf>,
    stream: Mutex<Option<ChangeStream<RawDocumentBuf>>>,
    /// Nobody is to wait for news any more.
    over: CancellationToken,
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("News").finish_non_exhaustive()
    }
}

impl News {
    pub fn of(rows: &Collection<RawDocumentBuf>) -> Self {
        Self { rows: rows.clone(), stream: Mutex::default(), over: CancellationToken::new() }
    }

    /// Gives the stream up, which the driver waits for at its end. A task that waits for news is refused.
    pub async fn end(&self) {
        self.over.cancel();
        *self.stream.lock().await = None;
    }
}

impl MongoOutbox {
    pub(super) async fn wait_for_news(&self) -> Result<Woken, Trouble> {
        tokio::select! {
            biased;
            () = self.news.over.cancelled() => Err(Trouble::Busy(GIVEN_UP)),
            woken = self.hear() => woken,
        }
    }

    async fn hear(&self) -> Result<Woken, Trouble> {
        let mut stream = self.news.stream.lock().await;
        let Some(open) = stream.as_mut() else {
            // Rows that are written, and those that somebody gives back. Claims and marks are none of it.
            let written = doc! { "operationType": "insert" };
            let returned = doc! { "updateDescription.updatedFields.next_at": { "$exists": true } };
            let pipeline =
                [doc! { "$match": { "$or": [written, returned] } }, doc! { "$project": { "_id": 1 } }];
            let watch = self.news.rows.watch().pipeline(pipeline).max_await_time(PATIENCE);
            let watch = watch.read_concern(ReadConcern::majority());
            match self.call(watch).await {
                Ok(open) => *stream = Some(open.with_type()),
                Err(trouble) if trouble.is_passing() => return Err(trouble),
                Err(trouble) => {
                    let (outbox, why) = (&self.name, trouble.words());
                    tracing::warn!(
                        outbox,
                        why,
                        "there is no change stream on an outbox; it is looked at now and then"
                    );
                    return Ok(Woken::Never);
                }
            }
            // Whatever was there before it was opened.
            return Ok(Woken::News);
        };
        let mut change = open.next().await;
        for _ in 0..AT_ONCE {
            if !matches!(change, Some(Ok(_))) {
                break;
            }
            match poll_fn(|context| Poll::Ready(open.poll_next_unpin(context))).await {
                Poll::Ready(next) => change = next,
                Poll::Pending => return Ok(Woken::News),
            }
        }
        match change {
            Some(Ok(_)) => Ok(Woken::News),
            Some(Err(error)) => {
                *stream = None;
                Err(error.into())
            }
            // The collection was dropped, or renamed.
            None => {
                *stream = None;
                Ok(Woken::News)
            }
        }
    }
}
