//! The programs that `phalanx node` knows: graphs over simulated chips, each a process of its own.
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
//! - **NDE-3 (bounded).** Parameters, chips and memory are checked before anything is started.

mod allreduce_window;
mod check;
mod domain_rank_map;
mod dual_domain;
mod ffn_tp;
mod harness;
mod moe_dispatch;
mod multi_chip_add;

pub use check::{Check, Difference};

use crate::{Default, Kind, Parameter, ParameterError, Settings};
use harness::Harness;
use phalanx_device::SimChip;
use phalanx_runtime::Isolation;
use phalanx_runtime::{Callable, Failure, Program, Startup, Task, Timeline, Worker, register};
use phalanx_sim::MachineSpec;
use phalanx_torch::limits::check_shared;
use std::time::Duration;

/// All callables of all workloads, and how chips are set up.
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

/// Does nothing: what a host is tried with.
pub const NOTHING: Callable = register!(nothing);

#[expect(clippy::unnecessary_wraps, reason = "callables can fail")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

/// A program with parameters.
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    chips: Chips,
    /// How many bytes its tensors have, all together; refuses parameters that do not fit each other.
    bytes: fn(&Settings, u32) -> Result<u64, ParameterError>,
    run: fn(&mut Harness<'_>) -> Result<(), NodeError>,
}

/// How many chips a workload runs on.
#[derive(Clone, Copy)]
enum Chips {
    /// As many as the machine has SIPs, unless it is said.
    All,
    /// This many, unless it is said; at least the second.
    From(u32, u32),
    /// So many and no others.
    Exactly(u32),
}

/// What a workload runs on.
pub struct Setup<'a> {
    /// The machine whose SIPs the chips are.
    pub machine: &'a MachineSpec,
    /// How many chips; see [`Workload::chips`].
    pub chips: u32,
    /// How many sub workers, at least one.
    pub sub_workers: u32,
    /// What keeps workers apart.
    pub isolation: Isolation,
    /// Told what is being done, in a few words.
    pub tell: &'a dyn Fn(&str),
}

/// What a workload has shown.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Each time the graph was run.
    pub runs: Vec<Run>,
    /// Each chip, by rank.
    pub chips: Vec<Chip>,
    /// How many tasks ran on sub workers.
    pub sub_tasks: u64,
    /// How the results compare with the reference.
    pub check: Check,
    /// How the processes started; empty if there are none.
    pub startup: Startup,
    /// What ran when, on one clock.
    pub timeline: Timeline,
}

/// A graph that was run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How many tasks it had.
    pub tasks: u64,
    /// How long it took on this host.
    pub wall: Duration,
    /// What its tasks took on the simulated chips, all together, in picoseconds.
    pub simulated_ps: u64,
}

/// What a chip did.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// Its rank.
    pub rank: u32,
    /// Which SIP of the machine it is.
    pub device_id: u32,
    /// How many tasks, or members of groups, it ran.
    pub tasks: u64,
    /// How long they took on it, in picoseconds of its own clock.
    pub simulated_ps: u64,
}

/// Why a workload did not end well.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeError {
    /// Something that was set does not fit.
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

/// How often the graph is run.
const REPEATS: Parameter = Parameter {
    name: "repeats",
    help: "how often the graph is run",
    kind: Kind::Count { least: 1, most: 1 << 20 },
    default: Default::Text("1"),
};

/// For those who want to see a check fail.
const SPOIL: Parameter = Parameter {
    name: "spoil",
    help: "yes: change one element before it is compared, to see a check fail",
    kind: Kind::Word(&["no", "yes"]),
    default: Default::Text("no"),
};

/// Every workload, in the order of the manual.
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

/// The workload of this name.
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

    /// How many chips it runs on, if that many are asked for; refuses what it or the machine cannot do.
    pub fn chips(&self, machine: &MachineSpec, asked: Option<u32>) -> Result<u32, ParameterError> {
        let (sips, name) = (machine.sips.count, self.name);
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

    /// Starts a node, runs it, compares, and ends the node.
    pub fn run(&self, setup: &Setup<'_>, settings: &Settings) -> Result<Outcome, NodeError> {
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
        Ok(Outcome { runs, chips, sub_tasks, check, startup, timeline })
    }
}

/// A task has so many arguments at most, and one may come from each chip.
const MOST_CHIPS: u32 = 128;
/// Room for what is not a tensor of the workload.
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
