//! Records beside events, as bytes.
