//! Which ranks share which kind of parallel work.

/// The groups of a rank.
pub struct ParallelState;
