//! The steps of a run. What they refer to is chosen when they are carried out, so any of them can be left out.

use super::rng::Rng;
use crate::Millis;

/// One step. Numbers choose among what there is at the time, by remainder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Publishes `count` events to a topic; `key` 0 is none.
    Publish {
        /// Which topic.
        topic: u64,
        /// Which key.
        key: u64,
        /// How many, as one batch.
        count: u64,
    },
    /// Publishes an event whose outcome was unknown again, or one that is there.
    Republish {
        /// Which.
        which: u64,
    },
    /// Publishes another payload under an id that is there.
    Conflict {
        /// Which.
        which: u64,
    },
    /// Publishes to a topic that the pattern covers and that may be new.
    Birth {
        /// Which.
        topic: u64,
    },
    /// A member joins a group.
    Join {
        /// Which group.
        group: u64,
        /// How many events it may hold.
        window: u64,
        /// Its ack timeout.
        ack_timeout: Millis,
        /// It settles by id, as clients of a hub do.
        by_id: bool,
    },
    /// A member takes up to `count` events in hand.
    Receive {
        /// Which member.
        member: u64,
        /// How many.
        count: u64,
    },
    /// A member acks an event in hand: any, not the oldest first.
    Ack {
        /// Which member.
        member: u64,
        /// Which event.
        which: u64,
    },
    /// A member acks everything in hand.
    AckAll {
        /// Which member.
        member: u64,
    },
    /// Somebody acks what it had in hand once: late, or twice.
    AckStale {
        /// Which delivery.
        which: u64,
    },
    /// A member acks what another one holds.
    AckOther {
        /// Which member.
        member: u64,
        /// Whose event.
        other: u64,
    },
    /// A member hands an event back as failed.
    Nack {
        /// Which member.
        member: u64,
        /// Which event.
        which: u64,
        /// After how long it wants it again; 0: backoff.
        delay: Millis,
    },
    /// A member gives an event back, which is not its failure.
    Return {
        /// Which member.
        member: u64,
        /// Which event.
        which: u64,
        /// After how long it is to come again.
        delay: Millis,
    },
    /// A member puts a deadline off.
    Extend {
        /// Which member.
        member: u64,
        /// Which event.
        which: u64,
        /// By how much.
        millis: Millis,
    },
    /// A member vanishes.
    Disconnect {
        /// Which.
        member: u64,
    },
    /// The connection of a member that settles by id is lost.
    Detach {
        /// Which.
        member: u64,
    },
    /// A member whose connection was lost comes back.
    Reattach {
        /// Which.
        member: u64,
        /// The bits say which events in hand it names.
        which: u64,
    },
    /// A reader without a group comes, and coalesces.
    Watch {
        /// Which topic.
        topic: u64,
    },
    /// A reader without a group takes up to `count` events.
    Look {
        /// Which reader.
        watcher: u64,
        /// How many.
        count: u64,
    },
    /// A member leaves properly.
    Leave {
        /// Which.
        member: u64,
    },
    /// A member pauses or goes on.
    Pause {
        /// Which.
        member: u64,
    },
    /// Time passes.
    Wait {
        /// So much of it.
        millis: Millis,
    },
    /// The wall clock jumps.
    Jump {
        /// By so much.
        millis: i64,
    },
    /// The next `calls` calls to the store go wrong.
    Fault {
        /// In which way.
        kind: u64,
        /// How many.
        calls: u64,
    },
    /// Somebody asks for a save and does not wait for it.
    CutFlush,
    /// The hub dies and comes back.
    Crash {
        /// What becomes of the unfinished.
        luck: u64,
    },
    /// The hub stops cleanly and comes back.
    Restart,
    /// A topic is cleaned.
    Clean {
        /// Which.
        topic: u64,
    },
    /// A group is placed anew.
    SetCursor {
        /// Which.
        group: u64,
        /// Where to.
        to: u64,
    },
    /// A group, or a subscription with its groups, is deleted.
    Delete {
        /// Which.
        group: u64,
    },
}

/// The steps of a seed.
pub(super) fn generate(seed: u64, steps: usize) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    // Runs differ in character: calm ones go deep, rough ones hit corners.
    let rough = rng.below(4);
    let mut ops: Vec<Op> = (0..8).map(|group| join(&mut rng, group)).collect();
    ops.extend((ops.len()..steps).map(|_| one(&mut rng, rough)));
    ops
}

fn join(rng: &mut Rng, group: u64) -> Op {
    Op::Join {
        group,
        window: 1 + rng.below(6),
        ack_timeout: 100 + rng.below(15) * 100,
        by_id: rng.chance(50),
    }
}

fn one(rng: &mut Rng, rough: u64) -> Op {
    let (a, b) = (rng.next(), rng.next());
    match rng.below(1000) {
        0..160 => Op::Publish { topic: a, key: b % 5, count: 1 + rng.below(4) },
        160..180 => Op::Republish { which: a },
        180..190 => Op::Conflict { which: a },
        190..215 => Op::Birth { topic: a },
        215..265 => join(rng, a),
        265..480 => Op::Receive { member: a, count: 1 + b % 5 },
        480..600 => Op::Ack { member: a, which: b },
        600..640 => Op::AckAll { member: a },
        640..670 => Op::AckStale { which: a },
        670..690 => Op::AckOther { member: a, other: b },
        690..740 => Op::Nack { member: a, which: b, delay: if rng.chance(70) { 0 } else { rng.below(3000) } },
        740..760 => {
            Op::Return { member: a, which: b, delay: if rng.chance(50) { 0 } else { rng.below(3000) } }
        }
        760..785 => Op::Extend { member: a, which: b, millis: rng.below(4000) },
        785..805 => Op::Disconnect { member: a },
        805..820 => Op::Leave { member: a },
        820..832 => Op::Pause { member: a },
        832..846 => Op::Detach { member: a },
        846..862 => Op::Reattach { member: a, which: b },
        862..866 => Op::Watch { topic: a },
        866..880 => Op::Look { watcher: a, count: 1 + b % 8 },
        880..900 => Op::Wait { millis: 1 + rng.below(60) },
        900..930 => Op::Wait { millis: 1 + rng.below(2500) },
        930..934 => Op::Wait { millis: 30_000 },
        934..944 => Op::Jump { millis: rng.below(200_000) as i64 - 100_000 },
        944..964 if rough > 0 => Op::Fault { kind: a, calls: 1 + b % 4 },
        964..972 if rough > 1 => Op::Crash { luck: a },
        972..976 => Op::Restart,
        976..990 => Op::Clean { topic: a },
        990..994 => Op::SetCursor { group: a, to: b },
        994..996 => Op::Delete { group: a },
        996..998 => Op::CutFlush,
        _ => Op::Receive { member: a, count: 5 },
    }
}
