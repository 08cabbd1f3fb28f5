//! The rules, one by one. The simulator drives them all at once.

use super::*;

const RULES: Rules = Rules { key_order: false, coalesce: false, max_attempts: 3, bury: true };
const KEYED: Rules = Rules { key_order: true, ..RULES };
const COALESCING: Rules = Rules { key_order: true, coalesce: true, ..RULES };

fn dispatcher(rules: Rules, members: &[MemberId]) -> Dispatcher {
    let mut this = Dispatcher::restore(GroupState::default(), rules);
    members.iter().for_each(|&id| this.join(id, 1000));
    this
}

/// Looks at events `seqs`, and hands out what can be handed out.
fn offer(
    this: &mut Dispatcher,
    seqs: std::ops::RangeInclusive<u64>,
    key: Option<&str>,
) -> Vec<(u64, MemberId)> {
    let key = key.map(Key::from);
    let mut given = Vec::new();
    for seq in seqs {
        if this.admit(seq, key.as_ref().map(|key| (hash(key), key))) == Admitted::Ready {
            let member = this.pick(|_| true).expect("somebody has room");
            give(this, seq, member, 0);
            given.push((seq, member));
        }
    }
    given
}

fn hash(key: &Key) -> u64 {
    key.bytes().map(u64::from).sum()
}

fn give(this: &mut Dispatcher, seq: u64, member: MemberId, now: Millis) -> u32 {
    let lease = this.lease(seq, member, now);
    assert!(this.take(lease, now));
    lease.attempt
}

/// The lease that `member` has on `seq`, or would have.
fn lease(this: &Dispatcher, member: MemberId, seq: u64) -> Lease {
    let attempt = this.window.get(seq).map_or(1, |entry| entry.attempts);
    Lease { member, seq, attempt, epoch: this.epoch }
}

fn ack(this: &mut Dispatcher, member: MemberId, seq: u64) -> bool {
    this.ack(lease(this, member, seq)).is_some()
}

fn nack(this: &mut Dispatcher, seq: u64, delay: Option<Millis>, reason: &str, now: Millis) -> bool {
    this.nack(lease(this, 1, seq), delay, reason, now).is_some()
}

/// Hands out everything that is due.
fn redeliver(this: &mut Dispatcher, now: Millis) -> Vec<(u64, u32)> {
    let mut given = Vec::new();
    while let Some(seq) = this.next_ready(0, now) {
        let member = this.pick(|_| true).expect("somebody has room");
        given.push((seq, give(this, seq, member, now)));
    }
    given
}

#[test]
fn members_with_room_are_served_in_turn() {
    let mut this = dispatcher(RULES, &[1, 2, 3]);
    assert_eq!(offer(&mut this, 1..=4, None), [(1, 1), (2, 2), (3, 3), (4, 1)]);
    this.admit(5, None);
    assert_eq!(this.pick(|id| id != 2), Some(3), "a member without room is passed over");
    this.lease(5, 3, 0);
    this.roomy(2);
    assert_eq!(this.pick(|_| true), Some(1));
}

#[test]
fn the_floor_waits_for_the_oldest_unsettled_event() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=5, None);
    for seq in [5, 3, 2] {
        assert!(ack(&mut this, 1, seq));
        assert_eq!(this.floor(), 0);
    }
    ack(&mut this, 1, 1);
    assert_eq!(this.floor(), 3);
    assert_eq!(this.state().settled.iter().collect::<Vec<_>>(), [(5, 5)]);
    ack(&mut this, 1, 4);
    assert_eq!(this.floor(), 5);
}

#[test]
fn a_nack_waits_twice_as_long_each_time_up_to_thirty_seconds() {
    let mut this = dispatcher(Rules { max_attempts: 100, ..RULES }, &[]);
    this.join(1, Millis::from(u32::MAX));
    offer(&mut this, 1..=1, None);
    let mut now = 0;
    for expected in [20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 30_000, 30_000] {
        nack(&mut this, 1, None, "no", now);
        assert!(redeliver(&mut this, now + expected - 1).is_empty(), "{expected} ms are not over");
        now += expected;
        assert_eq!(this.next_deadline(), Some(now));
        assert_eq!(redeliver(&mut this, now).len(), 1);
    }
}

#[test]
fn only_the_holder_settles_and_only_once() {
    let mut this = dispatcher(RULES, &[1, 2]);
    offer(&mut this, 1..=1, None);
    assert!(!ack(&mut this, 2, 1), "another member");
    let held = lease(&this, 1, 1);
    assert_eq!(this.ack(Lease { attempt: 2, ..held }), None, "another attempt");
    assert_eq!(this.ack(Lease { epoch: 1, ..held }), None, "another epoch");
    assert!(this.ack(held).is_some());
    assert_eq!(this.ack(held), None, "twice");
    assert!(this.nack(held, None, "", 0).is_none());
    assert!(this.extend(held, 10, 0).is_none());
}

#[test]
fn an_expired_lease_counts_a_failure_only_if_the_event_was_in_hand() {
    let mut this = dispatcher(RULES, &[1]);
    this.admit(1, None);
    this.lease(1, 1, 0);
    offer(&mut this, 2..=2, None);
    assert_eq!(this.expire(999), None);
    let ended: Vec<_> =
        std::iter::from_fn(|| this.expire(1000)).map(|released| released.taken.is_some()).collect();
    assert_eq!(ended, [false, true]);
    assert_eq!(redeliver(&mut this, 1000), [(1, 1), (2, 2)]);
    assert_eq!(this.state().tries.get(&2), Some(&Tries { attempts: 2, failures: 1 }));
}

#[test]
fn extending_puts_the_deadline_off_and_never_closer() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=1, None);
    let held = lease(&this, 1, 1);
    assert_eq!(this.extend(held, 5000, 100), Some(5000));
    assert_eq!(this.extend(held, 1, 200), Some(4900));
    assert_eq!(this.expire(5099), None);
    assert!(this.expire(5100).is_some());
}

#[test]
fn a_pause_gives_back_what_is_queued_and_leaves_what_is_in_hand() {
    let mut this = dispatcher(RULES, &[1, 2]);
    offer(&mut this, 1..=1, None);
    this.admit(2, None);
    this.lease(2, 1, 0);
    assert_eq!(this.set_paused(1, true), 1);
    assert_eq!(redeliver(&mut this, 0), [(2, 1)]);
    assert_eq!(this.pick(|_| true), Some(2));
    assert!(ack(&mut this, 1, 1));
    this.set_paused(1, false);
    assert_eq!(this.rotation, [2, 1]);
}

#[test]
fn a_disconnect_blames_the_oldest_event_in_hand_and_no_other() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=3, None);
    ack(&mut this, 1, 1);
    assert_eq!(this.leave(1, true, 50), 2);
    this.join(2, 1000);
    assert_eq!(redeliver(&mut this, 50), [(2, 2), (3, 2)]);
    let tries = this.state().tries;
    assert_eq!((tries[&2].failures, tries[&3].failures), (1, 0));
}

#[test]
fn what_fails_too_often_is_buried_once_and_then_settled() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=1, None);
    for _ in 0..3 {
        nack(&mut this, 1, Some(0), "broken", 0);
        redeliver(&mut this, 0);
    }
    let burials: Vec<_> = this.burials().collect();
    assert_eq!(burials, [Burial { seq: 1, epoch: 0, attempts: 3, err: "broken".into() }]);
    assert_eq!(this.floor(), 0, "not settled before the letter is written");
    this.buried(1, 1);
    assert!(this.has_burials(), "a letter of another epoch settles nothing");
    this.buried(0, 1);
    assert_eq!((this.floor(), this.has_burials()), (1, false));
}

#[test]
fn on_a_dead_letter_topic_it_is_retried_at_the_longest_backoff() {
    let mut this = dispatcher(Rules { bury: false, ..RULES }, &[]);
    this.join(1, Millis::from(u32::MAX));
    offer(&mut this, 1..=1, None);
    for due in [0, 0, 30_000, 60_000] {
        let now = if due == 60_000 { 30_000 } else { 0 };
        assert!(nack(&mut this, 1, Some(0), "", now));
        assert!(due == now || redeliver(&mut this, due - 1).is_empty());
        assert_eq!(redeliver(&mut this, due).len(), 1);
    }
    assert!(!this.has_burials());
}

#[test]
fn events_of_one_key_go_one_by_one_and_other_keys_go_on() {
    let mut this = dispatcher(KEYED, &[1]);
    assert_eq!(offer(&mut this, 1..=3, Some("a")), [(1, 1)]);
    assert_eq!(offer(&mut this, 4..=4, Some("b")), [(4, 1)]);
    assert_eq!(this.parked(), 2);
    nack(&mut this, 1, None, "", 0);
    assert!(redeliver(&mut this, 19).is_empty(), "the failed one keeps its key");
    assert_eq!(redeliver(&mut this, 20), [(1, 2)]);
    ack(&mut this, 1, 1);
    assert_eq!(redeliver(&mut this, 20), [(2, 1)]);
}

#[test]
fn a_newer_event_overtakes_what_waits_and_what_comes_back() {
    let mut this = dispatcher(COALESCING, &[1]);
    assert_eq!(offer(&mut this, 1..=3, Some("a")), [(1, 1)]);
    assert_eq!(this.parked(), 1, "2 was overtaken by 3");
    nack(&mut this, 1, None, "", 0);
    assert_eq!(redeliver(&mut this, 0), [(3, 1)], "so was 1, when it came back");
    ack(&mut this, 1, 3);
    assert_eq!(this.floor(), 3);
}

#[test]
fn two_keys_with_the_same_hash_wait_for_each_other_and_overtake_nothing() {
    let mut this = dispatcher(COALESCING, &[1]);
    assert_eq!(offer(&mut this, 1..=1, Some("ab")), [(1, 1)]);
    assert_eq!(offer(&mut this, 2..=3, Some("ba")), []);
    assert_eq!(this.parked(), 1, "3 has overtaken 2");
    nack(&mut this, 1, Some(0), "", 0);
    assert_eq!(redeliver(&mut this, 0), [(1, 2)], "but not 1");
    ack(&mut this, 1, 1);
    assert_eq!(redeliver(&mut this, 0), [(3, 1)]);
}

#[test]
fn events_without_a_key_are_never_overtaken() {
    let mut this = dispatcher(COALESCING, &[1]);
    assert_eq!(offer(&mut this, 1..=3, None).len(), 3);
}

#[test]
fn a_new_life_goes_on_where_the_last_one_was_saved() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=6, None);
    for seq in [1, 3, 5] {
        ack(&mut this, 1, seq);
    }
    nack(&mut this, 4, None, "", 0);
    let mut next = Dispatcher::restore(this.state(), RULES);
    next.join(7, 1000);
    assert_eq!((next.floor(), next.state()), (1, this.state()));
    let mut given = Vec::new();
    for seq in 2..=7 {
        if seq > next.pos() && next.admit(seq, None) == Admitted::Ready {
            given.push((seq, give(&mut next, seq, 7, 0)));
        }
    }
    assert_eq!(given, [(2, 2), (4, 2), (6, 2), (7, 1)]);
}

#[test]
fn setting_the_cursor_ends_leases_and_forgets_failures() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=3, None);
    nack(&mut this, 2, None, "", 0);
    assert_eq!(this.set_cursor(1), [(1, 2)]);
    assert_eq!((this.floor(), this.epoch, this.leased(), this.parked()), (1, 1, 0, 0));
    assert!(!ack(&mut this, 1, 3));
    assert_eq!(offer(&mut this, 2..=2, None), [(2, 1)]);
    assert!(this.state().tries.is_empty());
}

#[test]
fn cleaning_settles_what_nobody_holds() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=2, None);
    nack(&mut this, 1, None, "", 0);
    assert_eq!(this.truncate(10), 1 + 7, "the parked one and the unread ones");
    assert_eq!(this.floor(), 1, "2 is still in somebody's hands");
    ack(&mut this, 1, 2);
    assert_eq!(this.floor(), 9);
}

#[test]
fn a_long_run_with_one_stuck_event_keeps_little() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=1, None);
    for seq in 2..=100_000 {
        offer(&mut this, seq..=seq, None);
        ack(&mut this, 1, seq);
    }
    let state = this.state();
    assert_eq!((state.floor, state.settled.len(), state.tries.len()), (0, 1, 0));
    assert_eq!(this.leased(), 1);
}

#[test]
fn what_is_returned_comes_again_after_its_delay_and_counts_no_failure() {
    let mut this = dispatcher(RULES, &[1]);
    offer(&mut this, 1..=1, None);
    // Three failures would be the end of it.
    for now in [0, 100, 200, 300] {
        assert!(this.return_after(lease(&this, 1, 1), 100, now).is_some());
        assert_eq!((this.leased(), this.next_ready(0, now + 99)), (0, None));
        assert_eq!(redeliver(&mut this, now + 100), [(1, now as u32 / 100 + 2)]);
    }
    assert!(!this.has_burials());
    assert!(this.return_after(lease(&this, 1, 1), 0, 400).is_some());
    assert_eq!(redeliver(&mut this, 400), [(1, 6)], "at once without a delay");
    assert!(ack(&mut this, 1, 1));
    assert!(this.return_after(lease(&this, 1, 1), 0, 400).is_none(), "its lease is over");
    assert_eq!(this.floor(), 1);
}

#[test]
fn what_is_returned_holds_back_its_key() {
    let mut this = dispatcher(KEYED, &[1]);
    assert_eq!(offer(&mut this, 1..=2, Some("a")), [(1, 1)]);
    this.return_after(lease(&this, 1, 1), 100, 0);
    assert_eq!(redeliver(&mut this, 50), []);
    assert_eq!(redeliver(&mut this, 100), [(1, 2)]);
    assert!(ack(&mut this, 1, 1));
    assert_eq!(redeliver(&mut this, 100), [(2, 1)]);
}

#[test]
fn what_is_returned_and_was_overtaken_is_settled() {
    let mut this = dispatcher(COALESCING, &[1]);
    assert_eq!(offer(&mut this, 1..=2, Some("a")), [(1, 1)]);
    this.return_after(lease(&this, 1, 1), 100, 0);
    assert_eq!(redeliver(&mut this, 0), [(2, 1)]);
    assert_eq!(this.floor(), 1);
}
