//! The hub that serves the group is killed, stopped or frozen. The others go on.

use super::hubs::Hubs;
use super::ledger::Ledger;
use super::load::Running;
use super::{SOME, rounds, run};
use std::sync::Arc;

/// Three hubs over one database, with their load.
async fn three() -> (hub_testbed::TestDatabase, Hubs, Running, Arc<Ledger>) {
    let database = hub_testbed::database().await.unwrap();
    let ledger = Arc::new(Ledger::default());
    let hubs = Hubs::start(&vec![database.uri(); 3], &ledger);
    let load = Running::start(&hubs, &ledger);
    (database, hubs, load, ledger)
}

#[test]
fn a_hub_that_is_killed_has_a_successor_and_nothing_acknowledged_is_lost() {
    run(async {
        let (_database, mut hubs, load, ledger) = three().await;
        for round in 1..=rounds(2) {
            load.goes_on(SOME).await;
            let owner = hubs.owner().await;
            let killed = hubs.kill(owner);
            let next = hubs.owner_but(Some(owner)).await;
            load.goes_on(SOME).await;
            println!(
                "round {round}: {owner} killed, {next} took over; quiet for {:?}",
                ledger.quiet_since(killed)
            );
            hubs.start_again(owner);
            load.go_home();
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
    });
}

#[test]
fn a_hub_that_is_stopped_hands_its_groups_over_and_nothing_acked_comes_again() {
    run(async {
        let (_database, mut hubs, load, ledger) = three().await;
        for round in 1..=rounds(2) {
            load.goes_on(SOME).await;
            let owner = hubs.owner().await;
            let stopped = hubs.stop(owner);
            let next = hubs.owner_but(Some(owner)).await;
            load.goes_on(SOME).await;
            hubs.ended(owner);
            println!(
                "round {round}: {owner} stopped, {next} took over; quiet for {:?}",
                ledger.quiet_since(stopped)
            );
            hubs.start_again(owner);
            load.go_home();
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
    });
}

#[test]
fn a_hub_that_wakes_up_after_its_groups_were_taken_over_neither_delivers_nor_saves() {
    run(async {
        let (_database, mut hubs, load, ledger) = three().await;
        for round in 1..=rounds(1) {
            load.goes_on(SOME).await;
            let owner = hubs.owner().await;
            let frozen = hubs.freeze(owner);
            let next = hubs.owner_but(Some(owner)).await;
            load.goes_on(SOME).await;
            println!(
                "round {round}: {owner} froze, {next} took over; quiet for {:?}",
                ledger.quiet_since(frozen)
            );
            hubs.thaw(owner);
            hubs.logs(owner, "another hub has taken over a group");
            load.goes_on(SOME).await;
            load.go_home();
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
    });
}
