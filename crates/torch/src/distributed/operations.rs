//! The collectives, each in two forms: one waits, the other returns its work.
//!
//! Numbers of ranks are those of the world, also with a group. On a rank outside the group nothing happens, and its work is
//! over at once.

mod exchange;
mod gather;
mod monitored;
mod reduce;

pub use exchange::{all_to_all, all_to_all_async, barrier, barrier_async};
pub use gather::{
    all_gather, all_gather_async, all_gather_list, all_gather_list_async, broadcast,
    broadcast_async, gather, gather_async, gather_list, gather_list_async, scatter, scatter_async,
    scatter_list, scatter_list_async,
};
pub use monitored::{monitored_barrier, monitored_barrier_async};
pub use reduce::{
    all_reduce, all_reduce_async, reduce, reduce_async, reduce_scatter, reduce_scatter_async,
};
