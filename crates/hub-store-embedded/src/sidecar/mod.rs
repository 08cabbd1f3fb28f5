//! The sidecar of a sealed segment: its index, in a file beside it.
//!
//! [`encode`] makes it from a [`SegmentIndex`](crate::index::SegmentIndex); [`Sidecar`] answers from it, by reading
//! little pieces of the file when asked. In memory are only the header, the directory of topics and the filter of ids.
//! A sidecar holds nothing that is not in its segment: one that is bad or missing is made anew from there.
//! The same questions to a segment that is still written are answered by the index itself (`memory.rs`).
//!
//! # Layout
//!
//! All numbers are little-endian. The file is a header and six sections, one after the other, with nothing between
//! them and nothing behind the last:
//!
//! | section | one row | rows |
//! | --- | --- | --- |
//! | directory | 44 bytes | topics |
//! | entries | 12 bytes (16 if wide) | records |
//! | keys | 8 bytes | distinct keys of each topic |
//! | texts | the bytes of the keys | |
//! | ids | 12 bytes | records |
//! | filter | 16 bytes, then 2 bytes per fingerprint | |
//!
//! **Header**, 148 bytes:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `EVHUBIDX` |
//! | 8 | 4 | version of the format: 1 |
//! | 12 | 4 | bytes of a seq in an entry: 4, or 8 if a topic has seqs that are 2^32 or more apart (a wide file) |
//! | 16 | 8 | nonce of the segment |
//! | 24 | 8 | bytes of the segment that are described |
//! | 32 | 4 | records |
//! | 36 | 4 | 1 if there are ids that are UUIDs v7, else 0 |
//! | 40 | 16 | the lowest of them, or zeros |
//! | 56 | 16 | the highest of them, or zeros |
//! | 72 | 6 × 12 | per section, in the order above: its length (8) and the CRC-32C of its bytes (4) |
//! | 144 | 4 | the CRC-32C of bytes 0 to 143 |
//!
//! **Directory**: the topics that have records, ascending by number.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | the topic's number |
//! | 4 | 8 | seq of its first record |
//! | 12 | 8 | seq of its last record |
//! | 20 | 4 | how many rows of the entries are its own; they begin where those of the topic before end |
//! | 24 | 4 | how many rows of the keys are its own, likewise |
//! | 28 | 8 | commit time of the first record |
//! | 36 | 8 | commit time of the last record |
//!
//! **Entries**: ascending by seq within their topic. In a wide file the first field has 8 bytes.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | seq, less the topic's first one |
//! | 4 | 4 | where the frame begins in the segment |
//! | 8 | 3 | bytes of the frame |
//! | 11 | 1 | flags: 1 keyed, 2 tombstone, 4 past |
//!
//! **Keys**: in byte order within their topic. A text ends where that of the next row begins, the last one with its
//! section.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | where its text begins in the texts |
//! | 4 | 4 | the newest keyed record: which of the topic's entries, from 0 |
//!
//! **Texts**: UTF-8, in the order of the keys.
//!
//! **Ids**: ascending by hash, then by offset. Hashes may repeat.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | hash of topic and id |
//! | 8 | 4 | where the frame begins in the segment |
//!
//! **Filter**: a binary fuse filter (3-wise, 16-bit fingerprints) over the distinct hashes. Empty if there is none,
//! and then every hash must be looked for.
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | seed |
//! | 8 | 4 | length of a segment of the filter, a power of two |
//! | 12 | 4 | fingerprints without those of the last two segments: a multiple of the length, not 0 |
//! | 16 | 2 each | fingerprints |

mod filter;
mod header;
mod keys;
mod memory;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod write;

pub use header::TopicPart;
pub use read::{Sidecar, SidecarError};
pub use write::encode;
#[cfg(feature = "testkit")]
pub use write::reseal;

const MAGIC: &[u8; 8] = b"EVHUBIDX";
const VERSION: u32 = 1;

/// Bytes of the header, its checksum included.
pub(crate) const HEADER: usize = 148;
/// Where the lengths and checksums of the sections are in it.
const SECTIONS_AT: usize = 72;

/// The sections, as numbered in the header.
const DIRECTORY: usize = 0;
const ENTRIES: usize = 1;
const KEYS: usize = 2;
const TEXTS: usize = 3;
const IDS: usize = 4;
const FILTER: usize = 5;
const SECTIONS: usize = 6;

/// Bytes of a row.
const TOPIC_ROW: usize = 44;
const KEY_ROW: usize = 8;
const ID_ROW: usize = 12;
/// Bytes of an entry, the seq aside.
const ENTRY_REST: usize = 8;
