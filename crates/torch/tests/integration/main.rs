//! The front end as its users see it.

mod pool;
mod truths;
mod workloads;
