//! A terminal that the program runs on.

use crate::hub::program;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program on a terminal of its own, ended when the test is.
pub struct Pty {
    child: Child,
    keyboard: File,
    /// The program's end, kept open: its settings are those that a shell would find.
    tty: File,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Pty {
    /// Starts it on a terminal of 100 columns and 30 rows.
    pub fn start(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = File::from(rustix::fs::open(&*name, flags, Mode::empty()).unwrap());
        let inner = program(args, environment);
        // A session of its own, whose terminal this is: only then is a change of its size told.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if !environment.iter().any(|(name, _)| *name == "NO_COLOR") {
            command.env_remove("NO_COLOR");
        }
        command.env("TERM", "xterm-256color");
        let end = || Stdio::from(tty.try_clone().unwrap());
        let keyboard = File::from(ours);
        set_size(&keyboard, 100, 30);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut reader = keyboard.try_clone().unwrap();
        let (give, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 16 << 10];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if give.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, tty, output, seen: String::new() }
    }

    /// Waits until the terminal was sent `words`, behind what was waited for before; answers what came until then.
    #[track_caller]
    pub fn shows(&mut self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(words) {
                let rest = self.seen.split_off(at + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{words:?} is not shown:\n{:?}", self.seen),
            }
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        set_size(&self.keyboard, columns, rows);
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Whether lines are edited and shown by the terminal, as a shell wants it.
    pub fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.tty).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for its end: the exit code, and everything that was shown and not waited for.
    pub fn ended(&mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{:?}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        };
        // A mark behind everything that the program wrote.
        self.tty.write_all(b"<end>").unwrap();
        let rest = self.shows("<end>");
        (status.code().unwrap_or(-1), rest)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}
