//! Writing rows.

use super::db::PgQuery;
use super::stamp::Stamp;
use crate::content::{headers_json, payload_json};
use crate::statement::Statement;
use hub_core::outbox::NewRow;
use uuid::Uuid;

/// Rows of one statement. There is no limit to arrays; one to the size of a message is far away with this.
pub const ROWS: usize = 1_000;

/// Writes rows that are not there yet.
pub fn add(statement: &Statement, rows: &[NewRow]) -> PgQuery<'static> {
    let of = |row: &NewRow| Uuid::from_bytes(row.id.to_bytes());
    sqlx::query(statement.sql())
        .bind(rows.iter().map(of).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.topic.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(payload_json).collect::<Vec<_>>())
        .bind(rows.iter().map(headers_json).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.ord).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| Stamp::from(row.at)).collect::<Vec<_>>())
}
