//! A file that an export writes: new, or one that an earlier export has begun.

use super::lines::Record;
use crate::exit::Usage;
use anyhow::{Context, Result, anyhow};
use flate2::bufread::GzDecoder;
use memchr::memrchr;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// What is read at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// The longest line that an export has, with room to spare.
const LINE_BYTES: usize = 64 << 20;
/// What a compressed file begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A file that is ready to be written at its end.
#[derive(Debug)]
pub struct Resumed {
    pub file: File,
    /// The seq of its last event.
    pub last_seq: Option<u64>,
    /// It was not there before.
    pub is_new: bool,
}

/// Opens a file, removes what was cut off at its end, and finds where to go on.
///
/// # Errors
/// If the file is not one that an export of this topic wrote: it is left as it is.
pub fn open(path: &Path, topic: &str, gzip: bool, overwrite: bool) -> Result<Resumed> {
    let shown = path.display();
    let is_new = !path.exists();
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = opened.with_context(|| format!("{shown} cannot be written"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(anyhow!(
                "{shown} is being written by another export; wait for it, or choose another file"
            ));
        }
        // A device or a file system without locks.
        Err(TryLockError::Error(_)) => {}
    }
    let is_plain_file = file.metadata().with_context(|| format!("{shown} cannot be read"))?.is_file();
    if !is_plain_file {
        return Ok(Resumed { file, last_seq: None, is_new: false });
    }
    if overwrite {
        // Emptied once the hub answers: until then it may be the only copy.
        return Ok(Resumed { file, last_seq: None, is_new });
    }
    let looked = if gzip { members(&mut file) } else { plain(&mut file) };
    let Found { end, last_line } =
        looked.with_context(|| format!("{shown} cannot be read"))?.ok_or_else(|| {
            let kind = if gzip { "a compressed export" } else { "an export" };
            Usage::error(format!(
                "{shown} is there and is not {kind} of events; choose another file, or write it anew with --overwrite{}",
                if is_gzip(&mut file) && !gzip { " (it is compressed: --gzip goes on with it)" } else { "" }
            ))
        })?;
    let last_seq = match last_line {
        None => None,
        Some(line) => match serde_json::from_slice::<Record<'_>>(&line) {
            Ok(record) if record.topic == topic => Some(record.seq),
            Ok(record) => {
                return Err(Usage::error(format!(
                    "{shown} has events of topic {}; choose another file for {topic}, or write it anew with --overwrite",
                    record.topic
                )));
            }
            Err(_) => {
                return Err(Usage::error(format!(
                    "{shown} does not end with an event; choose another file, or write it anew with --overwrite"
                )));
            }
        },
    };
    let length = file.metadata()?.len();
    if length > end {
        file.set_len(end).with_context(|| format!("{shown} cannot be cut to its last whole event"))?;
        note!("{shown} ended in the middle of an event; {} bytes were removed", length - end);
    }
    file.seek(SeekFrom::End(0))?;
    Ok(Resumed { file, last_seq, is_new })
}

/// How far a file is good, and its last line.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    end: u64,
    last_line: Option<Vec<u8>>,
}

fn is_gzip(file: &mut File) -> bool {
    let mut magic = [0; 2];
    file.rewind().and_then(|()| file.read_exact(&mut magic)).is_ok() && magic == GZIP_MAGIC
}

/// Looks at the end of lines; `None` if these are none of an export.
fn plain(file: &mut File) -> io::Result<Option<Found>> {
    let length = file.seek(SeekFrom::End(0))?;
    // From the end backwards, until the last two ends of lines are in it.
    let (mut tail, mut start) = (Vec::new(), length);
    loop {
        if let Some(end) = memrchr(b'\n', &tail) {
            let before = memrchr(b'\n', &tail[..end]);
            if before.is_some() || start == 0 {
                let line = tail[before.map_or(0, |before| before + 1)..end].to_vec();
                return Ok(Some(Found { end: start + end as u64 + 1, last_line: Some(line) }));
            }
        } else if start == 0 {
            // Nothing, or the beginning of a first event.
            let is_event = tail.is_empty() || tail.starts_with(&b"{\"id\":\""[..tail.len().min(7)]);
            return Ok(is_event.then_some(Found { end: 0, last_line: None }));
        }
        if tail.len() > LINE_BYTES {
            return Ok(None);
        }
        let size = start.min((tail.len().max(BLOCK_BYTES)) as u64);
        start -= size;
        let mut block = vec![0; size as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        block.append(&mut tail);
        tail = block;
    }
}

/// Looks at members of gzip, each of which has whole lines; `None` if it is not compressed.
fn members(file: &mut File) -> io::Result<Option<Found>> {
    if file.metadata()?.len() > 1 && !is_gzip(file) {
        return Ok(None);
    }
    file.rewind()?;
    let mut reader = BufReader::with_capacity(BLOCK_BYTES, file);
    let mut found = Found { end: 0, last_line: None };
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let (mut text, mut decoder) = (Vec::new(), GzDecoder::new(&mut reader));
        let whole = loop {
            match decoder.read(&mut block) {
                Ok(0) => break true,
                Ok(n) => text.extend_from_slice(&block[..n]),
                // It was cut off, or damaged: the export goes on before it.
                Err(error) if error.kind() != ErrorKind::Interrupted => break false,
                Err(_) => {}
            }
            // Only the last line counts.
            if let Some(end) = memrchr(b'\n', &text[..text.len().saturating_sub(1)]) {
                text.drain(..=end);
            }
            if text.len() > LINE_BYTES {
                return Ok(None);
            }
        };
        if !whole || !text.ends_with(b"\n") {
            return Ok(Some(found));
        }
        text.pop();
        found = Found { end: reader.stream_position()?, last_line: Some(text) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::export::output::Output;
    use std::io::Write;

    fn line(seq: u64) -> String {
        format!(
            "{{\"id\":\"i{seq}\",\"topic\":\"t\",\"payload\":\"{}\",\"seq\":{seq}}}\n",
            "x".repeat(40_000)
        )
    }

    struct Temp(tempfile::TempDir);

    impl Temp {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn with(&self, bytes: &[u8]) -> std::path::PathBuf {
            let path = self.0.path().join("file");
            std::fs::write(&path, bytes).expect("written");
            path
        }
    }

    fn resumed(path: &Path, gzip: bool) -> (Option<u64>, u64) {
        let resumed = open(path, "t", gzip, false).expect("resumable");
        (resumed.last_seq, resumed.file.metadata().expect("a file").len())
    }

    #[test]
    fn a_file_goes_on_behind_its_last_whole_line_wherever_it_was_cut() {
        let temp = Temp::new();
        let text: String = (1..=5).map(line).collect();
        let each = line(1).len();
        for cut in [0, 1, 5, each - 1, each, each + 1, 3 * each - 1, 3 * each, 5 * each] {
            let path = temp.with(&text.as_bytes()[..cut]);
            let lines = (cut / each) as u64;
            assert_eq!(resumed(&path, false), ((lines > 0).then_some(lines), lines * each as u64), "{cut}");
        }
    }

    #[test]
    fn a_compressed_file_goes_on_behind_its_last_whole_member() {
        let temp = Temp::new();
        let (first, path) = (temp.0.path().join("first"), temp.0.path().join("both"));
        let write = |path: &Path, seqs: std::ops::RangeInclusive<u64>| {
            let file = OpenOptions::new().append(true).create(true).open(path).expect("opened");
            let mut output = Output::new(Some(file), true, false);
            seqs.for_each(|seq| output.write(line(seq).as_bytes()).expect("written"));
            output.finish().expect("finished");
            std::fs::read(path).expect("read")
        };
        let first = write(&first, 1..=2);
        std::fs::write(&path, &first).expect("written");
        let both = write(&path, 3..=4);
        for cut in [0, 1, 2, 30, first.len() - 1, first.len(), first.len() + 9, both.len() - 1, both.len()] {
            let path = temp.with(&both[..cut]);
            let expected = match cut {
                cut if cut == both.len() => (Some(4), both.len() as u64),
                cut if cut >= first.len() => (Some(2), first.len() as u64),
                _ => (None, 0),
            };
            assert_eq!(resumed(&path, true), expected, "{cut}");
        }
    }

    #[test]
    fn another_file_is_left_as_it_is() {
        let temp = Temp::new();
        let other = line(1).replace("\"topic\":\"t\"", "\"topic\":\"other\"");
        for (bytes, gzip, expected) in [
            (&b"important notes"[..], false, "is not an export"),
            (b"important\nnotes\n", false, "does not end with an event"),
            (other.as_bytes(), false, "has events of topic other"),
            (&[0x1f, 0x8b, 8, 0, 0], false, "--gzip goes on with it"),
            (b"important notes", true, "is not a compressed export"),
        ] {
            let path = temp.with(bytes);
            let error = open(&path, "t", gzip, false).expect_err("refused").to_string();
            assert!(error.contains(expected) && error.contains("--overwrite"), "{error}");
            assert_eq!(std::fs::read(&path).expect("read"), bytes);
            assert_eq!(open(&path, "t", gzip, true).expect("to be overwritten").last_seq, None);
            assert_eq!(std::fs::read(&path).expect("read"), bytes, "no hub has answered yet");
        }
    }

    #[test]
    fn two_exports_do_not_write_one_file() {
        let temp = Temp::new();
        let path = temp.with(b"");
        let mut first = open(&path, "t", false, false).expect("opened");
        first.file.write_all(line(1).as_bytes()).expect("written");
        let error = open(&path, "t", false, false).expect_err("locked").to_string();
        assert!(error.contains("another export"), "{error}");
    }
}
