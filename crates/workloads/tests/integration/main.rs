//! The programs that come with Phalanx.

#[path = "../same_bytes/mod.rs"]
mod same_bytes;

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
