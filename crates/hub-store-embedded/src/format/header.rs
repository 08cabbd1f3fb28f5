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
//! | 48 | 8 | bytes the file was made with; 0 for a kept segment, which ends where it ends |
//! | 56 | 8 | zero |

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
    /// How long the file was made: a segment that is written to is not shorter. 0 if that is not known.
    pub bytes: u64,
}

impl Header {
    /// The 64 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32(VERSION);
        bytes.put_u32(0);
        for value in [self.number, self.nonce, self.after_commit, self.prev_end, self.bytes, 0] {
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
        let (after_commit, prev_end, bytes) = (from.u64()?, from.u64()?, from.u64()?);
        Ok(Self { number, nonce, after_commit, prev_end, bytes })
    }

    /// Reads 64 bytes of which one bit is not what was written, and says which. The checksum tells: no two headers are
    /// that close to each other.
    pub fn decode_flipped(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut bytes: [u8; LEN] = bytes.get(..LEN)?.try_into().ok()?;
        (0..LEN * 8).find_map(|bit| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let header = Self::decode(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            header.ok().map(|header| (header, bit))
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[16..LEN]), &bytes[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { number: 7, nonce: 0x0123_4567_89ab_cdef, after_commit: 99, prev_end: 2048, bytes: 4096 };

    #[test]
    fn a_flipped_bit_is_found_and_told() {
        let good = HEADER.encode();
        assert_eq!(Header::decode(&good), Ok(HEADER));
        for bit in 0..LEN * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes).is_err(), "bit {bit}");
            assert_eq!(Header::decode_flipped(&bytes), Some((HEADER, bit)));
        }
    }

    #[test]
    fn two_flipped_bits_are_not_made_into_another_header() {
        let good = HEADER.encode();
        for (one, other) in (0..LEN * 8).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut bytes = good.clone();
            bytes[one / 8] ^= 1 << (one % 8);
            bytes[other / 8] ^= 1 << (other % 8);
            assert_eq!(Header::decode_flipped(&bytes), None, "bits {one} and {other}");
        }
    }
}
