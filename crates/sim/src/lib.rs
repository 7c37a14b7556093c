//! A deterministic discrete-event simulator of a multi-chip accelerator.
#![forbid(unsafe_code)]

pub mod config;
pub mod credit;
pub mod executor;
mod line;
mod near;
pub mod queue;
pub mod signal;
pub mod spec;
pub mod time;
pub mod units;
pub mod value;

pub use spec::MachineSpec;
pub use time::{Bandwidth, Bytes, Capacity, Rate, Time};
