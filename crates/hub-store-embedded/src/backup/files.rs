//! The files of a backup, with how many bytes of each count.

use super::{BackupError, Source};
use crate::disk::{Disk, DiskFile, Wait};
use crate::format::header::{self, Header};
use crate::manifest::Row;
use crate::recover::read_header;
use crate::segment::SegmentId;
use crate::sidecar;
use std::io;
use std::sync::Arc;

/// What may be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing writes to it any more: a hard link will do.
    Sealed,
    /// A hub that is started on the copy may write to it. Zeros in it need not be written.
    Log,
}

/// A file of the source.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub name: String,
    pub kind: Kind,
    /// Bytes that count.
    pub bytes: u64,
    /// The length of its copy: a log is as long as it was made.
    pub len: u64,
    /// The bytes at its beginning that no other file has; none if it has no such bytes.
    pub head: Vec<u8>,
}

/// Lists the files, but for the manifest and `format`. One that is missing is left out: the verification names it.
pub(super) fn list(source: &Source<'_>) -> Result<Vec<SourceFile>, BackupError> {
    let (disk, place) = (source.disk, source.disk.place());
    let during = |error| BackupError::io(format!("reading {place}"), error);
    let names = disk.list().map_err(during)?;
    let mut files = logs(source, &names)?;
    for row in &source.manifest.segments {
        files.extend(segment(disk, row).map_err(during)?);
        files.extend(sealed(disk, &row.id.sidecar(), sidecar::HEADER).map_err(during)?);
    }
    for name in names.iter().filter(|name| name.starts_with("quarantine/") && !name.ends_with(".tmp")) {
        files.extend(sealed(disk, name, 0).map_err(during)?);
    }
    Ok(files)
}

/// A segment that the manifest names.
fn segment(disk: &dyn Disk, row: &Row) -> io::Result<Option<SourceFile>> {
    let file = sealed(disk, &row.id.to_string(), header::LEN)?;
    Ok(file.map(|file| {
        // What lies behind the bytes that count is room that was not given back yet.
        let bytes = file.bytes.min(row.end);
        SourceFile { bytes, len: bytes, ..file }
    }))
}

fn sealed(disk: &dyn Disk, name: &str, head: usize) -> io::Result<Option<SourceFile>> {
    let Some(file) = open(disk, name)? else { return Ok(None) };
    let mut bytes = vec![0; head];
    let read = file.read_at(&mut bytes, 0, Wait::Yes)?;
    bytes.truncate(read);
    let len = file.size()?;
    Ok(Some(SourceFile { name: name.to_owned(), kind: Kind::Sealed, bytes: len, len, head: bytes }))
}

fn open(disk: &dyn Disk, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
    match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// The log behind the manifest, up to its end.
fn logs(source: &Source<'_>, names: &[String]) -> Result<Vec<SourceFile>, BackupError> {
    let (disk, place) = (source.disk, source.disk.place());
    let during = |error| BackupError::io(format!("reading {place}"), error);
    let last = source.end.map_or(u64::MAX, |end| end.segment);
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| match SegmentId::parse(name) {
            Some(SegmentId::Log(number)) if number > source.manifest.upto && number <= last => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    let mut found: Vec<(u64, u64, Option<Header>)> = Vec::new();
    for number in numbers {
        let Some(file) = open(disk, &SegmentId::Log(number).to_string()).map_err(during)? else { continue };
        let (header, _) = read_header(&*file).map_err(during)?;
        found.push((number, file.size().map_err(during)?, header));
    }
    check_last(source, found.last())?;
    let ends: Vec<Option<u64>> = found
        .iter()
        .enumerate()
        .map(|(at, (number, ..))| match found.get(at + 1) {
            // The next segment says how much of this one counts.
            Some((next, _, Some(header))) if *next == number + 1 => Some(header.prev_end),
            Some(_) => None,
            None => source.end.map(|end| end.bytes),
        })
        .collect();
    let logs = found.into_iter().zip(ends).map(|((number, size, header), end)| {
        let bytes = end.unwrap_or(size).min(size);
        let len = header.map_or(size, |header| header.bytes).max(bytes);
        let name = SegmentId::Log(number).to_string();
        SourceFile { name, kind: Kind::Log, bytes, len, head: Vec::new() }
    });
    Ok(logs.collect())
}

/// Refuses a directory that is not the one of the hub that was asked: the hub may be on another machine.
fn check_last(source: &Source<'_>, last: Option<&(u64, u64, Option<Header>)>) -> Result<(), BackupError> {
    let Some(end) = source.end else { return Ok(()) };
    let is_same = last.is_some_and(|(number, size, header)| {
        let nonce = header.map(|header| header.nonce);
        *number == end.segment && nonce == Some(end.nonce) && *size >= end.bytes
    });
    if is_same {
        return Ok(());
    }
    Err(BackupError::Refused(format!(
        "{} in {} is not the file that the hub writes to: run the command where the hub runs, and again if the hub was \
         started anew meanwhile",
        SegmentId::Log(end.segment),
        source.disk.place()
    )))
}
