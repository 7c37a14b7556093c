//! Immutable data.
