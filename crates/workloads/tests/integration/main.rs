//! The programs that come with Phalanx.

mod node;
mod parameters;
mod paths;
mod truths;
mod workloads;
