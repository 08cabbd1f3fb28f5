//! What the bytes on disk mean. `docs/storage.md` draws them.

pub mod bytes;
pub mod record;
