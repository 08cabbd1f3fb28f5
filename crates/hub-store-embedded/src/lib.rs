//! The embedded store of event-hub: a log of its own in a plain directory.
//!
//! ```no_run
//! use hub_core::Bus;
//! use hub_store_embedded::{EmbeddedStore, Options};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = EmbeddedStore::open("data", Options::default())?;
//! let bus = Bus::builder(store).open().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The log
//!
//! All topics and all groups share one log. A commit is a run of frames that is written and synced at once, whatever
//! topics it is about; a frame carries a checksum, and the last one of a commit its number and the number of the last
//! commit that is known to be durable. The log is cut into segments, files of a fixed size that are filled with zeros
//! before they are used.
//!
//! The index of the segment that is written to is in memory. A full one gets a sidecar: its records by topic and seq,
//! its ids behind a filter, the newest record of each key. Sidecars can be made again from the segment at any time.
//! The manifest says which segments there are and what everything else was when the last of them was sealed.
//!
//! # Where to look
//!
//! | | |
//! | --- | --- |
//! | [`disk`] | the only way to files; the simulated disk |
//! | [`mod@format`] | what the bytes mean; `docs/storage.md` draws them |
//! | [`scan`] | reading a segment, telling a torn end from damage |
//! | [`sidecar`], [`index`] | where records are |
//! | [`manifest`] | which segments there are, and everything else at the end of the last sealed one |
//! | `segment` | a file of the log with its index |
//! | `store`, `options` | the port, its threads and settings |
//! | `shared`, `catalog` | everything in memory: the end of the log, segments, topics, groups |
//! | `plan`, `pipeline` | the commit |
//! | `writer` | from one segment to the next; after an error |
//! | `recover`, `replay`, `rebuild` | opening; a segment's index from its frames |
//! | `reserve` | room for the store's own records on a full disk |
//! | `quarantine` | where damaged bytes go |
//! | `losses`, `health` | what damage has cost and how the store is doing, in words |
//! | `lookup` | reading |
//! | `clean`, `rewrite` | what goes, and how its room comes back |
//! | [`doctor`] | examining and repairing a directory that no hub uses |
//! | [`backup`], `pins` | copying a directory, also while a hub uses it |
//! | `keeper` | sealing, preparing, rewriting, beside the commits |
//! | `panic_point` | a panic that tests ask for; not in releases |

pub mod backup;
mod catalog;
mod clean;
pub mod disk;
pub mod doctor;
pub mod format;
mod health;
pub mod index;
mod keeper;
mod lookup;
mod losses;
pub mod manifest;
mod options;
#[cfg(all(debug_assertions, feature = "testkit"))]
mod panic_point;
mod pins;
mod pipeline;
mod plan;
mod quarantine;
mod rebuild;
mod recover;
mod replay;
mod reserve;
mod rewrite;
pub mod scan;
mod segment;
mod shared;
pub mod sidecar;
mod slice;
mod store;
mod writer;

pub use options::{Options, Threads};
pub use plan::{LARGEST as LARGEST_RECORD, MAX_PAYLOAD};
pub use recover::OpenError;
pub use store::EmbeddedStore;
