//! What has to be done now and then, and nobody waits for.

use super::OnError;
use crate::Millis;
use crate::outbox::store::{Holding, OutboxStore};
use crate::store::StoreResult;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use std::sync::Arc;

/// Rows that are removed at once.
const PURGE: usize = 500;
/// Keys that are looked at together.
const KEYS: usize = 256;

pub(super) struct Rules {
    /// How long sent rows are kept.
    pub keep: Millis,
    /// What parked rows do to their keys.
    pub on_error: OnError,
    /// Rows of a key that are released at once.
    pub batch: usize,
}

pub(super) async fn keep(
    store: &dyn OutboxStore,
    me: &str,
    is_mine: impl Fn(&str) -> bool,
    rules: Rules,
) -> StoreResult<()> {
    while store.purge(rules.keep, PURGE).await? == PURGE as u64 {}
    // Rows that are behind nothing any more: somebody has removed what was before them, or died before it said so.
    let mut after: Option<Arc<str>> = None;
    loop {
        let keys = store.keys_behind(after.as_deref(), KEYS).await?;
        let Some(last) = keys.last().cloned() else { return Ok(()) };
        let mine: Vec<_> = keys.into_iter().filter(|key| is_mine(key)).collect();
        if !mine.is_empty() {
            // What it holds itself counts: it is released with that.
            let of = Holding { worker: "", parked: rules.on_error == OnError::Hold, behind: false };
            let held: HashSet<_, RandomState> =
                store.holding(&mine, of).await?.into_iter().filter_map(|row| row.key).collect();
            let free: Vec<_> = mine.into_iter().filter(|key| !held.contains(key)).collect();
            if !free.is_empty() {
                tracing::debug!(
                    outbox = store.name(),
                    drainer = me,
                    keys = free.len(),
                    "rows behind nothing go on"
                );
                store.release(&free, rules.batch).await?;
            }
        }
        after = Some(last);
    }
}
