//! Ids are unique per topic, and remembered.

use super::super::Lab;
use super::tools::{T0, holding, id, keyed, known, new, on, plain, timed, topic};
use crate::store::{Appended, CleanPolicy};

pub(in super::super) async fn a_known_id_appends_nothing_and_answers_its_place(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    let again = port.commit(T0 + 9, vec![plain(1)]).await.remove(0);
    let Appended::Known { seq, ts, same, .. } = again else { panic!("appended again: {again:?}") };
    assert_eq!((seq, ts, same), (1, T0 + 1, true));
    assert_eq!(port.seqs().await, [1, 2]);
}

pub(in super::super) async fn an_id_twice_in_one_batch_is_appended_once(lab: Lab) {
    let port = lab.port().await;
    let mut answers = port.commit(T0, vec![plain(1), plain(2), plain(1), plain(3)]).await;
    assert_eq!(new(answers.remove(3)).seq(), 3);
    assert_eq!(known(&answers[2]), (1, true));
    assert_eq!(port.seqs().await, [1, 2, 3]);
}

pub(in super::super) async fn ids_with_a_time_may_come_in_any_order_and_are_known_when_they_come_again(
    lab: Lab,
) {
    let port = lab.port().await;
    let of = |name, numbers: &[u64]| numbers.iter().map(|&n| timed(name, n)).collect::<Vec<_>>();
    let answers = port.commit(T0, of("t", &[10, 5, 12, 7, 10, 5, 12])).await;
    assert_eq!(answers[4..].iter().map(known).collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
    assert_eq!(answers.into_iter().take(4).map(|answer| new(answer).seq()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // One of no time between them, and one that is older than any.
    let mut drafts = of("t", &[7, 12]);
    drafts.push(plain(100));
    drafts.extend(of("t", &[13, 3, 13]));
    let answers = port.commit(T0, drafts).await;
    let again: Vec<_> = [0, 1, 5].map(|at| known(&answers[at])).into();
    assert_eq!(again, [(4, true), (3, true), (6, true)]);
    let old = new(answers.into_iter().nth(4).unwrap());
    assert_eq!(old.seq(), 7);
    // A topic of its own, newer and older ones.
    let answers = port.append(T0, of("u", &[14, 10, 3])).await;
    assert_eq!(answers.iter().map(|event| event.seq()).collect::<Vec<_>>(), [1, 2, 3]);
    let answers = port.commit(T0, [of("u", &[3, 14]), of("t", &[3, 13])].concat()).await;
    assert_eq!(answers.iter().map(known).collect::<Vec<_>>(), [(3, true), (1, true), (7, true), (6, true)]);
    assert_eq!(port.seqs().await, [1, 2, 3, 4, 5, 6, 7]);
}

pub(in super::super) async fn an_id_on_another_topic_is_another_event(lab: Lab) {
    let port = lab.port().await;
    let appended = port.append(T0, vec![on("a", 1), on("b", 1)]).await;
    assert_eq!(appended.iter().map(|event| event.seq()).collect::<Vec<_>>(), [1, 1]);
}

pub(in super::super) async fn another_payload_or_key_is_not_the_same(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "k"), plain(2)]).await;
    let others = vec![
        holding(1, Some("k"), "9"),
        holding(1, Some("other"), "1"),
        holding(1, None, "1"),
        holding(2, Some("k"), "2"),
        keyed(1, "k"),
    ];
    let answers = port.commit(T0, others).await;
    let same: Vec<_> = answers.iter().map(known).collect();
    assert_eq!(same, [(1, false), (1, false), (1, false), (2, false), (1, true)]);
    assert_eq!(port.seqs().await, [1, 2]);
}

pub(in super::super) async fn payloads_are_compared_as_json(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![holding(1, None, r#"{"a":1,"b":["é",100]}"#)]).await;
    let spellings = [r#"{ "b": ["\u00e9", 1e2], "a": 1.0 }"#, r#"{"a":1,"b":[100,"é"]}"#];
    let answers = port.commit(T0, spellings.map(|json| holding(1, None, json)).into()).await;
    assert_eq!(answers.iter().map(known).collect::<Vec<_>>(), [(1, true), (1, false)]);
}

/// Everything goes, ids since `T0` stay.
pub(super) fn wipe() -> CleanPolicy {
    CleanPolicy { committed_before: Some(T0 + 10), ids_since: T0, ..CleanPolicy::default() }
}

pub(in super::super) async fn a_cleaned_id_is_remembered_as_long_as_asked(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    port.append(T0 + 20, vec![plain(3)]).await;
    port.clean(wipe()).await;
    assert_eq!(port.seqs().await, [3], "the records are gone");
    let again = port.commit(T0 + 30, vec![plain(2), plain(4)]).await;
    let Appended::Known { seq, ts, same, .. } = again[0] else { panic!("appended again: {again:?}") };
    assert_eq!((seq, ts, same), (2, T0 + 2, true));
    assert_eq!(port.seqs().await, [3, 4]);
}

pub(in super::super) async fn a_cleaned_id_still_tells_another_payload_apart(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![holding(1, Some("k"), r#"{"a":1,"b":2}"#)]).await;
    port.append(T0 + 20, vec![plain(3)]).await;
    port.clean(wipe()).await;
    let others = vec![
        holding(1, Some("k"), r#"{"b":2.0,"a":1}"#),
        holding(1, Some("k"), r#"{"a":1}"#),
        holding(1, None, r#"{"a":1,"b":2}"#),
    ];
    let answers = port.commit(T0 + 30, others).await;
    assert_eq!(answers.iter().map(known).collect::<Vec<_>>(), [(1, true), (1, false), (1, false)]);
}

pub(in super::super) async fn the_seq_of_an_id_is_found(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    port.append(T0 + 20, vec![plain(3)]).await;
    let find = async |n| port.0.seq_of(&topic("t"), id(n)).await.unwrap();
    assert_eq!((find(2).await, find(3).await, find(9).await), (Some(2), Some(3), None));
    port.clean(wipe()).await;
    assert_eq!(find(2).await, Some(2), "also of one that was cleaned away");
}
