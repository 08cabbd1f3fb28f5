//! Several hubs that append to one topic at once.

use super::world::{T0, World, assert_log_is, commit, draft, draft_with, fresh_id, log, new, seqs, topic};
use hub_core::store::{Appended, Commit, EventStore};
use hub_proto::EventId;
use hub_store_mongo::MongoStore;
use hub_testbed::mongodb::bson::doc;

/// A small generator: rounds can be run again.
struct Luck(u64);

impl Luck {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Publishes batches, and answers what it was told: ids and seqs in its order.
async fn publish(store: MongoStore, name: &'static str, seed: u64, batches: usize) -> Vec<(EventId, u64)> {
    let mut luck = Luck(seed);
    let mut told = Vec::new();
    for _ in 0..batches {
        let count = 1 + luck.below(20);
        let drafts: Vec<_> = (0..count).map(|n| draft(name, &n.to_string())).collect();
        let ids: Vec<_> = drafts.iter().map(|draft| draft.id()).collect();
        let answers = commit(&store, drafts).await.into_iter().map(|answer| new(answer).seq());
        told.extend(ids.into_iter().zip(answers));
        if luck.below(3) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(luck.below(4))).await;
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hubs_on_one_topic_make_one_log_without_gaps() {
    let world = World::new().await;
    for seed in 0..4_u64 {
        let name: &'static str = ["a", "b", "c", "d"][seed as usize];
        let (one, two) = tokio::join!(world.store(), world.store());
        let tasks = [
            tokio::spawn(publish(one.clone(), name, seed, 40)),
            tokio::spawn(publish(two.clone(), name, seed + 100, 40)),
        ];
        let mut told = Vec::new();
        for task in tasks {
            let mine = task.await.unwrap();
            assert!(mine.is_sorted_by_key(|(_, seq)| *seq), "each hub's events are in its order");
            told.extend(mine);
        }
        told.sort_unstable_by_key(|(_, seq)| *seq);
        let ids: Vec<_> = told.iter().map(|(id, _)| *id).collect();
        assert_eq!(
            told.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(),
            (1..=ids.len() as u64).collect::<Vec<_>>()
        );
        assert_log_is(&one, name, &ids).await;
        assert_log_is(&two, name, &ids).await;
    }
}

/// Publishes one event and answers its seq.
async fn publish_one(store: &MongoStore) -> u64 {
    new(commit(store, vec![draft("a", "1")]).await.remove(0)).seq()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_has_written_lets_another_hub_write_next() {
    const ROUNDS: usize = 10;
    let world = World::new().await;
    let ((one, trap), two) = (world.victim(world.options()).await, world.store().await);
    // The first hub loses a race, so it knows that there is another.
    publish_one(&one).await;
    publish_one(&two).await;
    publish_one(&one).await;
    let mut turns = 0;
    for _ in 0..ROUNDS {
        // A hub gives way for twice the time that its insert took, at most 250 ms.
        trap.set(1, &["insert"], doc! { "blockConnection": true, "blockTimeMS": 150 }).await;
        publish_one(&one).await;
        let store = one.clone();
        let first = tokio::spawn(async move { publish_one(&store).await });
        // A hub that does not give way is done before the other begins.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let second = publish_one(&two).await;
        turns += usize::from(second < first.await.unwrap());
    }
    // A busy machine may hold the second hub up for longer than the first one waits, but not every other time.
    assert!(turns * 2 >= ROUNDS, "the second hub was first in {turns} of {ROUNDS} rounds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_begins_with_its_first_event_however_early_it_is_asked() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    for n in 0..100 {
        let (writer, name) = (one.clone(), topic(&format!("t{n}")));
        let drafts = (0..8).map(|event| draft(name.as_str(), &event.to_string())).collect();
        let written = tokio::spawn(async move { commit(&writer, drafts).await });
        loop {
            let (bounds, before) = tokio::join!(two.bounds(&name), two.seq_before(&name, T0));
            assert_eq!(before.unwrap(), 0, "nothing was committed before that");
            let bounds = bounds.unwrap();
            if bounds.last > 0 {
                assert_eq!(bounds.first, 1);
                break;
            }
        }
        written.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_two_hubs_publish_at_once_is_stored_once() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    for _ in 0..30 {
        let ids: Vec<_> = (0..5).map(|_| fresh_id()).collect();
        let batch = || ids.iter().map(|&id| draft_with("t", id, "{\"a\":1}")).collect::<Vec<_>>();
        let (first, second) = tokio::join!(commit(&one, batch()), commit(&two, batch()));
        for (a, b) in first.into_iter().zip(second) {
            let seq = |answer: &Appended| match answer {
                Appended::New { event, .. } => (event.seq(), true),
                Appended::Known { seq, same, .. } => {
                    assert!(same);
                    (*seq, false)
                }
                Appended::Twin { .. } => panic!("it is small: {answer:?}"),
            };
            let ((a, a_new), (b, b_new)) = (seq(&a.unwrap()), seq(&b.unwrap()));
            assert_eq!(a, b);
            assert!(a_new ^ b_new, "one of them was the first");
        }
    }
    assert_eq!(seqs(&log(&one, "t").await), (1..=150).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_times_do_not_go_back_between_hubs_whose_clocks_differ() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    for round in 0..20 {
        let (ahead, behind) = (T0 + 1000 + round, T0 + round);
        let commit = |now| Commit { now, events: vec![draft("t", "1")], ..Commit::default() };
        tokio::join!(one.commit(commit(ahead)), two.commit(commit(behind)));
    }
    let times: Vec<_> = log(&one, "t").await.iter().map(|event| event.committed()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(
        one.seq_before(&topic("t"), T0 + 1000).await.unwrap(),
        times.partition_point(|&at| at < T0 + 1000) as u64
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_topics_in_one_commit_each_keep_their_order() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    let names: Vec<String> = (0..50).map(|n| format!("t.{n}")).collect();
    let batch = || (0..200).map(|n| draft(&names[n % 50], &n.to_string())).collect::<Vec<_>>();
    let (first, second) = tokio::join!(commit(&one, batch()), commit(&two, batch()));
    for answers in [first, second] {
        let events: Vec<_> = answers.into_iter().map(new).collect();
        for topic in &names {
            let of_topic: Vec<_> = events.iter().filter(|event| event.topic().as_str() == topic).collect();
            assert_eq!(of_topic.len(), 4);
            assert!(of_topic.is_sorted_by_key(|event| event.seq()));
        }
    }
    for topic in &names {
        assert_eq!(seqs(&log(&one, topic).await), (1..=8).collect::<Vec<_>>());
    }
}
