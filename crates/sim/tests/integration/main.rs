//! The behaviours of the simulator, one module each.

mod bounded;
mod config;
mod deadlocks;
mod determinism;
mod gemm;
mod hardware;
mod kernels;
mod links;
mod messages;
mod order;
mod queues;
mod report;
mod scenario;
mod support;
mod views;
