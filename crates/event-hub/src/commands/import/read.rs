//! Reading an export: lines into batches, with bounded memory.

use super::record;
use crate::position::now;
use anyhow::{Context, Result};
use flate2::bufread::MultiGzDecoder;
use hub_proto::{IdGenerator, NewEvent, TopicName, limits};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::Sender;

/// Bytes of a batch: well below what a hub takes in one frame.
const BATCH_BYTES: usize = 1 << 20;
/// What a hub takes in one frame, unless it was told otherwise. A larger one would end the connection.
const FRAME_BYTES: usize = 4 << 20;
/// The longest line.
const LINE_BYTES: u64 = 64 << 20;
/// What is read in one go.
const READ_BYTES: usize = 256 << 10;

/// What a reader hands over.
pub enum Piece {
    /// Events with their lines, and how many bytes of the source are read.
    Batch { events: Vec<NewEvent>, lines: Vec<u64>, position: u64 },
    /// A line that is no record.
    Bad(u64, String),
    /// A line with a dead letter that was replayed.
    Replay,
    /// The source cannot be read any further.
    Failed(anyhow::Error),
}

/// Where records come from.
pub struct Source {
    reader: Box<dyn Read + Send>,
    /// How large it is, if that is known.
    pub bytes: Option<u64>,
    position: Arc<AtomicU64>,
}

/// Counts what is read: the place in a compressed file is what a person sees.
struct Counted<R> {
    reader: R,
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Source {
    /// A file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Self> {
        let position = Arc::new(AtomicU64::new(0));
        let (reader, bytes): (Box<dyn Read + Send>, _) = match path.as_os_str() == "-" {
            true => (Box::new(std::io::stdin()), None),
            false => {
                let shown = path.display();
                let file = File::open(path).with_context(|| format!("{shown} cannot be read"))?;
                let about = file.metadata().with_context(|| format!("{shown} cannot be read"))?;
                if about.is_dir() {
                    anyhow::bail!("{shown} is a directory; a file of an export is expected");
                }
                (Box::new(file), about.is_file().then_some(about.len()))
            }
        };
        let reader = Box::new(Counted { reader, position: Arc::clone(&position) });
        Ok(Self { reader, bytes, position })
    }

    /// Reads until the end, or until nobody takes it any more.
    pub fn read(self, topic: &TopicName, new_ids: bool, give: &Sender<Piece>) {
        let Self { reader, position, .. } = self;
        let mut plain = BufReader::with_capacity(READ_BYTES, reader);
        let is_gzip = match plain.fill_buf() {
            Ok(bytes) => bytes.starts_with(&[0x1f, 0x8b]),
            Err(error) => {
                let _ = give.blocking_send(Piece::Failed(anyhow::Error::new(error).context("reading")));
                return;
            }
        };
        let ids = IdGenerator::new();
        let batch = Batch { events: Vec::new(), lines: Vec::new(), bytes: 0, position, ids, new_ids, give };
        match is_gzip {
            true => batch.read(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(plain)), topic),
            false => batch.read(plain, topic),
        }
    }
}

/// What became of a line.
enum Added {
    Event,
    /// It is passed over.
    Replay,
    /// Nobody takes batches any more.
    Unread,
}

/// The batch that is being filled.
struct Batch<'a> {
    events: Vec<NewEvent>,
    lines: Vec<u64>,
    bytes: usize,
    position: Arc<AtomicU64>,
    ids: IdGenerator,
    new_ids: bool,
    give: &'a Sender<Piece>,
}

impl Batch<'_> {
    fn read(mut self, mut reader: impl BufRead, topic: &TopicName) {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let piece = match Read::by_ref(&mut reader).take(LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if line.len() as u64 == LINE_BYTES => Piece::Failed(anyhow::anyhow!(
                    "line {number} has more than 64 MiB; one record per line is expected"
                )),
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => match self.add(line.trim_ascii(), number, topic) {
                    Ok(Added::Event) => continue,
                    Ok(Added::Unread) => return,
                    Ok(Added::Replay) => Piece::Replay,
                    Err(what) => Piece::Bad(number, what),
                },
                Err(error) => Piece::Failed(
                    anyhow::Error::new(error).context(format!("reading behind line {}", number - 1)),
                ),
            };
            // What was good before a bad line is published before it is told.
            let is_last = matches!(piece, Piece::Failed(_));
            if !self.hand_over() || self.give.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
        self.hand_over();
    }

    /// Adds a line, or says what is wrong with it.
    fn add(&mut self, line: &[u8], number: u64, topic: &TopicName) -> Result<Added, String> {
        let Some(mut event) = record::read(line, topic)? else { return Ok(Added::Replay) };
        let bytes = record::frame_bytes(&event, line);
        if bytes + 96 > FRAME_BYTES {
            return Err(format!("{} bytes are more than the 4 MiB of a frame", line.len()));
        }
        match (self.new_ids, event.options.id) {
            // Made here and not by the hub: a batch that is sent again must store nothing twice.
            (true, _) => event.options.id = Some(self.ids.next(now())),
            (false, Some(_)) => {}
            (false, None) => {
                return Err("not a record: it has no id; --new-ids gives all of them new ones".into());
            }
        }
        let is_full = self.events.len() == limits::BATCH_EVENTS || self.bytes + bytes > BATCH_BYTES;
        if is_full && !self.hand_over() {
            return Ok(Added::Unread);
        }
        self.bytes += bytes;
        self.events.push(event);
        self.lines.push(number);
        Ok(Added::Event)
    }

    /// Hands the batch over; whether somebody takes it.
    fn hand_over(&mut self) -> bool {
        if self.events.is_empty() {
            return true;
        }
        self.bytes = 0;
        let (events, lines) = (std::mem::take(&mut self.events), std::mem::take(&mut self.lines));
        let position = self.position.load(Ordering::Relaxed);
        self.give.blocking_send(Piece::Batch { events, lines, position }).is_ok()
    }
}
