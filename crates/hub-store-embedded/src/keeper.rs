//! Upkeep beside the commits: sealing segments, writing the manifest, preparing the next segment, rewriting what is
//! mostly gone.

use crate::disk::{DiskFile, Wait};
use crate::format::header;
use crate::index::SegmentIndex;
use crate::manifest::{self, Manifest, STRIDE, write_file};
use crate::options::Threads;
use crate::reserve::{self, is_disk_full};
use crate::rewrite::{self, Written};
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Prepared, Shared, explain};
use crate::sidecar::{self, Sidecar, SidecarError};
use crate::slice;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Sealed segments that may wait for the keeper; their indexes are in memory. Commits wait for it beyond that.
const WAITING: usize = 2;
/// How far behind others the thread stands; 0 is even, 19 last.
const NICE: i32 = 10;
/// When upkeep failed, it is tried again after this.
const RETRY: Duration = Duration::from_secs(1);
/// Zeros written at once for a segment that somebody waits for.
pub const AT_ONCE: u64 = 1 << 20;
/// The memory of an index is kept for the next one for this long.
const SPARE: Duration = Duration::from_secs(10);
/// Between two steps of what is written the disk is left to the commits for this long.
const REST: Duration = Duration::from_micros(250);

/// What the keeper is asked for.
pub enum Job {
    /// Segments are full; everything else as it was at the end of the last one.
    Sealed(Vec<Arc<Segment>>, Box<Manifest>),
    /// Something was cleaned away.
    Tidy,
    /// Nothing more.
    Stop,
}

/// What came of a turn of the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There is nothing more to do.
    Done,
    /// There may be: but first for what has come meanwhile.
    More,
    /// Something failed, and is tried again.
    Failed,
    /// Files are to be removed that a backup copies at present.
    Pinned,
}

/// Takes jobs.
#[derive(Clone)]
pub enum Desk {
    /// Does them at once.
    Here(Arc<Mutex<Keeper>>),
    /// Has a thread do them. The flag says that a [`Job::Tidy`] waits.
    Thread(SyncSender<Job>, Arc<AtomicBool>),
}

impl Desk {
    /// A desk, and the thread's end of it.
    pub fn new(shared: &Arc<Shared>, generation: u64, upto: u64) -> (Self, Option<(Keeper, Receiver<Job>)>) {
        let waiting = VecDeque::new();
        let tidy = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            shared: shared.clone(),
            waiting,
            generation,
            upto,
            first: shared.tail().segment.id.number(),
            tidy: tidy.clone(),
            noted: Vec::new(),
            rewritten: None,
            gone: Vec::new(),
        };
        match shared.options.threads {
            Threads::None => (Self::Here(Arc::new(Mutex::new(keeper))), None),
            Threads::Own => {
                // And one to tidy.
                let (sender, jobs) = std::sync::mpsc::sync_channel(WAITING + 1);
                (Self::Thread(sender, tidy), Some((keeper, jobs)))
            }
        }
    }

    /// Hands a job over; waits when too many do.
    pub fn hand_over(&self, job: Job) {
        match self {
            Self::Here(keeper) => {
                let mut keeper = keeper.lock();
                keeper.accept(job);
                let mut turn = keeper.work();
                while turn == Turn::More {
                    turn = keeper.work();
                }
            }
            // It looks at every segment and every topic in it: once for all that was cleaned before it begins.
            Self::Thread(_, tidy) if matches!(job, Job::Tidy) && tidy.swap(true, AcqRel) => {}
            // Nobody is there to hear it after the end.
            Self::Thread(sender, _) => drop(sender.send(job)),
        }
    }
}

/// Does the upkeep.
pub struct Keeper {
    shared: Arc<Shared>,
    waiting: VecDeque<(Vec<Arc<Segment>>, Box<Manifest>)>,
    /// Of the last manifest.
    generation: u64,
    /// The last segment that the manifest covers.
    upto: u64,
    /// The segment that commits went to first.
    first: u64,
    /// Somebody has asked to tidy, and it was not begun.
    tidy: Arc<AtomicBool>,
    /// Damaged segments that were written down.
    noted: Vec<SegmentId>,
    /// A rewrite whose manifest could not be written, or not twice: which segments count is not known. It is the next
    /// to be finished.
    rewritten: Option<(Vec<Arc<Segment>>, Written)>,
    /// Segments that no manifest knows any more: their files are to be removed.
    gone: Vec<Arc<Segment>>,
}

impl Keeper {
    /// The keeper's thread.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        // Nobody waits for it: whoever commits or reads comes first. Without the right to that it works all the same.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        // And need not wait until it has had its share.
        slice::shorten();
        let mut turn = Turn::Failed;
        loop {
            let spare = self.shared.spare_index.lock().is_some();
            let job = match (turn, spare) {
                (Turn::More, _) => jobs.recv_timeout(Duration::ZERO),
                (Turn::Failed | Turn::Pinned, _) => jobs.recv_timeout(RETRY),
                (Turn::Done, true) => jobs.recv_timeout(SPARE),
                (Turn::Done, false) => jobs.recv().map_err(Into::into),
            };
            turn = match job {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(job) => {
                    self.accept(job);
                    // All of them before the next rewrite: several segments may have filled up during the last one.
                    while let Ok(job) = jobs.try_recv() {
                        if matches!(job, Job::Stop) {
                            self.work();
                            return;
                        }
                        self.accept(job);
                    }
                    self.work()
                }
                Err(RecvTimeoutError::Timeout) if turn != Turn::Done => self.work(),
                Err(RecvTimeoutError::Timeout) => {
                    *self.shared.spare_index.lock() = None;
                    Turn::Done
                }
            };
        }
    }

    /// Takes note of a job: [`Keeper::work`] does it.
    fn accept(&mut self, job: Job) {
        match job {
            Job::Sealed(segments, image) => self.waiting.push_back((segments, image)),
            Job::Tidy | Job::Stop => self.tidy.store(false, Release),
        }
    }

    /// Does what there is to do, but no more than one rewrite: a segment that is full does not wait for others.
    fn work(&mut self) -> Turn {
        // A job is taken out when it is done: what a panic has left of one is begun again.
        let result = catch_unwind(AssertUnwindSafe(|| self.try_work())).unwrap_or_else(|_| {
            Err(io::Error::other("upkeep broke off, which is a bug: the log has the panic"))
        });
        let place = self.shared.disk.place();
        // What breaks off because the store is being closed has not failed.
        if self.shared.check_open().is_ok() {
            let why = result.as_ref().err().map(|error| format!("{} in {place}", explain(error)));
            self.shared.health.upkeep(why);
        }
        match result {
            Ok(true) => Turn::More,
            Ok(false) if !self.gone.is_empty() => Turn::Pinned,
            Ok(false) => Turn::Done,
            Err(_) => Turn::Failed,
        }
    }

    /// Whether there may be more to do. What fails does not keep the rest from being done: a full disk has no room for
    /// another segment before others have gone.
    fn try_work(&mut self) -> io::Result<bool> {
        let mut failed = Ok(());
        let mut prepared = Ok(());
        // One that was filled just now comes first: a start that finds no sidecar of it has to read it. It is not long until
        // it is sealed.
        if self.waiting.len() != 1 || self.is_needed_soon() {
            prepared = self.prepare_next();
        }
        let stages: [fn(&mut Self) -> io::Result<()>; 4] =
            [Self::seal_waiting, Self::finish_sealed, Self::note_damage, Self::remove_dead];
        for stage in stages {
            self.shared.check_open()?;
            failed = failed.and(self.with_reserve(stage));
            if prepared.is_ok() {
                prepared = self.prepare_next();
            }
        }
        let more = self.rewrite_one();
        if prepared.is_err() {
            prepared = self.prepare_next();
        }
        if prepared.is_ok() && self.shared.tail().failed.is_none() {
            self.shared.health.working(true);
        }
        failed.and(prepared).and(more)
    }

    /// Gives the reserve up for something that fails because the disk is full.
    fn with_reserve(&mut self, stage: fn(&mut Self) -> io::Result<()>) -> io::Result<()> {
        match stage(self) {
            Err(error) if is_disk_full(&error) && self.shared.give_up_reserve()? => stage(self),
            done => done,
        }
    }

    /// Writes sidecars of full segments, and the manifest that knows them.
    fn seal_waiting(&mut self) -> io::Result<()> {
        while let Some((segments, image)) = self.waiting.front() {
            for segment in segments {
                let index = seal(&self.shared, segment)?;
                // One that was filled since the store was opened: it is likely that another one will be.
                if let Some(mut index) = index.filter(|_| segment.id.number() >= self.first) {
                    index.clear();
                    *self.shared.spare_index.lock() = Some(index);
                }
            }
            // What recovery found full comes after what the first commit has filled: that image is the newer one.
            if image.upto > self.upto {
                let mut image = Manifest::clone(image);
                self.generation += 1;
                image.generation = self.generation;
                image.next_kept = self.shared.next_kept.load(Relaxed);
                image.segments = self.shared.rows(image.upto);
                image.write(&*self.shared.disk)?;
                self.upto = image.upto;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Removes the segments that have nothing left, and what an earlier try has left over.
    fn remove_dead(&mut self) -> io::Result<()> {
        if let Some((run, written)) = self.rewritten.take() {
            self.replace(run, written)?;
        }
        let (dead, written) = rewrite::dead(&self.shared, self.upto);
        if !dead.is_empty() {
            self.replace(dead, written)?;
        }
        self.remove_gone()
    }

    /// Rewrites some segments that are mostly gone. Whether there were any.
    fn rewrite_one(&mut self) -> io::Result<bool> {
        if self.rewritten.is_some() {
            // Which segments count is not known before that one is finished.
            return Ok(false);
        }
        for is_tight in [false, true] {
            let Some(run) = rewrite::choose(&self.shared, self.upto, is_tight) else { return Ok(false) };
            match rewrite::write(&self.shared, &run) {
                Err(error) if !is_tight && is_disk_full(&error) => {}
                written => {
                    if let Some(written) = written? {
                        self.replace(run, written)?;
                    }
                    break;
                }
            }
        }
        self.remove_gone().map(|()| true)
    }

    /// Makes sidecars that are missing, and gives unused room back.
    fn finish_sealed(&mut self) -> io::Result<()> {
        let segments = self.shared.segments();
        for segment in segments.iter().take(segments.len() - 1) {
            // One whose sidecar had to be made again.
            seal(&self.shared, segment)?;
            if matches!(segment.id, SegmentId::Log(number) if number <= self.upto) {
                trim(segment)?;
            }
        }
        Ok(())
    }

    /// Whether it is not long any more until another segment is begun.
    fn is_needed_soon(&self) -> bool {
        let tail = self.shared.tail();
        tail.end >= self.shared.options.segment_bytes.min(tail.segment.capacity) / 2
    }

    /// How many zeros are written at once: few, with rests, unless a commit may have to wait for them.
    ///
    /// # Errors
    /// The store is being closed, and waits for this: a slow disk may take longer for a segment than a hub has to stop.
    fn stride(&self) -> io::Result<u64> {
        self.shared.check_open()?;
        if self.shared.options.threads == Threads::None || self.is_needed_soon() {
            return Ok(AT_ONCE);
        }
        std::thread::sleep(REST);
        Ok(STRIDE as u64)
    }

    fn prepare_next(&self) -> io::Result<()> {
        self.shared.check_open()?;
        // The writer waits for it, and finds it done.
        let mut slot = self.shared.prepared.lock();
        let number = self.shared.tail().segment.id.number() + 1;
        if slot.as_ref().is_none_or(|prepared| prepared.number != number) {
            let bytes = self.shared.options.segment_bytes;
            *slot = Some(prepare(&self.shared, number, bytes, || self.stride())?);
        }
        Ok(())
    }

    /// Writes down which segments were found damaged: they are kept as they are, also after the next start.
    fn note_damage(&mut self) -> io::Result<()> {
        let segments = self.shared.segments();
        let damaged: Vec<SegmentId> = segments
            .iter()
            .filter(|segment| segment.damaged.load(Relaxed))
            .map(|segment| segment.id)
            .collect();
        if damaged == self.noted {
            return Ok(());
        }
        let Some(mut manifest) = manifest::newest(&*self.shared.disk)? else { return Ok(()) };
        let mut news = false;
        for row in manifest.segments.iter_mut().filter(|row| damaged.contains(&row.id)) {
            news |= !std::mem::replace(&mut row.damaged, true);
        }
        if news {
            self.generation += 1;
            manifest.generation = self.generation;
            manifest.write(&*self.shared.disk)?;
        }
        self.noted = damaged;
        Ok(())
    }

    /// Puts what is left of some segments into their place. They are neighbours, or nothing is left.
    fn replace(&mut self, run: Vec<Arc<Segment>>, written: Written) -> io::Result<()> {
        if let Err(error) = self.write_down(&run, &written) {
            self.rewritten = Some((run, written));
            return Err(error);
        }
        rewrite::swap(&self.shared, &run, &written);
        self.gone.extend(run);
        Ok(())
    }

    /// Removes what was replaced; what is left over when the process ends, the next start removes.
    fn remove_gone(&mut self) -> io::Result<()> {
        // On a full disk room for events is worth more than a backup, which names the files that it misses.
        let is_pinned = self.shared.pins.any() && !self.shared.health.is_full();
        if self.gone.is_empty() || is_pinned {
            return Ok(());
        }
        while let Some(segment) = self.gone.last() {
            // Nobody finds it any more, but a reader may have found it before.
            if Arc::strong_count(segment) > 1 {
                segment.hold()?;
            }
            for name in [segment.id.to_string(), segment.id.sidecar()] {
                match self.shared.disk.remove(&name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            self.gone.pop();
        }
        self.shared.disk.sync_names()
    }

    /// Has the manifest know of a rewrite.
    fn write_down(&mut self, run: &[Arc<Segment>], written: &Written) -> io::Result<()> {
        let newest = manifest::newest(&*self.shared.disk)?;
        let mut manifest = newest.ok_or_else(|| io::Error::other("no copy of the manifest can be read"))?;
        let among = |row: &manifest::Row| run.iter().any(|segment| segment.id == row.id);
        // A try that failed may have written one copy: then the new one is there already.
        if let Some(at) = manifest.segments.iter().position(among) {
            let kept = written.segment.iter().map(|segment| manifest::Row {
                id: segment.id,
                nonce: segment.nonce,
                end: segment.len(),
                damaged: false,
            });
            manifest.segments.retain(|row| !among(row));
            manifest.segments.splice(at..at, kept);
        }
        for (number, _, meta) in &mut manifest.topics {
            if let Some(dropped) = written.dropped.get(number) {
                meta.dead -= dropped;
            }
        }
        self.generation += 1;
        manifest.generation = self.generation;
        manifest.next_kept = self.shared.next_kept.load(Relaxed);
        manifest.write(&*self.shared.disk)
    }
}

/// Writes the sidecar of a segment, and gives its index back, if that is in memory.
pub fn seal(shared: &Shared, segment: &Segment) -> io::Result<Option<SegmentIndex>> {
    let end = segment.len();
    if matches!(&*segment.index.read(), Index::Sealed(_)) || segment.file.size()? < header::LEN as u64 {
        // It is done; or there is nothing left to make a sidecar of, and one that is there tells what was lost.
        return Ok(None);
    }
    let bytes = match &*segment.index.read() {
        Index::Open(index) => sidecar::encode(index, segment.nonce, end),
        Index::Sealed(_) => return Ok(None),
    };
    let name = segment.id.sidecar();
    write_file(&*shared.disk, &name, &bytes)?;
    drop(bytes);
    let bad = |error| match error {
        SidecarError::Io(error) => error,
        SidecarError::Bad(what) => io::Error::other(what.to_string()),
    };
    let sidecar = Sidecar::open(shared.files.file(&name)?, segment.nonce, end).map_err(bad)?;
    // While its bytes are in memory.
    sidecar.verify(Wait::Yes).map_err(bad)?;
    match std::mem::replace(&mut *segment.index.write(), Index::Sealed(sidecar)) {
        Index::Open(index) => Ok(Some(index)),
        Index::Sealed(_) => Ok(None),
    }
}

/// Gives the room back that a segment did not use. A manifest has to know its end: without one, a segment that is
/// shorter than it was made is damaged.
fn trim(segment: &Segment) -> io::Result<()> {
    let end = segment.len();
    if segment.damaged.load(Relaxed) || segment.trimmed.load(Relaxed) {
        return Ok(());
    }
    if segment.file.size()? > end {
        segment.file.set_len(end)?;
    }
    segment.trimmed.store(true, Relaxed);
    Ok(())
}

/// Makes a file of zeros for a segment that takes events. The reserve comes first: what a full disk has left is not for
/// events.
pub fn prepare(
    shared: &Shared,
    number: u64,
    bytes: u64,
    step: impl Fn() -> io::Result<u64>,
) -> io::Result<Prepared> {
    make_reserve(shared, &step)?;
    prepare_from_reserve(shared, number, bytes, step)
}

/// Makes a file of zeros for a segment, also if there is no room for a reserve.
pub fn prepare_from_reserve(
    shared: &Shared,
    number: u64,
    bytes: u64,
    step: impl Fn() -> io::Result<u64>,
) -> io::Result<Prepared> {
    let file = make_zeros(shared, &format!("{}.new", SegmentId::Log(number)), bytes, step)?;
    Ok(Prepared { number, file, bytes })
}

/// Makes the reserve, if it is not there.
fn make_reserve(shared: &Shared, step: impl Fn() -> io::Result<u64>) -> io::Result<()> {
    let bytes = shared.options.disk_reserve;
    if bytes == 0 || shared.has_reserve.load(Relaxed) {
        return Ok(());
    }
    let unfinished = format!("{}.tmp", reserve::NAME);
    make_zeros(shared, &unfinished, bytes, step)?;
    shared.disk.rename(&unfinished, reserve::NAME)?;
    shared.disk.sync_names()?;
    shared.has_reserve.store(true, Relaxed);
    Ok(())
}

/// Makes a file of zeros. Written zeros, not a hole: a sync of a hole has to write down that it is none
/// any more. In steps, of as many bytes as it is told each time: what commits sync meanwhile has to wait behind one.
fn make_zeros(
    shared: &Shared,
    name: &str,
    bytes: u64,
    step: impl Fn() -> io::Result<u64>,
) -> io::Result<Arc<dyn DiskFile>> {
    match shared.disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if shared.disk.free().is_some_and(|free| free < bytes) {
        // All that is free would be written full to find that out, with each commit.
        return Err(io::ErrorKind::StorageFull.into());
    }
    let file = shared.disk.create(name)?;
    let fill = || {
        let zeros = vec![0; AT_ONCE.min(bytes) as usize];
        let mut at = 0;
        while at < bytes {
            let stride = step()?.min(AT_ONCE).min(bytes - at);
            file.write_at(&zeros[..stride as usize], at)?;
            at += stride;
            file.sync()?;
        }
        Ok(())
    };
    if let Err(error) = fill() {
        // Room for others.
        let _ = shared.disk.remove(name);
        return Err(error);
    }
    Ok(file)
}
