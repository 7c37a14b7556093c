//! The programs that come with Phalanx, each with parameters and a reference for its result.
//!
//! The root has the programs of `phalanx run`, which simulate; [`node`] has those of `phalanx node`, graphs over simulated chips.
//!
//! ```
//! use phalanx_sim::{MachineSpec, machine::Options};
//!
//! let bare = MachineSpec::preset("bare").unwrap();
//! let ping = phalanx_workloads::find("ping").unwrap();
//! let settings = ping.settings(&bare, &[("bytes", "64 KiB")]).unwrap();
//! let outcome = ping.run(bare, Options::default(), &settings).unwrap();
//! assert_eq!(outcome.report.simulated.to_string(), "1012 ns");
//! ```
//!
//! - **WKL-1 (checked).** Parameters are checked for name, kind and range before the run, and sizes before memory is
//!   allocated for their numbers.
//! - **WKL-2 (verified).** With data on, the result is compared with a reference computed another way.
#![forbid(unsafe_code)]

mod advice;
mod all_reduce;
pub mod cache;
pub(crate) mod capacity;
mod check;
mod chip_gemm;
mod gemm;
pub mod node;
mod parameters;
mod ping;
mod queue;
pub mod ring;
pub mod sweep;
mod tp_block;
mod tp_mlp;
mod tp_ranks;
pub mod truth;
pub(crate) mod vector_add;

pub use advice::SHORT;
pub use check::Check;
pub(crate) use check::{number, numbers};
pub(crate) use parameters::SEED;
pub use parameters::{Default, Parameter, ParameterKind, Settings};
pub use phalanx_torch::limits::ParameterError;

use phalanx_sim::machine::{Options, RunError};
use phalanx_sim::memory::MemoryError;
use phalanx_sim::report::Report;
use phalanx_sim::{MachineSpec, Time, config};
use phalanx_torch::ccl::CclConfig;
use phalanx_torch::multiprocessing::SpawnError;
use phalanx_torch::shards::{self, ShardLayout};

/// A program with parameters.
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// The parameters that change the speed of the workload, and neither its work nor its result.
    pub knobs: &'static [&'static str],
    /// True if it uses one SIP alone, so that there is nothing to share out.
    one_sip: bool,
    run: fn(Setup, &Settings) -> Result<Outcome, WorkloadError>,
}

/// The environment of a workload.
#[derive(Clone)]
pub struct Setup {
    /// The machine.
    pub machine: MachineSpec,
    /// The options of the simulation.
    pub options: Options,
    /// The configuration of collectives.
    pub ccl: CclConfig,
}

impl Setup {
    /// Makes an environment with the built-in configuration of collectives.
    pub fn new(machine: MachineSpec, options: Options) -> Self {
        Self { machine, options, ccl: CclConfig::builtin() }
    }
}

/// The outcome of a workload.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report of the simulation.
    pub report: Report,
    /// The comparison with the reference; `None` without data.
    pub check: Option<Check>,
    /// The outcome of its ranks, for a program of ranks.
    pub ranks: Option<Ranks>,
}

/// The outcome of a workload's ranks.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// The name of the algorithm of collectives.
    pub algorithm: String,
    /// Algorithm bandwidth and bus bandwidth of the collective, in GB/s.
    pub bandwidth: Option<(f64, f64)>,
    /// Time at which each rank's program ended.
    pub finished: Vec<Time>,
}

impl Outcome {
    /// An outcome without ranks.
    pub(crate) fn new(report: Report, check: Option<Check>) -> Self {
        Self { report, check, ranks: None }
    }
}

/// The error of a workload.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter does not fit the machine or another parameter.
    #[error("{0}")]
    Parameter(#[from] ParameterError),
    /// The machine has no room for its tensors.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A rank failed, or the ranks deadlocked.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Returns every workload, in the order of the manual.
pub fn all() -> &'static [Workload] {
    &[
        ping::WORKLOAD,
        queue::WORKLOAD,
        ring::WORKLOAD,
        vector_add::WORKLOAD,
        gemm::WORKLOAD,
        chip_gemm::WORKLOAD,
        all_reduce::WORKLOAD,
        tp_mlp::WORKLOAD,
        tp_block::WORKLOAD,
    ]
}

/// Finds the workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|workload| workload.name == name)
}

/// Returns the name closest to a misspelt one.
pub fn suggestion(name: &str) -> Option<&'static str> {
    config::suggestion(name, all().iter().map(|workload| workload.name))
}

impl Workload {
    /// Checks `given` (name, value) and fills in the defaults.
    pub fn settings(
        &self,
        machine: &MachineSpec,
        given: &[(&str, &str)],
    ) -> Result<Settings, ParameterError> {
        Settings::new(self.parameters, machine, given)
    }

    /// Runs the workload.
    pub fn run(
        &self,
        machine: MachineSpec,
        options: Options,
        settings: &Settings,
    ) -> Result<Outcome, WorkloadError> {
        self.run_with(Setup::new(machine, options), settings)
    }

    /// Runs the workload on several threads and processes, or fewer if it does not use as many SIPs (XCH-1).
    pub fn run_on(
        &self,
        layout: &ShardLayout,
        setup: &Setup,
        settings: &Settings,
    ) -> Result<Outcome, WorkloadError> {
        let most = if self.one_sip { 1 } else { setup.machine.devices() as usize };
        shards::run_over(&layout.at_most(most), |exchange| {
            let options = Options { exchange, ..setup.options.clone() };
            self.run_with(Setup { options, ..setup.clone() }, settings)
        })
    }

    /// Runs the workload in the given environment.
    pub fn run_with(&self, setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
        (self.run)(setup, settings)
    }
}
