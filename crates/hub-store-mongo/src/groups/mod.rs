//! Groups, subscriptions and the names they are owned under: the collection `groups`.
//!
//! ```text
//! { _id: {topic, group}, topic, group, rev, fence,
//!   options: JSON text, created, idle_since?, driven, born,
//!   state: { epoch, floor, high, settled: {b0: Binary, …}, tries: {b0: Binary, …} } }
//! { _id: {label, group}, label, group, rev, fence, options, topics: […], created, idle_since? }
//! { _id: {name}, name, fence, epoch, hub?: UUID, edges: [UUID] }
//! ```
//!
//! **Saving.** Every save names the revision it is based on (`rev`) and raises it, so a save that was given up and takes
//! effect late changes nothing. Of a group's state only those buckets are sent that changed, see [`state`].
//!
//! **The fence.** Every document carries the epoch below which nothing changes it; a take-over raises that of the name,
//! then those of its documents, and then reads those that it raised. Who makes a new group looks at the name's fence
//! afterwards, and takes the document away again if it had come too late: until then nobody has taken it into account.

mod document;
mod plan;
mod save;
pub mod state;

pub use document::{Address, Kind, Saved, kind_of, name_id, saved, stored_group, stored_subscription};
pub use save::GroupWriter;
