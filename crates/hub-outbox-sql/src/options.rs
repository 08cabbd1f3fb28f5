//! What can be set about an outbox.

use std::time::Duration;

/// Settings of a [`PostgresOutbox`](crate::PostgresOutbox) or a [`SqliteOutbox`](crate::SqliteOutbox).
///
/// ```
/// use hub_outbox_sql::Options;
/// let options = Options { table: "shop.outbox".into(), ..Options::default() };
/// assert_eq!(options.connections, 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The table: letters, digits and underscores, on PostgreSQL with a schema before a dot if need be. It is taken as it
    /// is written, capitals included.
    pub table: String,
    /// What it is called in logs; the database and the table if this is empty.
    pub name: String,
    /// Connections at most: of PostgreSQL one more, which listens for news; of SQLite four that read, and two that write.
    pub connections: u32,
    /// How long a call may take.
    pub call_limit: Duration,
    /// How often a file of SQLite is looked at, whether anybody has written to it. With the default of 40 ms an idle drainer
    /// and its hub take less than one percent of a core, all in all.
    pub poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: "outbox".into(),
            name: String::new(),
            connections: 8,
            call_limit: Duration::from_secs(10),
            poll: Duration::from_millis(40),
        }
    }
}

impl Options {
    /// The defaults, for a table.
    pub fn table(table: impl Into<String>) -> Self {
        Self { table: table.into(), ..Self::default() }
    }
}
