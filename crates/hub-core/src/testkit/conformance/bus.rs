//! The bus over the store.
