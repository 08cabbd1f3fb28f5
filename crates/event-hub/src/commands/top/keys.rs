//! Keys, from the bytes that a terminal sends.

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    Escape,
    Enter,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Reads keys. Names of topics and groups are ASCII: other characters are passed over.
#[derive(Debug, Default)]
pub struct Keys {
    /// The beginning of a sequence whose end has not come yet.
    pending: Vec<u8>,
}

impl Keys {
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.pending.len() {
            let Some((key, length)) = next(&self.pending[at..]) else { break };
            found.extend(key);
            at += length;
        }
        self.pending.drain(..at);
        found
    }
}

/// The first key and how many bytes it takes; `None` if more bytes are needed.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match *bytes.first()? {
        0x1b => return escape(bytes),
        0x03 => Key::Interrupt,
        0x1a => Key::Suspend,
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Tab,
        byte @ 0x20..0x7f => Key::Char(char::from(byte)),
        _ => return Some((None, 1)),
    };
    Some((Some(key), 1))
}

fn escape(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let kind = match bytes.get(1) {
        // A terminal sends a sequence in one piece: an escape that is alone is the key.
        None => return Some((Some(Key::Escape), 1)),
        Some(b'[' | b'O') => bytes[1],
        // Alt with a key.
        Some(_) => return Some((None, 2)),
    };
    let end = match kind {
        b'O' => 2,
        // Parameters, then one letter or `~`.
        _ => 2 + bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)).or(too_long(bytes))?,
    };
    let last = *bytes.get(end)?;
    let key = match (last, &bytes[2..end]) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        _ => None,
    };
    Some((key, end + 1))
}

/// A sequence without an end is given up.
fn too_long(bytes: &[u8]) -> Option<usize> {
    (bytes.len() > 32).then(|| bytes.len() - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_what_terminals_send() {
        let read = |bytes: &[u8]| Keys::default().read(bytes);
        assert_eq!(read(b"q\x03\x1b"), [Key::Char('q'), Key::Interrupt, Key::Escape]);
        assert_eq!(read(b"\x1b[A\x1bOB\x1b[5~\x1b[6~"), [Key::Up, Key::Down, Key::PageUp, Key::PageDown]);
        assert_eq!(read(b"\x1b[1;5A\x1b[H\x1b[4~"), [Key::Up, Key::Home, Key::End]);
        // What nobody knows is passed over, and what comes behind it is not.
        assert_eq!(read("\x1b[200~ü\x1bxa".as_bytes()), [Key::Char('a')]);
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut keys = Keys::default();
        assert_eq!(keys.read(b"\x1b["), []);
        assert_eq!(keys.read(b"5"), []);
        assert_eq!(keys.read(b"~q"), [Key::PageUp, Key::Char('q')]);
    }

    #[test]
    fn a_sequence_that_never_ends_does_not_swallow_the_keys() {
        let mut keys = Keys::default();
        keys.read(b"\x1b[");
        (0..40).for_each(|_| drop(keys.read(b"1")));
        assert_eq!(keys.read(b"q"), [Key::Char('q')]);
    }
}
