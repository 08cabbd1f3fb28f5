//! Publishers, members and watchers over several hubs, and the end of it all: everything is accounted for.

use super::checks::check;
use super::hubs::{Addresses, Hubs};
use super::ledger::{Ledger, Watched};
use super::{member, publisher, soon, until, watcher};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the tasks share.
pub struct Load {
    pub ledger: Arc<Ledger>,
    pub addresses: Addresses,
    /// Publishers stop.
    enough: watch::Sender<bool>,
    /// Counts up when everybody should go where they belong.
    turn: watch::Sender<u64>,
    /// Members and watchers stop.
    over: watch::Sender<bool>,
}

/// A load that runs.
pub struct Running {
    load: Arc<Load>,
    publishers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn is_enough(&self) -> bool {
        *self.enough.borrow()
    }

    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    pub fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// Changes when everybody should go where they belong, and at the end.
    pub fn turn(&self) -> watch::Receiver<u64> {
        self.turn.subscribe()
    }
}

impl Running {
    /// A publisher, a watcher and two members at every hub.
    pub fn start(hubs: &Hubs, ledger: &Arc<Ledger>) -> Self {
        let load = Arc::new(Load {
            ledger: ledger.clone(),
            addresses: hubs.addresses(),
            enough: watch::Sender::new(false),
            turn: watch::Sender::new(0),
            over: watch::Sender::new(false),
        });
        ledger.with(|records| records.watched.resize(hubs.len(), Watched::default()));
        let (mut publishers, mut others) = (Vec::new(), Vec::new());
        for hub in 0..hubs.len() {
            publishers.push(tokio::spawn(publisher::publish(load.clone(), hub as u64, hub)));
            others.push(tokio::spawn(watcher::watch(load.clone(), hub, hub)));
            for _ in 0..2 {
                others.push(tokio::spawn(member::consume(load.clone(), hub)));
            }
        }
        Self { load, publishers, others }
    }

    /// Waits until so many more events are answered, and so many more acked.
    pub async fn goes_on(&self, events: u64) {
        let ledger = &self.load.ledger;
        let (answered, settled) = (ledger.answered() + events, ledger.settled() + events);
        let is_so = || ledger.answered() >= answered && ledger.settled() >= settled;
        until("not enough goes through", ledger, is_so).await;
    }

    /// Sends everybody back to the hub where they began.
    pub fn go_home(&self) {
        self.load.turn.send_modify(|turn| *turn += 1);
    }

    /// Ends it, and checks everything.
    pub async fn finish(self, hubs: &Hubs) {
        let Self { load, publishers, others } = self;
        let ledger = &load.ledger;
        load.enough.send_replace(true);
        for publisher in publishers {
            soon(publisher).await.unwrap();
        }
        let all = ledger.answered();
        until("not all events are acked", ledger, || ledger.settled() >= all).await;
        // Acks without an answer are among them: whether they count, the hub says. Nothing may be stuck.
        hubs.caught_up().await;
        let all_of = |it: &Watched| it.seen.len() as u64 + it.missed >= all;
        let seen = || ledger.with(|records| records.watched.iter().all(all_of));
        until("not all events are seen everywhere", ledger, seen).await;
        load.over.send_replace(true);
        load.turn.send_modify(|turn| *turn += 1);
        for other in others {
            soon(other).await.unwrap();
        }
        let exports = soon(hubs.exports()).await;
        ledger.with(|records| {
            let (figures, wrong) = check(records, &exports);
            println!("{figures}");
            let some = wrong[..wrong.len().min(20)].join("\n");
            assert!(wrong.is_empty(), "{} things are wrong:\n{some}", wrong.len());
        });
    }
}
