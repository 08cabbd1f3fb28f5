//! The loop of a drainer. Claiming, publishing and settling overlap: while one batch goes out, the next is claimed and the
//! one before is marked.

mod away;
mod house;
mod plan;

use super::book::{Book, Entry, Failure, Run};
use super::options::{DrainerOptions, OnError};
use super::row::{Place, Row};
use super::shares::{Shares, slot_of};
use super::store::{Claim, OutboxStore, Settled, Woken};
use crate::store::{StoreError, StoreResult};
use crate::trace::{self, Operation, Span, SpanRecorder};
use crate::{Clock, Millis, SystemClock};
use away::Away;
use hub_proto::bus::Publisher;
use hub_proto::{Code, Error, IdGenerator, Receipt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Batches that a drainer holds at once, at most.
const BATCHES: usize = 4;
/// Rows of its first claim, before it knows how large they are; and bytes that a claim should have at most.
const FIRST: usize = 64;
const CLAIM_BYTES: usize = 4 << 20;
/// The first wait after a failure that counts, and the longest.
const BACKOFF: (Millis, Millis) = (500, 60_000);
/// The same while the hub is away, or the database.
const AWAY: (Millis, Millis) = (50, 5_000);
/// How long a drainer that stops waits for what is out.
const GRACE: Duration = Duration::from_secs(3);

/// What a drainer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Rows that were published.
    pub sent: u64,
    /// Rows that were parked.
    pub parked: u64,
    /// Failures after which rows wait.
    pub retried: u64,
    /// How often it had to begin anew.
    pub resets: u64,
}

/// What a drainer has done so far, for those who watch it.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    parked: AtomicU64,
    retried: AtomicU64,
    resets: AtomicU64,
}

impl Progress {
    /// As it stands.
    pub fn drained(&self) -> Drained {
        let [sent, parked, retried, resets] =
            [&self.sent, &self.parked, &self.retried, &self.resets].map(|count| count.load(Relaxed));
        Drained { sent, parked, retried, resets }
    }
}

/// Publishes the rows of an outbox, together with any number of others.
pub struct Drainer {
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    options: DrainerOptions,
    clock: Arc<dyn Clock>,
    /// What it is called, and the how manieth time it began.
    name: String,
    lives: u64,
    me: Arc<str>,
    claims: u64,
    /// Rows of the next claim, if the options allow as many.
    batch: usize,
    book: Book,
    shares: Shares,
    /// Until when others take it for alive, on the steady clock.
    alive_until: Millis,
    /// What is to go out when the hub is there again.
    again: VecDeque<Run>,
    away: Option<Away>,
    /// The hub is away, and others have its slots. How often that has been so since the hub took an event.
    stepped_back: bool,
    step_backs: u32,
    /// Its part of the slots is to be seen to at once.
    attends_now: bool,
    work: JoinSet<Done>,
    out: usize,
    /// The slots of a claim that is under way.
    claiming: Option<Vec<bool>>,
    settling: bool,
    /// Somebody waits for news, or there never are any.
    listening: bool,
    /// There may be more to claim.
    hungry: bool,
    /// How far fresh rows have been looked at, and whether any were found since the beginning.
    seen: Option<Place>,
    found: bool,
    /// Where fresh rows are looked at from, until the beginning is: it is slow to look at.
    floor: Option<(Place, Instant)>,
    /// Somebody keeps house.
    tidying: bool,
    /// Nothing is claimed any more, because nobody knows what the last claim took: what is out is settled, and then it
    /// begins anew.
    winding_down: Option<StoreError>,
    /// Names that nobody has any more: its own of before, and those of drainers that it has found dead.
    former: Vec<Arc<str>>,
    /// The database did not answer the last time.
    troubled: bool,
    progress: Arc<Progress>,
    luck: Luck,
    spans: Option<Arc<dyn SpanRecorder>>,
}

/// Something that ran beside the loop has ended.
enum Done {
    Published(Run, Vec<Result<Receipt, Error>>),
    /// Whether the hub may be there again.
    Available(bool),
    Claimed(StoreResult<plan::Plan>),
    Settled(StoreResult<bool>),
    News(StoreResult<Woken>),
    Tidied(StoreResult<()>),
}

/// Why a drainer begins anew.
enum Reset {
    /// Somebody else may have its rows by now.
    Late,
    /// Somebody else has them.
    Fenced,
    /// The database does not answer.
    Store(StoreError),
}

impl From<StoreError> for Reset {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Drainer {
    /// A drainer of an outbox.
    pub fn new(store: Arc<dyn OutboxStore>, publisher: Arc<dyn Publisher>, options: DrainerOptions) -> Self {
        let random = IdGenerator::new().next(SystemClock::new().wall()).to_string();
        let own = if options.worker.is_empty() { "drainer" } else { &options.worker };
        let name = format!("{own}-{}", &random[24..]);
        Self {
            book: Book::new(options.on_error, options.max_attempts.max(1)),
            luck: Luck::new(if options.worker.is_empty() { &name } else { &options.worker }),
            store,
            publisher,
            options,
            clock: Arc::new(SystemClock::new()),
            me: name.as_str().into(),
            name,
            lives: 0,
            claims: 0,
            batch: FIRST,
            shares: Shares::default(),
            alive_until: 0,
            again: VecDeque::new(),
            away: None,
            stepped_back: false,
            step_backs: 0,
            attends_now: false,
            work: JoinSet::new(),
            out: 0,
            claiming: None,
            settling: false,
            listening: false,
            hungry: true,
            seen: None,
            found: false,
            floor: None,
            tidying: false,
            winding_down: None,
            former: Vec::new(),
            troubled: false,
            progress: Arc::default(),
            spans: None,
        }
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where spans of rows that belong to a trace go; nothing is traced unless set. See [`trace`](crate::trace).
    #[must_use]
    pub fn spans(mut self, recorder: Arc<dyn SpanRecorder>) -> Self {
        self.spans = Some(recorder);
        self
    }

    /// What it has done so far, also while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Works until it is told to stop. Then it waits for what is out, gives back what it holds, and leaves.
    pub async fn run(mut self, stop: CancellationToken) -> Drained {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let began = Instant::now();
            let why = match self.live(&stop).await {
                Ok(()) => break,
                Err(why) => why,
            };
            if began.elapsed() > Duration::from_millis(self.options.lease) {
                failures = 0;
            }
            let outbox = self.store.name();
            match &why {
                Reset::Late => tracing::warn!(outbox, "a drainer was away for too long; it begins anew"),
                Reset::Fenced => {
                    tracing::warn!(outbox, "others have taken rows over from a drainer; it begins anew");
                }
                Reset::Store(error) if failures == 0 => {
                    tracing::warn!(outbox, %error, "an outbox cannot be reached; trying again");
                }
                Reset::Store(error) => tracing::debug!(outbox, %error, "an outbox cannot be reached"),
            }
            self.begin_anew();
            let wait = self.luck.wait(AWAY, failures);
            failures += 1;
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => {}
            }
        }
        self.leave().await;
        self.progress.drained()
    }

    /// Lets go of everything. What it held is found under a name that nobody has any more.
    fn begin_anew(&mut self) {
        self.progress.resets.fetch_add(1, Relaxed);
        self.lives += 1;
        let me = format!("{}+{}", self.name, self.lives).as_str().into();
        self.former.push(std::mem::replace(&mut self.me, me));
        self.winding_down = None;
        // It may be what was claimed that took too long.
        self.batch = (self.next_batch() / 2).max(1);
        self.work = JoinSet::new();
        self.book = Book::new(self.options.on_error, self.options.max_attempts.max(1));
        self.again.clear();
        (self.out, self.claiming, self.settling) = (0, None, false);
        (self.listening, self.tidying) = (false, false);
        (self.hungry, self.seen, self.found, self.floor) = (true, None, false, None);
        (self.away, self.stepped_back) = (None, false);
        self.shares = Shares::default();
    }

    /// One life: from joining to a stop, or to something that makes it begin anew.
    async fn live(&mut self, stop: &CancellationToken) -> Result<(), Reset> {
        self.attend().await?;
        let third = Duration::from_millis((self.options.lease / 3).max(1));
        let mut attend = tokio::time::interval_at(Instant::now() + third, third);
        let mut look = tokio::time::interval(Duration::from_millis(self.options.interval.max(1)));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.listen();
        self.keep_house();
        loop {
            self.step()?;
            if std::mem::take(&mut self.attends_now) {
                attend.reset_immediately();
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(done) = self.work.join_next() => {
                    // One that panicked is found by its lease.
                    let Ok(done) = done else { return Err(Reset::Late) };
                    self.done(done)?;
                }
                _ = attend.tick() => {
                    let tended = self.tend().await;
                    self.pass_over(tended)?;
                }
                _ = look.tick() => {
                    self.hungry = true;
                    if !self.listening {
                        self.listen();
                    }
                }
                () = until(self.away.and_then(|away| away.until)) => self.probe(),
            }
        }
    }

    /// A database that does not answer is asked again the next time, for as long as the leases hold.
    fn pass_over(&mut self, done: Result<(), Reset>) -> Result<(), Reset> {
        match done {
            Err(Reset::Store(error)) => {
                let outbox = self.store.name();
                if !std::mem::replace(&mut self.troubled, true) {
                    tracing::warn!(outbox, %error, "an outbox does not answer; trying again");
                }
                Ok(())
            }
            Ok(()) => {
                self.troubled = false;
                Ok(())
            }
            done => done,
        }
    }

    /// Keeps what it holds, and looks after the rest.
    async fn tend(&mut self) -> Result<(), Reset> {
        self.check_alive()?;
        // Most rows are settled long before their time: nobody writes them once more for that. One failure is no matter.
        let lease = self.options.lease;
        self.renew(self.clock.steady() + lease - lease / 8).await?;
        self.store.requeue_expired().await?;
        self.attend().await?;
        self.look_after_slots();
        self.keep_house();
        Ok(())
    }

    /// More time for claims that run out before a time.
    async fn renew(&mut self, before: Millis) -> Result<(), Reset> {
        let (asked, held_until, lease) = (self.clock.steady(), self.book.held_until(), self.options.lease);
        let Some(claims) = self.book.running_out(before) else { return Ok(()) };
        self.store.renew(&self.me, claims.clone(), lease).await?;
        if self.clock.steady() >= held_until {
            // Others may have had it in between.
            return Err(Reset::Late);
        }
        self.book.renewed(claims, asked + lease);
        Ok(())
    }

    /// Starts whatever can be started.
    fn step(&mut self) -> Result<(), Reset> {
        self.check_alive()?;
        if self.winding_down.is_some() && !self.settling && self.out == 0 && !self.book.has_outcomes() {
            return Err(self.winding_down.take().map_or(Reset::Late, Reset::Store));
        }
        if !self.settling
            && let Some((number, settled)) = self.book.outcomes()
        {
            self.settling = true;
            let (store, claim) = (self.store.clone(), Claim { worker: self.me.clone(), number });
            let (released, batch) = (self.released(), self.options.batch_size);
            self.work
                .spawn(async move { Done::Settled(settle(&*store, claim, settled, released, batch).await) });
        }
        if self.claiming.is_none() && !self.settling {
            self.book.unblock();
        }
        let batch = self.next_batch();
        let room = (BATCHES * self.options.batch_size).saturating_sub(self.book.held());
        let room_bytes = (BATCHES * CLAIM_BYTES).saturating_sub(self.book.bytes());
        let may_claim = self.hungry && self.winding_down.is_none();
        if may_claim
            && self.claiming.is_none()
            && self.away.is_none()
            && !self.book.is_blocked()
            && room >= batch
            && room_bytes > 0
        {
            let slots = self.slots_to_claim();
            self.claiming = Some(slots.clone());
            self.claims += 1;
            let plan = plan::Ask {
                claim: Claim { worker: self.me.clone(), number: self.claims },
                batch,
                full: self.options.batch_size.max(1),
                lease: self.options.lease,
                most_bytes: CLAIM_BYTES.min(room_bytes),
                asked: self.clock.steady(),
                parked: self.options.on_error == OnError::Hold,
                slots,
                seen: self.seen.take(),
                floor: self
                    .floor
                    .as_ref()
                    .filter(|(_, until)| Instant::now() < *until)
                    .map(|(at, _)| at.clone()),
            };
            let store = self.store.clone();
            self.work.spawn(async move { Done::Claimed(plan::claim(&*store, plan).await) });
        }
        Ok(())
    }

    /// Rows of the next claim.
    fn next_batch(&self) -> usize {
        self.batch.min(self.options.batch_size).max(1)
    }

    /// Keys whose rows behind others can go on, once what is told now is known: if nothing is left to tell.
    fn released(&mut self) -> Vec<Arc<str>> {
        if self.book.has_outcomes() { Vec::new() } else { self.book.released() }
    }

    /// The slots that are this drainer's, without those that it is about to give up.
    fn slots_to_claim(&self) -> Vec<bool> {
        let mut surplus = self.shares.surplus(&self.me);
        let mut slots: Vec<bool> =
            (0..self.shares.slots.len()).map(|slot| self.shares.has(&self.me, slot)).collect();
        for mine in slots.iter_mut().filter(|mine| **mine) {
            if surplus == 0 {
                break;
            }
            *mine = false;
            surplus -= 1;
        }
        slots
    }

    fn done(&mut self, done: Done) -> Result<(), Reset> {
        // Before anything goes out because of it.
        self.check_alive()?;
        match done {
            Done::Published(run, answers) => {
                self.out -= 1;
                self.published(run, answers);
            }
            Done::Available(is_available) => self.asked_whether_available(is_available),
            Done::Claimed(plan) => {
                self.claiming = None;
                let plan::Plan { claim, asked, wanted, rows, overtaking, more, seen, floor } = match plan {
                    Ok(plan) => plan,
                    Err(error) => {
                        self.give_back();
                        self.winding_down = Some(error);
                        return Ok(());
                    }
                };
                self.batch = next_batch(self.next_batch(), wanted, &rows);
                self.found |= !rows.is_empty();
                // With nothing of its own from the beginning to the end, it looks again when it is time.
                self.hungry = more && (self.found || seen.is_some());
                self.found &= seen.is_some();
                self.seen = seen;
                self.floor = match (floor, self.floor.take()) {
                    (plan::Floor::At(Some(at)), Some((_, until))) => Some((at, until)),
                    (plan::Floor::At(None), floor) => floor,
                    (plan::Floor::Slow(at), _) => {
                        let until = Instant::now() + Duration::from_millis(self.options.interval);
                        at.map(|at| (at, until))
                    }
                    _ => None,
                };
                let until = asked + self.options.lease;
                let runs = self.book.take(claim.number, until, rows);
                self.book.give_back_rows(claim.number, until, overtaking);
                self.check_alive()?;
                self.again.extend(runs);
                if self.stepped_back {
                    self.give_back();
                }
                self.send_all();
            }
            Done::Settled(all) => {
                self.settling = false;
                if !all? {
                    return Err(Reset::Fenced);
                }
                self.book.told();
                self.attends_now |= self.stepped_back && self.book.held() == 0;
            }
            Done::Tidied(done) => {
                self.tidying = false;
                self.pass_over(done.map_err(Reset::Store))?;
            }
            Done::News(woken) => match woken {
                Ok(Woken::News) => {
                    self.hungry = true;
                    self.listen();
                }
                Ok(Woken::Never) => {}
                // It is asked again when it is time to look.
                Err(error) => {
                    self.listening = false;
                    self.pass_over(Err(Reset::Store(error)))?;
                }
            },
        }
        Ok(())
    }

    /// A drainer that is late may not act: others have its rows, or are about to.
    fn check_alive(&self) -> Result<(), Reset> {
        let until = self.alive_until.min(self.book.held_until());
        match self.clock.steady() + self.options.lease / 6 < until {
            true => Ok(()),
            false => Err(Reset::Late),
        }
    }

    fn listen(&mut self) {
        self.listening = true;
        let store = self.store.clone();
        self.work.spawn(async move { Done::News(store.news().await) });
    }

    // ---- publishing ----

    fn send_all(&mut self) {
        while self.away.is_none()
            && let Some(run) = self.again.pop_front()
        {
            self.send(run);
        }
    }

    /// Sends the first rows of a run that can be published; or the first one, which cannot.
    fn send(&mut self, run: Run) {
        let publisher = self.publisher.clone();
        self.out += 1;
        let mut events: Vec<_> = run.iter().map_while(|entry| entry.row.event.clone().ok()).collect();
        let unfit = run.front().and_then(|entry| entry.row.event.clone().err());
        self.work.spawn(async move {
            let answers = match (unfit, events.len()) {
                (Some(error), _) => vec![Err(error)],
                (None, 1) => vec![publisher.send(events.remove(0)).await],
                (None, _) => publisher.send_in_order(events).await,
            };
            Done::Published(run, answers)
        });
    }

    fn published(&mut self, mut run: Run, answers: Vec<Result<Receipt, Error>>) {
        let key = run.front().and_then(|entry| entry.row.key.clone());
        for answer in answers {
            let Some(entry) = run.pop_front() else { break };
            let Err(error) = answer else {
                self.is_back();
                self.step_backs = 0;
                self.progress.sent.fetch_add(1, Relaxed);
                self.record_relay(&entry.row);
                self.book.sent(entry);
                continue;
            };
            return match class(&error) {
                Class::Away => {
                    self.was_away(&error);
                    run.push_front(entry);
                    self.try_later(run);
                }
                Class::Passing => {
                    let wait = self.luck.wait(BACKOFF, entry.row.attempts);
                    let wait = Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX);
                    self.failed(entry, run, &error, Failure::Passing(error.to_string(), wait));
                }
                Class::Final => self.failed(entry, run, &error, Failure::Final(error.to_string())),
            };
        }
        let next = key.and_then(|key| self.book.go_on(&key, run));
        self.go_on_with(next);
    }

    /// Records that a row was published, if it belongs to a trace.
    fn record_relay(&self, row: &Row) {
        let (Some(recorder), Ok(event)) = (&self.spans, &row.event) else { return };
        let traced = trace::sampled(&event.options.headers).zip(event.options.id);
        let Some((parent, id)) = traced else { return };
        let (written, now) = (trace::at_micros(row.place.at), SystemTime::now());
        recorder.record(Span {
            parent,
            span_id: trace::derived(parent, id, &[b"relay"]),
            operation: Operation::Relay { outbox: self.store.name().into() },
            // The clock of the service that wrote the row may be ahead.
            start: written.min(now),
            end: now,
            topic: event.topic.clone(),
            event: id,
            seq: None,
            error: None,
        });
    }

    /// Rows that did not get there are tried again when the hub is back; by others, if this drainer has stepped back.
    fn try_later(&mut self, run: Run) {
        match self.winding_down.is_some() || self.stepped_back {
            true => self.book.give_back_run(run),
            // Another one is tried first the next time: it may be this one's topic that has had enough.
            false => self.again.push_back(run),
        }
    }

    fn failed(&mut self, entry: Entry, left: Run, error: &Error, failure: Failure) {
        self.is_back();
        let Row { key, place, attempts, .. } = &entry.row;
        let (row, key, attempts) = (place.id.clone(), key.clone(), attempts + 1);
        let (next, parked) = self.book.failed(entry, left, failure);
        if parked {
            self.progress.parked.fetch_add(1, Relaxed);
            let outbox = self.store.name();
            let holds = key.is_some() && self.options.on_error == OnError::Hold;
            let then = if holds { "later rows of its key wait until it is retried" } else { "others go on" };
            tracing::warn!(outbox, %row, key = key.as_deref(), attempts, %error, "a row of the outbox is parked; {then}");
        } else {
            self.progress.retried.fetch_add(1, Relaxed);
        }
        self.go_on_with(next);
    }

    fn go_on_with(&mut self, next: Option<Run>) {
        match next {
            Some(run) if self.winding_down.is_some() || self.stepped_back => self.book.give_back_run(run),
            next => self.again.extend(next),
        }
        self.send_all();
    }

    // ---- others ----

    /// Whether it has rows of a slot, or may have some in a moment.
    fn is_busy(&self, slot: usize) -> bool {
        self.book.is_busy(slot)
            || self.claiming.as_ref().is_some_and(|slots| slots.get(slot).is_some_and(|asked| *asked))
    }

    /// Says that it is alive, and takes its part of the slots.
    async fn attend(&mut self) -> Result<(), Reset> {
        loop {
            let asked = self.clock.steady();
            let (mut shares, version, now) = self.store.shares().await?;
            let joining = self.shares.workers.is_empty();
            self.former.iter().for_each(|former| shares.leave(former));
            let change = shares
                .attend(&self.me, now, self.options.lease, self.stepped_back, |slot| self.is_busy(slot));
            if change.joined && !joining {
                return Err(Reset::Fenced);
            }
            // Those are dead for good, whatever becomes of this.
            self.former.extend(change.dead);
            // What is given up is so from now on: whether it was is not known if the answer is lost.
            for (slot, shared) in self.shares.slots.iter_mut().zip(&shares.slots) {
                if shared.as_ref() != Some(&self.me) {
                    *slot = None;
                }
            }
            if !self.store.share(&shares, version).await? {
                continue;
            }
            self.shares = shares;
            self.alive_until = asked + self.options.lease;
            if !self.former.is_empty() {
                // What they held need not wait for its time.
                self.store.take_from(&self.former).await?;
                self.former.clear();
            }
            return Ok(());
        }
    }

    /// What nobody waits for.
    fn keep_house(&mut self) {
        if std::mem::replace(&mut self.tidying, true) {
            return;
        }
        let (store, me, shares) = (self.store.clone(), self.me.clone(), self.shares.clone());
        let (keep, on_error, batch) =
            (self.options.keep_sent, self.options.on_error, self.options.batch_size);
        self.work.spawn(async move {
            let is_mine = |key: &str| shares.has(&me, slot_of(Some(key), ""));
            Done::Tidied(house::keep(&*store, &me, is_mine, house::Rules { keep, on_error, batch }).await)
        });
    }

    // ---- the end ----

    /// Gives everything back that is not out.
    fn give_back(&mut self) {
        self.book.give_back();
        for run in std::mem::take(&mut self.again) {
            self.book.give_back_run(run);
        }
    }

    async fn leave(&mut self) {
        let by = Instant::now() + GRACE;
        self.give_back();
        // What is out has until then. If this does not come through, it has what it had.
        let _ = tokio::time::timeout_at(by, self.renew(Millis::MAX)).await;
        while self.out > 0 || self.claiming.is_some() || self.settling {
            let Ok(Some(Ok(done))) = tokio::time::timeout_at(by, self.work.join_next()).await else { break };
            match done {
                Done::Published(mut run, answers) => {
                    self.out -= 1;
                    for _ in answers.iter().take_while(|answer| answer.is_ok()) {
                        let Some(entry) = run.pop_front() else { break };
                        self.progress.sent.fetch_add(1, Relaxed);
                        self.book.sent(entry);
                    }
                    self.book.give_back_run(run);
                }
                Done::Claimed(plan) => {
                    self.claiming = None;
                    if let Ok(plan) = plan {
                        let (number, until) = (plan.claim.number, plan.asked + self.options.lease);
                        let runs = self.book.take(number, until, plan.rows);
                        self.book.give_back_rows(number, until, plan.overtaking);
                        runs.into_iter().for_each(|run| self.book.give_back_run(run));
                        self.book.give_back();
                    }
                }
                Done::Settled(_) => self.settling = false,
                Done::News(_) | Done::Tidied(_) | Done::Available(_) => {}
            }
        }
        if let Err(error) = self.say_goodbye().await {
            tracing::debug!(outbox = self.store.name(), %error, "a drainer left without a word; its lease runs out");
        }
    }

    async fn say_goodbye(&mut self) -> StoreResult<()> {
        while let Some((number, settled)) = self.book.outcomes() {
            let claim = Claim { worker: self.me.clone(), number };
            let released = self.released();
            settle(&*self.store, claim, settled, released, self.options.batch_size).await?;
        }
        // What is still out, or was claimed and nobody heard of it.
        self.former.push(self.me.clone());
        self.store.take_from(&self.former).await?;
        loop {
            let (mut shares, version, _) = self.store.shares().await?;
            self.former.iter().for_each(|name| shares.leave(name));
            if self.store.share(&shares, version).await? {
                return Ok(());
            }
        }
    }
}

/// How many rows to claim the next time, after so many were wanted and these came. Where they are large the database need not
/// look at more than it can give. What did not come says nothing of what will.
fn next_batch(batch: usize, wanted: usize, rows: &[Row]) -> usize {
    let bytes: usize = rows.iter().map(Row::bytes).sum();
    match rows.len() {
        given if given < wanted && bytes > CLAIM_BYTES / 4 => given.max(1),
        given if given < batch => batch,
        _ => 2 * batch,
    }
}

/// Tells the database what became of rows. Answers whether all were still held.
async fn settle(
    store: &dyn OutboxStore,
    claim: Claim,
    settled: Vec<Settled>,
    released: Vec<Arc<str>>,
    batch: usize,
) -> StoreResult<bool> {
    let held = store.settle(&claim, &settled).await?;
    if !released.is_empty() {
        store.release(&released, batch).await?;
    }
    Ok(held == settled.len() as u64)
}

/// What a failure means for the row.
enum Class {
    /// Nothing: the hub was not there, or had enough.
    Away,
    /// It will never be taken as it is.
    Final,
    /// Who knows.
    Passing,
}

fn class(error: &Error) -> Class {
    match error.code {
        Code::Unavailable | Code::RateLimited => Class::Away,
        Code::Forbidden | Code::TooLarge | Code::IdConflict | Code::BadRequest | Code::SchemaViolation => {
            Class::Final
        }
        _ => Class::Passing,
    }
}

/// Waits until then; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Spreads waits, so that drainers do not come all at once.
struct Luck(u64);

impl Luck {
    fn new(name: &str) -> Self {
        Self(name.bytes().fold(1, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))))
    }

    /// Between a half and the whole of a wait that doubles with each try.
    fn wait(&mut self, (first, longest): (Millis, Millis), tries: u32) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let whole = first.saturating_mul(1 << tries.min(16)).min(longest);
        Duration::from_millis(whole / 2 + (self.0 >> 33) % (whole / 2 + 1))
    }
}
