//! The behaviours of the simulator, one module each.
#![expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "results are compared bit for bit, and test data are small whole numbers"
)]

mod advice;
mod bounded;
mod config;
mod contention;
mod deadlocks;
mod determinism;
mod gemm;
mod hardware;
mod host;
mod in_switch;
mod kernels;
mod levels;
mod links;
mod memories;
mod messages;
mod mirror;
mod order;
mod places;
mod queues;
mod ranges;
mod reference;
mod report;
mod scenario;
mod shapes;
mod shards;
mod support;
mod value;
mod views;
