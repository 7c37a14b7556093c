//! The programs that come with Phalanx.

mod auto;
mod node;
mod parameters;
mod truths;
mod workloads;
