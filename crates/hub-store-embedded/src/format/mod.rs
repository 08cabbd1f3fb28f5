//! What the bytes on disk mean. `docs/storage.md` draws them.

pub mod bytes;
pub mod entry;
pub mod frame;
pub mod header;
pub mod record;
