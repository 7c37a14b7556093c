//! Tensor parallelism: layers whose weights are spread over ranks.

pub mod parallel_state;
