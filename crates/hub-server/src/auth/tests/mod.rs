//! Tests of authentication.
#![allow(clippy::unwrap_used)]

mod cluster;
mod endpoint;
mod fetching;
mod keys;
mod lab;
mod matrix;
mod own;
mod random;
mod rotation;
mod settings;
mod silence;
