//! What is in a directory, by name, and the two small files that say what the rest is.

use super::DoctorError;
use crate::disk::{Disk, Wait, read_all};
use crate::manifest::{self, Copy, Manifest};
use crate::quarantine;
use crate::recover::{BadFormat, FORMAT, parse_format};
use crate::segment::SegmentId;
use std::io;

/// Files of the directory that hold no data of the store.
const BESIDE: [&str; 4] = ["dev-secret", "open-dashboard.html", crate::reserve::NAME, crate::backup::RECORD];

/// The format file, as found.
pub(super) enum Format {
    Missing,
    Bad(&'static str),
    Seed(u64),
}

/// A directory, as listed.
pub(super) struct Files {
    /// Segments by name: logs by number, then kept ones.
    pub segments: Vec<SegmentId>,
    /// Names of sidecars.
    pub sidecars: Vec<SegmentId>,
    /// `log-N.new`.
    pub prepared: Vec<String>,
    /// `*.tmp`.
    pub unfinished: Vec<String>,
    /// Segments that the hub has moved to `quarantine/`, where it still tells of them.
    pub moved: Vec<String>,
    /// Names in `quarantine/`.
    pub quarantine: Vec<String>,
    /// Names that are nobody's.
    pub unknown: Vec<String>,
    pub format: Format,
    /// As [`manifest::COPIES`].
    pub copies: Vec<Copy>,
    /// Names of all files.
    pub names: Vec<String>,
}

impl Files {
    pub fn read(disk: &dyn Disk) -> Result<Self, DoctorError> {
        let place = disk.place();
        let during =
            |what: &str, error: io::Error| DoctorError::Io { what: format!("reading {place}{what}"), error };
        let mut names = disk.list().map_err(|error| during("", error))?;
        names.sort();
        let (mut segments, mut sidecars) = (Vec::new(), Vec::new());
        let (mut prepared, mut unfinished) = (Vec::new(), Vec::new());
        let (mut moved, mut set_aside, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut has_format = false;
        for name in &names {
            if name.starts_with("quarantine/") {
                moved.extend(quarantine::segment(name).map(|_| name.clone()));
                set_aside.push(name.clone());
            } else if let Some(id) = SegmentId::parse(name) {
                segments.push(id);
            } else if let Some(id) = name.strip_suffix(".idx").and_then(SegmentId::parse) {
                sidecars.push(id);
            } else if name.strip_suffix(".new").and_then(SegmentId::parse).is_some() {
                prepared.push(name.clone());
            } else if name.ends_with(".tmp") && !name.contains('/') {
                unfinished.push(name.clone());
            } else if name == FORMAT {
                has_format = true;
            } else if !manifest::COPIES.contains(&name.as_str()) && !BESIDE.contains(&name.as_str()) {
                unknown.push(name.clone());
            }
        }
        segments.sort();
        let copies = manifest::COPIES
            .iter()
            .map(|name| manifest::read_copy(disk, name).map_err(|error| during(&format!("/{name}"), error)));
        let copies: Vec<Copy> = copies.collect::<Result<_, _>>()?;
        if !has_format && segments.is_empty() && copies.iter().all(|copy| matches!(copy, Copy::Missing)) {
            return Err(DoctorError::NotAStore(place));
        }
        let format = if has_format {
            let bytes = disk.open(FORMAT).and_then(|file| read_all(&*file));
            match parse_format(&bytes.map_err(|error| during(&format!("/{FORMAT}"), error))?) {
                Ok(seed) => Format::Seed(seed),
                Err(BadFormat::Newer(found)) => return Err(DoctorError::Newer { place, found }),
                Err(BadFormat::Wrong(what)) => Format::Bad(what),
            }
        } else {
            Format::Missing
        };
        let quarantine = set_aside;
        Ok(Self {
            segments,
            sidecars,
            prepared,
            unfinished,
            moved,
            quarantine,
            unknown,
            format,
            copies,
            names,
        })
    }

    /// The manifest that counts.
    pub fn manifest(&self) -> Option<&Manifest> {
        let good = self.copies.iter().filter_map(|copy| match copy {
            Copy::Good(manifest) => Some(&**manifest),
            _ => None,
        });
        good.fold(None, |newest: Option<&Manifest>, copy| match newest {
            Some(newest) if newest.generation >= copy.generation => Some(newest),
            _ => Some(copy),
        })
    }

    /// Whether there is no manifest and the store needs one: it opens without it only if it was killed before it had
    /// written the first, and then there is one segment at most.
    pub fn needs_manifest(&self) -> bool {
        if self.manifest().is_some() {
            return false;
        }
        let bad = self.copies.iter().any(|copy| matches!(copy, Copy::Bad(_)));
        bad || self.segments.iter().any(|id| *id != SegmentId::Log(1))
    }

    /// Whether a part of the log was rewritten: then there was a manifest.
    pub fn rewritten(&self) -> bool {
        self.segments.iter().any(|id| matches!(id, SegmentId::Kept(_)))
    }

    /// Whether the logs from the first one on are all there, and nothing was rewritten.
    pub fn whole_history(&self) -> bool {
        self.segments.iter().zip(1..).all(|(id, number)| *id == SegmentId::Log(number))
    }

    /// Bytes of a file; 0 if it is gone by now.
    pub fn size(disk: &dyn Disk, name: &str) -> u64 {
        disk.open(name).and_then(|file| file.size()).unwrap_or(0)
    }
}

/// Reads a file to its end, in pieces; whatever cannot be read is an error.
pub(super) fn read_through(
    disk: &dyn Disk,
    name: &str,
    mut look: impl FnMut(u64, &[u8]) -> bool,
) -> io::Result<u64> {
    let file = disk.open(name)?;
    let (mut at, mut bytes) = (0, vec![0; 1 << 18]);
    loop {
        let read = file.read_at(&mut bytes, at, Wait::Yes)?;
        if read == 0 || !look(at, &bytes[..read]) {
            return Ok(at);
        }
        at += read as u64;
    }
}
