//! A manifest that covers a whole log: what a repair that moves segments leaves behind.
//!
//! Once everything is covered, opening takes the manifest's word for it and goes on in the next segment, which is empty.
//! So everything that opening would have done to the last one has to be done here: numbering goes on above whatever
//! somebody may have seen.

use super::examine::Examination;
use super::pieces::Absent;
use crate::catalog::TopicMeta;
use crate::disk::{Disk, Wait};
use crate::index::Flags;
use crate::losses::SMALLEST_EVENT;
use crate::manifest::{Manifest, Row};
use crate::segment::{SegmentId, json_len};
use crate::sidecar::{Sidecar, SidecarError};
use std::collections::BTreeMap;
use std::io;

/// Where the past of a topic is not all there, its numbering goes on so much higher.
pub(super) const MARGIN: u64 = 10_000;
/// Entries looked at together.
const CHUNK: usize = 1024;

/// The manifest for these rows, whose sidecars are written.
pub(super) fn manifest(
    disk: &dyn Disk,
    exam: &Examination,
    rows: Vec<Row>,
    next_kept: u64,
) -> io::Result<Manifest> {
    let model = &exam.model;
    let guessed = exam.manifest.is_none() && !exam.files.whole_history();
    let lost_power = !exam.closed && (model.boot == 0 || model.boot != disk.boot());
    let mut handed = model.handed.clone();
    {
        let groups = model.catalog.groups.lock();
        for ((topic, _), group) in &groups.groups {
            let seen = handed.entry(topic.clone()).or_default();
            *seen = (*seen).max(group.state.high);
        }
    }
    let mut topics = Vec::new();
    for topic in model.catalog.topics() {
        let mut state = topic.state.lock();
        let mut last = handed.get(&topic.name).copied().unwrap_or_default().max(state.meta.last);
        if lost_power {
            last = last.max(state.meta.reserved);
        }
        let place = model.seen.get(&topic.number).and_then(|seen| seen.place).map(|(_, place)| place);
        let behind = exam.holes.iter().filter(|(hole, _)| place.is_none_or(|place| place < *hole));
        let bytes: u64 = behind.map(|(_, bytes)| bytes).sum();
        if bytes >= SMALLEST_EVENT {
            last += bytes / SMALLEST_EVENT + 1;
        }
        if guessed {
            last = last.max(state.meta.reserved) + MARGIN;
        }
        state.jump(last);
        let mut meta = state.meta.clone();
        match model.seen.get(&topic.number) {
            Some(seen) => meta.dead &= &seen.present,
            None => meta.dead.clear(),
        }
        topics.push((topic.number, topic.name.clone(), meta));
    }
    recount(disk, &rows, &mut topics)?;
    let groups = model.catalog.groups.lock();
    let before = exam.manifest.as_ref();
    Ok(Manifest {
        generation: before.map_or(0, |manifest| manifest.generation) + 1,
        seed: exam.seed,
        upto: next_log(exam) - 1,
        last_commit: exam.last_commit,
        next_kept,
        boot: model.boot,
        segments: rows,
        topics,
        groups: groups.groups.values().cloned().collect(),
        subscriptions: groups.subscriptions.values().cloned().collect(),
    })
}

/// The number of the log that follows everything there is.
fn next_log(exam: &Examination) -> u64 {
    let numbers = exam.files.segments.iter().filter_map(|id| match id {
        SegmentId::Log(number) => Some(*number),
        SegmentId::Kept(_) => None,
    });
    let absent = exam.absent.iter().filter_map(|absent| match absent {
        Absent::Logs(_, last) => Some(*last),
        _ => None,
    });
    let before = exam.manifest.as_ref().map_or(0, |manifest| manifest.upto);
    numbers.chain(absent).max().unwrap_or(0).max(before) + 1
}

/// Counts what readers are shown, and raises floors to it.
fn recount(
    disk: &dyn Disk,
    rows: &[Row],
    topics: &mut [(u32, hub_proto::TopicName, TopicMeta)],
) -> io::Result<()> {
    #[derive(Default)]
    struct Count {
        first: Option<u64>,
        events: u64,
        bytes: u64,
    }
    let mut counts: BTreeMap<u32, Count> = BTreeMap::new();
    let metas: BTreeMap<u32, &TopicMeta> = topics.iter().map(|(number, _, meta)| (*number, meta)).collect();
    for row in rows {
        let wrong = |error: SidecarError| io::Error::other(format!("{}: {error}", row.id.sidecar()));
        let sidecar = Sidecar::open(disk.open(&row.id.sidecar())?, row.nonce, row.end).map_err(wrong)?;
        for part in sidecar.topics() {
            let Some(meta) = metas.get(&part.number) else { continue };
            let (count, mut from) = (counts.entry(part.number).or_default(), 0);
            loop {
                let entries = sidecar.entries(part.number, from, CHUNK, Wait::Yes).map_err(wrong)?;
                let Some(last) = entries.last() else { break };
                from = last.seq + 1;
                for entry in &entries {
                    let gone = entry.seq <= meta.floor || meta.dead.contains(entry.seq);
                    if !gone && !entry.flags.has(Flags::PAST) {
                        count.first.get_or_insert(entry.seq);
                        count.events += 1;
                        count.bytes += json_len(entry);
                    }
                }
            }
        }
    }
    for (number, _, meta) in topics {
        let count = counts.remove(number).unwrap_or_default();
        (meta.events, meta.bytes) = (count.events, count.bytes);
        meta.floor = meta.floor.max(count.first.map_or(meta.last, |first| first - 1));
        meta.dead.remove_range(..=meta.floor);
    }
    Ok(())
}
