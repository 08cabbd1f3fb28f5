//! The tables on PostgreSQL.

use crate::table::Table;

/// Where a row stands among those of its key. Spelled alike in indexes and statements, or no index is used.
pub const ORD: &str = "COALESCE(ord, '-9223372036854775808'::bigint)";
/// From when on a row is due, that is not fresh.
pub const DUE_AT: &str = "COALESCE(next_at, '-infinity'::timestamptz)";
/// Rows as their writers left them.
pub const FRESH: &str = "status = 'pending' AND stage IS NULL";
/// Rows that wait for nothing but their time. A row that somebody set back to `pending` by hand is among them.
pub const WAITING: &str = "status = 'pending' AND stage <> 'behind'";

/// The statements that make them, each of which does nothing if that was done before.
///
/// What a call asks for by order and with a limit is all in one index (`INCLUDE`). That saves little by itself, but it is
/// what decides for a planner that takes a key to have few rows: it would rather fetch all of them and sort.
pub fn ddl(table: &Table) -> String {
    let (outbox, drainers) = (table.quoted(), table.drainers());
    let (news, channel) = (table.of_schema("_news"), table.channel());
    let (trigger, trigger_name) = (table.part("_news"), table.part("_news").replace('"', "'"));
    let index = |ending: &str| table.part(ending);
    let (fresh, due, by_key) = (index("_fresh"), index("_due"), index("_fresh_by_key"));
    let (staged, claimed, sent, errors) =
        (index("_staged"), index("_claimed"), index("_sent"), index("_errors"));
    format!(
        r#"CREATE TABLE IF NOT EXISTS {outbox} (
    -- What a writer fills in: id, topic and payload, and what else it wants.
    id          uuid        PRIMARY KEY,
    topic       text        NOT NULL,
    payload     json        NOT NULL,
    headers     json,
    key         text        COLLATE "C",
    ord         bigint,
    status      text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'claimed', 'sent', 'error')),
    ts          timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts    integer     NOT NULL DEFAULT 0,
    -- The drainers' own. Writers leave them empty.
    stage       text,
    next_at     timestamptz,
    claimed_by  text,
    claim       bigint,
    lease_until timestamptz,
    error       text,
    sent_at     timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS {fresh} ON {outbox} (ts, id) INCLUDE (key, ord) WHERE {FRESH};
CREATE INDEX IF NOT EXISTS {by_key} ON {outbox} (key, {ORD}, ts, id) INCLUDE (ord) WHERE {FRESH} AND key IS NOT NULL;
CREATE INDEX IF NOT EXISTS {due} ON {outbox} ({DUE_AT}, ts, id) INCLUDE (key, ord, next_at) WHERE {WAITING};
CREATE INDEX IF NOT EXISTS {staged} ON {outbox} (stage, key, {ORD}, ts, id) INCLUDE (ord) WHERE stage IS NOT NULL;
CREATE INDEX IF NOT EXISTS {claimed} ON {outbox} (claimed_by, claim) WHERE status = 'claimed';
CREATE INDEX IF NOT EXISTS {errors} ON {outbox} (ts, id) WHERE status = 'error';
CREATE INDEX IF NOT EXISTS {sent} ON {outbox} (sent_at, id) WHERE status = 'sent';
CREATE TABLE IF NOT EXISTS {drainers} (
    id          integer     PRIMARY KEY CHECK (id = 1),
    version     bigint      NOT NULL,
    shares      json        NOT NULL
);
-- Drainers are told of new rows.
CREATE OR REPLACE FUNCTION {news}() RETURNS trigger LANGUAGE plpgsql AS $news$
BEGIN
    PERFORM pg_notify('{channel}', '');
    RETURN NULL;
END
$news$;
DO $make$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = '{outbox}'::regclass AND tgname = {trigger_name}) THEN
        CREATE TRIGGER {trigger} AFTER INSERT ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {news}();
    END IF;
END
$make$;
"#
    )
}
