//! The bus over the store: what can be seen of the contract from outside.

pub(super) mod by_id;
pub(super) mod coalesce;
pub(super) mod compaction;
pub(super) mod cursor;
pub(super) mod dead_letters;
pub(super) mod deletion;
pub(super) mod derived;
pub(super) mod expiry;
pub(super) mod filters;
pub(super) mod groups;
pub(super) mod handlers;
pub(super) mod key_order;
pub(super) mod leases;
pub(super) mod options;
pub(super) mod patterns;
pub(super) mod positions;
pub(super) mod publish;
pub(super) mod reading;
pub(super) mod reasons;
pub(super) mod replayed;
pub(super) mod restart;
pub(super) mod retention;
pub(super) mod retries;
pub(super) mod saved;
mod tools;
pub(super) mod twins;
pub(super) mod watch;
