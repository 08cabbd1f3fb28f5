//! MongoDB loses its primary: it steps down, is killed, or stops answering.

use super::hubs::Hubs;
use super::ledger::Ledger;
use super::load::Running;
use super::{ANSWERED_WITHIN, SOME, rounds, run};
use hub_testbed::ReplicaSet;
use std::sync::Arc;
use std::time::Instant;

/// Two hubs on a set of three nodes; `harm` happens to its primary, and what it answers is done afterwards.
#[expect(clippy::needless_pass_by_value, reason = "a closure is passed as it is written")]
fn survives(usual: u64, harm: impl AsyncFn(&ReplicaSet) -> usize, heal: impl AsyncFn(&ReplicaSet, usize)) {
    run(async {
        let set = ReplicaSet::start(3).await.unwrap();
        let database = hub_testbed::database_on(&set.uri());
        let ledger = Arc::new(Ledger::default());
        let hubs = Hubs::start(&vec![database.uri(); 2], &ledger);
        let load = Running::start(&hubs, &ledger);
        for round in 1..=rounds(usual) {
            load.goes_on(SOME).await;
            let from = Instant::now();
            let node = harm(&set).await;
            load.goes_on(SOME).await;
            println!("round {round}: node {node} was primary; quiet for {:?}", ledger.quiet_since(from));
            heal(&set, node).await;
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
        let longest = ledger.with(|records| records.longest);
        assert!(longest < ANSWERED_WITHIN, "a publish had no answer for {longest:?}");
    });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_primary_steps_down() {
    let step_down = async |set: &ReplicaSet| {
        let old = set.primary().await.unwrap().index();
        set.step_down().await.unwrap();
        old
    };
    survives(2, step_down, async |_, _| {});
}

#[test]
fn nothing_acknowledged_is_lost_when_the_primary_is_killed() {
    let kill = async |set: &ReplicaSet| {
        let primary = set.primary().await.unwrap();
        primary.kill().unwrap();
        primary.index()
    };
    survives(1, kill, async |set, node| set.nodes()[node].restart().await.unwrap());
}

#[test]
fn nothing_acknowledged_is_lost_when_the_primary_stops_answering() {
    let freeze = async |set: &ReplicaSet| {
        let primary = set.primary().await.unwrap();
        primary.freeze().unwrap();
        primary.index()
    };
    survives(1, freeze, async |set, node| set.nodes()[node].thaw().unwrap());
}
