//! A deterministic discrete-event simulator of a multi-chip accelerator.
#![forbid(unsafe_code)]

pub mod config;
pub mod spec;
pub mod time;
pub mod value;

pub use spec::MachineSpec;
pub use time::{Bandwidth, Bytes, Capacity, Rate, Time};
pub use value::{DType, Evaluator, Value};
