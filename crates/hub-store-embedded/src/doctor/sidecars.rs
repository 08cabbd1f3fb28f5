//! A sidecar held against its segment.

use super::examine::DamageAt;
use super::files::read_through;
use crate::disk::{Disk, Wait};
use crate::index::{Entry, Flags, SegmentIndex};
use crate::segment::SegmentId;
use crate::sidecar::{self, Sidecar, SidecarError};
use std::io;

/// Entries, or keys, that are looked at together.
const CHUNK: usize = 1024;

/// What a sidecar is worth.
pub(super) enum Verdict {
    Good,
    Missing,
    /// Not as it was written.
    Bad(String),
    /// As it was written, and not what the segment says.
    Differs(String),
}

/// Compares a sidecar with the index that its segment has. What it knows of records in damaged bytes is added to
/// `damages`: those of this segment.
pub(super) fn compare(
    disk: &dyn Disk,
    (id, nonce, end): (SegmentId, u64, u64),
    index: &SegmentIndex,
    damages: &mut [DamageAt],
) -> io::Result<Verdict> {
    let name = id.sidecar();
    let file = match disk.open(&name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Verdict::Missing),
        Err(error) => return Err(error),
    };
    let opened =
        Sidecar::open(file, nonce, end).and_then(|sidecar| sidecar.verify(Wait::Yes).map(|()| sidecar));
    let sidecar = match opened {
        Ok(sidecar) => sidecar,
        Err(SidecarError::Bad(what)) => return Ok(Verdict::Bad(what.to_string())),
        Err(SidecarError::Io(error)) => return Err(error),
    };
    if same_bytes(disk, &name, &sidecar::encode(index, nonce, end))? {
        return Ok(Verdict::Good);
    }
    match differences(&sidecar, index, damages) {
        Ok(None) => Ok(Verdict::Good),
        Ok(Some(what)) => Ok(Verdict::Differs(what)),
        Err(SidecarError::Bad(what)) => Ok(Verdict::Bad(what.to_string())),
        Err(SidecarError::Io(error)) => Err(error),
    }
}

/// Adds the records of a segment that is not there, if its sidecar is.
pub(super) fn records_of(disk: &dyn Disk, (id, nonce, end): (SegmentId, u64, u64), damage: &mut DamageAt) {
    let file = disk.open(&id.sidecar()).ok();
    let Some(sidecar) = file.and_then(|file| Sidecar::open(file, nonce, end).ok()) else { return };
    for part in sidecar.topics() {
        let mut from = 0;
        while let Ok(entries) = sidecar.entries(part.number, from, CHUNK, Wait::Yes) {
            let Some(last) = entries.last() else { break };
            from = last.seq + 1;
            let records = entries.iter().filter(|entry| !entry.flags.has(Flags::PAST));
            damage.victims.entry(part.number).or_default().extend(records.map(|entry| entry.seq));
        }
    }
    damage.from_sidecar = sidecar.verify(Wait::Yes).is_ok();
}

fn same_bytes(disk: &dyn Disk, name: &str, expected: &[u8]) -> io::Result<bool> {
    let mut same = true;
    let read = read_through(disk, name, |at, bytes| {
        same = expected.get(at as usize..).is_some_and(|rest| rest.starts_with(bytes));
        same
    })?;
    Ok(same && read == expected.len() as u64)
}

/// What is not the same, if anything is.
fn differences(
    sidecar: &Sidecar,
    index: &SegmentIndex,
    damages: &mut [DamageAt],
) -> Result<Option<String>, SidecarError> {
    let none = Vec::new();
    let whole = damages.is_empty();
    let mut first = None;
    let mut tell = |what: String| {
        first.get_or_insert(what);
    };
    for part in sidecar.topics() {
        let ours = index.topics.get(&part.number).map_or(&none, |topic| &topic.entries);
        let (mut ours, mut from) = (ours.iter().peekable(), 0);
        let missing = |entry: &Entry| {
            format!("it does not have seq {} of topic {} at byte {}", entry.seq, part.number, entry.offset)
        };
        loop {
            let entries = sidecar.entries(part.number, from, CHUNK, Wait::Yes)?;
            let Some(last) = entries.last() else { break };
            from = last.seq + 1;
            for entry in &entries {
                while let Some(ours) = ours.next_if(|ours| ours.seq < entry.seq) {
                    tell(missing(ours));
                }
                match ours.next_if(|ours| ours.seq == entry.seq) {
                    Some(ours) if ours == entry => {}
                    Some(ours) => tell(format!(
                        "seq {} of topic {} is at byte {}, it says {}",
                        entry.seq, part.number, ours.offset, entry.offset
                    )),
                    None => {
                        let at = u64::from(entry.offset);
                        let damage = damages.partition_point(|damage| damage.bytes.end <= at);
                        let damage = damages.get_mut(damage).filter(|damage| damage.bytes.contains(&at));
                        match damage {
                            Some(damage) if entry.flags.has(Flags::PAST) => damage.from_sidecar = true,
                            Some(damage) => {
                                damage.victims.entry(part.number).or_default().insert(entry.seq);
                                damage.from_sidecar = true;
                            }
                            None => tell(format!(
                                "it has seq {} of topic {} at byte {at}, the segment has no such record",
                                entry.seq, part.number
                            )),
                        }
                    }
                }
            }
        }
        if let Some(ours) = ours.next() {
            tell(missing(ours));
        }
    }
    damages.iter_mut().for_each(|damage| damage.from_sidecar = true);
    if let Some(number) = index.topics.keys().find(|number| sidecar.topic(**number).is_none()) {
        tell(format!("it knows nothing of topic {number}"));
    }
    if whole && first.is_none() {
        first = keys_and_ids(sidecar, index)?;
    }
    Ok(first)
}

fn keys_and_ids(sidecar: &Sidecar, index: &SegmentIndex) -> Result<Option<String>, SidecarError> {
    for part in sidecar.topics() {
        let mut after: Option<hub_proto::Key> = None;
        loop {
            let theirs = sidecar.keys(part.number, after.as_deref(), CHUNK, Wait::Yes)?;
            if theirs != index.keys(part.number, after.as_deref(), CHUNK) {
                return Ok(Some(format!(
                    "the newest records of the keys of topic {} are others",
                    part.number
                )));
            }
            let Some((last, _)) = theirs.last() else { break };
            after = Some(last.clone());
        }
    }
    if sidecar.len() != index.len() || sidecar.v7() != index.v7 {
        return Ok(Some(format!("it has {} ids, the segment has {}", sidecar.len(), index.len())));
    }
    for slot in index.ids.iter() {
        if !sidecar.offsets(slot.hash, Wait::Yes)?.contains(&slot.offset) {
            return Ok(Some(format!("it does not find the id of the record at byte {}", slot.offset)));
        }
    }
    Ok(None)
}
