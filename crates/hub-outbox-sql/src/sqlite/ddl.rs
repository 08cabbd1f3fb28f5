//! The tables on SQLite.

use crate::table::Table;

/// Where a row stands among those of its key. Spelled alike in indexes and statements, or no index is used.
pub const ORD: &str = "coalesce(ord, -9223372036854775808)";
/// From when on a row is due, that is not fresh.
pub const DUE_AT: &str = "coalesce(next_at, 0)";
/// Rows as their writers left them.
pub const FRESH: &str = "status = 'pending' AND stage IS NULL";
/// Rows that wait for nothing but their time. A row that somebody set back to `pending` by hand is among them.
pub const WAITING: &str = "status = 'pending' AND stage <> 'behind'";

/// The statements that make them, each of which does nothing if that was done before. Writers may have an old SQLite, so
/// nothing in here is newer than partial indexes on expressions (3.9, of 2015).
pub fn ddl(table: &Table) -> String {
    let (outbox, drainers) = (table.quoted(), table.drainers());
    let index = |ending: &str| table.part(ending);
    let (fresh, due, by_key) = (index("_fresh"), index("_due"), index("_fresh_by_key"));
    let (staged, claimed, sent, errors) =
        (index("_staged"), index("_claimed"), index("_sent"), index("_errors"));
    format!(
        r#"CREATE TABLE IF NOT EXISTS {outbox} (
    -- What a writer fills in: id, topic and payload, and what else it wants.
    id          TEXT    NOT NULL PRIMARY KEY CHECK (typeof(id) = 'text'),
    topic       TEXT    NOT NULL,
    payload     TEXT    NOT NULL,
    headers     TEXT,
    key         TEXT    CHECK (typeof(key) IN ('text', 'null')),
    ord         INTEGER CHECK (typeof(ord) IN ('integer', 'null')),
    status      TEXT    NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'claimed', 'sent', 'error')),
    -- Milliseconds since 1970.
    ts          INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                        CHECK (typeof(ts) = 'integer' AND ts >= 0),
    attempts    INTEGER NOT NULL DEFAULT 0 CHECK (typeof(attempts) = 'integer'),
    -- The drainers' own. Writers leave them empty.
    stage       TEXT,
    next_at     INTEGER,
    claimed_by  TEXT,
    claim       INTEGER,
    lease_until INTEGER,
    error       TEXT,
    sent_at     INTEGER
);
CREATE INDEX IF NOT EXISTS {fresh} ON {outbox} (ts, id) WHERE {FRESH};
CREATE INDEX IF NOT EXISTS {by_key} ON {outbox} (key, {ORD}, ts, id) WHERE {FRESH} AND key IS NOT NULL;
CREATE INDEX IF NOT EXISTS {due} ON {outbox} ({DUE_AT}, ts, id) WHERE {WAITING};
CREATE INDEX IF NOT EXISTS {staged} ON {outbox} (stage, key, {ORD}, ts, id) WHERE stage IS NOT NULL;
CREATE INDEX IF NOT EXISTS {claimed} ON {outbox} (claimed_by, claim) WHERE status = 'claimed';
CREATE INDEX IF NOT EXISTS {errors} ON {outbox} (ts, id) WHERE status = 'error';
CREATE INDEX IF NOT EXISTS {sent} ON {outbox} (sent_at) WHERE status = 'sent';
CREATE TABLE IF NOT EXISTS {drainers} (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    version     INTEGER NOT NULL,
    shares      TEXT    NOT NULL
);
"#
    )
}
