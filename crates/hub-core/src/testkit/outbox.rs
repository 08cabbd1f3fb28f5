//! What every outbox has to keep, written once.
//!
//! A database hands in a function that makes an empty outbox, and gets one test per case with
//! [`outbox_suite!`](crate::outbox_suite). Times are real: the cases wait for leases of some hundred milliseconds.
//!
//! ```
//! use hub_core::outbox::{MemoryOutbox, OutboxStore};
//! use std::sync::Arc;
//!
//! async fn memory() -> Arc<dyn OutboxStore> {
//!     Arc::new(MemoryOutbox::default())
//! }
//!
//! hub_core::outbox_suite!(memory, memory);
//! # fn main() {}
//! ```

#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]
#![allow(missing_docs, reason = "a case says in its name what has to hold")]

use crate::outbox::{
    Claim, Drainer, DrainerOptions, Holding, Micros, NewRow, OutboxStore, Outcome, Place, Ready, Row, RowId,
    RowStatus, Settled, Shares, Woken,
};
use crate::{Bus, Clock, MemoryStore, Millis, Position, SystemClock};
use hub_proto::{EventId, Payload};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Every case there is: the one list of names, handed to `$then`.
#[doc(hidden)]
#[macro_export]
macro_rules! outbox_list {
    ($then:path, $($with:tt)*) => {
        $then! {
            ($($with)*)
            fresh_rows_are_found_by_time_and_page_by_page,
            a_claimed_row_carries_what_was_written,
            a_row_is_claimed_once_however_many_try,
            a_claim_has_no_more_bytes_than_were_asked_for_or_one_row,
            who_does_not_hold_a_row_settles_nothing,
            a_claim_that_has_run_out_is_due_and_cannot_be_settled,
            a_claim_that_is_renewed_does_not_run_out,
            what_has_failed_is_due_after_its_wait_and_counts_attempts,
            what_is_returned_is_due_at_once_and_counts_nothing,
            a_parked_row_is_left_alone_until_it_is_retried,
            rows_behind_others_are_released_in_their_order_and_so_many_at_once,
            keys_with_rows_behind_are_listed_in_pages,
            earlier_rows_of_a_key_are_found_by_number_and_by_time,
            those_hold_a_key_up_that_are_held_and_others_if_asked_for,
            what_dead_drainers_held_is_due,
            shares_change_by_compare_and_set,
            sent_rows_are_removed_when_they_are_old_and_not_before,
            counts_tell_how_it_stands,
            rows_can_be_looked_at,
            news_come_for_rows_that_are_written_or_retried,
            drainers_publish_every_row_once_and_keep_the_order_of_keys,
            a_drainer_waits_for_a_row_that_commits_late_and_skips_none,
        }
    };
}

/// Makes one test per case.
#[macro_export]
macro_rules! outbox_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::outbox_list!($crate::outbox_tests, $make);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! outbox_tests {
    (($make:expr) $($case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::testkit::outbox::$case($make().await).await;
            }
        )+
    };
}

type Outbox = Arc<dyn OutboxStore>;

/// Long enough for a call, short enough to wait for.
const LEASE: Millis = 400;
/// Longer than any case takes.
const LONG: Millis = 600_000;
/// When the rows of a case were written, and how far they are apart: some databases know milliseconds only.
const BEGIN: Micros = 1_700_000_000_000_000;
const STEP: Micros = 1_000;

/// The id of row n: ids grow with n.
fn id(n: u64) -> EventId {
    let [a, b, c, d, e, f, g, h] = n.to_be_bytes();
    EventId::from_bytes([1, 0x8f, 0, 0, 0, 0, 0x70, 0, 0x80, 0, c, d, e, f, g ^ a, h ^ b])
}

/// Row n, written at step n.
fn row(n: u64, key: Option<&str>) -> NewRow {
    NewRow {
        id: id(n),
        topic: "t".into(),
        payload: Payload::of(&n).unwrap(),
        headers: Vec::new(),
        key: key.map(str::to_owned),
        ord: None,
        at: BEGIN + n * STEP,
    }
}

fn ids(rows: impl IntoIterator<Item = u64>) -> Vec<RowId> {
    rows.into_iter().map(|n| id(n).into()).collect()
}

fn names(rows: &[Ready]) -> Vec<RowId> {
    rows.iter().map(|row| row.place.id.clone()).collect()
}

fn sorted(mut ids: Vec<RowId>) -> Vec<RowId> {
    ids.sort();
    ids
}

fn claimed(rows: &[Row]) -> Vec<RowId> {
    sorted(rows.iter().map(|row| row.place.id.clone()).collect())
}

fn by(worker: &str, number: u64) -> Claim {
    Claim { worker: worker.into(), number }
}

fn keys(keys: &[&str]) -> Vec<Arc<str>> {
    keys.iter().map(|key| Arc::from(*key)).collect()
}

async fn add(outbox: &Outbox, rows: impl IntoIterator<Item = (u64, Option<&str>)>) {
    outbox.add(rows.into_iter().map(|(n, key)| row(n, key)).collect()).await.unwrap();
}

/// Claims rows, and settles them all alike.
async fn settle(outbox: &Outbox, rows: impl IntoIterator<Item = u64>, outcome: Outcome) {
    let (claim, ids) = (by("settler", 1), ids(rows));
    assert_eq!(outbox.claim(&claim, &ids, LONG, usize::MAX).await.unwrap().len(), ids.len());
    let settled: Vec<_> = ids.into_iter().map(|id| Settled { id, outcome: outcome.clone() }).collect();
    assert_eq!(outbox.settle(&claim, &settled).await.unwrap(), settled.len() as u64);
}

/// Waits until so many rows are due.
async fn due(outbox: &Outbox, count: usize) -> Vec<Ready> {
    for _ in 0..1_000 {
        let due = outbox.due(100).await.unwrap();
        if due.len() == count {
            return due;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not {count} rows are due: {:?}", outbox.due(100).await);
}

pub async fn fresh_rows_are_found_by_time_and_page_by_page(outbox: Outbox) {
    add(&outbox, [(3, None), (1, Some("k")), (2, None), (5, None), (4, Some("k"))]).await;
    let first = outbox.fresh(None, 2).await.unwrap();
    assert_eq!(names(&first), ids([1, 2]));
    assert_eq!(first[0].key.as_deref(), Some("k"));
    assert_eq!(first[0].place, Place { ord: None, at: BEGIN + STEP, id: id(1).into() });
    let next = outbox.fresh(Some(&first[1].place), 2).await.unwrap();
    assert_eq!(names(&next), ids([3, 4]));
    assert_eq!(names(&outbox.fresh(Some(&next[1].place), 2).await.unwrap()), ids([5]));
    // Two of one moment.
    outbox.add(vec![NewRow { at: BEGIN + 5 * STEP, ..row(6, None) }]).await.unwrap();
    let last = outbox.fresh(Some(&next[1].place), 1).await.unwrap();
    assert_eq!(names(&outbox.fresh(Some(&last[0].place), 2).await.unwrap()), ids([6]));
    assert!(outbox.due(10).await.unwrap().is_empty());
}

pub async fn a_claimed_row_carries_what_was_written(outbox: Outbox) {
    let payload = Payload::from_json(r#"{"b":[1,2.5,null,"ü"],"a":{"x":true}}"#.as_bytes().to_vec()).unwrap();
    let headers = vec![("trace".to_owned(), "7".to_owned()), ("lang".to_owned(), "d\u{e9}".to_owned())];
    let written = NewRow {
        topic: "shop.orders".into(),
        payload: payload.clone(),
        headers: headers.clone(),
        ord: Some(-7),
        ..row(1, Some("order \"1\""))
    };
    outbox.add(vec![written, row(2, None)]).await.unwrap();
    let mut rows = outbox.claim(&by("a", 1), &ids([1, 2]), LONG, usize::MAX).await.unwrap();
    rows.sort_by_key(|row| row.place.at);
    let [first, second] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(first.key.as_deref(), Some("order \"1\""));
    assert_eq!(first.place, Place { ord: Some(-7), at: BEGIN + STEP, id: id(1).into() });
    assert_eq!((first.attempts, first.waited), (0, false));
    let event = first.event.as_ref().unwrap();
    assert_eq!(event.topic.as_str(), "shop.orders");
    assert_eq!(event.options.id, Some(id(1)));
    assert_eq!(event.options.ts, Some((BEGIN + STEP) / 1000));
    assert_eq!(event.options.key.as_deref(), Some("order \"1\""));
    let mut told = event.options.headers.clone();
    told.sort();
    let mut headers = headers;
    headers.sort();
    assert_eq!(told, headers);
    assert!(hub_proto::json::same(event.payload.as_bytes(), payload.as_bytes()), "{:?}", event.payload);
    let event = second.event.as_ref().unwrap();
    assert_eq!((event.options.key.as_deref(), event.options.headers.len()), (None, 0));
    assert_eq!(event.payload.as_bytes(), b"2");
}

pub async fn a_row_is_claimed_once_however_many_try(outbox: Outbox) {
    add(&outbox, (0..60).map(|n| (n, None))).await;
    let tries = (0..4).map(|n| {
        let outbox = outbox.clone();
        tokio::spawn(async move {
            let claim = by(&format!("w{n}"), 1);
            outbox.claim(&claim, &ids(0..60), LONG, usize::MAX).await.unwrap()
        })
    });
    let mut all = Vec::new();
    for tried in tries.collect::<Vec<_>>() {
        all.extend(claimed(&tried.await.unwrap()));
    }
    assert_eq!(sorted(all), ids(0..60));
    assert!(outbox.fresh(None, 100).await.unwrap().is_empty());
    assert!(outbox.due(100).await.unwrap().is_empty());
}

pub async fn a_claim_has_no_more_bytes_than_were_asked_for_or_one_row(outbox: Outbox) {
    const KIB: usize = 1024;
    let payload = Payload::of(&"x".repeat(10 * KIB - 2)).unwrap();
    outbox.add((0..10).map(|n| NewRow { payload: payload.clone(), ..row(n, None) }).collect()).await.unwrap();
    // What somebody else has takes no room.
    outbox.claim(&by("b", 1), &ids([7]), LONG, usize::MAX).await.unwrap();
    // The first ones as they were asked for. Some databases count what is beside the payload, too.
    let asked = ids([7, 9, 3, 5, 1, 0]);
    let rows = outbox.claim(&by("a", 1), &asked, LONG, 35 * KIB).await.unwrap();
    assert_eq!(claimed(&rows), ids([3, 5, 9]));
    let rows = outbox.claim(&by("a", 2), &asked, LONG, 1).await.unwrap();
    assert_eq!(claimed(&rows), ids([1]), "one at least");
    let rows = outbox.claim(&by("a", 3), &ids(0..10), LONG, usize::MAX).await.unwrap();
    assert_eq!(claimed(&rows), ids([0, 2, 4, 6, 8]));
}

pub async fn who_does_not_hold_a_row_settles_nothing(outbox: Outbox) {
    add(&outbox, [(1, None), (2, None)]).await;
    outbox.claim(&by("a", 7), &ids([1]), LONG, usize::MAX).await.unwrap();
    let sent = [
        Settled { id: id(1).into(), outcome: Outcome::Sent },
        Settled { id: id(2).into(), outcome: Outcome::Sent },
    ];
    for stranger in [by("b", 7), by("a", 6), by("a", 8)] {
        assert_eq!(outbox.settle(&stranger, &sent).await.unwrap(), 0);
    }
    assert_eq!(outbox.settle(&by("a", 7), &sent).await.unwrap(), 1);
    assert_eq!(outbox.settle(&by("a", 7), &sent).await.unwrap(), 0, "it is settled already");
    assert_eq!(names(&outbox.fresh(None, 10).await.unwrap()), ids([2]));
    assert_eq!(outbox.show(&id(1).into()).await.unwrap().unwrap().status, RowStatus::Sent);
}

pub async fn a_claim_that_has_run_out_is_due_and_cannot_be_settled(outbox: Outbox) {
    add(&outbox, [(1, Some("k")), (2, None)]).await;
    outbox.claim(&by("b", 1), &ids([2]), LONG, usize::MAX).await.unwrap();
    assert_eq!(outbox.requeue_expired().await.unwrap(), 0);
    outbox.claim(&by("a", 1), &ids([1]), LEASE, usize::MAX).await.unwrap();
    tokio::time::sleep(Duration::from_millis(LEASE + 100)).await;
    let sent = [Settled { id: id(1).into(), outcome: Outcome::Sent }];
    assert_eq!(outbox.settle(&by("a", 1), &sent).await.unwrap(), 0, "nobody has it yet");
    assert_eq!(outbox.requeue_expired().await.unwrap(), 1);
    assert_eq!(outbox.settle(&by("a", 1), &sent).await.unwrap(), 0);
    assert_eq!(names(&due(&outbox, 1).await), ids([1]));
    let again = outbox.claim(&by("b", 2), &ids([1]), LONG, usize::MAX).await.unwrap();
    assert_eq!((again.len(), again[0].attempts, again[0].waited), (1, 0, true));
    assert_eq!(outbox.settle(&by("a", 1), &sent).await.unwrap(), 0, "somebody else has it");
    assert_eq!(outbox.settle(&by("b", 2), &sent).await.unwrap(), 1);
}

pub async fn a_claim_that_is_renewed_does_not_run_out(outbox: Outbox) {
    add(&outbox, (1..=4).map(|n| (n, None))).await;
    outbox.claim(&by("a", 1), &ids([1]), LEASE, usize::MAX).await.unwrap();
    outbox.claim(&by("a", 2), &ids([2]), LEASE, usize::MAX).await.unwrap();
    outbox.claim(&by("b", 1), &ids([3]), LEASE, usize::MAX).await.unwrap();
    outbox.claim(&by("a", 3), &ids([4]), LEASE, usize::MAX).await.unwrap();
    assert_eq!(outbox.renew("a", 1..=2, LONG).await.unwrap(), 2);
    tokio::time::sleep(Duration::from_millis(LEASE + 100)).await;
    assert_eq!(outbox.requeue_expired().await.unwrap(), 2);
    assert_eq!(sorted(names(&due(&outbox, 2).await)), ids([3, 4]));
    assert_eq!(outbox.renew("b", 1..=1, LONG).await.unwrap(), 0);
}

pub async fn what_has_failed_is_due_after_its_wait_and_counts_attempts(outbox: Outbox) {
    add(&outbox, [(1, Some("k")), (2, Some("l")), (3, None)]).await;
    let claim = by("a", 1);
    outbox.claim(&claim, &ids([1, 2, 3]), LONG, usize::MAX).await.unwrap();
    let retry = |n, after, error: &str| Settled {
        id: id(n).into(),
        outcome: Outcome::Retry { after, error: error.into() },
    };
    let settled = [retry(1, LONG, "not now"), retry(3, 0, "at once")];
    assert_eq!(outbox.settle(&claim, &settled).await.unwrap(), 2);
    assert_eq!(names(&due(&outbox, 1).await), ids([3]));
    let settled = [retry(2, 200, "it's \"quoted\" $1")];
    assert_eq!(outbox.settle(&claim, &settled).await.unwrap(), 1);
    // The one that is due for longest is first.
    assert_eq!(names(&due(&outbox, 2).await), ids([3, 2]));
    assert!(outbox.fresh(None, 10).await.unwrap().is_empty());
    assert!(
        outbox.claim(&by("a", 2), &ids([1]), LONG, usize::MAX).await.unwrap().is_empty(),
        "it is not due"
    );
    let again = outbox.claim(&by("a", 2), &ids([2]), LONG, usize::MAX).await.unwrap();
    assert_eq!((again[0].attempts, again[0].waited), (1, true));
    let shown = outbox.show(&id(2).into()).await.unwrap().unwrap();
    assert_eq!((shown.status, shown.error.as_deref()), (RowStatus::Claimed, Some("it's \"quoted\" $1")));
}

pub async fn what_is_returned_is_due_at_once_and_counts_nothing(outbox: Outbox) {
    add(&outbox, [(1, Some("k")), (2, None)]).await;
    settle(&outbox, [1, 2], Outcome::Returned).await;
    assert_eq!(sorted(names(&due(&outbox, 2).await)), ids([1, 2]));
    let again = outbox.claim(&by("a", 2), &ids([1, 2]), LONG, usize::MAX).await.unwrap();
    assert!(again.iter().all(|row| row.attempts == 0 && row.waited), "{again:?}");
}

pub async fn a_parked_row_is_left_alone_until_it_is_retried(outbox: Outbox) {
    add(&outbox, [(1, Some("k")), (2, None), (3, None)]).await;
    settle(&outbox, [1, 2], Outcome::Parked { error: "never".into() }).await;
    assert_eq!(names(&outbox.fresh(None, 10).await.unwrap()), ids([3]));
    assert!(outbox.due(10).await.unwrap().is_empty());
    assert!(outbox.claim(&by("a", 1), &ids([1]), LONG, usize::MAX).await.unwrap().is_empty());
    let shown = outbox.show(&id(1).into()).await.unwrap().unwrap();
    assert_eq!((shown.status, shown.attempts, shown.error.as_deref()), (RowStatus::Error, 1, Some("never")));
    assert_eq!(outbox.retry(Some(&ids([2, 3]))).await.unwrap(), 1, "only what is parked");
    assert_eq!(names(&due(&outbox, 1).await), ids([2]));
    assert_eq!(outbox.retry(None).await.unwrap(), 1);
    let again = outbox.claim(&by("a", 1), &ids([1]), LONG, usize::MAX).await.unwrap();
    assert_eq!((again[0].attempts, again[0].waited), (0, true));
}

pub async fn rows_behind_others_are_released_in_their_order_and_so_many_at_once(outbox: Outbox) {
    add(&outbox, (0..6).map(|n| (n, Some("k")))).await;
    // Those with numbers come behind those without; the lower number was written later.
    let numbered = |n, ord| NewRow { ord: Some(ord), ..row(n, Some("k")) };
    outbox.add(vec![numbered(6, 9), numbered(7, 8), row(8, Some("l"))]).await.unwrap();
    outbox.put_behind(&ids([0, 1, 2, 3, 6, 7, 8])).await.unwrap();
    settle(&outbox, [4, 5], Outcome::Behind).await;
    assert!(outbox.fresh(None, 10).await.unwrap().is_empty());
    assert!(outbox.due(10).await.unwrap().is_empty());
    assert!(outbox.claim(&by("a", 1), &ids(0..9), LONG, usize::MAX).await.unwrap().is_empty());
    outbox.release(&keys(&["k"]), 5).await.unwrap();
    assert_eq!(sorted(names(&due(&outbox, 5).await)), ids(0..5));
    let rows = outbox.claim(&by("a", 2), &ids(0..5), LONG, usize::MAX).await.unwrap();
    assert!(rows.len() == 5 && rows.iter().all(|row| row.waited), "{rows:?}");
    outbox.release(&keys(&["k", "nobody's"]), 2).await.unwrap();
    assert_eq!(sorted(names(&due(&outbox, 2).await)), ids([5, 7]));
    outbox.release(&keys(&["k", "l"]), 2).await.unwrap();
    assert_eq!(sorted(names(&due(&outbox, 4).await)), ids(5..9));
    // What is not waiting for anybody cannot be put behind, and neither can what is claimed.
    outbox.put_behind(&ids([0, 5])).await.unwrap();
    assert_eq!(sorted(names(&due(&outbox, 3).await)), ids(6..9));
    assert_eq!(outbox.renew("a", 1..=9, LONG).await.unwrap(), 5);
}

pub async fn keys_with_rows_behind_are_listed_in_pages(outbox: Outbox) {
    let all = ["a", "b", "c", "d"];
    add(&outbox, (0..12).map(|n| (n, Some(all[n as usize % 4])))).await;
    assert!(outbox.keys_behind(None, 10).await.unwrap().is_empty());
    outbox.put_behind(&ids((0..12).filter(|n| n % 4 != 1))).await.unwrap();
    assert_eq!(outbox.keys_behind(None, 2).await.unwrap(), keys(&["a", "c"]));
    assert_eq!(outbox.keys_behind(Some("c"), 2).await.unwrap(), keys(&["d"]));
    assert!(outbox.keys_behind(Some("d"), 2).await.unwrap().is_empty());
}

pub async fn earlier_rows_of_a_key_are_found_by_number_and_by_time(outbox: Outbox) {
    let numbered = |n, key, ord| NewRow { ord: Some(ord), ..row(n, Some(key)) };
    let rows = vec![
        numbered(1, "n", 5),
        numbered(2, "n", 3),
        numbered(3, "n", 4),
        numbered(4, "n", -1),
        row(5, Some("n")),
        row(6, Some("t")),
        row(7, Some("t")),
        row(8, Some("t")),
        row(9, Some("other")),
        row(10, None),
    ];
    outbox.add(rows).await.unwrap();
    let place = |n: u64, ord| Place { ord, at: BEGIN + n * STEP, id: id(n).into() };
    let found = outbox.fresh_before(&[("n".into(), place(1, Some(5)))], 10).await.unwrap();
    assert_eq!(names(&found), ids([5, 4, 2, 3]));
    assert_eq!(found[1].place, place(4, Some(-1)));
    let both = [("t".into(), place(8, None)), ("n".into(), place(3, Some(4)))];
    let found = outbox.fresh_before(&both, 2).await.unwrap();
    let of = |key: &str| -> Vec<RowId> {
        found.iter().filter(|row| row.key.as_deref() == Some(key)).map(|row| row.place.id.clone()).collect()
    };
    assert_eq!((of("t"), of("n")), (ids([6, 7]), ids([5, 4])));
    assert!(outbox.fresh_before(&[("t".into(), place(6, None))], 2).await.unwrap().is_empty());
    // Only what is fresh.
    settle(&outbox, [2], Outcome::Returned).await;
    outbox.put_behind(&ids([4])).await.unwrap();
    let found = outbox.fresh_before(&[("n".into(), place(1, Some(5)))], 10).await.unwrap();
    assert_eq!(names(&found), ids([5, 3]));
}

pub async fn those_hold_a_key_up_that_are_held_and_others_if_asked_for(outbox: Outbox) {
    add(&outbox, (0..10).map(|n| (n, Some("k")))).await;
    add(&outbox, [(10, Some("other")), (11, None)]).await;
    let of = |worker: &'static str, parked, behind| Holding { worker, parked, behind };
    let asked = keys(&["k", "unheard of"]);
    let holding = async |of| {
        let found = outbox.holding(&asked, of).await.unwrap();
        assert!(found.iter().all(|row| row.key.as_deref() == Some("k")), "{found:?}");
        names(&found)
    };
    assert!(holding(of("a", true, true)).await.is_empty(), "fresh rows hold nobody up");
    settle(&outbox, [8], Outcome::Sent).await;
    settle(&outbox, [2, 3], Outcome::Parked { error: "no".into() }).await;
    outbox.put_behind(&ids([5, 6])).await.unwrap();
    settle(&outbox, [7], Outcome::Retry { after: LONG, error: "later".into() }).await;
    outbox.claim(&by("a", 1), &ids([0]), LONG, usize::MAX).await.unwrap();
    outbox.claim(&by("b", 1), &ids([1]), LONG, usize::MAX).await.unwrap();
    settle(&outbox, [10], Outcome::Returned).await;
    assert_eq!(sorted(holding(of("a", false, false)).await), ids([1, 7]));
    assert_eq!(sorted(holding(of("b", false, false)).await), ids([0, 7]));
    let with_parked = sorted(holding(of("a", true, false)).await);
    assert!(with_parked.starts_with(&ids([1, 2])) && with_parked.ends_with(&ids([7])), "{with_parked:?}");
    let all = sorted(holding(of("", true, true)).await);
    assert!(ids([0, 1, 2, 5, 7]).iter().all(|id| all.contains(id)), "{all:?}");
    assert!(!all.contains(&id(4).into()) && !all.contains(&id(8).into()), "{all:?}");
}

pub async fn what_dead_drainers_held_is_due(outbox: Outbox) {
    add(&outbox, (0..6).map(|n| (n, None))).await;
    for (at, worker) in ["a", "b", "c"].into_iter().enumerate() {
        outbox.claim(&by(worker, 1), &ids([at as u64]), LONG, usize::MAX).await.unwrap();
    }
    assert_eq!(outbox.take_from(&["b".into(), "nobody".into()]).await.unwrap(), 1);
    assert_eq!(names(&due(&outbox, 1).await), ids([1]));
    assert_eq!(outbox.take_from(&[]).await.unwrap(), 0);
    assert_eq!(outbox.renew("b", 1..=9, LONG).await.unwrap(), 0);
    assert_eq!(outbox.renew("a", 1..=9, LONG).await.unwrap(), 1);
    assert_eq!(outbox.take_from(&["c".into(), "a".into()]).await.unwrap(), 2);
}

pub async fn shares_change_by_compare_and_set(outbox: Outbox) {
    let (shares, version, now) = outbox.shares().await.unwrap();
    assert!(shares.workers.is_empty());
    let mut mine = Shares::default();
    mine.workers.insert("a".into(), 7);
    mine.slots = vec![Some("a".into()), None];
    assert!(outbox.share(&mine, version).await.unwrap());
    assert!(!outbox.share(&Shares::default(), version).await.unwrap(), "somebody has been there");
    let (read, version, later) = outbox.shares().await.unwrap();
    assert_eq!(read, mine);
    assert!(later >= now);
    // Of two at once one wins.
    let both = [1, 2].map(|_| {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.share(&Shares::default(), version).await.unwrap() })
    });
    let mut won = 0;
    for one in both {
        won += u32::from(one.await.unwrap());
    }
    assert_eq!(won, 1);
    assert_eq!(outbox.shares().await.unwrap().0, Shares::default());
}

pub async fn sent_rows_are_removed_when_they_are_old_and_not_before(outbox: Outbox) {
    add(&outbox, (0..10).map(|n| (n, None))).await;
    settle(&outbox, 0..6, Outcome::Sent).await;
    settle(&outbox, [6], Outcome::Parked { error: "no".into() }).await;
    assert_eq!(outbox.purge(LONG, 100).await.unwrap(), 0);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(outbox.purge(1, 4).await.unwrap(), 4);
    assert_eq!(outbox.purge(1, 4).await.unwrap(), 2);
    assert_eq!(outbox.purge(0, 4).await.unwrap(), 0);
    assert_eq!(outbox.list(None, 100).await.unwrap().len(), 4);
}

pub async fn counts_tell_how_it_stands(outbox: Outbox) {
    let counts = outbox.counts().await.unwrap();
    assert_eq!((counts.pending, counts.errors, counts.oldest_age), (0, 0, None));
    let at = SystemClock::new().wall() * 1000 - 90_000_000;
    outbox.add(vec![NewRow { at, ..row(0, Some("k")) }]).await.unwrap();
    add(&outbox, [(1, None), (2, None), (3, None)]).await;
    settle(&outbox, [1], Outcome::Sent).await;
    settle(&outbox, [2], Outcome::Parked { error: "no".into() }).await;
    settle(&outbox, [3], Outcome::Sent).await;
    for behind in 0..2 {
        let counts = outbox.counts().await.unwrap();
        assert_eq!((counts.pending, counts.behind, counts.errors), (1, behind, 1));
        let age = counts.oldest_age.unwrap();
        assert!((89_000..120_000).contains(&age), "{age}");
        // A row that was claimed, or is behind, is still to be published.
        outbox.put_behind(&ids([0])).await.unwrap();
    }
    assert_eq!(outbox.retry(None).await.unwrap(), 1);
    let counts = outbox.counts().await.unwrap();
    assert_eq!((counts.pending, counts.behind, counts.errors), (2, 1, 0));
}

pub async fn rows_can_be_looked_at(outbox: Outbox) {
    outbox.add(vec![NewRow { ord: Some(4), ..row(2, Some("k")) }, row(1, None), row(3, None)]).await.unwrap();
    outbox.put_behind(&ids([2])).await.unwrap();
    outbox.claim(&by("a", 1), &ids([3]), LONG, usize::MAX).await.unwrap();
    let all = outbox.list(None, 2).await.unwrap();
    assert_eq!(all.iter().map(|row| row.id.as_str().into()).collect::<Vec<RowId>>(), ids([1, 2]));
    assert_eq!((all[1].key.as_deref(), all[1].ord, all[1].behind), (Some("k"), Some(4), true));
    assert_eq!((all[1].topic.as_str(), all[1].ts), ("t", (BEGIN + 2 * STEP) / 1000));
    assert!(all[0].payload.is_none());
    let of_a = outbox.list(Some(RowStatus::Claimed), 10).await.unwrap();
    assert_eq!((of_a.len(), of_a[0].claimed_by.as_deref()), (1, Some("a")));
    assert!(outbox.list(Some(RowStatus::Sent), 10).await.unwrap().is_empty());
    let shown = outbox.show(&id(2).into()).await.unwrap().unwrap();
    assert_eq!(shown.payload.unwrap().get(), "2");
    assert!(outbox.show(&id(9).into()).await.unwrap().is_none());
    assert!(outbox.show(&"nonsense".into()).await.unwrap().is_none());
}

/// Begins to wait for news, and waits until that is so.
async fn listen(outbox: &Outbox) -> tokio::task::JoinHandle<Woken> {
    let listening = outbox.clone();
    let woken = tokio::spawn(async move { listening.news().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    woken
}

pub async fn news_come_for_rows_that_are_written_or_retried(outbox: Outbox) {
    let woken = listen(&outbox).await;
    add(&outbox, [(1, None)]).await;
    let woken =
        tokio::time::timeout(Duration::from_secs(10), woken).await.expect("nobody was woken").unwrap();
    if woken == Woken::Never {
        return;
    }
    settle(&outbox, [1], Outcome::Parked { error: "no".into() }).await;
    // What was told before may still come.
    let mut woken = listen(&outbox).await;
    while woken.is_finished() {
        woken = listen(&outbox).await;
    }
    outbox.retry(None).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), woken).await.expect("nobody was woken").unwrap();
}

struct Drained {
    bus: Bus,
    stop: CancellationToken,
    drainers: Vec<tokio::task::JoinHandle<crate::outbox::Drained>>,
}

impl Drained {
    async fn by(outbox: &Outbox, drainers: usize) -> Self {
        let bus = Bus::builder(MemoryStore::new()).open().await.unwrap();
        let stop = CancellationToken::new();
        let drainers = (0..drainers).map(|_| {
            let options = DrainerOptions { batch_size: 16, lease: 3_000, ..DrainerOptions::default() };
            tokio::spawn(Drainer::new(outbox.clone(), Arc::new(bus.clone()), options).run(stop.clone()))
        });
        Self { drainers: drainers.collect(), bus, stop }
    }

    /// Waits until so many events are there.
    async fn published(&self, count: usize) -> Vec<u64> {
        for _ in 0..3_000 {
            let events = self.bus.scan("t", Position::Earliest, None).await.unwrap_or_default();
            if events.len() >= count {
                let number = |json: &[u8]| std::str::from_utf8(json).unwrap().parse().unwrap();
                return events.iter().map(|event| number(event.payload())).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {count} events are published");
    }

    async fn stop(self) {
        self.stop.cancel();
        for drainer in self.drainers {
            drainer.await.unwrap();
        }
    }
}

pub async fn drainers_publish_every_row_once_and_keep_the_order_of_keys(outbox: Outbox) {
    const ROWS: u64 = 400;
    let drained = Drained::by(&outbox, 3).await;
    for some in (0..ROWS).collect::<Vec<_>>().chunks(40) {
        let rows = some.iter().map(|&n| row(n, (n % 10 > 0).then(|| format!("key {}", n % 10)).as_deref()));
        outbox.add(rows.collect()).await.unwrap();
    }
    let log = drained.published(ROWS as usize).await;
    let mut all = log.clone();
    all.sort_unstable();
    assert_eq!(all, (0..ROWS).collect::<Vec<_>>());
    for key in 1..10 {
        assert!(log.iter().filter(|n| *n % 10 == key).is_sorted(), "{log:?}");
    }
    while outbox.counts().await.unwrap().pending > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drained.stop().await;
    assert!(outbox.list(None, 1000).await.unwrap().iter().all(|row| row.status == RowStatus::Sent));
    assert!(outbox.shares().await.unwrap().0.workers.is_empty(), "they have left");
}

pub async fn a_drainer_waits_for_a_row_that_commits_late_and_skips_none(outbox: Outbox) {
    let drained = Drained::by(&outbox, 1).await;
    add(&outbox, (100..150).map(|n| (n, Some("k")))).await;
    drained.published(50).await;
    // It was begun before all of them.
    add(&outbox, [(1, Some("k")), (2, None)]).await;
    assert_eq!(drained.published(52).await.len(), 52);
    drained.stop().await;
}
