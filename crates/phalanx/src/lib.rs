//! Phalanx runs multi-chip accelerator programs on machines that have no accelerator.
//!
//! This crate is the door to all others. A program that simulates needs one line, `use phalanx::prelude::*`; a program that
//! runs task graphs on threads and processes names what it needs of [`runtime`].
//!
//! Four ranks add up their numbers, and the report says where the simulated time went:
//!
//! ```
//! use phalanx::prelude::*;
//!
//! let mut context = Context::new(MachineSpec::preset("quad-sip").unwrap(), Options::default());
//! let sums = spawn(&mut context, 4, |rank, cx| async move {
//!     dist::init_process_group(&cx)?;
//!     let x = cx.full([1024], rank as f64, DType::F16)?;
//!     dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
//!     Ok(x.to_vec().await?[0])
//! });
//! assert_eq!(sums.unwrap(), [6.0; 4]);
//! println!("{}", context.report());
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`sim`] | virtual time, machines, kernels, values |
//! | [`torch`] | ranks, tensors, collectives, tensor-parallel layers |
//! | [`device`] | task graphs on the PEs of a chip; simulated chips behind the task runtime |
//! | [`workloads`] | the programs of `phalanx run` and `phalanx node` |
//! | [`runtime`] | task graphs on threads and processes |
//! | [`engine`] | the task graph as a pure state machine |
//! | [`trace`] | timelines for Perfetto and Chrome |
//!
//! The guide (`docs/guide`) goes from a first run to machines of your own, kernels, ranks and task graphs.
#![forbid(unsafe_code)]

pub use phalanx_device as device;
pub use phalanx_engine as engine;
pub use phalanx_runtime as runtime;
pub use phalanx_sim as sim;
pub use phalanx_torch as torch;
pub use phalanx_trace as trace;
pub use phalanx_workloads as workloads;

pub mod prelude;

/// The Rust of the README and of the guide: tests, nothing else.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/01-first-run.md")]
    struct FirstRun;
    #[doc = include_str!("../../../docs/guide/03-kernels.md")]
    struct Kernels;
    #[doc = include_str!("../../../docs/guide/04-reading-a-report.md")]
    struct Reports;
    #[doc = include_str!("../../../docs/guide/05-ranks.md")]
    struct Ranks;
    #[doc = include_str!("../../../docs/guide/06-collectives.md")]
    struct Collectives;
    #[doc = include_str!("../../../docs/guide/07-tensor-parallel.md")]
    struct TensorParallel;
    #[doc = include_str!("../../../docs/guide/08-task-graphs.md")]
    struct TaskGraphs;
    #[doc = include_str!("../../../docs/guide/09-many-chips.md")]
    struct ManyChips;
    #[doc = include_str!("../../../docs/guide/10-my-run-hangs.md")]
    struct MyRunHangs;
    #[doc = include_str!("../../../docs/guide/11-is-it-true.md")]
    struct IsItTrue;
    #[doc = include_str!("../../../docs/guide/19-large-machines.md")]
    struct LargeMachines;
}
