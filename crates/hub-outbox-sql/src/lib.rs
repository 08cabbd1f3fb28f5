//! The transactional outbox of event-hub on SQLite and PostgreSQL.
//!
//! A service writes rows in the transaction of its change; a [`Drainer`](hub_core::outbox::Drainer) publishes them once that
//! is committed. From Rust:
//!
//! ```no_run
//! use hub_core::outbox::NewRow;
//! use hub_outbox_sql::PostgresOutbox;
//! # async fn order(pool: sqlx::PgPool, row: NewRow) -> Result<(), sqlx::Error> {
//! let mut tx = pool.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(7).execute(&mut *tx).await?;
//! PostgresOutbox::add_to("outbox", &mut tx, &[row]).await?;
//! tx.commit().await
//! # }
//! ```
//!
//! From anywhere else: `INSERT INTO outbox (id, topic, payload) VALUES (…)`. The id becomes the event's, so it is a UUID, and
//! `payload` is JSON. What is optional: `headers` (a JSON object of strings), `key`, `ord` (the place among the rows of a
//! key), `ts` (when it was written; now, if it is left out). A row that cannot be published is parked with the reason.
//!
//! # What a row is up to
//!
//! | `status` | `stage` | |
//! | --- | --- | --- |
//! | `pending` | | fresh: as its writer left it |
//! | `pending` | `held` | due from `next_at` on; later rows of its key wait for it |
//! | `pending` | `behind` | waits for an earlier row of its key |
//! | `claimed` | `held` | in the hands of `claimed_by`, under the number `claim`, until `lease_until` |
//! | `sent` | | published at `sent_at` |
//! | `error` | `parked` | somebody has to look at `error`; `event-hub outbox retry`, or `UPDATE … SET status = 'pending'` |
//!
//! # Where to look
//!
//! | | |
//! | --- | --- |
//! | `options`, `table` | what can be set, and names that can stand in statements |
//! | `content` | columns on one side, events on the other |
//! | `news` | waking drainers |
//! | `postgres`, `sqlite` | per database: `ddl`, `statements`, `store` (the port), `add`, `db` (connections), `rows`, and how it tells of commits (`listen`, `watch`) |

mod content;
mod error;
mod news;
mod options;
mod postgres;
mod sqlite;
mod statement;
mod table;

pub use error::ConnectError;
pub use options::Options;
pub use postgres::PostgresOutbox;
pub use sqlite::SqliteOutbox;
