//! The programs that come with Phalanx.

mod node;
mod parameters;
mod truths;
mod workloads;
