//! What the outside has seen: every answer, every delivery and every ack, and what was done to which hub, with times.

use super::checks::LEARNS;
use hub_client::{Delivered, EventId, Receipt};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Everybody writes here.
#[derive(Default)]
pub struct Ledger {
    records: Mutex<Records>,
    answered: AtomicU64,
    settled: AtomicU64,
}

#[derive(Default)]
pub struct Records {
    /// The place of every event whose publish was answered with OK.
    pub places: HashMap<EventId, u64>,
    pub lives: Vec<Life>,
    pub holdings: Vec<Holding>,
    pub harms: Vec<Harm>,
    pub watched: Vec<Watched>,
    /// What was wrong as soon as it was seen.
    pub wrong: Vec<String>,
    /// Publishes that were answered `unavailable`.
    pub unavailable: u64,
    /// Publishes that were sent again, and had been stored the time before.
    pub stored_before: u64,
    /// When publishes were answered with OK, and how long they took.
    pub stored: Vec<(Instant, Duration)>,
    /// The longest that a publish waited for its answer, whatever that was.
    pub longest: Duration,
    /// Places of events that were acked at least once.
    acked: HashSet<u64>,
    /// Places of events with an ack that was not answered.
    unanswered: HashSet<u64>,
}

/// What a watcher has seen, in its order, and how many more it was told of.
#[derive(Clone, Default)]
pub struct Watched {
    pub seen: Vec<(u64, EventId)>,
    pub missed: u64,
}

/// One member on one connection.
pub struct Life {
    pub hub: usize,
    pub ended: Option<Instant>,
}

/// An event in the hands of a member.
pub struct Holding {
    pub life: usize,
    pub seq: u64,
    pub key: Option<String>,
    pub from: Instant,
    /// When the member began to ack it.
    pub said: Option<Instant>,
    /// When the hub had answered that.
    pub acked: Option<Instant>,
}

/// What was done to a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Killed,
    Stopped,
    Frozen,
    CutOff,
}

pub struct Harm {
    pub hub: usize,
    pub how: How,
    pub from: Instant,
    pub until: Option<Instant>,
}

impl Ledger {
    /// Looks at everything, or writes.
    pub fn with<T>(&self, act: impl FnOnce(&mut Records) -> T) -> T {
        act(&mut self.records.lock().unwrap())
    }

    /// Events that are stored for certain.
    pub fn answered(&self) -> u64 {
        self.answered.load(SeqCst)
    }

    /// Events that a member has acked.
    pub fn settled(&self) -> u64 {
        self.settled.load(SeqCst)
    }

    // ---- publishers ----

    /// A publish was answered with OK. `sent_before` says how often the event had been sent before.
    pub fn stored(&self, receipt: &Receipt, sent_before: u32, took: Duration) {
        self.with(|records| {
            records.longest = records.longest.max(took);
            records.stored.push((Instant::now(), took));
            if receipt.duplicate {
                records.stored_before += 1;
                if sent_before == 0 {
                    records.wrong.push(format!("{receipt:?} was sent once, and is called a duplicate"));
                }
            }
            if records.places.insert(receipt.id, receipt.seq).is_some() {
                records.wrong.push(format!("{receipt:?} was answered twice"));
            }
        });
        self.answered.fetch_add(1, SeqCst);
    }

    pub fn unavailable(&self, took: Duration) {
        self.with(|records| {
            records.longest = records.longest.max(took);
            records.unavailable += 1;
        });
    }

    pub fn is_wrong(&self, what: String) {
        self.with(|records| records.wrong.push(what));
    }

    // ---- members ----

    /// A member has subscribed at a hub.
    pub fn begun(&self, hub: usize) -> usize {
        self.with(|records| {
            records.lives.push(Life { hub, ended: None });
            records.lives.len() - 1
        })
    }

    pub fn ended(&self, life: usize) {
        self.with(|records| records.lives[life].ended = Some(Instant::now()));
    }

    pub fn delivered(&self, life: usize, delivered: &Delivered) -> usize {
        let event = &delivered.event;
        let (seq, key) = (event.seq(), event.key().map(|key| key.to_string()));
        self.with(|records| {
            let holding = Holding { life, seq, key, from: Instant::now(), said: None, acked: None };
            records.holdings.push(holding);
            records.holdings.len() - 1
        })
    }

    pub fn said(&self, holding: usize) {
        self.with(|records| records.holdings[holding].said = Some(Instant::now()));
    }

    pub fn acked(&self, holding: usize) {
        let first = self.with(|records| {
            let holding = &mut records.holdings[holding];
            holding.acked = Some(Instant::now());
            let seq = holding.seq;
            records.acked.insert(seq) && !records.unanswered.contains(&seq)
        });
        self.settled.fetch_add(u64::from(first), SeqCst);
    }

    /// The connection ended before an ack was answered: it may count, and then the event never comes again.
    pub fn unanswered(&self, holding: usize) {
        let first = self.with(|records| {
            let seq = records.holdings[holding].seq;
            !records.acked.contains(&seq) && records.unanswered.insert(seq)
        });
        self.settled.fetch_add(u64::from(first), SeqCst);
    }

    /// A hub has ended the subscription before the ack came, which is right while it stops: the event comes again.
    pub fn came_too_late(&self, holding: usize) {
        self.with(|records| {
            let (seq, hub) =
                (records.holdings[holding].seq, records.lives[records.holdings[holding].life].hub);
            let stops = |harm: &Harm| harm.hub == hub && harm.how == How::Stopped && harm.until.is_none();
            if !records.harms.iter().any(stops) {
                records
                    .wrong
                    .push(format!("hub {hub} has ended the subscription of a member that has {seq}"));
            }
        });
    }

    /// A hub did not know that the member has the event.
    pub fn refused(&self, holding: usize) {
        self.with(|records| {
            let (seq, hub) =
                (records.holdings[holding].seq, records.lives[records.holdings[holding].life].hub);
            let now = Instant::now();
            let unheard = |harm: &Harm| {
                harm.hub == hub
                    && matches!(harm.how, How::Frozen | How::CutOff)
                    && harm.until.is_none_or(|until| until + LEARNS > now)
            };
            if !records.harms.iter().any(unheard) {
                records.wrong.push(format!("hub {hub} did not know that its member has {seq}"));
            }
        });
    }

    // ---- harm ----

    pub fn harmed(&self, hub: usize, how: How) -> Instant {
        let from = Instant::now();
        self.with(|records| records.harms.push(Harm { hub, how, from, until: None }));
        from
    }

    pub fn healed(&self, hub: usize) {
        let now = Instant::now();
        self.with(|records| {
            let open = records.harms.iter_mut().filter(|harm| harm.hub == hub && harm.until.is_none());
            open.for_each(|harm| harm.until = Some(now));
        });
    }

    /// The longest time without a delivery since then.
    pub fn quiet_since(&self, then: Instant) -> Duration {
        self.with(|records| {
            let mut times: Vec<_> =
                records.holdings.iter().map(|holding| holding.from).filter(|at| *at > then).collect();
            times.sort_unstable();
            let before = std::iter::once(then).chain(times.iter().copied());
            times.iter().zip(before).map(|(at, before)| *at - before).max().unwrap_or_else(|| then.elapsed())
        })
    }

    /// How far everybody is, for who wonders why nothing goes on.
    pub fn shown(&self) -> String {
        let (answered, settled) = (self.answered(), self.settled());
        self.with(|records| {
            let mut lines = vec![format!("{answered} answered, {settled} acked")];
            for (life, Life { hub, ended }) in records.lives.iter().enumerate() {
                let held: Vec<&Holding> = records.holdings.iter().filter(|held| held.life == life).collect();
                let open: Vec<String> = held
                    .iter()
                    .filter(|held| held.acked.is_none() && ended.is_none())
                    .map(|held| format!("{} for {:?} (said {:?})", held.seq, held.from.elapsed(), held.said.map(|at| at.elapsed())))
                    .collect();
                let last = held.last().map(|held| held.from.elapsed());
                let ended = ended.map(|at| at.elapsed());
                lines.push(format!(
                    "member {life} at hub {hub}: {} deliveries, the last {last:?} ago, ended {ended:?} ago, in hand {open:?}",
                    held.len()
                ));
            }
            for (me, Watched { seen, missed }) in records.watched.iter().enumerate() {
                let holes = seen.windows(2).filter(|pair| pair[0].0 + 1 != pair[1].0);
                let holes: Vec<_> = holes.map(|pair| pair[0].0 + 1..pair[1].0).collect();
                let last = seen.last().map(|(seq, _)| seq);
                lines.push(format!(
                    "watcher {me}: saw {} events, the last {last:?}; told of {missed}; not seen {holes:?}",
                    seen.len()
                ));
            }
            lines.push(format!("wrong so far: {:?}", records.wrong));
            lines.join("\n")
        })
    }
}
