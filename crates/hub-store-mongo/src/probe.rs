//! Asking a database that fails how it is.
//!
//! A hub that is not ready gets no publishes, and without a publish nobody would notice that the database is back. So
//! after a failed commit it is asked, once a second, until a majority takes a write again.

use crate::db::Db;
use crate::health::HealthBoard;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// At most one task that asks. It ends with this value.
#[derive(Default)]
pub struct Probe(Mutex<Option<JoinHandle<()>>>);

impl Probe {
    /// Begins to ask, unless somebody does.
    pub fn start(&self, db: &Db, health: &Arc<HealthBoard>) {
        let mut task = self.0.lock();
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (db, health) = (db.clone(), health.clone());
        *task = Some(tokio::spawn(async move {
            while health.is_failing() {
                tokio::time::sleep(PAUSE).await;
                // Its first part is a write that changes nothing, and waits for a majority.
                if db.fresh_session().await.is_ok() {
                    health.takes_writes();
                }
            }
        }));
    }

    /// Ends it.
    pub fn stop(&self) {
        if let Some(task) = self.0.lock().take() {
            task.abort();
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop();
    }
}
