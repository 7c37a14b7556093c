//! The names that a program of kernels or ranks needs, for `use phalanx::prelude::*`.
//!
//! The task runtime has a `Task`, a `Tensor` and an `Error` of its own: programs that use it name them by
//! [`phalanx::runtime`](crate::runtime).

pub use phalanx_device::{Dispatch, GraphOptions, KernelTask, OpenGraph, SimChip, TaskGraph};
pub use phalanx_sim::ipcq::EdgeSpec;
pub use phalanx_sim::kernel::{KernelError, Tl, View};
pub use phalanx_sim::machine::{Machine, Options};
pub use phalanx_sim::memory::Region;
pub use phalanx_sim::report::Report;
pub use phalanx_sim::topology::PeId;
pub use phalanx_sim::{DType, MachineSpec, Time, Value};
pub use phalanx_torch::distributed::{self as dist, ReduceOp};
pub use phalanx_torch::multiprocessing::{self, SpawnError, spawn};
pub use phalanx_torch::{
    Arg, Args, Context, DpPolicy, Error, Grid, Handle, Pool, Rank, Spread, Tensor, tp,
};
