//! The HTTP side of the hub.

use crate::Hub;

impl Hub {
    /// The HTTP side.
    pub fn ops(&self) -> axum::Router {
        axum::Router::new()
    }
}
