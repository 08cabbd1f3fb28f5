//! The terminal while the view has it. It is given back as it was, also when the program panics.

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once};

/// The other screen, no cursor, no lines that are broken.
const TAKE: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const GIVE_BACK: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The size of a terminal that does not say it.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// A terminal that is to be given back, and how it was. The panic hook has no other way to know.
static TAKEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// The terminal of standard output.
pub fn terminal() -> Result<File> {
    let tty = io::stdout().as_fd().try_clone_to_owned().context("opening the terminal")?;
    Ok(File::from(tty))
}

/// A terminal in raw mode, showing the other screen, until this is dropped.
pub struct Screen {
    tty: File,
}

impl Screen {
    pub fn enter(tty: File) -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // Before the message: it would be shown on the other screen, and lost with that.
                give_back();
                before(panic);
            }));
        });
        let screen = Self { tty };
        screen.take()?;
        Ok(screen)
    }

    fn take(&self) -> Result<()> {
        let before = tcgetattr(&self.tty).context("asking the terminal how it is set")?;
        let mut raw = before.clone();
        raw.make_raw();
        let kept = self.tty.try_clone().context("opening the terminal")?;
        *TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((kept, before));
        tcsetattr(&self.tty, OptionalActions::Drain, &raw).context("setting the terminal")?;
        (&self.tty).write_all(TAKE).context("writing to the terminal")
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL_SIZE,
        }
    }

    /// Shows lines, as many as the terminal has rows at most.
    pub fn draw(&mut self, lines: &[String]) -> Result<()> {
        let mut text = String::from("\x1b[H");
        for (at, line) in lines.iter().enumerate() {
            text.push_str(if at > 0 { "\r\n" } else { "" });
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        match self.tty.write_all(text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.context("writing to the terminal"),
        }
    }

    /// Gives the terminal back, stops until the shell lets the program go on, and takes it again.
    pub fn suspend(&mut self) -> Result<()> {
        give_back();
        kill_process(getpid(), Signal::TSTP).context("stopping")?;
        self.take()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Sets the terminal as it was. Does nothing the second time.
fn give_back() {
    let taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if let Some((mut tty, before)) = taken {
        let _ = tty.write_all(GIVE_BACK);
        let _ = tcsetattr(&tty, OptionalActions::Drain, &before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;
    use std::io::Read;

    /// Both ends of a terminal.
    fn pair() -> (File, File) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let theirs = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("opened");
        (File::from(ours), File::from(theirs))
    }

    fn is_raw(tty: &File) -> bool {
        !tcgetattr(tty).expect("a terminal").local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// What was written until the last bytes that give the terminal back.
    fn shown(ours: &mut File) -> String {
        let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
        while !text.ends_with(GIVE_BACK) {
            let count = ours.read(&mut bytes).expect("read");
            text.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn the_terminal_is_as_it_was_after_a_panic_and_after_an_end() {
        let (mut ours, theirs) = pair();
        assert!(!is_raw(&theirs));
        let tty = theirs.try_clone().expect("a copy");
        let panicked = std::thread::spawn(move || {
            let mut screen = Screen::enter(tty.try_clone().expect("a copy")).expect("taken");
            assert!(is_raw(&tty));
            screen.draw(&["one".to_owned(), "two".to_owned()]).expect("drawn");
            // Not unwound: the hook alone has to do it, as where a panic aborts.
            std::mem::forget(screen);
            panic!("a mistake, on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(!is_raw(&theirs), "after a panic");
        assert!(shown(&mut ours).contains("one\x1b[K\r\ntwo\x1b[K"));
        drop(Screen::enter(theirs.try_clone().expect("a copy")).expect("taken"));
        assert!(!is_raw(&theirs), "after an end");
        shown(&mut ours);
    }
}
