//! One binary for all integration tests.
mod truths;
mod workloads;
