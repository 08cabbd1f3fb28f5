//! Where an export goes: standard output or a file, compressed or not.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{self, Write};

/// Bytes that are compressed as one member: what a crash loses at most.
const MEMBER_BYTES: usize = 4 << 20;

enum Place {
    Stdout,
    File(File),
    #[cfg(test)]
    Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>),
}

impl Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(bytes),
            Self::File(file) => file.write_all(bytes),
            #[cfg(test)]
            Self::Memory(memory) => memory.lock().expect("no panic").write_all(bytes),
        }
    }
}

/// Compressed bytes are written in whole members of gzip, so that a file which was cut off has a good beginning.
pub struct Output {
    place: Place,
    member: Option<GzEncoder<Vec<u8>>>,
    /// What the member has taken.
    taken: usize,
}

impl Output {
    /// To the file, or to standard output.
    pub fn new(file: Option<File>, gzip: bool) -> Self {
        Self { place: file.map_or(Place::Stdout, Place::File), member: gzip.then(member), taken: 0 }
    }

    #[cfg(test)]
    pub fn memory() -> (Self, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
        let memory = std::sync::Arc::default();
        (Self { place: Place::Memory(std::sync::Arc::clone(&memory)), member: None, taken: 0 }, memory)
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(member) = &mut self.member else { return self.place.write(bytes) };
        member.write_all(bytes)?;
        self.taken += bytes.len();
        // Only where a line ends: a member has whole lines.
        if self.taken >= MEMBER_BYTES && bytes.ends_with(b"\n") {
            self.end_member()?;
        }
        Ok(())
    }

    fn end_member(&mut self) -> io::Result<()> {
        if self.taken > 0
            && let Some(full) = self.member.replace(member())
        {
            self.taken = 0;
            self.place.write(&full.finish()?)?;
        }
        Ok(())
    }

    /// Writes what is left; a file survives a power loss afterwards.
    pub fn finish(&mut self) -> io::Result<()> {
        self.end_member()?;
        match &mut self.place {
            Place::Stdout => io::stdout().lock().flush(),
            // A pipe or a device cannot be synced.
            Place::File(file) => match file.sync_data() {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                synced => synced,
            },
            #[cfg(test)]
            Place::Memory(_) => Ok(()),
        }
    }
}

fn member() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}
