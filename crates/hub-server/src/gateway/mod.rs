//! Connections of the WebSocket gateway.

use crate::Hub;

impl Hub {
    /// The WebSocket side.
    pub fn gateway(&self) -> axum::Router {
        axum::Router::new()
    }
}
