//! Writing rows.

use crate::content::{headers_json, payload_json};
use crate::table::Table;
use hub_core::outbox::NewRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

/// Rows of one statement. SQLite takes 32,766 parameters, and one that is older than 3.32 takes 999.
const ROWS: usize = 128;

/// Writes rows that are not there yet.
pub async fn add(
    connection: &mut SqliteConnection,
    table: &Table,
    rows: &[NewRow],
) -> Result<(), sqlx::Error> {
    for some in rows.chunks(ROWS) {
        let into = format!("INSERT INTO {} (id, topic, payload, headers, key, ord, ts) ", table.quoted());
        let mut insert = QueryBuilder::<Sqlite>::new(into);
        insert.push_values(some, |mut values, row| {
            values
                .push_bind(row.id.to_string())
                .push_bind(row.topic.clone())
                .push_bind(payload_json(row))
                .push_bind(headers_json(row))
                .push_bind(row.key.clone())
                .push_bind(row.ord)
                .push_bind(i64::try_from(row.at / 1000).unwrap_or(i64::MAX));
        });
        insert.push(" ON CONFLICT (id) DO NOTHING");
        // Each number of rows is a statement of its own: only the most usual is worth remembering.
        insert.build().persistent(some.len() == 1).execute(&mut *connection).await?;
    }
    Ok(())
}
