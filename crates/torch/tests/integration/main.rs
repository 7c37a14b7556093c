//! The front end as its users see it.

mod ccl_config;
mod chip;
mod collectives;
mod graph;
mod parameters;
mod pool;
mod ranks;
mod sweep;
mod tp;
mod truths;
mod workloads;
