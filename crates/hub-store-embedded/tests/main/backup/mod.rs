//! Backups: of a store in a simulated world, and of real directories under load.

mod directory;
mod load;
mod simulated;
