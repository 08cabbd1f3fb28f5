//! Several hubs over one MongoDB, each a process of its own, while hubs, MongoDB and the network between them fail.
//!
//! Publishers, members of a group and watchers work through all of it, and write down what they see. At the end
//! everything has to be accounted for: `checks` is the list of promises.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what was seen, and what has to be true of it | `ledger`, `checks` |
//! | who works | `publisher`, `member`, `watcher`, `load` |
//! | the processes | `hubs` |
//! | what happens to them | `together`, `owner`, `elections`, `network` |

mod checks;
mod elections;
mod hubs;
mod ledger;
mod load;
mod member;
mod network;
mod owner;
mod publisher;
mod together;
mod watcher;

use ledger::Ledger;
use std::time::{Duration, Instant};

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Events before and after something happens.
const SOME: u64 = 300;
/// A publish is answered within 20 s. The rest is for a machine that is busy with everything else.
const ANSWERED_WITHIN: Duration = Duration::from_secs(28);
/// How often everything happens, for long runs.
const ROUNDS: &str = "EVENT_HUB_FAILOVER_ROUNDS";

fn rounds(usual: u64) -> u64 {
    std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// Runs clients on threads of their own; this one may wait for processes.
fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future);
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Waits until it is so.
async fn until(what_else: &str, ledger: &Ledger, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what_else} within {PATIENCE:?}:\n{}", ledger.shown());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
