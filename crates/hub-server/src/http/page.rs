//! Long lists come in pages: `?after=&limit=`, and `next` in the answer is the `after` of the next page.

use super::error::{Answer, Failure};
use super::query::Params;
use axum::http::header;
use axum::response::IntoResponse;
use hub_proto::{Error, limits};
use serde::Serialize;

/// Between so many entries that are looked at, others get their turn.
const STRIDE: usize = 64;
/// More entries than this are written away from the threads that serve others.
const FEW: usize = 256;

/// The answer with a list of so many entries.
pub(super) async fn answer(list: impl Serialize + Send + 'static, entries: usize) -> Answer {
    let write = move || serde_json::to_vec(&list);
    let text = match entries <= FEW {
        true => write(),
        false => {
            tokio::task::spawn_blocking(write).await.map_err(|_| Error::internal("a list was not written"))?
        }
    };
    let text = text.map_err(|_| Error::internal("a list cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Entries that are looked at for one page of a list that is filtered by their content.
pub(super) const FILTERED: usize = 10_000;

/// Which part of a list is asked for.
#[derive(Debug)]
pub(super) struct Page {
    pub after: Option<String>,
    limit: usize,
    looked_at: usize,
}

impl Page {
    pub fn of(params: &Params) -> Result<Self, Failure> {
        let allowed = format!("a number from 1 to {}", limits::SCAN_MAX);
        let limit = params.number("limit", &allowed)?.unwrap_or(limits::SCAN_DEFAULT);
        if !(1..=limits::SCAN_MAX).contains(&limit) {
            return Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}")));
        }
        Ok(Self { after: params.get("after").map(str::to_owned), limit, looked_at: 0 })
    }

    /// How many entries it may have.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn is_full(&self, entries: usize) -> bool {
        entries >= self.limit
    }

    /// How many entries were looked at.
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Called for every entry that is looked at: asking the rules about 100,000 topics takes a while.
    pub async fn look(&mut self) {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(STRIDE) {
            tokio::task::yield_now().await;
        }
    }
}
