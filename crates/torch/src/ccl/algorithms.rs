//! The algorithms, one a file.

pub(super) mod direct;
pub(super) mod ring;
