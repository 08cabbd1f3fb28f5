//! The first 64 bytes of a segment.
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 8 | `EVHUBLOG` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | crc32c of the bytes 16 to 63 and 0 to 11 |
//! | 16 | 8 | the segment's number |
//! | 24 | 8 | nonce: random, seeds the checksum of every frame |
//! | 32 | 8 | the number of the last commit before this segment |
//! | 40 | 8 | bytes of the segment before this one that count |
//! | 48 | 16 | zero |

use super::bytes::{Malformed, Put, Take};

/// The version of everything in a data directory.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"EVHUBLOG";

/// Bytes before the first frame.
pub const LEN: usize = 64;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number.
    pub number: u64,
    /// Random; seeds the checksums.
    pub nonce: u64,
    /// The last commit before it.
    pub after_commit: u64,
    /// How much of the segment before it counts: what lies above was given up when this one was begun.
    pub prev_end: u64,
}

impl Header {
    /// The 64 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32(VERSION);
        bytes.put_u32(0);
        for value in [self.number, self.nonce, self.after_commit, self.prev_end, 0, 0] {
            bytes.put_u64(value);
        }
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the 64 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(bytes) = bytes.get(..LEN) else {
            return Err(Malformed(format!("it has {} bytes, the header alone has {LEN}", bytes.len())));
        };
        let mut from = Take(bytes);
        if from.take(8)? != MAGIC {
            return Err(Malformed("it does not begin as a segment does".into()));
        }
        let version = from.u32()?;
        if from.u32()? != checksum(bytes) {
            return Err(Malformed("the checksum of its header is wrong".into()));
        }
        if version != VERSION {
            return Err(Malformed(format!("it has format {version}, this program knows {VERSION}")));
        }
        let (number, nonce) = (from.u64()?, from.u64()?);
        let (after_commit, prev_end) = (from.u64()?, from.u64()?);
        Ok(Self { number, nonce, after_commit, prev_end })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[16..LEN]), &bytes[..12])
}
