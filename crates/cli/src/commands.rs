//! One module for each command.

pub(crate) mod cache;
pub(crate) mod ccl;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod fit;
pub(crate) mod machines;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod triton;
pub(crate) mod validate;
mod workloads;
