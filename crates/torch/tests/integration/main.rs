//! The front end as its users see it.

mod ccl_config;
mod collectives;
mod pool;
mod ranks;
mod shards;
mod sweep;
mod tp;
