//! The programs that come with Phalanx.

mod advice;
mod node;
mod parameters;
mod truths;
mod workloads;
