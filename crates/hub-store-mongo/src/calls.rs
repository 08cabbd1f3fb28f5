//! Giving a database up in order.
//!
//! The driver panics if its last task is gone while an operation asks for a connection, and it cleans up in tasks of its own when
//! a client is dropped. So whatever owns a client closes it before the runtime may end: first nothing new begins, then what is
//! under way comes to its end, then the driver cleans up.

use crate::db::within;
use crate::error::Trouble;
use mongodb::Client;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// What is under way, and what the driver has to clean up, has so long in all.
const CLOSING: Duration = Duration::from_secs(3);

/// What is said to those that ask for something afterwards.
pub const GIVEN_UP: &str = "the connection to the database was given up";

/// The calls to one database. Cloning gives another handle.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    under_way: TaskTracker,
}

impl Calls {
    /// Waits for a call, but not for ever. After [`close`](Self::close) none begins.
    pub fn within<T>(
        &self,
        limit: Duration,
        call: impl IntoFuture<Output = mongodb::error::Result<T>>,
    ) -> impl Future<Output = Result<T, Trouble>> {
        // Boxed: the futures of the driver are large, and each layer around one would be as large again.
        let call = Box::pin(call.into_future());
        async move {
            let _under_way = self.under_way.token();
            // Looked at behind that: one that begins while it is closed is waited for, or sees it.
            if self.under_way.is_closed() {
                return Err(Trouble::Busy(GIVEN_UP));
            }
            within(limit, call).await
        }
    }

    /// Gives the database up. What does not come to its end in time is left to itself.
    pub async fn close(&self, client: &Client) {
        self.under_way.close();
        let closing = async {
            self.under_way.wait().await;
            client.clone().shutdown().await;
        };
        if tokio::time::timeout(CLOSING, closing).await.is_err() {
            tracing::debug!("the database does not answer; its connections are closed as they are");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::future::{pending, ready};

    async fn client() -> Client {
        // Nobody is there; nothing is asked.
        Client::with_uri_str("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=10").await.unwrap()
    }

    #[tokio::test]
    async fn nothing_begins_after_a_close() {
        let (calls, client) = (Calls::default(), client().await);
        assert_eq!(calls.within(CLOSING, ready(Ok(7))).await.unwrap(), 7);
        calls.close(&client).await;
        let refused = calls.within(CLOSING, ready(Ok(7))).await;
        assert!(matches!(refused, Err(Trouble::Busy(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_close_waits_for_what_is_under_way() {
        let (calls, client) = (Calls::default(), client().await);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let call = tokio::spawn({
            let calls = calls.clone();
            async move {
                let answer = async {
                    let _ = ended.await;
                    Ok(())
                };
                calls.within(CLOSING, answer).await
            }
        });
        while calls.under_way.is_empty() {
            tokio::task::yield_now().await;
        }
        let mut closing = Box::pin(calls.close(&client));
        tokio::select! {
            biased;
            () = &mut closing => panic!("a call is under way"),
            () = tokio::task::yield_now() => {}
        }
        end.send(()).unwrap();
        closing.await;
        call.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_close_does_not_wait_for_ever() {
        let (calls, client) = (Calls::default(), client().await);
        let call = calls.within(10 * CLOSING, pending::<mongodb::error::Result<()>>());
        tokio::select! {
            biased;
            _ = call => panic!("it has no end"),
            () = calls.close(&client) => {}
        }
    }
}
