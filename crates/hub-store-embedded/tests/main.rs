//! The embedded store: the conformance suite, and what it does when the disk does not play along.
#![allow(clippy::unwrap_used)]

#[path = "main/backup/mod.rs"]
mod backup;
#[path = "main/commit_size.rs"]
mod commit_size;
#[path = "main/conformance.rs"]
mod conformance;
#[path = "main/crowd.rs"]
mod crowd;
#[path = "main/damage.rs"]
mod damage;
#[path = "main/descriptors.rs"]
mod descriptors;
#[path = "main/directory.rs"]
mod directory;
#[path = "main/disk_usage.rs"]
mod disk_usage;
#[path = "main/effort.rs"]
mod effort;
#[path = "main/faults.rs"]
mod faults;
#[path = "main/format.rs"]
mod format;
#[path = "main/full.rs"]
mod full;
#[path = "main/here.rs"]
mod here;
#[path = "main/kill.rs"]
mod kill;
#[path = "main/largest.rs"]
mod largest;
#[path = "main/ledger.rs"]
mod ledger;
#[path = "main/load.rs"]
mod load;
#[path = "main/model.rs"]
mod model;
#[path = "main/moved.rs"]
mod moved;
#[path = "main/newest.rs"]
mod newest;
#[path = "main/power.rs"]
mod power;
#[path = "main/restored.rs"]
mod restored;
#[path = "main/sealing.rs"]
mod sealing;
#[path = "main/threads.rs"]
mod threads;
#[path = "main/tools.rs"]
mod tools;
#[path = "main/unreadable.rs"]
mod unreadable;
#[path = "main/upkeep.rs"]
mod upkeep;
#[path = "main/watched.rs"]
mod watched;
#[path = "main/world.rs"]
mod world;
