//! Long lists come in pages: `?after=&limit=`, and `next` in the answer is the `after` of the next page.

use super::error::Failure;
use super::query::Params;
use hub_proto::limits;

/// Between so many entries that are looked at, others get their turn.
const STRIDE: usize = 256;

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

    pub fn is_full(&self, entries: usize) -> bool {
        entries >= self.limit
    }

    /// Called for every entry that is looked at: asking the rules about 100,000 topics takes a while.
    pub async fn look(&mut self) {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(STRIDE) {
            tokio::task::yield_now().await;
        }
    }
}
