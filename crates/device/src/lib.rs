//! Simulated chips, driven by task graphs.
//!
//! - [`graph`]: kernels over tiles on the PEs of one chip. The order of tasks follows from the bytes that the tasks touch.
//! - [`chip`]: a chip of a node. Each chip process of `phalanx-runtime` hosts one SIP of a simulated machine.
#![forbid(unsafe_code)]

pub mod chip;
pub mod graph;

pub use chip::{Operand, SimChip};
pub use graph::{Dispatch, GraphOptions, KernelTask, OpenGraph, TaskGraph};
