//! Tests of authentication.
#![allow(clippy::unwrap_used)]

mod lab;
mod own;
mod settings;
