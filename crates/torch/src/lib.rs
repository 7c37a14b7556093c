//! What users write programs in: ranks with tensors, kernels and collectives ([`multiprocessing`], [`distributed`]),
//! layers spread over ranks ([`tp`]), the workloads that come with the program, and the thread pool that computes
//! numbers off the simulation thread. Simulated chips also stand behind the node runtime, one in each process
//! ([`chip`], [`node`]).
//!
//! ```
//! use phalanx_sim::{MachineSpec, machine::Options};
//! use phalanx_torch::workload;
//! let bare = MachineSpec::preset("bare").unwrap();
//! let ping = workload::find("ping").unwrap();
//! let settings = ping.settings(&bare, &[("bytes", "64 KiB")]).unwrap();
//! let outcome = ping.run(bare, Options::default(), &settings).unwrap();
//! assert_eq!(outcome.report.simulated.to_string(), "1012 ns");
//! ```
#![forbid(unsafe_code)]

pub mod ccl;
pub mod chip;
pub mod context;
pub mod distributed;
pub mod error;
pub mod graph;
pub mod launch;
pub mod multiprocessing;
pub mod node;
pub mod placement;
pub mod pool;
mod random;
pub mod rank;
pub mod request;
mod settings;
pub mod tensor;
pub mod tp;
pub mod workload;

pub use chip::SimChip;
pub use context::Context;
pub use error::Error;
pub use graph::{GraphOptions, Task, TaskGraph};
pub use launch::{Arg, Args, Grid};
pub use placement::{DpPolicy, Spread};
pub use pool::Pool;
pub use rank::Rank;
pub use request::Handle;
pub use tensor::Tensor;

/// The Rust of the README and of the guide: tests, nothing else.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/3-kernels.md")]
    struct Kernels;
    #[doc = include_str!("../../../docs/guide/4-reading-a-report.md")]
    struct Reports;
    #[doc = include_str!("../../../docs/guide/5-ranks.md")]
    struct Ranks;
    #[doc = include_str!("../../../docs/guide/6-collectives.md")]
    struct Collectives;
    #[doc = include_str!("../../../docs/guide/7-tensor-parallel.md")]
    struct TensorParallel;
    #[doc = include_str!("../../../docs/guide/8-task-graphs.md")]
    struct TaskGraphs;
    #[doc = include_str!("../../../docs/guide/9-many-chips.md")]
    struct ManyChips;
    #[doc = include_str!("../../../docs/guide/10-my-run-hangs.md")]
    struct MyRunHangs;
}
