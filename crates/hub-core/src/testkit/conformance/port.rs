//! The port itself: what [`EventStore`](crate::store::EventStore) promises, asked directly.

pub(super) mod append;
pub(super) mod clean;
pub(super) mod delete;
pub(super) mod ids;
pub(super) mod newest;
pub(super) mod read;
pub(super) mod records;
pub(super) mod reopened;
pub(super) mod shared;
pub(super) mod tools;
