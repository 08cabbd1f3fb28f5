//! The filter of ids as bytes.

use crate::format::bytes::{Malformed, Put, Take};
use xorf::{BinaryFuse16, Descriptor, Filter};

/// Appends a filter over distinct hashes; nothing if there are none, or none can be made.
pub(super) fn put(hashes: impl ExactSizeIterator<Item = u64> + Clone, into: &mut Vec<u8>) {
    if hashes.len() == 0 {
        return;
    }
    let Ok(BinaryFuse16 { descriptor, fingerprints }) = BinaryFuse16::try_from_iterator(hashes) else {
        return;
    };
    if !fits(&descriptor, fingerprints.len()) {
        return;
    }
    into.put_u64(descriptor.seed);
    into.put_u32(descriptor.segment_length);
    into.put_u32(descriptor.segment_count_length);
    into.extend(fingerprints.iter().flat_map(|fingerprint| fingerprint.to_le_bytes()));
}

/// Reads what [`put`] wrote.
pub(super) fn take(bytes: &[u8]) -> Result<Option<BinaryFuse16>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut from = Take(bytes);
    let seed = from.u64()?;
    let segment_length = from.u32()?;
    let segment_count_length = from.u32()?;
    let descriptor = Descriptor {
        seed,
        segment_length,
        segment_length_mask: segment_length.wrapping_sub(1),
        segment_count_length,
    };
    let (fingerprints, rest) = from.0.as_chunks::<2>();
    if !rest.is_empty() || !fits(&descriptor, fingerprints.len()) {
        return Err(Malformed(format!(
            "a filter with segments of {segment_length} up to {segment_count_length} cannot have {} bytes",
            from.0.len()
        )));
    }
    let fingerprints = fingerprints.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    Ok(Some(BinaryFuse16 { descriptor, fingerprints }))
}

/// Whether a hash may be among those of the filter.
pub(super) fn may_have(filter: Option<&BinaryFuse16>, hash: u64) -> bool {
    filter.is_none_or(|filter| filter.contains(&hash))
}

/// Whether no hash leads outside of the fingerprints. A hash chooses a place below `segment_count_length`, and one
/// each in the next two segments: so the segments must be whole, and two more must be there.
fn fits(filter: &Descriptor, fingerprints: usize) -> bool {
    let (length, end) = (filter.segment_length, filter.segment_count_length);
    length.is_power_of_two()
        && filter.segment_length_mask == length - 1
        && end > 0
        && end.is_multiple_of(length)
        && length
            .checked_mul(2)
            .and_then(|two| two.checked_add(end))
            .is_some_and(|all| all as usize == fingerprints)
}
