//! Waking those who wait for rows. Somebody beside them watches the database, and starts when the first one waits.

use hub_core::outbox::Woken;
use hub_core::store::{StoreError, StoreResult};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What was told last.
#[derive(Clone, Debug)]
struct Told {
    /// The how manieth it is.
    number: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    News,
    Never,
    Broken(StoreError),
}

/// News that are not lost between two waits: several of them count as one.
pub struct News {
    told: watch::Sender<Told>,
    /// The last that somebody was woken for.
    seen: AtomicU64,
}

impl News {
    pub fn new() -> Self {
        Self { told: watch::Sender::new(Told { number: 0, what: What::News }), seen: AtomicU64::new(0) }
    }

    /// There may be rows.
    pub fn tell(&self) {
        self.say(What::News);
    }

    /// This database cannot say. Those who wait learn it, and those who come later.
    pub fn never(&self) {
        self.say(What::Never);
    }

    /// Whoever watched the database cannot any more.
    pub fn broken(&self, error: StoreError) {
        self.say(What::Broken(error));
    }

    fn say(&self, what: What) {
        self.told.send_modify(|told| {
            told.number += 1;
            told.what = what;
        });
    }

    /// Waits until something is told that nobody was woken for yet.
    pub async fn wait(&self) -> StoreResult<Woken> {
        let seen = self.seen.load(Ordering::Acquire);
        let mut told = self.told.subscribe();
        let is_new = |told: &Told| told.number > seen || matches!(told.what, What::Never);
        // The sender is in `self`, so there is one.
        let Ok(told) = told.wait_for(is_new).await else { return Ok(Woken::Never) };
        self.seen.fetch_max(told.number, Ordering::AcqRel);
        match &told.what {
            What::News => Ok(Woken::News),
            What::Never => Ok(Woken::Never),
            What::Broken(error) => Err(error.clone()),
        }
    }
}

/// The task that watches the database. It ends with this value.
pub struct Watch {
    news: Arc<News>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Watch {
    pub fn new() -> Self {
        Self { news: Arc::new(News::new()), task: Mutex::default() }
    }

    /// The news themselves.
    pub fn news(&self) -> &Arc<News> {
        &self.news
    }

    /// Waits for news, with somebody who watches: a new one, if the last has ended.
    pub async fn wait<F>(&self, watch: impl FnOnce(Arc<News>) -> F) -> StoreResult<Woken>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        {
            let mut task = self.task.lock();
            let can_ever = !matches!(self.news.told.borrow().what, What::Never);
            if can_ever && task.as_ref().is_none_or(JoinHandle::is_finished) {
                *task = Some(tokio::spawn(watch(self.news.clone())));
            }
        }
        self.news.wait().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn what_is_told_between_two_waits_is_not_lost_and_counts_once() {
        let news = News::new();
        news.tell();
        news.tell();
        assert_eq!(news.wait().await.unwrap(), Woken::News);
        assert!(tokio::time::timeout(Duration::from_millis(20), news.wait()).await.is_err());
    }

    #[tokio::test]
    async fn everybody_who_waits_is_woken() {
        let news = Arc::new(News::new());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let news = news.clone();
                tokio::spawn(async move { news.wait().await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        news.tell();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap(), Woken::News);
        }
    }

    #[tokio::test]
    async fn a_watch_that_breaks_is_told_and_begun_anew_and_one_that_never_can_is_not() {
        let watch = Watch::new();
        let broken = |news: Arc<News>| async move { news.broken(StoreError::Unavailable("gone".into())) };
        assert!(watch.wait(broken).await.is_err());
        tokio::time::sleep(Duration::from_millis(20)).await;
        let good = |news: Arc<News>| async move { news.tell() };
        assert_eq!(watch.wait(good).await.unwrap(), Woken::News);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let never = |news: Arc<News>| async move { news.never() };
        assert_eq!(watch.wait(never).await.unwrap(), Woken::Never);
        let nobody = |_: Arc<News>| async { panic!("it is known") };
        assert_eq!(watch.wait(nobody).await.unwrap(), Woken::Never);
    }
}
