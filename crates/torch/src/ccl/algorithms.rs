//! The algorithms, one a file.

pub(super) mod bidirectional_ring;
pub(super) mod direct;
mod folded;
pub(super) mod halving_doubling;
pub(super) mod hierarchical;
pub(super) mod recursive_doubling;
pub(super) mod ring;
pub(super) mod torus_2d;
pub(super) mod tree;
