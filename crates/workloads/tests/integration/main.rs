//! The programs that come with Phalanx.

mod parameters;
mod truths;
mod workloads;
