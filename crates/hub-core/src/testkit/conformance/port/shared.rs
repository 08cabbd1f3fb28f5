//! What several hubs have in common. A store for one hub only leaves these cases out.

use super::super::Lab;
use super::records::{group, name, progress, state, subscription};
use super::tools::{Port, T0, on, plain, topic};
use crate::store::{
    Claim, Commit, GroupRecord, HubId, HubInfo, Ownership, Record, SharedStore, StoreError, StoreResult,
    SubscriptionRecord,
};

fn hub() -> HubInfo {
    let (address, version) = ("ws://127.0.0.1:8090/".into(), "1.2.3".into());
    HubInfo { id: HubId::random(), address, started: T0, version }
}

async fn open(lab: &Lab) -> Option<(Port, SharedStore)> {
    let port = lab.port().await;
    let shared = port.0.shared();
    if shared.is_none() {
        eprintln!("left out: the store is for one hub only");
    }
    shared.map(|shared| (port, shared))
}

/// Claims a name on what is known of it now.
async fn claim(shared: &SharedStore, name: &str, hub: HubId) -> u64 {
    let seen = shared.owner(name).await.unwrap().epoch;
    match shared.claim(name, seen, hub).await.unwrap() {
        Claim::Won { epoch, .. } => epoch,
        Claim::Lost(owner) => panic!("the claim was lost to {owner:?}"),
    }
}

impl Port {
    async fn write_under(&self, epoch: u64, records: Vec<Record>) -> Vec<StoreResult<()>> {
        let epochs = vec![epoch; records.len()];
        self.0.commit(Commit { now: T0, records, epochs, ..Commit::default() }).await.records
    }
}

pub(in super::super) async fn heartbeats_count_up_and_show_everybody(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two) = (hub(), hub());
    let first = shared.beat(&one).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].hub, one);
    shared.beat(&two).await.unwrap();
    let both = shared.beat(&one).await.unwrap();
    assert_eq!(both.len(), 2);
    let of = |hub: &HubInfo| both.iter().find(|beat| beat.hub == *hub).map(|beat| beat.count).unwrap();
    assert!(of(&one) > first[0].count && of(&two) > 0);
}

pub(in super::super) async fn a_hub_that_is_forgotten_is_gone(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two) = (hub(), hub());
    shared.beat(&one).await.unwrap();
    shared.forget(&[one.id, HubId::random()]).await.unwrap();
    let left = shared.beat(&two).await.unwrap();
    assert_eq!(left.iter().map(|beat| beat.hub.id).collect::<Vec<_>>(), [two.id]);
}

pub(in super::super) async fn each_claim_of_a_name_has_a_higher_epoch(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    assert_eq!(shared.owner("g").await.unwrap(), Ownership::default());
    let (one, two) = (hub().id, hub().id);
    let first = claim(&shared, "g", one).await;
    let second = claim(&shared, "g", two).await;
    assert!(first > 0 && second > first);
    let owner = shared.owner("g").await.unwrap();
    assert_eq!((owner.hub, owner.epoch), (Some(two), second));
    assert_eq!(claim(&shared, "other", one).await, first, "each name counts on its own");
    assert_eq!(shared.owned(two).await.unwrap(), [("g".to_owned(), second)]);
    assert_eq!(shared.owners().await.unwrap().len(), 2);
}

pub(in super::super) async fn a_claim_on_old_knowledge_is_lost(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two) = (hub().id, hub().id);
    let epoch = claim(&shared, "g", one).await;
    for seen in [0, epoch + 1] {
        match shared.claim("g", seen, two).await.unwrap() {
            Claim::Lost(owner) => assert_eq!((owner.hub, owner.epoch), (Some(one), epoch)),
            Claim::Won { epoch, .. } => panic!("won under epoch {epoch} having seen {seen}"),
        }
    }
}

pub(in super::super) async fn of_many_claims_at_once_one_is_won(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    for seen in 0..5 {
        let mut claims = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (shared, hub) = (shared.clone(), hub().id);
            claims.spawn(async move { shared.claim("g", seen, hub).await.unwrap() });
        }
        let won =
            claims.join_all().await.into_iter().filter(|claim| matches!(claim, Claim::Won { .. })).count();
        assert_eq!((won, shared.owner("g").await.unwrap().epoch), (1, seen + 1));
    }
}

pub(in super::super) async fn names_that_a_hub_owns_are_claimed_again_together(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two, edge) = (hub().id, hub().id, hub().id);
    let names: Vec<String> = (0..300).map(|n| format!("g{n}")).collect();
    for name in &names {
        claim(&shared, name, one).await;
    }
    claim(&shared, "g7", two).await;
    shared.set_edges("g8", 1, &[edge]).await.unwrap();
    let all: Vec<&str> = names.iter().map(String::as_str).chain(["unknown"]).collect();
    for times in 1..=2 {
        let mut renewed = shared.renew(&all, one).await.unwrap();
        renewed.sort_unstable();
        assert_eq!(renewed.len(), 299);
        assert!(renewed.iter().all(|(name, epoch)| name != "g7" && *epoch == 1 + times), "{renewed:?}");
        let mut owned = shared.owned(one).await.unwrap();
        owned.sort_unstable();
        assert_eq!(owned, renewed);
    }
    assert_eq!(shared.owner("g7").await.unwrap(), Ownership { hub: Some(two), epoch: 2, edges: vec![] });
    assert_eq!(shared.owner("g8").await.unwrap().edges, [edge], "edges stay noted");
    assert_eq!(shared.owner("unknown").await.unwrap(), Ownership::default());
    assert!(matches!(shared.claim("g9", 1, two).await.unwrap(), Claim::Lost(_)), "its epoch was raised");
    assert_eq!(shared.renew(&[], one).await.unwrap(), []);
}

pub(in super::super) async fn a_name_that_was_given_up_has_no_owner_and_keeps_its_edges(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two, edge) = (hub().id, hub().id, hub().id);
    let epoch = claim(&shared, "g", one).await;
    shared.set_edges("g", epoch, &[edge]).await.unwrap();
    shared.release(&[("g".into(), epoch + 1), ("unknown".into(), 1)]).await.unwrap();
    assert_eq!(shared.owner("g").await.unwrap().hub, Some(one), "not under another epoch");
    shared.release(&[("g".into(), epoch)]).await.unwrap();
    assert_eq!(shared.owner("g").await.unwrap(), Ownership { hub: None, epoch, edges: vec![edge] });
    assert_eq!(shared.owned(one).await.unwrap(), []);
    assert_eq!(shared.owners().await.unwrap(), []);
    match shared.claim("g", epoch, two).await.unwrap() {
        Claim::Won { edges, epoch: next } => assert_eq!((edges, next), (vec![edge], epoch + 1)),
        Claim::Lost(owner) => panic!("{owner:?}"),
    }
}

pub(in super::super) async fn edges_are_noted_by_the_owner_alone(lab: Lab) {
    let Some((_port, shared)) = open(&lab).await else { return };
    let (one, two, edge) = (hub().id, hub().id, hub().id);
    let old = claim(&shared, "g", one).await;
    let epoch = claim(&shared, "g", two).await;
    shared.set_edges("g", epoch, &[edge, one]).await.unwrap();
    let refused = shared.set_edges("g", old, &[]).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(shared.owner("g").await.unwrap().edges, [edge, one]);
}

pub(in super::super) async fn an_estate_is_everything_of_one_name(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    let elsewhere = GroupRecord { topic: topic("u"), ..group() };
    let other = GroupRecord { name: name("other"), ..group() };
    let list = SubscriptionRecord { label: "list".into(), topics: vec![topic("t")], ..subscription() };
    let of_other = SubscriptionRecord { group: name("other"), ..subscription() };
    let records = [group(), elsewhere.clone(), other].map(Record::Group);
    port.write(records.into()).await;
    port.write(vec![progress()]).await;
    port.write([subscription(), list.clone(), of_other].map(Record::Subscription).into()).await;
    let mut estate = shared.estate("g", 1).await.unwrap();
    estate.groups.sort_by(|a, b| a.record.topic.cmp(&b.record.topic));
    estate.subscriptions.sort_by(|a, b| a.label.cmp(&b.label));
    assert_eq!(estate.groups.iter().map(|stored| &stored.record).collect::<Vec<_>>(), [&group(), &elsewhere]);
    assert_eq!(estate.groups[0].state, state());
    assert_eq!(estate.subscriptions, [list, subscription()]);
    let nothing = shared.estate("unknown", 1).await.unwrap();
    assert!(nothing.groups.is_empty() && nothing.subscriptions.is_empty());
}

pub(in super::super) async fn who_lost_a_name_changes_nothing_of_it(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    let all = || {
        let changed = GroupRecord { driven: !group().driven, ..group() };
        let relisted = SubscriptionRecord { created: 1, ..subscription() };
        let Record::Progress(topic, group, mut step) = progress() else { unreachable!("it is one") };
        (step.reset, step.floor, step.high) = (true, 1, 1);
        (step.settled, step.tries) = (Vec::new(), Vec::new());
        vec![
            Record::Group(changed),
            Record::Progress(topic, group, step),
            Record::Subscription(relisted),
            Record::GroupGone(self::topic("t"), name("g")),
            Record::SubscriptionGone(subscription().label, name("g")),
        ]
    };
    port.write_under(4, vec![Record::Group(group()), progress(), Record::Subscription(subscription())]).await;
    shared.estate("g", 5).await.unwrap();
    for record in all() {
        let written = port.write_under(4, vec![record.clone()]).await;
        assert!(matches!(&written[..], [Err(StoreError::Fenced(_))]), "{record:?}: {written:?}");
    }
    let estate = shared.estate("g", 5).await.unwrap();
    assert_eq!(estate.groups.len(), 1);
    assert_eq!((&estate.groups[0].record, &estate.groups[0].state), (&group(), &state()));
    assert_eq!(estate.subscriptions, [subscription()]);
    for written in port.write_under(5, all()).await {
        written.unwrap();
    }
    assert!(shared.estate("g", 5).await.unwrap().groups.is_empty());
}

pub(in super::super) async fn a_fence_concerns_one_name_and_no_events(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    let other = GroupRecord { name: name("other"), ..group() };
    port.write([group(), other.clone()].map(Record::Group).into()).await;
    shared.estate("g", 5).await.unwrap();
    let records = vec![Record::Group(other), Record::Group(group())];
    let commit = Commit { now: T0, events: vec![plain(1)], records, epochs: vec![1, 1] };
    let committed = port.0.commit(commit).await;
    assert!(committed.events[0].is_ok() && committed.records[0].is_ok());
    assert!(matches!(committed.records[1], Err(StoreError::Fenced(_))));
    port.write(vec![Record::Group(group())]).await;
}

pub(in super::super) async fn names_that_are_idle_for_long_are_found(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    let idle = |name: &str, since| GroupRecord { name: self::name(name), idle_since: since, ..group() };
    let fan = SubscriptionRecord { group: name("fan"), idle_since: Some(T0), ..subscription() };
    let groups = [idle("old", Some(T0)), idle("new", Some(T0 + 10)), idle("used", None)];
    port.write(groups.map(Record::Group).into()).await;
    port.write(vec![Record::Subscription(fan)]).await;
    let mut names = shared.idle_since(T0 + 5).await.unwrap();
    names.sort_unstable();
    assert_eq!(names, ["fan", "old"]);
}

pub(in super::super) async fn groups_are_shown_as_last_saved(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    let elsewhere = GroupRecord { topic: topic("u"), ..group() };
    port.write(vec![Record::Group(group()), progress(), Record::Group(elsewhere)]).await;
    assert_eq!(shared.groups(None).await.unwrap().len(), 2);
    let of_t = shared.groups(Some(&[topic("t")])).await.unwrap();
    assert_eq!(of_t.len(), 1);
    assert_eq!((&of_t[0].record, &of_t[0].state), (&group(), &state()));
}

pub(in super::super) async fn tails_are_those_of_the_topics_asked_for(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    port.append(T0, vec![on("t", 1), on("u", 2), on("t", 3), on("v", 4)]).await;
    let mut all = shared.tails(None).await.unwrap();
    all.sort_unstable();
    assert_eq!(all, [(topic("t"), 2), (topic("u"), 1), (topic("v"), 1)]);
    let mut some = shared.tails(Some(&[topic("t"), topic("v"), topic("unknown")])).await.unwrap();
    some.sort_unstable();
    assert_eq!(some, [(topic("t"), 2), (topic("v"), 1)]);
}

pub(in super::super) async fn news_tell_of_what_is_committed_from_then_on(lab: Lab) {
    let Some((port, shared)) = open(&lab).await else { return };
    port.append(T0, vec![on("t", 1)]).await;
    let mut changes = shared.changes().await.unwrap();
    port.append(T0, vec![on("t", 2), on("u", 3), on("t", 4)]).await;
    let mut heard = std::collections::BTreeMap::new();
    while heard.get(&topic("t")) != Some(&3) || heard.get(&topic("u")) != Some(&1) {
        heard.extend(changes.next().await.unwrap());
    }
    port.append(T0, vec![on("u", 5)]).await;
    while heard.get(&topic("u")) != Some(&2) {
        heard.extend(changes.next().await.unwrap());
    }
}
