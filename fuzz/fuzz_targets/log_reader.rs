//! A segment of any bytes, as found and with its frames' checksums made right: nothing panics, the scan ends, and what
//! it says of the file makes sense.
#![no_main]

use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::disk::{Disk, DiskFile};
use hub_store_embedded::format::frame::{HEADER, Seal};
use hub_store_embedded::format::header::{self, Header};
use hub_store_embedded::scan::scan;
use libfuzzer_sys::fuzz_target;

const NONCE: u64 = 7;

fuzz_target!(|data: &[u8]| {
    let header = Header { number: 1, nonce: NONCE, after_commit: 0, prev_end: 0, bytes: 0 };
    let mut bytes = header.encode();
    bytes.extend_from_slice(data);
    let disk = SimDisk::new(1);
    disk.put("as-found", bytes.clone());
    reseal(&mut bytes[header::LEN..]);
    disk.put("resealed", bytes);
    for name in ["as-found", "resealed"] {
        let file = disk.open(name).expect("it was put there");
        let size = file.size().expect("a size");
        for end in [None, Some(size), Some(size / 2), Some(size + 100)] {
            check(&*file, end);
        }
    }
});

fn check(file: &dyn DiskFile, end: Option<u64>) {
    let size = file.size().expect("a size");
    let mut at = header::LEN as u64;
    let seen = scan(file, Seal::new(NONCE), end, 0, &mut |frame| {
        assert!(frame.offset >= at, "frames come in order, and once");
        at = frame.offset + frame.len as u64;
        assert!(at <= size.min(end.unwrap_or(size)), "a frame ends where the segment does");
    });
    let seen = seen.expect("a disk that works");
    match end {
        Some(end) => assert!(seen.end == end && seen.torn.is_none()),
        None => assert!(seen.end <= size && at <= seen.end, "what counts ends behind the last frame"),
    }
    for damage in &seen.damage {
        assert!(damage.bytes.start <= damage.bytes.end && damage.bytes.end <= size.max(end.unwrap_or(0)));
    }
    if let Some(torn) = seen.torn {
        assert!(torn.start == seen.end && torn.start < torn.end && torn.end <= size);
    }
}

/// Makes checksums right, frame by frame, as far as the lengths make sense.
fn reseal(mut bytes: &mut [u8]) {
    while bytes.len() >= HEADER {
        let len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize + 8;
        if len < HEADER || len > bytes.len() {
            return;
        }
        let (frame, rest) = std::mem::take(&mut bytes).split_at_mut(len);
        let mut sealed = Vec::new();
        Seal::new(NONCE).write(&mut sealed, frame[8], |into| into.extend_from_slice(&frame[HEADER..]));
        frame.copy_from_slice(&sealed);
        bytes = rest;
    }
}
