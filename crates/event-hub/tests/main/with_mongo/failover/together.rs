//! Nothing fails: two hubs do what one would.

use super::hubs::Hubs;
use super::ledger::Ledger;
use super::load::Running;
use super::run;
use std::sync::Arc;

#[test]
fn two_hubs_publish_to_one_topic_and_share_a_group_in_one_order() {
    run(async {
        let database = hub_testbed::database().await.unwrap();
        let ledger = Arc::new(Ledger::default());
        let hubs = Hubs::start(&vec![database.uri(); 2], &ledger);
        let load = Running::start(&hubs, &ledger);
        load.goes_on(2_000).await;
        load.finish(&hubs).await;
        let hubs_used = ledger.with(|records| {
            let mut used: Vec<_> = records.holdings.iter().map(|held| records.lives[held.life].hub).collect();
            used.sort_unstable();
            used.dedup();
            used.len()
        });
        assert_eq!(hubs_used, 2, "members of both hubs got events");
    });
}
