//! One server for all test processes of this machine.
//!
//! Test runners start a process per test, and a server takes a second or two to start, so the first who needs one starts
//! it and the others join. A user of it holds the writing end of a named pipe, `lease`, open. A shell at the other end
//! sees when the last one is gone, waits a while for the next test, and ends the server. Joining is serialised by a lock;
//! who joins in the moment in which the shell gives up notices that the pipe has been renamed, and starts a new server.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use tokio::sync::OnceCell;

use crate::admin;
use crate::cache;
use crate::replica_set::ReplicaSet;
use crate::server::guard_of;

/// Names a MongoDB for tests to use instead of one of our own: a replica set that can be filled and emptied.
pub const URI_VARIABLE: &str = "EVENT_HUB_TEST_MONGO";

/// `$1` the directory, `$2` the server's process. Every user writes a byte: an empty pipe means that nobody came.
/// After the renaming nobody new can come, but somebody may have come before it: the last `cat` waits for those.
const KEEPER: &str = r#"
exec 3<"$1/lease"
while [ -n "$(cat <&3)" ]; do sleep 10; done
mv "$1/lease" "$1/closed"
cat <&3 >/dev/null
kill -9 "$2"
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// The server as this process uses it.
#[derive(Debug)]
struct Shared {
    uri: String,
    /// Open as long as this process lives.
    _lease: Option<File>,
}

/// The address of a MongoDB for tests: a replica set of one node with nothing in it that matters.
///
/// What `EVENT_HUB_TEST_MONGO` says, else a server that all test processes share. It is started by the first and ends a
/// few seconds after the last. Tests keep out of each other's way by using [databases](crate::database) of their own.
pub async fn mongo() -> Result<String> {
    let shared = SHARED.get_or_try_init(|| async {
        match env::var(URI_VARIABLE) {
            Ok(uri) if !uri.is_empty() => Ok(Shared { uri, _lease: None }),
            _ => join_or_start().await,
        }
    });
    Ok(shared.await.context("tests need MongoDB")?.uri.clone())
}

async fn join_or_start() -> Result<Shared> {
    let home = cache::subdir("testbed")?;
    let lock = cache::lock_file(&home.join("shared.lock"))?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await?;
    let _lock = lock.context("cannot lock the shared server")?;
    // Two lines: the directory, the address.
    let note = home.join("shared");
    let noted = fs::read_to_string(&note).unwrap_or_default();
    if let Some((dir, uri)) = noted.split_once('\n')
        && let Some(lease) = join(Path::new(dir))
        && answers(uri).await
    {
        return Ok(Shared { uri: uri.to_owned(), _lease: Some(lease) });
    }
    let set = ReplicaSet::start(1).await?;
    let (dir, uri) = (guard_of(set.watchdog()).scratch().path().to_owned(), set.uri());
    let lease = hand_over(set, &dir)?;
    let part = home.join("shared.part");
    fs::write(&part, format!("{}\n{uri}", dir.display())).context("cannot write down the shared server")?;
    fs::rename(&part, &note).context("cannot write down the shared server")?;
    Ok(Shared { uri, _lease: Some(lease) })
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

async fn answers(uri: &str) -> bool {
    let address = uri.strip_prefix("mongodb://").and_then(|rest| rest.split('/').next());
    match address.and_then(|address| address.parse().ok()) {
        Some(address) => admin::hello(address).await.is_ok_and(|hello| hello.primary),
        None => false,
    }
}

/// Puts `set`, whose data is in `dir`, under the eyes of a shell that ends it after its last user. Returns our lease.
fn hand_over(set: ReplicaSet, dir: &Path) -> Result<File> {
    let path = dir.join("lease");
    let made =
        Command::new("mkfifo").arg("-m").arg("600").arg(&path).status().context("cannot start mkfifo")?;
    ensure!(made.success(), "cannot make the pipe {}", path.display());
    let pid = set.nodes()[0].pid().context("the server has just been started")?;
    let mut keeper = Command::new("/bin/sh");
    keeper.args(["-c", KEEPER, "testbed-keeper"]).arg(dir).arg(pid.to_string());
    let held = guard_of(set.watchdog()).scratch().held_by_child()?;
    keeper.stdin(Stdio::null()).stdout(held).stderr(Stdio::null()).current_dir("/").process_group(0);
    keeper.spawn().context("cannot start /bin/sh, which guards the shared server")?;
    // Waits until the shell has opened its end.
    let mut lease = OpenOptions::new().write(true).open(&path).context("cannot open the lease")?;
    lease.write_all(b"x").context("cannot write to the lease")?;
    set.leave()?;
    Ok(lease)
}
