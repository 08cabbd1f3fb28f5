//! The keys of a sidecar.

use super::header::TopicPart;
use super::read::{Sidecar, SidecarError};
use super::{KEY_ROW, KEYS, TEXTS};
use crate::disk::Wait;
use crate::index::{Entry, Flags};
use hub_proto::Key;
use std::cmp::Ordering;
use std::ops::Range;

/// Rows that a search reads at once.
const ROWS: u32 = 1024;
/// Bytes of texts that a search reads at once.
const TEXT: u64 = 8192;
/// Bytes of entries that are read at once when some of them are wanted.
const RUN: u64 = 64 * 1024;
/// No key is longer: it is in a frame.
const LONGEST: u64 = 1 << 24;

/// Rows of the keys, one after the other.
struct Rows {
    /// Where the texts begin, and where the last one ends.
    texts: Vec<u32>,
    /// Which of the topic's entries is the newest of each.
    entries: Vec<u32>,
}

impl Rows {
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where the texts of some of them are.
    fn span(&self, rows: Range<usize>) -> Range<u64> {
        u64::from(self.texts[rows.start])..u64::from(self.texts[rows.end])
    }

    /// The text of one of them, out of the texts of several, which begin at `from`.
    fn text<'a>(&self, row: usize, texts: &'a [u8], from: u64) -> &'a [u8] {
        let span = self.span(row..row + 1);
        &texts[(span.start - from) as usize..(span.end - from) as usize]
    }
}

impl Sidecar {
    /// The newest entry of a key.
    ///
    /// # Errors
    /// See [`SidecarError`].
    pub fn newest(&self, topic: u32, key: &str, wait: Wait) -> Result<Option<Entry>, SidecarError> {
        let Some(part) = self.topic(topic).filter(|part| part.keys > 0) else { return Ok(None) };
        self.verify(wait)?;
        let Ok((_, entry)) = self.find(part, key.as_bytes(), wait)? else { return Ok(None) };
        self.entry(topic, entry, wait)
    }

    /// Up to `max` keys of the topic above `after`, in byte order, each with its newest entry.
    ///
    /// # Errors
    /// See [`SidecarError`].
    pub fn keys(
        &self,
        topic: u32,
        after: Option<&str>,
        max: usize,
        wait: Wait,
    ) -> Result<Vec<(Key, Entry)>, SidecarError> {
        let Some(part) = self.topic(topic).filter(|part| part.keys > 0 && max > 0) else {
            return Ok(Vec::new());
        };
        self.verify(wait)?;
        let from = match after.map(|after| self.find(part, after.as_bytes(), wait)).transpose()? {
            None => 0,
            Some(Ok((at, _))) => at + 1,
            Some(Err(at)) => at,
        };
        let count = (part.keys - from).min(u32::try_from(max).unwrap_or(u32::MAX));
        if count == 0 {
            return Ok(Vec::new());
        }
        let rows = self.key_rows(part, from, count, wait)?;
        let span = rows.span(0..rows.len());
        let texts = self.texts(span.clone(), wait)?;
        let entries = self.some(part, &rows.entries, wait)?;
        let mut keys: Vec<(Key, Entry)> = Vec::with_capacity(rows.len());
        for (row, entry) in entries.into_iter().enumerate() {
            let text = rows.text(row, &texts, span.start);
            let text = std::str::from_utf8(text)
                .map_err(|_| SidecarError::bad(format!("a key of topic {topic} is not UTF-8")))?;
            // Also so that whoever goes on after the last one comes to an end.
            if keys.last().map(|(key, _)| &**key).or(after).is_some_and(|last| last >= text) {
                return Err(SidecarError::bad(format!("the keys of topic {topic} are not in order")));
            }
            keys.push((text.into(), entry));
        }
        Ok(keys)
    }

    /// The row of a key and the number of its newest entry; or the row it would have.
    fn find(
        &self,
        part: &TopicPart,
        key: &[u8],
        wait: Wait,
    ) -> Result<Result<(u32, u32), u32>, SidecarError> {
        let (mut low, mut high) = (0, part.keys);
        while high - low > ROWS {
            let middle = low + (high - low) / 2;
            let row = self.key_rows(part, middle, 1, wait)?;
            match self.texts(row.span(0..1), wait)?.as_slice().cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok((middle, row.entries[0]))),
                Ordering::Greater => high = middle,
            }
        }
        if low == high {
            return Ok(Err(low));
        }
        let rows = self.key_rows(part, low, high - low, wait)?;
        let found = self.find_among(&rows, key, wait)?;
        Ok(found.map(|row| (low + row as u32, rows.entries[row])).map_err(|row| low + row as u32))
    }

    /// As [`Sidecar::find`], among rows that were read.
    fn find_among(&self, rows: &Rows, key: &[u8], wait: Wait) -> Result<Result<usize, usize>, SidecarError> {
        let (mut low, mut high) = (0, rows.len());
        // The texts of the rows from `from` on, once they are few.
        let (mut from, mut texts) = (0, Vec::new());
        while low < high {
            let middle = low + (high - low) / 2;
            let here = rows.span(low..high);
            let order = if !texts.is_empty() {
                rows.text(middle, &texts, from).cmp(key)
            } else if here.end - here.start <= TEXT {
                (from, texts) = (here.start, self.texts(here, wait)?);
                rows.text(middle, &texts, from).cmp(key)
            } else {
                self.texts(rows.span(middle..middle + 1), wait)?.as_slice().cmp(key)
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// Rows of the topic's keys, at least one, checked: every text is where texts are, every entry is the topic's.
    fn key_rows(&self, part: &TopicPart, at: u32, count: u32, wait: Wait) -> Result<Rows, SidecarError> {
        let (at, count, row) = (u64::from(part.keys_from) + u64::from(at), u64::from(count), KEY_ROW as u64);
        // With the one behind them, which says where the last text ends.
        let there = (self.section_len(KEYS) / row).saturating_sub(at);
        let bytes = self.rows(KEYS, KEY_ROW, at, there.min(count + 1), wait)?;
        let all = self.section_len(TEXTS);
        let room = count as usize + 1;
        let mut rows = Rows { texts: Vec::with_capacity(room), entries: Vec::with_capacity(room) };
        for row in bytes.as_chunks::<KEY_ROW>().0 {
            let [a, b, c, d, e, f, g, h] = *row;
            rows.texts.push(u32::from_le_bytes([a, b, c, d]));
            rows.entries.push(u32::from_le_bytes([e, f, g, h]));
        }
        if there == count {
            rows.texts.push(u32::try_from(all).unwrap_or(u32::MAX));
        } else {
            rows.entries.pop();
        }
        let texts = rows.texts.windows(2).all(|text| {
            let (from, to) = (u64::from(text[0]), u64::from(text[1]));
            from <= to && to <= all && to - from < LONGEST
        });
        if texts && rows.entries.len() as u64 == count && rows.entries.iter().all(|entry| *entry < part.count)
        {
            return Ok(rows);
        }
        Err(SidecarError::bad(format!("{count} keys of topic {} from row {at} on cannot be", part.number)))
    }

    fn texts(&self, span: Range<u64>, wait: Wait) -> Result<Vec<u8>, SidecarError> {
        self.piece(TEXTS, span.start, span.end - span.start, wait)
    }

    /// Some of the topic's entries, in the order in which they are asked for. Those that lie near each other are read
    /// at once: never more reads than entries, and never more than the topic has runs.
    fn some(&self, part: &TopicPart, wanted: &[u32], wait: Wait) -> Result<Vec<Entry>, SidecarError> {
        let row = self.entry_row();
        let reach = (RUN / row as u64) as u32;
        let mut order: Vec<u32> = (0..wanted.len() as u32).collect();
        order.sort_unstable_by_key(|place| wanted[*place as usize]);
        let at = |place: &u32| wanted[*place as usize];
        let mut entries = vec![Entry { seq: 0, offset: 0, len: 0, flags: Flags(0) }; wanted.len()];
        let mut left = &order[..];
        while let Some(first) = left.first().map(at) {
            let (run, rest) = left.split_at(left.partition_point(|place| at(place) - first < reach));
            left = rest;
            let count = u64::from(run.last().map_or(first, at) - first) + 1;
            let rows = self.entry_rows(part, u64::from(first), count, wait)?;
            for place in run {
                let start = (at(place) - first) as usize * row;
                entries[*place as usize] = self.decode(part, &rows[start..start + row])?;
            }
        }
        Ok(entries)
    }
}
