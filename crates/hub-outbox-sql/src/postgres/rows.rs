//! Rows of PostgreSQL, read.

use super::db::damaged;
use super::stamp::Stamp;
use crate::content::Columns;
use hub_core::outbox::{Place, Ready, Row, RowId, RowStatus, Shown};
use hub_core::store::StoreResult;
use hub_proto::EventId;
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

/// A column.
pub fn get<'r, T>(row: &'r PgRow, name: &str) -> StoreResult<T>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(name).map_err(damaged)
}

/// The names of those that can be in the table at all.
pub fn uuids(ids: &[RowId]) -> Vec<Uuid> {
    ids.iter().filter_map(uuid).collect()
}

pub fn uuid(id: &RowId) -> Option<Uuid> {
    EventId::parse(id.as_str()).ok().map(|id| Uuid::from_bytes(id.to_bytes()))
}

pub fn ready(row: &PgRow) -> StoreResult<Ready> {
    let id = EventId::from_bytes(get::<Uuid>(row, "id")?.into_bytes());
    let place = Place { ord: get(row, "ord")?, at: get::<Stamp>(row, "ts")?.micros(), id: id.into() };
    Ok(Ready { key: get::<Option<&str>>(row, "key")?.map(Into::into), place })
}

pub fn claimed(row: &PgRow) -> StoreResult<Row> {
    let columns = Columns {
        id: get::<Uuid>(row, "id")?.to_string(),
        topic: get(row, "topic")?,
        payload: get::<Option<String>>(row, "payload")?.map(String::into_bytes),
        headers: get::<Option<String>>(row, "headers")?.map(String::into_bytes),
        key: get(row, "key")?,
        ord: get(row, "ord")?,
        at: get::<Stamp>(row, "ts")?.micros(),
        attempts: attempts(row)?,
        waited: get(row, "waited")?,
    };
    Ok(columns.row())
}

fn attempts(row: &PgRow) -> StoreResult<u32> {
    Ok(get::<i32>(row, "attempts")?.try_into().unwrap_or(0))
}

pub fn shown(row: &PgRow, with_payload: bool) -> StoreResult<Shown> {
    let payload: Option<String> = if with_payload { get(row, "payload")? } else { None };
    Ok(Shown {
        id: get::<Uuid>(row, "id")?.to_string(),
        topic: get(row, "topic")?,
        key: get(row, "key")?,
        ord: get(row, "ord")?,
        status: RowStatus::parse(get(row, "status")?).unwrap_or(RowStatus::Error),
        ts: get::<Stamp>(row, "ts")?.millis(),
        attempts: attempts(row)?,
        error: get(row, "error")?,
        claimed_by: get(row, "claimed_by")?,
        behind: get::<Option<&str>>(row, "stage")? == Some("behind"),
        payload: payload.and_then(|json| RawValue::from_string(json).ok()),
    })
}
