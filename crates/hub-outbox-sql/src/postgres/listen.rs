//! Listening for news, on a connection of its own.

use super::db::{Db, Server};
use crate::error::{Trouble, within};
use crate::news::News;
use crate::statement::Statement;
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How a notification begins that somebody sent itself.
const PROBE: &str = "probe ";
/// How long that may take. Who listens through a pooler that hands connections around would wait for ever.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// A connection on which nothing comes for so long is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// What it takes to listen.
pub struct Ear {
    pub server: Server,
    pub db: Db,
    pub channel: String,
    pub notify: Statement,
    /// What the outbox is called in logs.
    pub name: String,
}

/// Why nobody listens any more.
enum End {
    /// It will not work here.
    Never(String),
    /// It may work again.
    Broken(Trouble),
    /// The server has gone.
    Lost,
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Broken(trouble)
    }
}

impl Ear {
    /// Tells of notifications until the connection breaks.
    pub async fn listen(self, news: Arc<News>) {
        let Err(end) = self.follow(&news).await;
        match end {
            End::Never(why) => {
                tracing::debug!(
                    outbox = self.name,
                    why,
                    "PostgreSQL does not tell of new rows here (is there a pooler in between?); they are looked for \
                     from time to time"
                );
                news.never();
            }
            End::Broken(trouble) => news.broken(trouble.into()),
            End::Lost => {
                news.broken(hub_core::store::StoreError::Unavailable(
                    "the connection that listens was lost".into(),
                ));
            }
        }
    }

    async fn follow(&self, news: &News) -> Result<std::convert::Infallible, End> {
        let limit = self.db.limit();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(limit)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.server.options.clone());
        let mut listener = within(limit, PgListener::connect_with(&pool)).await?;
        listener.eager_reconnect(false);
        if let Err(trouble) = within(limit, listener.listen(&self.channel)).await {
            return Err(match &trouble {
                Trouble::Driver(sqlx::Error::Database(_)) if !trouble.is_passing() => {
                    End::Never(trouble.words())
                }
                _ => End::Broken(trouble),
            });
        }
        self.probe(&mut listener).await?;
        // Whatever was written before this.
        news.tell();
        loop {
            match tokio::time::timeout(SILENCE, listener.try_recv()).await {
                Ok(Ok(Some(notification))) if notification.payload().starts_with(PROBE) => {}
                Ok(Ok(Some(_))) => news.tell(),
                Ok(Ok(None)) => return Err(End::Lost),
                Ok(Err(error)) => return Err(End::Broken(error.into())),
                Err(_) => {
                    within(limit, listener.execute("SELECT 1")).await?;
                }
            }
        }
    }

    /// Whether what is told is heard.
    async fn probe(&self, listener: &mut PgListener) -> Result<(), End> {
        let probe = format!("{PROBE}{}", Uuid::now_v7());
        let tell = sqlx::query(self.notify.sql()).bind(self.channel.clone()).bind(probe.clone());
        self.db.try_rows(tell).await?;
        let heard = tokio::time::timeout(PROBE_LIMIT, async {
            loop {
                match listener.try_recv().await {
                    Ok(Some(notification)) if notification.payload() == probe => return Ok(()),
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(End::Lost),
                    Err(error) => return Err(End::Broken(error.into())),
                }
            }
        });
        match heard.await {
            Ok(heard) => heard,
            Err(_) => Err(End::Never("a notification that was sent did not arrive".into())),
        }
    }
}
