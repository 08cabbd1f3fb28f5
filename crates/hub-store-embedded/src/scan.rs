//! Reads a segment from its first frame to its end, commit by commit, and says what is wrong with it.
//!
//! Where a frame should be and is none, one of two things has happened:
//!
//! - **A torn end.** The segment is the last one, and nothing that follows says that it was synced: the power failed
//!   before anybody was told that the commit is safe. The log ends before that commit.
//! - **Damage.** Something that was safe once is no longer what it was. The scan goes on at the next frame that is one,
//!   and what lies between is reported.

use crate::disk::{DiskFile, Wait};
use crate::format::entry::{Entry, Mark};
use crate::format::frame::{self, Frame, HEADER, NoFrame, Seal, kind};
use crate::format::{header, record};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Bytes of a frame's content that say whether it can be one.
const LOOKED_AT: usize = 36;
/// More than a name takes.
const LONGEST_NAME: usize = 1 << 16;
/// Where the highest byte of a frame's length is. It is 0, as no frame is that long.
const HIGHEST: usize = 7;
/// Frames up to this long are looked for whatever it costs.
const SMALL: u64 = 1 << 10;
/// Looking for frames checks so many times the bytes there are.
const BUDGET: u64 = 16;

/// A commit that is larger is read again when its frames are handed out: a rewritten segment is one single commit.
const LARGE: usize = 8 << 20;

/// A stretch of a file that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub bytes: Range<u64>,
    /// What is wrong with it.
    pub what: String,
}

/// What a scan found out.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Where the last commit ends.
    pub end: u64,
    /// The last commit's number.
    pub last: u64,
    /// The highest number known to be synced.
    pub synced: u64,
    /// Where the last commit ends that a later one says is synced.
    pub synced_end: u64,
    /// The store was closed after the last commit.
    pub closed: bool,
    /// Damage, in the order of the file.
    pub damage: Vec<Damage>,
    /// Bytes after the end that belong to no commit that was safe.
    pub torn: Option<Range<u64>>,
}

/// A frame in its place.
#[derive(Clone, Debug)]
pub struct At<'a> {
    /// Where it begins.
    pub offset: u64,
    /// Bytes of the frame.
    pub len: usize,
    /// What it says.
    pub entry: Entry<'a>,
}

/// Scans a segment. `end` is where it ends if that is known, because there is another one after it; `after` is the
/// number of the last commit before it. `visit` gets the frames of whole commits, the mark last.
pub fn scan(
    file: &dyn DiskFile,
    seal: Seal,
    end: Option<u64>,
    after: u64,
    visit: &mut dyn FnMut(At<'_>),
) -> io::Result<Outcome> {
    let size = file.size()?;
    let limit = end.unwrap_or(size);
    let limit_here = limit.min(size);
    let budget = (limit_here + frame::MAX as u64) * BUDGET;
    let mut window = Window { file, bytes: Vec::new(), base: header::LEN as u64, limit: limit_here, budget };
    let start = header::LEN as u64;
    let mut out = Outcome { end: start, last: after, synced: after, synced_end: start, ..Outcome::default() };
    // Commits that nothing says are synced, yet.
    let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
    if limit > size {
        let what = format!("the file ends at byte {size}, {limit} bytes of it count");
        out.damage.push(Damage { bytes: size..limit, what });
    }
    // The frames of the commit at hand.
    let mut frames: Vec<(u64, usize)> = Vec::new();
    let mut evidence = Evidence::default();
    let mut at = out.end;
    while at < window.limit {
        match window.frame(seal, at)? {
            Some((kind, len)) if kind == kind::MARK => {
                let mark = window.mark(seal, at)?.filter(|mark| mark.number > out.last);
                let Some(mark) = mark else {
                    // Left over from a commit that was given up: it does not count, nor does what led to it.
                    if end.is_none() && !evidence.above(&mut window, seal, at + len as u64, out.last)? {
                        break;
                    }
                    out.damage
                        .push(Damage { bytes: out.end..at + len as u64, what: "a mark out of order".into() });
                    at += len as u64;
                    (out.end, frames) = (at, Vec::new());
                    continue;
                };
                frames.push((at, len));
                deliver(&mut window, &mut frames, &mut out.damage, visit)?;
                at += len as u64;
                (out.end, out.last, out.closed) = (at, mark.number, mark.closed);
                out.synced = out.synced.max(mark.synced).max(if mark.closed { mark.number } else { 0 });
                while let Some((_, end)) = waiting.pop_front_if(|(number, _)| *number <= mark.synced) {
                    out.synced_end = end;
                }
                waiting.push_back((mark.number, at));
                window.forget_before(at);
            }
            Some((_, len)) => {
                frames.push((at, len));
                at += len as u64;
                if window.bytes.len() > LARGE {
                    window.forget_before(at);
                }
            }
            None => {
                if end.is_none() && !evidence.above(&mut window, seal, at, out.last)? {
                    break;
                }
                let next = window.next_frame(seal, at + 1)?.map_or(window.limit, |(next, ..)| next);
                let what = "no frame of this segment: its checksum is wrong, or its length".into();
                out.damage.push(Damage { bytes: at..next, what });
                // What came before it in the same commit was safe.
                deliver(&mut window, &mut frames, &mut out.damage, visit)?;
                (at, out.end) = (next, next);
            }
        }
    }
    if end.is_some() && !frames.is_empty() {
        // The mark is missing, but the segment was sealed with this in it.
        deliver(&mut window, &mut frames, &mut out.damage, visit)?;
        out.damage.push(Damage { bytes: at..limit, what: "the last commit has no end".into() });
    }
    if let Some(end) = end {
        out.end = end;
    } else if let Some(last) = window.last_non_zero(out.end)? {
        out.torn = Some(out.end..last + 1);
    }
    Ok(out)
}

/// Hands out the frames of a commit.
fn deliver(
    window: &mut Window<'_>,
    frames: &mut Vec<(u64, usize)>,
    damage: &mut Vec<Damage>,
    visit: &mut dyn FnMut(At<'_>),
) -> io::Result<()> {
    for (offset, len) in frames.drain(..) {
        if window.bytes.len() > LARGE {
            window.forget_before(offset);
        }
        let Some(bytes) = window.at(offset, len)? else { continue };
        let frame = Frame { kind: bytes[8], content: &bytes[HEADER..len] };
        match Entry::read(frame.kind, frame.content) {
            Ok(entry) => visit(At { offset, len, entry }),
            Err(error) => {
                let what = format!("a frame of kind {} cannot be read: {error}", frame.kind);
                damage.push(Damage { bytes: offset..offset + len as u64, what });
            }
        }
    }
    Ok(())
}

/// What the rest of a segment says about commits being safe. It is read once, when it is first asked for.
#[derive(Default)]
struct Evidence {
    /// Where marks are, and up to which commit they and all that follow vouch: descending.
    marks: Option<Vec<(u64, u64)>>,
}

impl Evidence {
    /// Whether anything from `at` on says that a commit above `last` was synced.
    fn above(&mut self, window: &mut Window<'_>, seal: Seal, at: u64, last: u64) -> io::Result<bool> {
        if self.marks.is_none() {
            self.marks = Some(Self::read(window, seal, at)?);
        }
        let marks = self.marks.as_deref().unwrap_or_default();
        let next = marks.partition_point(|(offset, _)| *offset < at);
        Ok(marks.get(next).is_some_and(|(_, upto)| *upto > last))
    }

    fn read(window: &mut Window<'_>, seal: Seal, mut at: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut marks: Vec<(u64, u64)> = Vec::new();
        while let Some((next, kind, len)) = window.next_frame(seal, at)? {
            if kind == kind::MARK
                && let Some(mark) = window.mark(seal, next)?
            {
                let upto = mark.number.min(mark.synced);
                while marks.pop_if(|(_, before)| *before <= upto).is_some() {}
                marks.push((next, upto));
            }
            at = next + len as u64;
        }
        Ok(marks)
    }
}

/// Whether the content of a frame, of so many bytes, may begin with these.
fn looks_like(kind: u8, len: usize, content: &[u8]) -> bool {
    // Numbers of this world are far from the largest ones, and texts begin with something that can be seen.
    let small = |at: usize| content.get(at + 6..at + 8).is_some_and(|high| high == [0, 0]);
    let text = || content.get(4).is_some_and(u8::is_ascii_graphic);
    match kind {
        kind::TOPIC => len < LONGEST_NAME && text(),
        kind::EVENT => content.get(12..).is_some_and(|json| json.starts_with(b"{\"id\":\"")),
        kind::PAST => len == 60,
        kind::CLEANED => [4, 12, 20, 28].into_iter().all(small),
        kind::RESERVED | kind::JUMP => len == 12,
        kind::OPENED => len == 16,
        kind::MARK => len == 21,
        record::GROUP..=record::SUBSCRIPTION_GONE => match content.first_chunk::<4>() {
            Some(name) => (u32::from_le_bytes(*name) as usize) < LONGEST_NAME.min(len) && text(),
            None => false,
        },
        _ => false,
    }
}

fn leading_zeros(bytes: &[u8]) -> usize {
    const BLOCK: [u8; 512] = [0; 512];
    let blocks = bytes.chunks_exact(BLOCK.len()).take_while(|block| **block == BLOCK).count() * BLOCK.len();
    blocks + bytes[blocks..].iter().take_while(|&&byte| byte == 0).count()
}

/// A part of a file in memory.
struct Window<'a> {
    file: &'a dyn DiskFile,
    bytes: Vec<u8>,
    base: u64,
    limit: u64,
    /// Bytes whose checksums may still be checked in looking for frames.
    budget: u64,
}

impl Window<'_> {
    /// The bytes from `offset` on: at least `len`, if the file has them.
    fn at(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if offset + len as u64 > self.limit {
            return Ok(None);
        }
        if offset < self.base || offset > self.base + self.bytes.len() as u64 {
            self.base = offset;
            self.bytes.clear();
        }
        let start = (offset - self.base) as usize;
        if self.bytes.len() < start + len {
            let have = self.bytes.len();
            let left = self.limit - self.base - have as u64;
            let more = (start + len - have).max(CHUNK).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.bytes.resize(have + more, 0);
            let read = self.file.read_at(&mut self.bytes[have..], self.base + have as u64, Wait::Yes)?;
            self.bytes.truncate(have + read);
        }
        Ok(self.bytes.get(start..).filter(|bytes| bytes.len() >= len))
    }

    /// The kind and length of the frame at a place, if there is one.
    fn frame(&mut self, seal: Seal, at: u64) -> io::Result<Option<(u8, usize)>> {
        let mut need = HEADER;
        loop {
            let Some(bytes) = self.at(at, need)? else { return Ok(None) };
            match seal.read(bytes) {
                Ok(frame) => return Ok(Some((frame.kind, frame.len()))),
                Err(NoFrame::Short(more)) if more > need => need = more,
                Err(_) => return Ok(None),
            }
        }
    }

    fn mark(&mut self, seal: Seal, at: u64) -> io::Result<Option<Mark>> {
        let Some((kind::MARK, len)) = self.frame(seal, at)? else { return Ok(None) };
        let Some(bytes) = self.at(at, len)? else { return Ok(None) };
        Ok(match Entry::read(kind::MARK, &bytes[HEADER..len]) {
            Ok(Entry::Mark(mark)) => Some(mark),
            _ => None,
        })
    }

    /// The first place from `at` on where there is a frame, its kind and its length.
    fn next_frame(&mut self, seal: Seal, mut at: u64) -> io::Result<Option<(u64, u8, usize)>> {
        while at + HEADER as u64 <= self.limit {
            let Some(bytes) = self.at(at, HEADER)? else { return Ok(None) };
            // Most of what is looked through is preallocated.
            let zeros = leading_zeros(bytes);
            // A frame's length is not zero, so it begins at most 7 bytes before what is not; its highest byte is.
            let skip = match memchr::memchr(0, &bytes[HIGHEST..]) {
                _ if zeros > 8 => zeros - 7,
                Some(skip) => skip,
                None => bytes.len() - HIGHEST,
            };
            if skip > 0 {
                at += skip as u64;
                self.forget_before(at);
                continue;
            }
            if self.may_be_frame(at)?
                && let Some((kind, len)) = self.frame(seal, at)?
            {
                return Ok(Some((at, kind, len)));
            }
            at += 1;
            self.forget_before(at);
        }
        Ok(None)
    }

    /// Whether it is worth it to check a checksum here. In bytes that mean nothing, one length in 256 is one, of 8 MiB
    /// on average: to check them all would take minutes for a segment. What is made to look like frames runs out of
    /// budget.
    fn may_be_frame(&mut self, at: u64) -> io::Result<bool> {
        let Some(head) = self.at(at, HEADER)? else { return Ok(false) };
        let (len, kind) = (u32::from_le_bytes([head[4], head[5], head[6], head[7]]), head[8]);
        let end = u64::from(len) + 8;
        if len == 0 || end > frame::MAX as u64 || at + end > self.limit {
            return Ok(false);
        }
        let len = len as usize - 1;
        let Some(content) = self.at(at + HEADER as u64, len.min(LOOKED_AT))? else { return Ok(false) };
        if !looks_like(kind, len, content) {
            return Ok(false);
        }
        let cost = if end > SMALL { end } else { 0 };
        let affordable = self.budget >= cost;
        self.budget = self.budget.saturating_sub(cost);
        Ok(affordable)
    }

    /// The last byte from `at` on that is not zero.
    fn last_non_zero(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        let mut found = None;
        while at < self.limit {
            let len = CHUNK.min((self.limit - at) as usize);
            self.forget_before(at);
            let Some(bytes) = self.at(at, len)? else { break };
            if let Some(last) = bytes[..len].iter().rposition(|&byte| byte != 0) {
                found = Some(at + last as u64);
            }
            at += len as u64;
        }
        Ok(found)
    }

    /// Gives memory back.
    fn forget_before(&mut self, at: u64) {
        let gone = usize::try_from(at.saturating_sub(self.base)).unwrap_or(usize::MAX);
        // Moving what is left costs: worth it once most is gone.
        if gone >= self.bytes.len() {
            self.bytes.clear();
            self.base = at;
        } else if gone > CHUNK / 2 {
            self.bytes.drain(..gone);
            self.base = at;
        }
    }
}

#[cfg(test)]
mod tests;
