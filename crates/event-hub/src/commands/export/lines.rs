//! The lines of an export on their way from the hub to the output.

use super::output::Output;
use memchr::{memchr_iter, memrchr};
use serde::Deserialize;
use std::io;

/// Passes whole lines on, and knows the seq of the last one.
pub struct Lines {
    output: Output,
    /// The beginning of a line whose end has not come yet.
    cut: Vec<u8>,
    after: Option<u64>,
    events: u64,
    bytes: u64,
}

impl Lines {
    pub fn new(output: Output, after: Option<u64>) -> Self {
        Self { output, cut: Vec::new(), after, events: 0, bytes: 0 }
    }

    /// The seq of the last line that was passed on, or the one to begin behind.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes of the lines, before they are compressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn has_cut_line(&self) -> bool {
        !self.cut.is_empty()
    }

    /// Forgets the line whose end did not come: the next transfer begins with it.
    pub fn drop_cut_line(&mut self) {
        self.cut.clear();
    }

    pub fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        let Some(end) = memrchr(b'\n', chunk) else {
            self.cut.extend_from_slice(chunk);
            // The end of such a line need not be waited for.
            let is_event = self.cut.first().is_none_or(|first| *first == b'{');
            return if is_event { Ok(()) } else { Err(no_event()) };
        };
        let (whole, rest) = chunk.split_at(end + 1);
        let last = match memrchr(b'\n', &whole[..end]) {
            Some(before) => seq_of(&whole[before + 1..end]),
            None => {
                let start = self.cut.len();
                self.cut.extend_from_slice(&whole[..end]);
                let last = seq_of(&self.cut);
                self.cut.truncate(start);
                last
            }
        };
        let last = last.ok_or_else(no_event)?;
        self.output.write(&self.cut)?;
        self.output.write(whole)?;
        self.bytes += (self.cut.len() + whole.len()) as u64;
        self.events += memchr_iter(b'\n', whole).count() as u64;
        self.after = Some(last);
        self.cut.clear();
        self.cut.extend_from_slice(rest);
        Ok(())
    }

    /// The hub has answered: a file that is to be overwritten is emptied, once.
    pub fn begin(&mut self) -> io::Result<()> {
        self.output.begin()
    }

    /// Writes everything that was passed on, so that it survives a power loss if it is a file.
    pub fn finish(&mut self) -> io::Result<()> {
        self.output.finish()
    }
}

fn no_event() -> io::Error {
    let text = "the hub sent a line that is no event; name the HTTP port of a hub with --ops-url";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The seq of a record: its last member, as hubs write it.
pub fn seq_of(record: &[u8]) -> Option<u64> {
    let digits = record.strip_suffix(b"}").and_then(|record| {
        let colon = memrchr(b':', record)?;
        record[..colon].ends_with(b",\"seq\"").then(|| &record[colon + 1..])
    });
    match digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()) {
        Some(seq) => Some(seq),
        None => serde_json::from_slice::<Record<'_>>(record).ok().map(|record| record.seq),
    }
}

/// The members of a record that a resumed export goes by.
#[derive(Deserialize)]
pub struct Record<'a> {
    #[serde(borrow)]
    pub topic: std::borrow::Cow<'a, str>,
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> String {
        format!("{{\"id\":\"i\",\"topic\":\"t\",\"payload\":{{\"seq\":9,\"text\":\"a:b\"}},\"seq\":{seq}}}\n")
    }

    #[test]
    fn the_seq_is_the_records_own_wherever_it_stands() {
        assert_eq!(seq_of(line(7).trim_end().as_bytes()), Some(7));
        assert_eq!(seq_of(br#"{"seq":8,"topic":"t","payload":{"seq":1}}"#), Some(8));
        assert_eq!(seq_of(br#"{"topic":"t","payload":{"x":1,"seq":3}}"#), None);
        assert_eq!(seq_of(b"<html>"), None);
    }

    #[test]
    fn lines_that_come_in_pieces_are_passed_on_whole() {
        let text: String = (1..=20).map(line).collect();
        for size in [1, 7, 64, 100, 1000, 10_000] {
            let (output, written) = Output::memory();
            let mut lines = Lines::new(output, None);
            for (n, chunk) in text.as_bytes().chunks(size).enumerate() {
                lines.write(chunk).expect("written");
                let passed = written.lock().expect("no panic").clone();
                assert!(passed.is_empty() || passed.ends_with(b"\n"), "chunk {n} of {size}");
                let ends = passed.iter().filter(|byte| **byte == b'\n').count() as u64;
                assert_eq!((lines.events(), lines.after()), (ends, (ends > 0).then_some(ends)));
            }
            assert!(!lines.has_cut_line());
            assert_eq!(*written.lock().expect("no panic"), text.as_bytes());
            assert_eq!(lines.bytes(), text.len() as u64);
        }
    }

    #[test]
    fn what_is_no_event_is_not_passed_on() {
        let (output, written) = Output::memory();
        let mut lines = Lines::new(output, Some(3));
        assert!(lines.write(b"<html>\n").is_err());
        assert!(Lines::new(Output::memory().0, None).write(b"<html>").is_err());
        assert!(written.lock().expect("no panic").is_empty());
        assert_eq!(lines.after(), Some(3));
    }
}
