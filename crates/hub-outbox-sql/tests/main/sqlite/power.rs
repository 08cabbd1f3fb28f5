//! What is on the disk when a claim is answered.
//!
//! The kernel is asked which pages of the log are dirty, that is in its memory and not on the disk: a power loss takes those. So
//! the test sees what was synced, by whatever call, and needs no other disk and no other SQLite. It does not see a
//! drive that says that it has written and has not.

use super::File;
use crate::hub::row;
use hub_core::outbox::{Claim, OutboxStore, RowId};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `cachestat`, Linux 6.5. The number is the same on all architectures but one.
const CACHESTAT: libc::c_long = 451;

/// Pages of a file that are not on the disk, whole or in part; `None` where the kernel cannot tell.
#[allow(unsafe_code)]
fn unsynced_pages(path: &Path) -> Option<u64> {
    let file = fs::File::open(path).unwrap();
    // The whole file, from 0 on.
    let range = [0_u64; 2];
    // In the cache, dirty, being written, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    // SAFETY: the call reads two numbers and writes five, as many as there are; both arrays and the file outlive it.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0) };
    (done == 0).then_some(pages[1] + pages[2])
}

/// Whether the kernel and the file system tell what is on the disk. A file system in memory does not.
fn can_tell(dir: &Path) -> bool {
    let path = dir.join("probe");
    let mut synced = Vec::new();
    for _ in 0..20 {
        fs::write(&path, [7; 9000]).unwrap();
        let before = unsynced_pages(&path);
        fs::File::open(&path).unwrap().sync_all().unwrap();
        synced.push((before, unsynced_pages(&path)));
    }
    synced.iter().all(|(_, after)| *after == Some(0)) && synced.iter().any(|(before, _)| *before > Some(0))
}

/// A service that does not wait for the disk when it commits.
async fn hasty_service(file: &File) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(&file.path).synchronous(SqliteSynchronous::Normal);
    let mut shop = options.connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&mut shop).await.unwrap();
    shop
}

#[tokio::test]
async fn a_row_is_claimed_after_the_change_that_it_tells_of_is_on_the_disk() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(dir).unwrap();
    let file = File::new_in(dir).await;
    let log = file.path.clone() + "-wal";
    if !can_tell(Path::new(&file.path).parent().unwrap()) {
        eprintln!("skipped: this kernel or file system does not tell which pages are on the disk");
        return;
    }
    let outbox = file.open().await;
    let mut shop = hasty_service(&file).await;
    let mut was_unsynced = false;
    for n in 0..20 {
        let mut tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO orders VALUES (?)").bind(n).execute(&mut *tx).await.unwrap();
        let row = row(n, None);
        let id = RowId::from(row.id);
        outbox.add_in(&mut tx, &[row]).await.unwrap();
        tx.commit().await.unwrap();
        // The kernel may have written it by itself.
        was_unsynced |= unsynced_pages(Path::new(&log)) > Some(0);
        let claim = Claim { worker: "w".into(), number: 1 };
        assert_eq!(outbox.claim(&claim, &[id], 60_000, usize::MAX).await.unwrap().len(), 1);
        assert_eq!(
            unsynced_pages(Path::new(&log)),
            Some(0),
            "a power loss takes order {n}, and its event is out"
        );
    }
    assert!(was_unsynced, "the service waits for the disk, so this shows nothing");
    // What is on the disk, to somebody who begins with that.
    let later = Path::new(&file.path).with_file_name("later.db");
    fs::copy(&file.path, &later).unwrap();
    fs::copy(&log, later.with_file_name("later.db-wal")).unwrap();
    let mut later = SqliteConnectOptions::new().filename(&later).connect().await.unwrap();
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut later).await.unwrap();
    assert_eq!(orders, 20);
}
