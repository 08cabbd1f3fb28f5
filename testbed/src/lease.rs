//! One server for all test processes of this machine.
//!
//! Test runners start a process per test, and a server takes a second or two to start, so the first who needs one starts
//! it and the others join. A user of it holds the writing end of a named pipe, `lease`, open. A shell at the other end
//! sees when the last one is gone, waits a while for the next test, and ends the server. Joining is serialised by a lock;
//! who joins in the moment in which the shell gives up notices that the pipe has been renamed, and starts a new server.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;

use crate::cache;
use crate::family::FINISH;
use crate::server::{Server, guard_of};
use crate::watchdog::Watchdog;

/// `$1` the directory, `$2` the server's process. Every user writes a byte: an empty pipe means that nobody came.
/// After the renaming nobody new can come, but somebody may have come before it: the last `cat` waits for those.
const KEEPER: &str = r#"
exec 3<"$1/lease"
while [ -n "$(cat <&3)" ]; do sleep 10; done
mv "$1/lease" "$1/closed"
cat <&3 >/dev/null
finish "$1" "$2"
"#;

/// What can be shared: a single server under a watchdog of its own.
pub(crate) trait Shareable: Sized {
    /// What the file is called in which it is written down.
    const NAME: &str;

    /// Starts one.
    async fn start_shared() -> Result<Self>;
    /// Whether the server at `address` is there and ready.
    async fn answers(address: &str) -> bool;
    /// How clients find it.
    fn address(&self) -> String;
    /// Its process.
    fn server(&self) -> &Server;
    /// Who guards it.
    fn watchdog(&self) -> &Mutex<Watchdog>;
}

/// The server as this process uses it.
#[derive(Debug)]
pub struct Shared {
    /// How clients find it.
    pub address: String,
    /// Open as long as this process lives. A server that somebody else looks after has none.
    _lease: Option<File>,
}

impl Shared {
    /// The server that `given` names, if it does, else one that all test processes share.
    pub(crate) async fn get<S: Shareable>(given: Option<String>) -> Result<Self> {
        match given.filter(|address| !address.is_empty()) {
            Some(address) => Ok(Self { address, _lease: None }),
            None => join_or_start::<S>().await,
        }
    }
}

async fn join_or_start<S: Shareable>() -> Result<Shared> {
    let home = cache::subdir("testbed")?;
    let lock = cache::lock_file(&home.join(format!("{}.lock", S::NAME)))?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await?;
    let _lock = lock.context("cannot lock the shared server")?;
    // Two lines: the directory, the address.
    let note = home.join(S::NAME);
    let noted = fs::read_to_string(&note).unwrap_or_default();
    if let Some((dir, address)) = noted.split_once('\n')
        && let Some(lease) = join(Path::new(dir))
        && S::answers(address).await
    {
        return Ok(Shared { address: address.to_owned(), _lease: Some(lease) });
    }
    let started = S::start_shared().await?;
    let (dir, address) = (guard_of(started.watchdog()).scratch().path().to_owned(), started.address());
    let lease = hand_over(&started, &dir)?;
    let part = home.join(format!("{}.part", S::NAME));
    fs::write(&part, format!("{}\n{address}", dir.display()))
        .context("cannot write down the shared server")?;
    fs::rename(&part, &note).context("cannot write down the shared server")?;
    Ok(Shared { address, _lease: Some(lease) })
}

/// Takes a lease of the server in `dir`, unless it is gone or about to go.
fn join(dir: &Path) -> Option<File> {
    let path = dir.join("lease");
    // Without waiting: a pipe that nobody reads is an error.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let mut lease = OpenOptions::new().write(true).custom_flags(nonblocking).open(&path).ok()?;
    lease.write_all(b"x").ok()?;
    let (ours, theirs) = (lease.metadata().ok()?, fs::metadata(&path).ok()?);
    ((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())).then_some(lease)
}

/// Puts a server, whose data is in `dir`, under the eyes of a shell that ends it after its last user. Returns our lease.
fn hand_over(started: &impl Shareable, dir: &Path) -> Result<File> {
    let path = dir.join("lease");
    let made =
        Command::new("mkfifo").arg("-m").arg("600").arg(&path).status().context("cannot start mkfifo")?;
    ensure!(made.success(), "cannot make the pipe {}", path.display());
    let pid = started.server().pid().context("the server has just been started")?;
    let mut keeper = Command::new("/bin/sh");
    keeper.arg("-c").arg([FINISH, KEEPER].concat()).arg("testbed-keeper").arg(dir).arg(pid.to_string());
    let held = guard_of(started.watchdog()).scratch().held_by_child()?;
    keeper.stdin(Stdio::null()).stdout(held).stderr(Stdio::null()).current_dir("/").process_group(0);
    keeper.spawn().context("cannot start /bin/sh, which guards the shared server")?;
    // Waits until the shell has opened its end.
    let mut lease = OpenOptions::new().write(true).open(&path).context("cannot open the lease")?;
    lease.write_all(b"x").context("cannot write to the lease")?;
    started.server().abandon()?;
    guard_of(started.watchdog()).leave()?;
    Ok(lease)
}
