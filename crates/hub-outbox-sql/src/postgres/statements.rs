//! What PostgreSQL is asked. Rows and keys that a statement is about come as arrays, however many they are.
//!
//! Connections are not allowed to read whole tables ([`Server::greet`](super::db::Server::greet)). Three habits keep every
//! statement on the right index then, whatever the planner thinks of the table, or thought of it when there were few rows: rows
//! that are named are looked up with `= ANY (ARRAY (SELECT …))`, whose length it does not know and takes to be ten, and what
//! else they have to be is said in a way that leads to no other index than the primary key's ([`is`]); what is looked for per
//! key is a `LATERAL` with a limit, which it cannot turn around, and is all in one index; and the time is a
//! `(SELECT clock_timestamp())`, which is asked for once, and can be compared with an index. Whoever changes rows takes no
//! part in others' waits: `SKIP LOCKED`.

use super::ddl::{DUE_AT, FRESH, ORD, WAITING};
use crate::statement::Statement;
use crate::table::Table;

const NOW: &str = "(SELECT clock_timestamp())";
const MILLISECOND: &str = "interval '1 millisecond'";

pub struct Statements {
    pub check: Statement,
    pub check_drainers: Statement,
    pub add: Statement,
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
    pub notify: Statement,
    pub counts: Statement,
    pub list: Statement,
    pub list_pending: Statement,
    pub list_claimed: Statement,
    pub list_sent: Statement,
    pub list_errors: Statement,
    pub show: Statement,
}

/// That a column has a value, without an index on such rows coming to mind.
fn is(column: &str, value: &str) -> String {
    format!("COALESCE({column}, '') = '{value}'")
}

const READY: &str = "id, key, ord, ts";
const SHOWN: &str = "id, topic, key, ord, status, ts, attempts, error, claimed_by, stage";

/// The statement that writes rows.
pub fn add(table: &Table) -> Statement {
    format!(
        "INSERT INTO {} (id, topic, payload, headers, key, ord, ts) \
         SELECT id, topic, payload::json, headers::json, key, ord, ts \
         FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[]) \
         AS r (id, topic, payload, headers, key, ord, ts) ON CONFLICT (id) DO NOTHING",
        table.quoted()
    )
    .into()
}

impl Statements {
    #[allow(clippy::too_many_lines, reason = "one after the other, as they are listed above")]
    pub fn of(table: &Table) -> Self {
        let (t, drainers) = (table.quoted(), table.drainers());
        // Of rows that are named.
        let claimable = format!(
            "{} AND ({} OR (NOT {} AND {DUE_AT} <= {NOW}))",
            is("status", "pending"),
            is("stage", ""),
            is("stage", "behind")
        );
        let named = "id = ANY (ARRAY (SELECT unnest($1::uuid[])))";
        let order = format!("{ORD}, ts, id");
        let requeue = "status = 'pending', stage = 'held', next_at = clock_timestamp(), claimed_by = NULL, \
                       claim = NULL, lease_until = NULL";
        // Locks rows, and changes those that it got.
        let change = |rows: &str, set: &str| {
            format!(
                "WITH picked AS MATERIALIZED (SELECT id FROM {t} WHERE {rows} FOR UPDATE SKIP LOCKED) \
                 UPDATE {t} AS t SET {set} WHERE t.id = ANY (ARRAY (SELECT id FROM picked))"
            )
        };
        let first_of = |stage: &str, asked: &str| {
            format!(
                "(SELECT {READY} FROM {t} WHERE {asked} AND stage = '{stage}' AND key = k.key ORDER BY {order} LIMIT 1)"
            )
        };
        let keys_behind = |from: &str| {
            let next = |than: &str| {
                format!("(SELECT key FROM {t} WHERE stage = 'behind' AND key {than} ORDER BY key LIMIT 1)")
            };
            let (first, next) = (next(from), next("> k.key"));
            format!(
                "WITH RECURSIVE k (key) AS ({first} UNION ALL SELECT {next} FROM k WHERE k.key IS NOT NULL) \
                 SELECT key FROM k WHERE key IS NOT NULL LIMIT $1"
            )
        };
        let list = |rows: &str, order: &str| {
            format!("(SELECT {SHOWN} FROM {t} WHERE {rows} ORDER BY {order} LIMIT $1)")
        };
        let by_time = |parts: &[&str]| -> Statement {
            format!("SELECT * FROM ({}) AS parts ORDER BY ts, id LIMIT $1", parts.join(" UNION ALL ")).into()
        };
        let fresh = list(FRESH, "ts, id");
        let waiting = list("stage IN ('held', 'behind', 'parked') AND status = 'pending'", "ts, id");
        let claimed = list("status = 'claimed'", "ts, id");
        let sent = list("status = 'sent'", "sent_at");
        let errors = list("status = 'error'", "ts, id");
        Self {
            check: format!(
                "SELECT id, topic, payload, headers, key, ord, status, ts, attempts, stage, next_at, claimed_by, claim, \
                 lease_until, error, sent_at FROM {t} LIMIT 0"
            )
            .into(),
            check_drainers: format!("SELECT id, version, shares FROM {drainers} LIMIT 0").into(),
            add: add(table),
            due: format!(
                "SELECT {READY} FROM {t} WHERE {WAITING} AND {DUE_AT} <= {NOW} ORDER BY {DUE_AT}, ts, id LIMIT $1"
            )
            .into(),
            fresh: format!("SELECT {READY} FROM {t} WHERE {FRESH} ORDER BY ts, id LIMIT $1").into(),
            fresh_after: format!(
                "SELECT {READY} FROM {t} WHERE {FRESH} AND (ts, id) > ($2, $3) ORDER BY ts, id LIMIT $1"
            )
            .into(),
            fresh_before: format!(
                "SELECT o.* FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::uuid[]) AS k (key, ord, ts, id) \
                 CROSS JOIN LATERAL (SELECT {READY} FROM {t} AS t WHERE {FRESH} AND t.key = k.key \
                 AND (COALESCE(t.ord, '-9223372036854775808'::bigint), t.ts, t.id) < (k.ord, k.ts, k.id) \
                 ORDER BY {order} LIMIT $5) AS o"
            )
            .into(),
            holding: format!(
                "SELECT o.* FROM unnest($1::text[]) AS k (key) CROSS JOIN LATERAL (\
                 (SELECT {READY} FROM {t} WHERE stage = 'held' AND key = k.key \
                 AND (status <> 'claimed' OR claimed_by IS DISTINCT FROM $2)) \
                 UNION ALL {behind} UNION ALL {parked}) AS o",
                behind = first_of("behind", "$3"),
                parked = first_of("parked", "$4"),
            )
            .into(),
            put_behind: change(
                &format!("{named} AND {claimable}"),
                "stage = 'behind', next_at = clock_timestamp()",
            )
            .into(),
            release: change(
                &format!(
                    "{} AND id = ANY (ARRAY (SELECT o.id FROM unnest($1::text[]) AS k (key) \
                     CROSS JOIN LATERAL (SELECT id FROM {t} WHERE stage = 'behind' AND key = k.key \
                     ORDER BY {order} LIMIT $2) AS o))",
                    is("stage", "behind")
                ),
                requeue,
            )
            .into(),
            keys_behind: keys_behind(">= ''").into(),
            keys_behind_after: keys_behind("> $2").into(),
            claim: format!(
                "WITH picked AS MATERIALIZED (SELECT t.id, a.n, octet_length(t.payload::text) AS bytes \
                 FROM unnest($1::uuid[]) WITH ORDINALITY AS a (id, n) JOIN {t} AS t ON t.id = a.id \
                 WHERE {claimable} FOR UPDATE OF t SKIP LOCKED), \
                 added AS (SELECT id, row_number() OVER (ORDER BY n) AS n, sum(bytes) OVER (ORDER BY n) AS bytes \
                 FROM picked) \
                 UPDATE {t} AS t SET status = 'claimed', stage = 'held', claimed_by = $2, claim = $3, \
                 lease_until = clock_timestamp() + $4 * {MILLISECOND} \
                 WHERE t.id = ANY (ARRAY (SELECT id FROM added WHERE n = 1 OR bytes <= $5)) \
                 RETURNING t.id, t.key, t.ord, t.ts, t.topic, t.payload::text AS payload, \
                 t.headers::text AS headers, t.attempts, t.next_at IS NOT NULL AS waited"
            )
            .into(),
            renew: change(
                "status = 'claimed' AND claimed_by = $1 AND claim BETWEEN $3 AND $4",
                &format!("lease_until = clock_timestamp() + $2 * {MILLISECOND}"),
            )
            .into(),
            settle: format!(
                "UPDATE {t} AS t SET status = s.status, stage = s.stage, attempts = t.attempts + s.failed, \
                 next_at = CASE s.status WHEN 'pending' THEN clock_timestamp() + s.after * {MILLISECOND} \
                 WHEN 'sent' THEN NULL ELSE t.next_at END, \
                 error = CASE s.status WHEN 'sent' THEN NULL ELSE COALESCE(s.error, t.error) END, \
                 sent_at = CASE s.status WHEN 'sent' THEN clock_timestamp() END, \
                 claimed_by = NULL, claim = NULL, lease_until = NULL \
                 FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::int[], $6::text[]) \
                 AS s (id, status, stage, after, failed, error) \
                 WHERE t.id = s.id AND {} AND t.claimed_by = $7 AND t.claim = $8 \
                 AND t.lease_until > {NOW}",
                is("t.status", "claimed")
            )
            .into(),
            requeue_expired: change(&format!("status = 'claimed' AND lease_until <= {NOW}"), requeue).into(),
            take_from: change("status = 'claimed' AND claimed_by = ANY ($1::text[])", requeue).into(),
            shares: format!(
                "SELECT clock_timestamp() AS now, d.version, d.shares::text AS shares FROM (SELECT 1 AS id) AS one \
                 LEFT JOIN {drainers} AS d ON d.id = one.id"
            )
            .into(),
            share: format!(
                "INSERT INTO {drainers} AS d (id, version, shares) VALUES (1, 1, $1::text::json) \
                 ON CONFLICT (id) DO UPDATE SET version = d.version + 1, shares = excluded.shares WHERE d.version = $2"
            )
            .into(),
            purge: format!(
                "WITH picked AS MATERIALIZED (SELECT id FROM {t} WHERE {} AND id = ANY (ARRAY (\
                 SELECT id FROM {t} WHERE status = 'sent' \
                 AND sent_at <= (SELECT clock_timestamp() - $1 * {MILLISECOND}) ORDER BY sent_at LIMIT $2)) \
                 FOR UPDATE SKIP LOCKED) DELETE FROM {t} WHERE id = ANY (ARRAY (SELECT id FROM picked))",
                is("status", "sent")
            )
            .into(),
            retry: change(&format!("{named} AND {}", is("status", "error")), &format!("{requeue}, attempts = 0")).into(),
            retry_all: change("status = 'error'", &format!("{requeue}, attempts = 0")).into(),
            notify: "SELECT pg_notify($1, $2)".to_owned().into(),
            counts: format!(
                "SELECT clock_timestamp() AS now, (SELECT count(*) FROM {t} WHERE {FRESH}) + \
                 (SELECT count(*) FROM {t} WHERE stage IN ('held', 'behind')) + \
                 (SELECT count(*) FROM {t} WHERE stage = 'parked' AND status = 'pending') AS pending, \
                 (SELECT count(*) FROM {t} WHERE stage = 'behind') AS behind, \
                 (SELECT count(*) FROM {t} WHERE status = 'error') AS errors, \
                 LEAST((SELECT min(ts) FROM {t} WHERE {FRESH}), \
                 (SELECT min(ts) FROM {t} WHERE stage IN ('held', 'behind'))) AS oldest"
            )
            .into(),
            list: by_time(&[&fresh, &waiting, &claimed, &sent, &errors]),
            list_pending: by_time(&[&fresh, &waiting]),
            list_claimed: by_time(&[&claimed]),
            list_sent: by_time(&[&sent]),
            list_errors: by_time(&[&errors]),
            show: format!("SELECT {SHOWN}, payload::text AS payload FROM {t} WHERE id = $1").into(),
        }
    }
}
