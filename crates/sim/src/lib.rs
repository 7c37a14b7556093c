//! A deterministic discrete-event simulator of a multi-chip accelerator.
#![forbid(unsafe_code)]

pub mod config;
mod credit;
pub mod executor;
pub mod ipcq;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod record;
pub mod report;
mod ring_buffer;
mod signal;
pub mod spec;
mod spelling;
pub mod stall;
pub mod time;
pub mod timeline;
pub mod topology;
pub mod units;
pub mod value;
mod wait_queue;
mod wire;

pub use spec::MachineSpec;
pub use time::{Bandwidth, Bytes, Capacity, Rate, Time};
pub use value::{DType, Evaluator, Value};
