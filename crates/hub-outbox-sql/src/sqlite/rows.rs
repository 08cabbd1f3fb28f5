//! Rows of SQLite, read.

use super::db::damaged;
use crate::content::Columns;
use hub_core::outbox::{Micros, Place, Ready, Row, RowStatus, Shown};
use hub_core::store::StoreResult;
use serde_json::value::RawValue;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite};

/// A column.
pub fn get<'r, T>(row: &'r SqliteRow, name: &str) -> StoreResult<T>
where
    T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
{
    row.try_get(name).map_err(damaged)
}

/// A text as its writer left it. Nobody checks that it is UTF-8.
fn text(row: &SqliteRow, name: &str) -> StoreResult<Option<String>> {
    let bytes: Option<Vec<u8>> = get(row, name)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A number that is never negative.
pub fn number(row: &SqliteRow, name: &str) -> StoreResult<u64> {
    Ok(get::<Option<i64>>(row, name)?.and_then(|number| number.try_into().ok()).unwrap_or(0))
}

fn micros(row: &SqliteRow) -> StoreResult<Micros> {
    Ok(number(row, "ts")?.saturating_mul(1000))
}

pub fn ready(row: &SqliteRow) -> StoreResult<Ready> {
    let id = text(row, "id")?.unwrap_or_default();
    let place = Place { ord: get(row, "ord")?, at: micros(row)?, id: id.as_str().into() };
    Ok(Ready { key: text(row, "key")?.map(|key| key.as_str().into()), place })
}

pub fn claimed(row: &SqliteRow) -> StoreResult<Row> {
    let columns = Columns {
        id: text(row, "id")?.unwrap_or_default(),
        topic: text(row, "topic")?.unwrap_or_default(),
        payload: get(row, "payload")?,
        headers: get(row, "headers")?,
        key: text(row, "key")?,
        ord: get(row, "ord")?,
        at: micros(row)?,
        attempts: number(row, "attempts")?.try_into().unwrap_or(u32::MAX),
        waited: get(row, "waited")?,
    };
    Ok(columns.row())
}

pub fn shown(row: &SqliteRow, with_payload: bool) -> StoreResult<Shown> {
    let payload: Option<Vec<u8>> = if with_payload { get(row, "payload")? } else { None };
    let payload = payload.and_then(|json| String::from_utf8(json).ok());
    Ok(Shown {
        id: text(row, "id")?.unwrap_or_default(),
        topic: text(row, "topic")?.unwrap_or_default(),
        key: text(row, "key")?,
        ord: get(row, "ord")?,
        status: RowStatus::parse(&text(row, "status")?.unwrap_or_default()).unwrap_or(RowStatus::Error),
        ts: number(row, "ts")?,
        attempts: number(row, "attempts")?.try_into().unwrap_or(u32::MAX),
        error: text(row, "error")?,
        claimed_by: text(row, "claimed_by")?,
        behind: text(row, "stage")?.as_deref() == Some("behind"),
        payload: payload.and_then(|json| RawValue::from_string(json).ok()),
    })
}
