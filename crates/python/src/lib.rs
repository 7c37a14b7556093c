//! The Rust side of the Python package `phalanx`: a thin layer over `phalanx-torch` and `phalanx-sim`.
//!
//! The package is in `python/phalanx`: names, documentation and types that users see are Python. This crate converts, and lets
//! Python programs be processes of the simulation ([`fiber`]).
#![forbid(unsafe_code)]
#![expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]

mod ccl;
mod cli;
mod context;
mod distributed;
mod error;
mod fiber;
mod interrupt;
mod kernel;
mod machine;
mod one_thread;
mod rank;
mod report;
mod runtime;
mod stream;
mod sweep;
mod tensor;
mod tp;
mod triton;
mod watch;
mod work;

/// The module `phalanx._core`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::ccl::read_ccl;
    #[pymodule_export]
    use crate::cli::run_cli;
    #[pymodule_export]
    use crate::context::Context;
    #[pymodule_export]
    use crate::distributed::Group;
    #[pymodule_export]
    use crate::fiber::Pending;
    #[pymodule_export]
    use crate::kernel::{Algorithm, Issued, Part, Queue, Recordings, Tile, Tl, View};
    #[pymodule_export]
    use crate::machine::{MachineSpec, presets};
    #[pymodule_export]
    use crate::rank::{Range, Rank};
    #[pymodule_export]
    use crate::report::Report;
    #[pymodule_export]
    use crate::runtime::child::{CopiedArgument, RunningTask, current_task, serve_worker};
    #[pymodule_export]
    use crate::runtime::domain::{Domain, TaskDomain};
    #[pymodule_export]
    use crate::runtime::function::Function;
    #[pymodule_export]
    use crate::runtime::graph::{Run, RuntimeCall, RuntimeGraph, SubmittedTask};
    #[pymodule_export]
    use crate::runtime::tensor::{SharedArgument, SharedBuffer, SharedTensor};
    #[pymodule_export]
    use crate::runtime::worker::RuntimeWorker;
    #[pymodule_export]
    use crate::stream::{Event, Stream};
    #[pymodule_export]
    use crate::sweep::run_sweep;
    #[pymodule_export]
    use crate::tensor::{Elements, Tensor};
    #[pymodule_export]
    use crate::tp::Layer;
    #[pymodule_export]
    use crate::triton::{HostMemory, TritonKernel, TritonWork, product};
    #[pymodule_export]
    use crate::watch::Watch;
    #[pymodule_export]
    use crate::work::Work;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
