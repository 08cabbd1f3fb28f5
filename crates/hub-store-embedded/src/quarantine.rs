//! Where what is damaged goes: nothing in there is ever read again by the store, changed or removed.

use crate::disk::{Disk, read_all};
use crate::manifest::write_file;
use crate::segment::SegmentId;
use std::io;

const DIRECTORY: &str = "quarantine/";

/// Keeps a copy of bytes; answers its name. The same bytes are kept once.
pub fn copy(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<String> {
    let names = disk.list()?;
    let mut number = 1;
    loop {
        let copy = numbered(name, number);
        if !names.contains(&copy) {
            return write_file(disk, &copy, bytes).map(|()| copy);
        }
        if read_all(&*disk.open(&copy)?)? == bytes {
            return Ok(copy);
        }
        number += 1;
    }
}

/// Moves a file out of the way; answers its name.
pub fn take(disk: &dyn Disk, name: &str) -> io::Result<String> {
    take_as(disk, name, name)
}

/// The same, with another name.
pub fn take_as(disk: &dyn Disk, name: &str, kept: &str) -> io::Result<String> {
    let names = disk.list()?;
    let free = (1..).map(|number| numbered(kept, number)).find(|copy| !names.contains(copy));
    let copy = free.ok_or(io::ErrorKind::AlreadyExists)?;
    disk.rename(name, &copy)?;
    disk.sync_names().map(|()| copy)
}

fn numbered(name: &str, number: u64) -> String {
    if number == 1 { format!("{DIRECTORY}{name}") } else { format!("{DIRECTORY}{name}.{number}") }
}

/// The segment that was moved there under this name.
pub fn segment(name: &str) -> Option<SegmentId> {
    let name = name.strip_prefix(DIRECTORY)?;
    SegmentId::parse(name.split_once('.').map_or(name, |(name, number)| {
        if number.bytes().all(|byte| byte.is_ascii_digit()) { name } else { "" }
    }))
}
