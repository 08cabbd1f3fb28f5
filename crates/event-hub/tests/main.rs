//! The program itself, run on real directories.
#![allow(clippy::unwrap_used)]

#[path = "main/damage.rs"]
mod damage;
#[path = "main/healthy.rs"]
mod healthy;
#[path = "main/policy.rs"]
mod policy;
#[path = "main/random.rs"]
mod random;
#[path = "main/refused.rs"]
mod refused;
#[path = "main/repairs.rs"]
mod repairs;
#[path = "main/stat.rs"]
mod stat;
#[path = "main/world.rs"]
mod world;
