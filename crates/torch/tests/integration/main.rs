//! The front end as its users see it.

mod ccl_config;
mod collectives;
mod parameters;
mod pool;
mod ranks;
mod tp;
mod truths;
mod workloads;
