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
    /// The file has to be emptied before it is written.
    overwrites: bool,
}

impl Output {
    /// To the file, or to standard output.
    pub fn new(file: Option<File>, gzip: bool, overwrites: bool) -> Self {
        let place = file.map_or(Place::Stdout, Place::File);
        Self { place, member: gzip.then(member), taken: 0, overwrites }
    }

    /// Empties a file that is to be overwritten, the first time.
    pub fn begin(&mut self) -> io::Result<()> {
        match &mut self.place {
            // A device has nothing to be emptied.
            Place::File(file) if std::mem::take(&mut self.overwrites) && file.metadata()?.is_file() => {
                file.set_len(0)
            }
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub fn memory() -> (Self, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
        let memory = std::sync::Arc::default();
        let place = Place::Memory(std::sync::Arc::clone(&memory));
        (Self { place, member: None, taken: 0, overwrites: false }, memory)
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
