//! Frames: what a segment consists of after its header.
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 4 | crc32c of everything after it, seeded by the segment's nonce |
//! | 4 | 4 | bytes of kind and content, at least 1 |
//! | 8 | 1 | kind |
//! | 9 | … | content |
//!
//! A frame is valid in its own segment only: the nonce is part of its checksum. Zeros are never a frame.

/// Bytes before the content.
pub const HEADER: usize = 9;

/// The largest frame, header included.
pub const MAX: usize = (1 << 24) - 1;

/// The kinds of frames that are not records; those are in [`record`](super::record).
pub mod kind {
    /// A topic's number and name; before its first use in each segment.
    pub const TOPIC: u8 = 1;
    /// An event.
    pub const EVENT: u8 = 2;
    /// What stays of an event that was cleaned away.
    pub const PAST: u8 = 3;
    /// Which events of a topic are gone.
    pub const CLEANED: u8 = 4;
    /// Seqs that a relaxed topic may have given by the time the power fails.
    pub const RESERVED: u8 = 5;
    /// The store was opened.
    pub const OPENED: u8 = 6;
    /// The numbering of a topic goes on higher up: what lies between was lost.
    pub const JUMP: u8 = 7;
    /// The end of a commit.
    pub const MARK: u8 = 15;
}

/// Makes and checks the checksums of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(u32);

/// A frame, as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: u8,
    /// What it says.
    pub content: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of the whole frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        HEADER + self.content.len()
    }
}

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFrame {
    /// It may be one, but more bytes are needed to tell: so many in all.
    Short(usize),
    /// It is none.
    Bad,
}

impl Seal {
    /// The seal of a segment.
    pub fn new(nonce: u64) -> Self {
        Self(crc32c::crc32c(&nonce.to_le_bytes()))
    }

    /// Appends a frame.
    ///
    /// # Panics
    /// If it is larger than [`MAX`]: it would be read as damage, and everything behind it in its commit with it.
    pub fn write(self, into: &mut Vec<u8>, kind: u8, content: impl FnOnce(&mut Vec<u8>)) {
        let start = into.len();
        self.write_kind(into, |into| {
            content(into);
            kind
        });
        let len = into.len() - start;
        assert!(len <= MAX, "a frame of kind {kind} has {len} bytes; at most {MAX} can be read again");
    }

    /// Appends a frame whose kind is known once its content is written. The caller takes one out that is larger than
    /// [`MAX`].
    pub fn write_kind(self, into: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> u8) {
        let start = into.len();
        into.extend_from_slice(&[0; HEADER]);
        into[start + 8] = content(into);
        let len = u32::try_from(into.len() - start - 8).expect("below the largest frame");
        into[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
        let sum = crc32c::crc32c_append(self.0, &into[start + 4..]);
        into[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the frame at the beginning of `bytes`.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> Result<Frame<'_>, NoFrame> {
        let (Some(sum), Some(len)) = (number(bytes, 0), number(bytes, 4)) else {
            return Err(NoFrame::Short(HEADER));
        };
        let end = len as usize + 8;
        if len == 0 || end > MAX {
            return Err(NoFrame::Bad);
        }
        let Some(body) = bytes.get(4..end) else { return Err(NoFrame::Short(end)) };
        if crc32c::crc32c_append(self.0, body) != sum {
            return Err(NoFrame::Bad);
        }
        Ok(Frame { kind: body[4], content: &body[5..] })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written_and_in_its_own_segment_only(
            kind in any::<u8>(), content in prop::collection::vec(any::<u8>(), 0..300), nonce in any::<u64>(),
        ) {
            let mut bytes = vec![7];
            Seal::new(nonce).write(&mut bytes, kind, |into| into.extend_from_slice(&content));
            let frame = Seal::new(nonce).read(&bytes[1..]);
            prop_assert_eq!(frame, Ok(Frame { kind, content: &content }));
            prop_assert_eq!(Seal::new(nonce ^ 1).read(&bytes[1..]), Err(NoFrame::Bad));
            for cut in 0..bytes.len() - 1 {
                prop_assert!(matches!(Seal::new(nonce).read(&bytes[1..][..cut]), Err(NoFrame::Short(_))));
            }
        }

        #[test]
        fn a_flipped_bit_is_found(content in prop::collection::vec(any::<u8>(), 0..40), nonce in any::<u64>()) {
            let mut bytes = Vec::new();
            Seal::new(nonce).write(&mut bytes, kind::EVENT, |into| into.extend_from_slice(&content));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(Seal::new(nonce).read(&bytes).is_err());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(Seal::new(0).read(&[0; 64]), Err(NoFrame::Bad));
    }
}
