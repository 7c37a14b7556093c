//! The front end as its users see it.

mod parameters;
mod pool;
mod truths;
mod workloads;
