//! The embedded store.

pub mod disk;
pub mod format;
pub mod index;
pub mod sidecar;
