//! The ceiling: rows are claimed and marked, and nothing is published. The next batch is claimed while the last is marked.

use anyhow::{Result, ensure};
use hub_core::outbox::{Claim, OutboxStore, Outcome, RowId, Settled};

/// Claims and marks everything that is there.
pub async fn run(store: &dyn OutboxStore, rows: usize, batch: usize) -> Result<()> {
    let (mut done, mut number) = (0, 0);
    let mut marking: Option<(Claim, Vec<Settled>)> = None;
    loop {
        number += 1;
        let claim = Claim { worker: "bare".into(), number };
        let claiming = async {
            let fresh = store.fresh(None, batch).await?;
            let ids: Vec<RowId> = fresh.into_iter().map(|row| row.place.id).collect();
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            store.claim(&claim, &ids, 60_000, usize::MAX).await
        };
        let settling = async {
            match &marking {
                Some((claim, settled)) => store.settle(claim, settled).await,
                None => Ok(0),
            }
        };
        let (claimed, _) = tokio::try_join!(claiming, settling)?;
        done += claimed.len();
        let settled = claimed.into_iter().map(|row| Settled { id: row.place.id, outcome: Outcome::Sent });
        let settled: Vec<_> = settled.collect();
        if settled.is_empty() {
            break;
        }
        marking = Some((claim, settled));
    }
    ensure!(done == rows, "{done} of {rows} rows were claimed");
    Ok(())
}
