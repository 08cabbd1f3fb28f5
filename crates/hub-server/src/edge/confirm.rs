//! Asks the owner which of a member's acks are saved: until then they are kept, to be told to the next owner. A connection
//! that has fallen silent confirms nothing, however long that takes to be noticed.

use hub_client::{Connection, ErrorKind, Name};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Between two questions, of which there are some only while acks are not known to be saved.
const EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Confirmer {
    tracker: TaskTracker,
    connection: Connection,
    name: Arc<Name>,
    /// The member has left this owner.
    over: CancellationToken,
    acks: Arc<Acks>,
}

#[derive(Default)]
struct Acks {
    /// The number of the last ack that was sent.
    sent: AtomicU64,
    /// All up to this one are saved.
    saved: AtomicU64,
    is_asking: AtomicBool,
}

impl Confirmer {
    pub fn new(
        tracker: TaskTracker,
        connection: Connection,
        name: Arc<Name>,
        over: CancellationToken,
    ) -> Self {
        Self { tracker, connection, name, over, acks: Arc::default() }
    }

    /// An ack was sent, or brought along.
    pub fn sent(&self, number: u64) {
        self.acks.sent.fetch_max(number, SeqCst);
        if number > self.saved() && !self.acks.is_asking.swap(true, SeqCst) {
            let asking = ask(self.acks.clone(), self.connection.clone(), self.name.clone());
            let over = self.over.clone();
            self.tracker.spawn(async move {
                tokio::select! {
                    () = over.cancelled() => {}
                    () = asking => {}
                }
            });
        }
    }

    /// All acks up to this one are saved.
    pub fn saved(&self) -> u64 {
        self.acks.saved.load(SeqCst)
    }
}

/// Asks until everything is saved.
async fn ask(acks: Arc<Acks>, connection: Connection, name: Arc<Name>) {
    #[derive(Deserialize)]
    struct Saved {
        done: u64,
    }
    loop {
        tokio::time::sleep(EVERY).await;
        let upto = acks.sent.load(SeqCst);
        let question = json!({"topic": name.topic, "group": name.group, "upto": upto});
        // An ack that was sent before this was heard before this.
        let answer = connection.request("SAVED", &question).await;
        match answer.and_then(|answer| answer.read::<Saved>()) {
            Ok(Saved { done }) => drop(acks.saved.fetch_max(done, SeqCst)),
            // The member is about to look for another owner; or this one is of a version that cannot say.
            Err(error) if error.kind() == ErrorKind::Refused || connection.is_closed().is_some() => return,
            Err(error) => tracing::debug!(%error, "the owner of a group does not say which acks are saved"),
        }
        let is_done = || acks.saved.load(SeqCst) >= acks.sent.load(SeqCst);
        if is_done() {
            acks.is_asking.store(false, SeqCst);
            // One may have been sent in between.
            if is_done() || acks.is_asking.swap(true, SeqCst) {
                return;
            }
        }
    }
}
