//! Watching a file for commits, of this process or of another one.
//!
//! A commit writes to the log beside the file, or to the file itself, so their times change. What it wrote can be seen when the
//! disk has it, which may be a while later, and times are a few milliseconds coarse: so it is told again, less and less often.
//! `PRAGMA data_version` would say when, but has two threads wake each other every time, which doubled what an idle drainer
//! takes of a core. Reading the file of shared memory would say so, too, but whoever closes it gives up the locks of this
//! process in it.

use crate::error::Trouble;
use crate::news::News;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How many looks after a change it is told. Each time takes a little of an idle drainer's share of a core.
const TOLD_AFTER: [u32; 6] = [0, 1, 4, 16, 64, 256];

/// When two files were written last, and how long they are.
type Seen = [Option<(SystemTime, u64)>; 2];

/// Tells whenever somebody has committed, or written anything else.
pub async fn watch(file: PathBuf, poll: Duration, news: Arc<News>) {
    let Err(error) = follow(&file, poll, &news).await;
    news.broken(Trouble::from(sqlx::Error::Io(error)).into());
}

async fn follow(file: &Path, poll: Duration, news: &News) -> io::Result<std::convert::Infallible> {
    // The log is beside the file that a link leads to.
    let file = file.canonicalize()?;
    let mut log = OsString::from(&file);
    log.push("-wal");
    let log = PathBuf::from(log);
    let mut last = look(&file, &log)?;
    // Whatever was written before this.
    news.tell();
    let mut unchanged: u32 = 0;
    loop {
        tokio::time::sleep(poll).await;
        let now = look(&file, &log)?;
        unchanged = if now == last { unchanged.saturating_add(1) } else { 0 };
        if TOLD_AFTER.contains(&unchanged) {
            news.tell();
        }
        last = now;
    }
}

fn look(file: &Path, log: &Path) -> io::Result<Seen> {
    let seen = |meta: std::fs::Metadata| Some((meta.modified().ok()?, meta.len()));
    // There is no log before the first write, or when nobody else has the file open.
    Ok([seen(file.metadata()?), log.metadata().ok().and_then(seen)])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hub_core::outbox::Woken;

    #[tokio::test]
    async fn a_change_is_told_more_than_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.db");
        std::fs::write(&file, "").unwrap();
        let news = Arc::new(News::new());
        let watching = tokio::spawn(watch(file.clone(), Duration::from_millis(2), news.clone()));
        while tokio::time::timeout(Duration::from_secs(1), news.wait()).await.is_ok() {}
        std::fs::write(&file, "something").unwrap();
        for _ in TOLD_AFTER {
            let told = tokio::time::timeout(Duration::from_secs(30), news.wait()).await;
            assert_eq!(told.unwrap().unwrap(), Woken::News);
        }
        watching.abort();
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.db");
        std::fs::write(&file, "").unwrap();
        let news = Arc::new(News::new());
        let watching = tokio::spawn(watch(file.clone(), Duration::from_millis(5), news.clone()));
        assert_eq!(news.wait().await.unwrap(), Woken::News);
        std::fs::write(dir.path().join("shop.db-wal"), "something").unwrap();
        assert_eq!(news.wait().await.unwrap(), Woken::News);
        std::fs::remove_file(&file).unwrap();
        while news.wait().await.is_ok() {}
        watching.await.unwrap();
    }
}
