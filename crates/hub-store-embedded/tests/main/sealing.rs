//! Upkeep beside commits: segments that are full do not wait for all rewrites.

use crate::ledger::{T0, draft, small};
use crate::threads::{LIMIT, event, given, options, seqs, topic};
use crate::watched::{Call, Watched};
use hub_core::store::{CleanPolicy, Commit, EventStore};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::sim::SimDisk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tokio::sync::mpsc::unbounded_channel;

/// Rewrites during which segments fill up.
const REWRITES: u64 = 4;
/// Segments that fill up during each: as many as may wait without holding up commits.
const ROLLS: u64 = 2;

/// The number of the segment that is written to.
fn last_log(disk: &SimDisk) -> u64 {
    let names = disk.names();
    names.iter().filter_map(|name| name.strip_prefix("log-")?.parse().ok()).max().unwrap()
}

/// Fills segments of which a compaction leaves a quarter. Two of them become one by a rewrite.
async fn fill(disk: &SimDisk) {
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap();
    let mut number = 0;
    while last_log(disk) <= 3 * REWRITES {
        let events = vec![draft("state", number, Some(&format!("k{}", number / 4)))];
        store.commit(Commit { now: T0 + number, events, ..Commit::default() }).await;
        number += 1;
    }
    drop(store);
    disk.process_death();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_that_fill_up_during_a_rewrite_are_sealed_before_the_next_one() {
    let disk = SimDisk::new(1);
    fill(&disk).await;
    let (tell, mut begun) = unbounded_channel();
    let (go_on, held) = channel::<()>();
    let held = Mutex::new(held);
    // Each rewrite stops when it makes its segment, until the test lets it go on or is over.
    let watched = Watched::with(&disk, move |call| {
        if matches!(call, Call::Create(name) if name.starts_with("kept-") && !name.contains(".idx")) {
            let _ = tell.send(());
            let _ = held.lock().recv();
        }
    });
    let store = EmbeddedStore::open_on(Arc::new(watched), options()).unwrap();
    // Dropped before the store, also by a panic: that waits for its upkeep.
    let go_on = go_on;
    let policy = CleanPolicy { compact: true, ids_since: T0 + (1 << 30), ..CleanPolicy::default() };
    assert!(store.clean(&topic("state"), policy).await.unwrap().removed > 0);
    let first = last_log(&disk);
    let mut published = 0;
    for rewrite in 0..REWRITES {
        tokio::time::timeout(LIMIT, begun.recv()).await.expect("there is another rewrite");
        let (last, names) = (last_log(&disk), disk.names());
        let unsealed: Vec<u64> =
            (first..last).filter(|number| !names.contains(&format!("log-{number:08}.idx"))).collect();
        assert_eq!(unsealed, [] as [u64; 0], "at rewrite {rewrite}");
        while last_log(&disk) < last + ROLLS {
            published += 1;
            let commit = tokio::time::timeout(LIMIT, store.commit(event("a", published))).await;
            given(commit.expect("a commit does not wait for a rewrite")).unwrap();
        }
        go_on.send(()).unwrap();
    }
    assert_eq!(last_log(&disk), first + REWRITES * ROLLS);
    drop(go_on);
    assert_eq!(seqs(&store, "a").await, (1..=published).collect::<Vec<_>>());
    store.close().await.unwrap();
}
