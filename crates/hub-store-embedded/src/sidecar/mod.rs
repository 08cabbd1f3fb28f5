//! The sidecar of a sealed segment.
