//! Positions in a topic as people write them.

use crate::config::units;
use hub_client::Position;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

/// `earliest`, `latest`, `ts:MILLISECONDS`, `ago:TIME`, `after-id:UUID` or `after-seq:NUMBER`.
pub fn parse(text: &str) -> Result<Position, String> {
    let (word, value) = text.split_once(':').map_or((text, None), |(word, value)| (word, Some(value)));
    Ok(match (word, value) {
        ("earliest", None) => Position::Earliest,
        ("latest", None) => Position::Latest,
        ("ts", Some(value)) => {
            Position::Time(value.parse().map_err(|_| "ts: takes milliseconds since 1970".to_owned())?)
        }
        ("ago", Some(value)) => {
            let ago = units::parse_time(value).ok_or("ago: takes a time such as 90s, 5m or 2h")?;
            Position::Time(now().saturating_sub(ago))
        }
        ("after-id", Some(value)) => {
            Position::AfterId(value.parse().map_err(|_| "after-id: takes a UUID".to_owned())?)
        }
        ("after-seq", Some(value)) => {
            Position::AfterSeq(value.parse().map_err(|_| "after-seq: takes a number".to_owned())?)
        }
        _ => {
            return Err(
                "earliest, latest, ts:MILLISECONDS, ago:TIME, after-id:UUID or after-seq:NUMBER is expected"
                    .into(),
            );
        }
    })
}

/// The same in the body of a request.
pub fn to_json(position: &Position) -> Value {
    match position {
        Position::Earliest => json!("earliest"),
        Position::Latest => json!("latest"),
        Position::Time(ts) => json!({ "ts": ts }),
        Position::AfterId(id) => json!({ "afterId": id }),
        Position::AfterSeq(seq) => json!({ "afterSeq": seq }),
    }
}

/// A time: `ts:MILLISECONDS` or plain milliseconds, or `ago:TIME`.
pub fn parse_time(text: &str) -> Result<u64, String> {
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    match parse(text) {
        Ok(Position::Time(ts)) => Ok(ts),
        _ => Err("milliseconds since 1970 are expected, or ago:TIME such as ago:2h".into()),
    }
}
