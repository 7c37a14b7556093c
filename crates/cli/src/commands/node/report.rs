//! A finished run on a node, as text for people and as JSON for programs.

use crate::report::Parameters;
use crate::show;
use owo_colors::OwoColorize;
use phalanx_runtime::Isolation;
use phalanx_sim::MachineSpec;
use phalanx_sim::report::{Style, Table};
use phalanx_workloads::Settings;
use phalanx_workloads::node::{Chip, Difference, NodeOutcome, Run, Workload};
use serde::Serialize;
use std::time::Duration;

/// Number of runs that are shown one by one.
const RUNS: usize = 8;

/// A run and its outcome.
pub(super) struct Finished<'a> {
    pub(super) workload: &'a Workload,
    pub(super) spec: &'a MachineSpec,
    pub(super) settings: Settings,
    pub(super) isolation: Isolation,
    pub(super) sub_workers: u32,
    pub(super) outcome: NodeOutcome,
    pub(super) wall: Duration,
}

impl Finished<'_> {
    /// The report for people; it makes sense without colours.
    pub(super) fn text(&self) -> String {
        let parts = [self.head(), self.runs(), self.chips()];
        parts.join("\n")
    }

    fn head(&self) -> String {
        let Self { workload, spec, settings, outcome, .. } = self;
        let parameters: Vec<String> =
            settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let check = &outcome.check;
        let result = if check.is_correct() {
            "correct".green().to_string()
        } else {
            "WRONG".red().bold().to_string()
        };
        let start = if outcome.startup.children.is_empty() {
            String::new()
        } else {
            format!("start      {}\n", wall(outcome.startup.total))
        };
        format!(
            "{} on {}  {}\n\nworkers    {}\n{start}wall       {}\nresult     {result}, {} compared, max abs error {}\n",
            workload.name.bold(),
            spec.name.bold(),
            parameters.join(", "),
            self.workers(),
            wall(self.wall),
            show::count(check.compared, "element"),
            error(check.max_abs_error),
        )
    }

    /// `4 chips and 1 sub worker, each a process`.
    fn workers(&self) -> String {
        let chips = show::count(self.outcome.chips.len() as u64, "chip");
        let subs = show::count(u64::from(self.sub_workers), "sub worker");
        let each = match self.isolation {
            Isolation::Process => "each a process",
            Isolation::Thread => "each a thread",
        };
        format!("{chips} and {subs}, {each}")
    }

    fn runs(&self) -> String {
        let runs = &self.outcome.runs;
        let mut table = Table::new(
            &["run", "tasks", "chip time", "wall"],
            &["run", "tasks", "chip time", "wall"],
        );
        for (number, run) in (1..).zip(runs.iter().take(RUNS)) {
            let number: u32 = number;
            let simulated = show::time(run.simulated_ps);
            table.row([number.to_string(), run.tasks.to_string(), simulated, wall(run.wall)]);
        }
        let more = runs.len().saturating_sub(RUNS);
        let more =
            if more > 0 { format!("and {more} more; `--json` has all\n") } else { String::new() };
        table.text(Style::Terminal) + &more
    }

    fn chips(&self) -> String {
        let mut table = Table::new(
            &["chip", "device", "tasks", "simulated"],
            &["chip", "device", "tasks", "simulated"],
        );
        for Chip { rank, device_id, tasks, simulated_ps } in &self.outcome.chips {
            let device = format!("sip{device_id}");
            table.row([rank.to_string(), device, tasks.to_string(), show::time(*simulated_ps)]);
        }
        table.text(Style::Terminal)
    }

    /// The report for programs; its keys are stable.
    pub(super) fn json(&self) -> impl Serialize + '_ {
        let NodeOutcome { runs, chips, sub_tasks, check, startup, .. } = &self.outcome;
        NodeReportJson {
            workload: self.workload.name,
            machine: &self.spec.name,
            parameters: Parameters(&self.settings),
            isolation: match self.isolation {
                Isolation::Process => "process",
                Isolation::Thread => "thread",
            },
            wall_ns: nanoseconds(self.wall),
            start_ns: (!startup.children.is_empty()).then(|| nanoseconds(startup.total)),
            correct: check.is_correct(),
            compared: check.compared,
            max_abs_error: check.max_abs_error.is_finite().then_some(check.max_abs_error),
            first_difference: check.first.as_ref().map(DifferenceView::new),
            runs: runs.iter().map(RunView::new).collect(),
            chips: chips.iter().map(ChipView::new).collect(),
            sub_workers: self.sub_workers,
            sub_tasks: *sub_tasks,
        }
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn wall(span: Duration) -> String {
    show::time(nanoseconds(span).saturating_mul(1_000))
}

/// An error with a few digits.
fn error(error: f64) -> String {
    if error == 0.0 || error >= 1e-3 {
        let text = format!("{error:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{error:.2e}")
}

#[derive(Serialize)]
struct NodeReportJson<'a> {
    workload: &'static str,
    machine: &'a str,
    parameters: Parameters<'a>,
    isolation: &'static str,
    wall_ns: u64,
    /// Null with threads.
    start_ns: Option<u64>,
    correct: bool,
    compared: u64,
    /// Null where it is not a finite number.
    max_abs_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_difference: Option<DifferenceView<'a>>,
    runs: Vec<RunView>,
    chips: Vec<ChipView>,
    sub_workers: u32,
    sub_tasks: u64,
}

#[derive(Serialize)]
struct DifferenceView<'a> {
    what: &'a str,
    index: u64,
    got: f64,
    expected: f64,
}

impl<'a> DifferenceView<'a> {
    fn new(difference: &'a Difference) -> Self {
        let Difference { what, index, got, expected } = difference;
        Self { what, index: *index, got: *got, expected: *expected }
    }
}

#[derive(Serialize)]
struct RunView {
    tasks: u64,
    simulated_ps: u64,
    wall_ns: u64,
}

impl RunView {
    fn new(run: &Run) -> Self {
        let Run { tasks, wall, simulated_ps } = *run;
        Self { tasks, simulated_ps, wall_ns: nanoseconds(wall) }
    }
}

#[derive(Serialize)]
struct ChipView {
    rank: u32,
    device: u32,
    tasks: u64,
    simulated_ps: u64,
}

impl ChipView {
    fn new(chip: &Chip) -> Self {
        let Chip { rank, device_id, tasks, simulated_ps } = *chip;
        Self { rank, device: device_id, tasks, simulated_ps }
    }
}
