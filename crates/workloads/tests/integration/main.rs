//! The programs that come with Phalanx.

mod advice;
mod auto;
mod node;
mod parameters;
mod paths;
mod shards;
mod sweeps;
mod truth;
mod truths;
mod workloads;
