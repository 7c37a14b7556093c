//! The programs of `phalanx node`: graphs over simulated chips, each chip a process of its own.
//!
//! ```text
//!   parent            graph, reference, check
//!     ├── chip 0 … n  one SIP of the machine each (`SimChip`)
//!     └── sub workers plain code
//! ```
//!
//! A binary that runs them begins with `PROGRAM.serve_if_child()`, so that it can be its own child.
//!
//! - **NDE-2 (checked).** Every result is compared with a plain reference in the parent; the first element that differs is
//!   named.
//! - **NDE-3 (bounded).** Parameters, chips and memory are checked before the node starts.

mod allreduce_window;
mod check;
mod domain_rank_map;
mod dual_domain;
mod ffn_tp;
mod harness;
mod moe_dispatch;
mod multi_chip_add;

pub use check::{Check, Difference};

use crate::{Default, Parameter, ParameterError, ParameterKind, Settings};
use harness::Harness;
use phalanx_device::SimChip;
use phalanx_runtime::Isolation;
use phalanx_runtime::{Callable, Failure, Program, Startup, Task, Timeline, Worker, register};
use phalanx_sim::MachineSpec;
use phalanx_torch::limits::check_shared;
use std::time::Duration;

/// The callables of all workloads, and the bootstrap of chips.
pub static PROGRAM: Program = Program::new(&[
    NOTHING,
    multi_chip_add::ADD,
    multi_chip_add::COUNT_WRONG,
    ffn_tp::PRODUCT,
    ffn_tp::SUM,
    allreduce_window::ALL_REDUCE,
    domain_rank_map::MARK,
    domain_rank_map::FIND,
    dual_domain::AFFINE,
    moe_dispatch::DISPATCH,
    moe_dispatch::EXPERT,
    moe_dispatch::COMBINE,
])
.chip(SimChip::bootstrap);

/// A callable that does nothing, for trying a host.
pub const NOTHING: Callable = register!(nothing);

#[expect(clippy::unnecessary_wraps, reason = "callables can fail")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

/// A program with parameters.
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    chips: Chips,
    /// The bytes of all its tensors; refuses parameters that do not fit each other.
    bytes: fn(&Settings, u32) -> Result<u64, ParameterError>,
    run: fn(&mut Harness<'_>) -> Result<(), NodeError>,
}

/// The number of chips of a workload.
#[derive(Clone, Copy)]
enum Chips {
    /// By default as many as the machine has SIPs.
    All,
    /// By default the first number; at least the second.
    From(u32, u32),
    /// Exactly this number.
    Exactly(u32),
}

/// The environment of a workload.
pub struct Setup<'a> {
    /// The machine whose SIPs the chips are.
    pub machine: &'a MachineSpec,
    /// Number of chips; see [`Workload::chips`].
    pub chips: u32,
    /// Number of sub workers, at least one.
    pub sub_workers: u32,
    /// The isolation of workers.
    pub isolation: Isolation,
    /// Called with a short description of each step.
    pub tell: &'a dyn Fn(&str),
}

/// The outcome of a workload on a node.
#[derive(Clone, Debug)]
pub struct NodeOutcome {
    /// The runs of the graph.
    pub runs: Vec<Run>,
    /// The chips, by rank.
    pub chips: Vec<Chip>,
    /// Tasks that ran on sub workers.
    pub sub_tasks: u64,
    /// The comparison of the results with the reference.
    pub check: Check,
    /// The startup of the processes; empty if there are none.
    pub startup: Startup,
    /// The times of all tasks, on one clock.
    pub timeline: Timeline,
}

/// One run of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Number of tasks.
    pub tasks: u64,
    /// Wall time on this host.
    pub wall: Duration,
    /// Simulated time of all tasks, added up, in picoseconds.
    pub simulated_ps: u64,
}

/// The work of a chip.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// Its rank.
    pub rank: u32,
    /// The number of its SIP in the machine.
    pub device_id: u32,
    /// Tasks and members of groups that it ran.
    pub tasks: u64,
    /// Their simulated time, in picoseconds of the chip's clock.
    pub simulated_ps: u64,
}

/// The error of a workload.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeError {
    /// A parameter does not fit.
    #[error("{0}")]
    Parameter(#[from] ParameterError),
    /// The node could not start, or a run failed.
    #[error(transparent)]
    Runtime(#[from] phalanx_runtime::Error),
}

impl From<phalanx_runtime::TensorError> for NodeError {
    fn from(error: phalanx_runtime::TensorError) -> Self {
        Self::Runtime(error.into())
    }
}

/// The number of runs of the graph.
const REPEATS: Parameter = Parameter {
    name: "repeats",
    help: "how often the graph is run",
    kind: ParameterKind::Count { least: 1, most: 1 << 20 },
    default: Default::Text("1"),
};

/// Makes a check fail, for demonstration.
const SPOIL: Parameter = Parameter {
    name: "spoil",
    help: "yes: change one element before it is compared, to see a check fail",
    kind: ParameterKind::Word(&["no", "yes"]),
    default: Default::Text("no"),
};

/// Returns every workload, in the order of the manual.
pub fn all() -> &'static [Workload] {
    &[
        multi_chip_add::WORKLOAD,
        ffn_tp::WORKLOAD,
        allreduce_window::WORKLOAD,
        domain_rank_map::WORKLOAD,
        dual_domain::WORKLOAD,
        moe_dispatch::WORKLOAD,
    ]
}

/// Finds the workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|workload| workload.name == name)
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

    /// Returns the number of chips: `asked`, or the default. Refuses a number that the workload or the machine cannot
    /// use.
    pub fn chips(&self, machine: &MachineSpec, asked: Option<u32>) -> Result<u32, ParameterError> {
        let (sips, name) = (machine.devices(), self.name);
        let (usual, least, most) = match self.chips {
            Chips::All => (sips.min(MOST_CHIPS), 1, MOST_CHIPS),
            Chips::From(usual, least) => (usual, least, MOST_CHIPS),
            Chips::Exactly(count) => (count, count, count),
        };
        let chips = asked.unwrap_or(usual);
        if !(least..=most).contains(&chips) {
            let allowed =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let message = format!("`{name}` does not run on {chips} chips");
            return Err(ParameterError::new(message, format!("allowed: {allowed}")));
        }
        if chips > sips {
            let message = format!(
                "`{name}` is to run on {chips} chips, and `{}` has {sips} SIPs",
                machine.name
            );
            let help =
                format!("use `--set system.sips.count={chips}`, another machine or fewer chips");
            return Err(ParameterError::new(message, help));
        }
        Ok(chips)
    }

    /// Starts a node, runs the workload, compares its results, and stops the node.
    pub fn run(&self, setup: &Setup<'_>, settings: &Settings) -> Result<NodeOutcome, NodeError> {
        let chips = self.chips(setup.machine, Some(setup.chips))?;
        let bytes = (self.bytes)(settings, chips)?;
        check_shared(bytes)?;
        let mut builder = Worker::builder(&PROGRAM)
            .chips(chips)
            .sub_workers(setup.sub_workers.max(1))
            .setting(SimChip::setting(setup.machine))
            .memory(bytes.saturating_add(SPARE))
            .recording();
        if setup.isolation == Isolation::Thread {
            builder = builder.threads();
        }
        (setup.tell)("starting");
        let worker = builder.init()?;
        let mut harness = Harness::new(worker, setup, settings);
        (self.run)(&mut harness)?;
        let Harness { worker, check, runs, .. } = harness;
        let timeline = worker.timeline();
        let startup = worker.startup().clone();
        let chips = chip_reports(&worker, &timeline);
        let sub_tasks =
            timeline.tasks.iter().filter(|span| span.worker >= chips.len()).count() as u64;
        worker.close()?;
        Ok(NodeOutcome { runs, chips, sub_tasks, check, startup, timeline })
    }
}

/// Most chips: a task has at most this many arguments, and one may come from each chip.
const MOST_CHIPS: u32 = 128;
/// Memory for buffers other than the workload's tensors.
const SPARE: u64 = 16 << 20;

fn chip_reports(worker: &Worker, timeline: &Timeline) -> Vec<Chip> {
    let report = |(index, context): (usize, &phalanx_runtime::ChipContext)| {
        let own = timeline.tasks.iter().filter(|span| span.worker == index);
        let (tasks, simulated_ps) =
            own.fold((0, 0), |(tasks, sum), span| (tasks + 1, sum + span.simulated));
        Chip { rank: context.rank, device_id: context.device_id, tasks, simulated_ps }
    };
    worker.chip_contexts().iter().enumerate().map(report).collect()
}
