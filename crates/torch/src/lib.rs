//! What users write programs in.
#![forbid(unsafe_code)]

pub mod pool;

pub use pool::Pool;
