//! What SQLite is asked. Rows and keys that a statement is about come as one JSON text, however many they are.

use super::ddl::{DUE_AT, FRESH, ORD, WAITING};
use crate::statement::Statement;
use crate::table::Table;

/// The time, in milliseconds. The sum has no affinity, so that what is compared with it can be in an index.
const NOW: &str = "(CAST(unixepoch('subsec') * 1000 AS INTEGER) + 0)";

pub struct Statements {
    pub check: Statement,
    pub check_drainers: Statement,
    pub due: Statement,
    pub fresh: Statement,
    pub fresh_after: Statement,
    pub fresh_before: Statement,
    pub holding: Statement,
    pub put_behind: Statement,
    pub release: Statement,
    pub keys_behind: Statement,
    pub keys_behind_after: Statement,
    pub claim: Statement,
    pub renew: Statement,
    pub settle: Statement,
    pub requeue_expired: Statement,
    pub take_from: Statement,
    pub shares: Statement,
    pub share: Statement,
    pub purge: Statement,
    pub retry: Statement,
    pub retry_all: Statement,
    pub counts: Statement,
    pub list: Statement,
    pub list_pending: Statement,
    pub list_claimed: Statement,
    pub list_sent: Statement,
    pub list_errors: Statement,
    pub show: Statement,
}

/// A row that can be claimed. Whatever stands there comes as what is expected, so that one row stops no others.
const READY: &str = "CAST(id AS TEXT) AS id, CAST(key AS TEXT) AS key, CAST(ord AS INTEGER) AS ord, \
                     CAST(ts AS INTEGER) AS ts";
const SHOWN: &str = "CAST(id AS TEXT) AS id, CAST(topic AS TEXT) AS topic, CAST(key AS TEXT) AS key, \
                     CAST(ord AS INTEGER) AS ord, status, CAST(ts AS INTEGER) AS ts, \
                     CAST(attempts AS INTEGER) AS attempts, error, claimed_by, stage";

impl Statements {
    #[allow(clippy::too_many_lines, reason = "one after the other, as they are listed above")]
    pub fn of(table: &Table) -> Self {
        let (t, drainers) = (table.quoted(), table.drainers());
        // An index by status would be tempting for those that name rows: the `+` keeps to the primary key.
        let claimable =
            format!("+status = 'pending' AND (stage IS NULL OR (stage <> 'behind' AND {DUE_AT} <= {NOW}))");
        let named = "id IN (SELECT value FROM json_each(?1))";
        let requeue = format!(
            "status = 'pending', stage = 'held', next_at = {NOW}, claimed_by = NULL, claim = NULL, lease_until = NULL"
        );
        let of_key = "key IS NOT NULL AND key = k.value ->> 0";
        let first_of = |stage: &str, limit: &str| {
            format!(
                "SELECT id FROM {t} WHERE stage = '{stage}' AND key = k.value ORDER BY {ORD}, ts, id LIMIT {limit}"
            )
        };
        let keys_behind = |from: &str| {
            let next = |than: &str| {
                format!("SELECT key FROM {t} WHERE stage = 'behind' AND key {than} ORDER BY key LIMIT 1")
            };
            let (first, next) = (next(from), next("> k.key"));
            format!(
                "WITH RECURSIVE k (key) AS (SELECT * FROM ({first}) UNION ALL SELECT ({next}) FROM k \
                 WHERE k.key IS NOT NULL) SELECT key FROM k WHERE key IS NOT NULL LIMIT ?1"
            )
        };
        let list = |rows: &str, order: &str| {
            format!("SELECT * FROM (SELECT {SHOWN} FROM {t} AS t WHERE {rows} ORDER BY {order} LIMIT ?1)")
        };
        let by_time = |parts: &[&str]| -> Statement {
            format!("SELECT * FROM ({}) ORDER BY ts, id LIMIT ?1", parts.join(" UNION ALL ")).into()
        };
        let fresh = list(FRESH, "t.ts, t.id");
        let waiting = list("stage IN ('held', 'behind', 'parked') AND +status = 'pending'", "t.ts, t.id");
        let claimed = list("status = 'claimed'", "t.ts, t.id");
        let sent = list("status = 'sent'", "sent_at");
        let errors = list("status = 'error'", "t.ts, t.id");
        Self {
            check: format!(
                "SELECT id, topic, payload, headers, key, ord, status, ts, attempts, stage, next_at, claimed_by, claim, \
                 lease_until, error, sent_at FROM {t} LIMIT 0"
            )
            .into(),
            check_drainers: format!("SELECT id, version, shares FROM {drainers} LIMIT 0").into(),
            due: format!(
                "SELECT {READY} FROM {t} AS t WHERE {WAITING} AND {DUE_AT} <= {NOW} \
                 ORDER BY {DUE_AT}, t.ts, t.id LIMIT ?1"
            )
            .into(),
            fresh: format!("SELECT {READY} FROM {t} AS t WHERE {FRESH} ORDER BY t.ts, t.id LIMIT ?1").into(),
            fresh_after: format!(
                "SELECT {READY} FROM {t} AS t WHERE {FRESH} AND (t.ts, t.id) > (?2, ?3) \
                 ORDER BY t.ts, t.id LIMIT ?1"
            )
            .into(),
            // Two ranges, because one over an expression and columns together is not found in an index.
            fresh_before: format!(
                "SELECT {ready} FROM json_each(?1) AS k CROSS JOIN {t} AS o ON o.id IN (SELECT id FROM {t} \
                 WHERE {FRESH} AND {of_key} AND {ORD} < k.value ->> 1 ORDER BY {ORD}, ts, id LIMIT ?2) UNION ALL \
                 SELECT {ready} FROM json_each(?1) AS k CROSS JOIN {t} AS o ON o.id IN (SELECT id FROM {t} \
                 WHERE {FRESH} AND {of_key} AND {ORD} = k.value ->> 1 AND (ts, id) < (k.value ->> 2, k.value ->> 3) \
                 ORDER BY ts, id LIMIT ?2)",
                ready = of("o"),
            )
            .into(),
            holding: format!(
                "SELECT {ready} FROM json_each(?1) AS k CROSS JOIN {t} AS o \
                 WHERE o.stage = 'held' AND o.key = k.value AND NOT (+o.status = 'claimed' AND +o.claimed_by = ?2) \
                 UNION ALL SELECT {ready} FROM json_each(?1) AS k CROSS JOIN {t} AS o ON o.id = ({behind}) WHERE ?3 \
                 UNION ALL SELECT {ready} FROM json_each(?1) AS k CROSS JOIN {t} AS o ON o.id = ({parked}) WHERE ?4",
                ready = of("o"),
                behind = first_of("behind", "1"),
                parked = first_of("parked", "1"),
            )
            .into(),
            put_behind: format!(
                "UPDATE {t} SET stage = 'behind', next_at = {NOW} WHERE {named} AND {claimable}"
            )
            .into(),
            release: format!(
                "UPDATE {t} SET {requeue} WHERE id IN (SELECT o.id FROM json_each(?1) AS k CROSS JOIN {t} AS o \
                 ON o.id IN ({first}))",
                first = first_of("behind", "?2"),
            )
            .into(),
            keys_behind: keys_behind(">= ''").into(),
            keys_behind_after: keys_behind("> ?2").into(),
            // Sizes are known without reading what is large.
            claim: format!(
                "WITH free AS (SELECT o.id, row_number() OVER (ORDER BY k.key) AS n, \
                 sum(octet_length(o.payload)) OVER (ORDER BY k.key) AS bytes \
                 FROM json_each(?1) AS k CROSS JOIN {t} AS o ON o.id = k.value WHERE {claimable}) \
                 UPDATE {t} SET status = 'claimed', stage = 'held', claimed_by = ?2, claim = ?3, \
                 lease_until = {NOW} + ?4 WHERE id IN (SELECT id FROM free WHERE n = 1 OR bytes <= ?5) \
                 RETURNING {READY}, CAST(topic AS TEXT) AS topic, CAST(payload AS BLOB) AS payload, \
                 CAST(headers AS BLOB) AS headers, CAST(attempts AS INTEGER) AS attempts, \
                 next_at IS NOT NULL AS waited"
            )
            .into(),
            renew: format!(
                "UPDATE {t} SET lease_until = {NOW} + ?2 WHERE status = 'claimed' AND claimed_by = ?1 AND claim BETWEEN ?3 AND ?4"
            )
            .into(),
            settle: format!(
                "WITH s (id, status, stage, after, failed, error) AS (SELECT value ->> 0, value ->> 1, value ->> 2, \
                 value ->> 3, value ->> 4, value ->> 5 FROM json_each(?1)) \
                 UPDATE {t} AS t SET status = s.status, stage = s.stage, attempts = t.attempts + s.failed, \
                 next_at = CASE s.status WHEN 'pending' THEN {NOW} + s.after WHEN 'sent' THEN NULL ELSE t.next_at END, \
                 error = CASE s.status WHEN 'sent' THEN NULL ELSE coalesce(s.error, t.error) END, \
                 sent_at = CASE s.status WHEN 'sent' THEN {NOW} END, \
                 claimed_by = NULL, claim = NULL, lease_until = NULL \
                 FROM s WHERE t.id = s.id AND +t.status = 'claimed' AND +t.claimed_by = ?2 AND +t.claim = ?3 \
                 AND t.lease_until > {NOW}"
            )
            .into(),
            requeue_expired: format!(
                "UPDATE {t} SET {requeue} WHERE status = 'claimed' AND lease_until <= {NOW}"
            )
            .into(),
            take_from: format!(
                "UPDATE {t} SET {requeue} WHERE status = 'claimed' \
                 AND claimed_by IN (SELECT value FROM json_each(?1))"
            )
            .into(),
            shares: format!(
                "SELECT {NOW} AS now, d.version, d.shares FROM (SELECT 1 AS id) AS one \
                 LEFT JOIN {drainers} AS d ON d.id = one.id"
            )
            .into(),
            share: format!(
                "INSERT INTO {drainers} (id, version, shares) VALUES (1, 1, ?1) ON CONFLICT (id) DO UPDATE \
                 SET version = version + 1, shares = excluded.shares WHERE version = ?2"
            )
            .into(),
            purge: format!(
                "DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE status = 'sent' AND sent_at <= {NOW} - ?1 \
                 ORDER BY sent_at LIMIT ?2)"
            )
            .into(),
            retry: format!("UPDATE {t} SET {requeue}, attempts = 0 WHERE {named} AND +status = 'error'").into(),
            retry_all: format!("UPDATE {t} SET {requeue}, attempts = 0 WHERE status = 'error'").into(),
            counts: format!(
                "SELECT {NOW} AS now, (SELECT count(*) FROM {t} INDEXED BY {by_time} WHERE {FRESH}) + \
                 (SELECT count(*) FROM {t} WHERE stage IN ('held', 'behind')) + \
                 (SELECT count(*) FROM {t} WHERE stage = 'parked' AND +status = 'pending') AS pending, \
                 (SELECT count(*) FROM {t} WHERE stage = 'behind') AS behind, \
                 (SELECT count(*) FROM {t} WHERE status = 'error') AS errors, \
                 (SELECT CAST(min(ts) AS INTEGER) FROM {t} WHERE {FRESH}) AS oldest_fresh, \
                 (SELECT CAST(min(ts) AS INTEGER) FROM {t} WHERE stage IN ('held', 'behind')) AS oldest_staged",
                by_time = table.part("_fresh"),
            )
            .into(),
            list: by_time(&[&fresh, &waiting, &claimed, &sent, &errors]),
            list_pending: by_time(&[&fresh, &waiting]),
            list_claimed: by_time(&[&claimed]),
            list_sent: by_time(&[&sent]),
            list_errors: by_time(&[&errors]),
            show: format!("SELECT {SHOWN}, CAST(payload AS BLOB) AS payload FROM {t} WHERE id = ?1").into(),
        }
    }
}

/// [`READY`] of a table under another name.
fn of(alias: &str) -> String {
    READY.replace("CAST(", &format!("CAST({alias}."))
}
