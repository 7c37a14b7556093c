//! The report as JSON: every number whole and exact, times in picoseconds.

use super::Finished;
use phalanx_sim::Time;
use phalanx_sim::advice::Advice;
use phalanx_sim::report::{CriticalPath, EdgeUsage, PathPart, RangeUsage, Report, Stalls, Usage};
use phalanx_sim::stall::{Kind, Stack};
use phalanx_workloads::{Ranks, Settings};
use serde::ser::{Serialize, SerializeMap, Serializer};

#[derive(serde::Serialize)]
pub(super) struct ReportJson<'a> {
    workload: &'static str,
    machine: &'a str,
    parameters: Parameters<'a>,
    simulated_ps: u64,
    events: u64,
    wall_ns: u64,
    /// Null without data.
    correct: Option<bool>,
    /// Null without data, or where it is not a finite number.
    max_abs_error: Option<f64>,
    utilisation: Vec<UsageView>,
    stalls: Vec<StallsView>,
    critical_path: PathView,
    seed: u64,
    edges: Vec<EdgeView>,
    /// Null if it was not looked for.
    advice: Option<Vec<AdviceView<'a>>>,
    /// Absent if the program names none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<RangeView<'a>>,
    /// Programs of ranks only.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    ranks: Option<RanksView<'a>>,
}

#[derive(serde::Serialize)]
struct RanksView<'a> {
    ranks: usize,
    algorithm: &'a str,
    algbw_gbps: Option<f64>,
    busbw_gbps: Option<f64>,
    per_rank: Vec<RankView>,
}

#[derive(serde::Serialize)]
struct RankView {
    rank: usize,
    finished_ps: u64,
}

impl<'a> RanksView<'a> {
    fn new(ranks: &'a Ranks) -> Self {
        let of =
            |(rank, finished): (usize, &Time)| RankView { rank, finished_ps: finished.as_ps() };
        Self {
            ranks: ranks.finished.len(),
            algorithm: &ranks.algorithm,
            algbw_gbps: ranks.bandwidth.map(|(algbw, _)| algbw),
            busbw_gbps: ranks.bandwidth.map(|(_, busbw)| busbw),
            per_rank: ranks.finished.iter().enumerate().map(of).collect(),
        }
    }
}

impl<'a> ReportJson<'a> {
    pub(super) fn new(finished: &'a Finished<'a>) -> Self {
        let Finished { workload, spec, settings, outcome, wall } = finished;
        let report = &outcome.report;
        let Report { simulated, events, utilisation, stalls, edges, critical_path, advice, .. } =
            report;
        let advice = advice.as_ref().map(|advice| advice.iter().map(AdviceView::new).collect());
        Self {
            workload: workload.name,
            machine: &spec.name,
            parameters: Parameters(settings),
            simulated_ps: simulated.as_ps(),
            events: *events,
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            correct: outcome.check.map(|check| check.correct),
            max_abs_error: outcome.check.map(|check| check.max_abs_error),
            utilisation: utilisation.iter().map(|usage| UsageView::new(report, usage)).collect(),
            stalls: stalls.iter().map(|stalls| StallsView::new(report, stalls)).collect(),
            critical_path: PathView::new(report, critical_path),
            seed: seed(settings),
            edges: edges.iter().map(|edge| EdgeView::new(report, edge)).collect(),
            advice,
            ranges: report.ranges.iter().map(RangeView::new).collect(),
            ranks: outcome.ranks.as_ref().map(RanksView::new),
        }
    }
}

/// Returns the seed of the numbers; 0 for a workload that needs none.
fn seed(settings: &Settings) -> u64 {
    let known = settings.iter().any(|(name, _)| name == "seed");
    if known { settings.count("seed") } else { 0 }
}

/// In the order of the workload: numbers where they are numbers, texts otherwise.
pub(crate) struct Parameters<'a>(pub(crate) &'a Settings);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, text) in self.0.iter() {
            match self.0.number(name) {
                Some(number) => map.serialize_entry(name, &number)?,
                None => map.serialize_entry(name, &text)?,
            }
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct UsageView {
    resource: String,
    busy_ps: u64,
    utilisation: f64,
    bytes: u64,
    operations: u64,
}

impl UsageView {
    fn new(report: &Report, usage: &Usage) -> Self {
        let busy_ps = usage.busy.as_ps();
        Self {
            resource: report.name(usage.resource),
            busy_ps,
            utilisation: fraction(busy_ps, report.simulated.as_ps()),
            bytes: usage.bytes,
            operations: usage.operations,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a fraction is read, not added up")]
fn fraction(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A stack under its stable names.
#[derive(serde::Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the stable name")]
struct StackView {
    compute_ps: u64,
    dma_ps: u64,
    hbm_ps: u64,
    mesh_ps: u64,
    latency_ps: u64,
    link_ps: u64,
    credit_ps: u64,
    dependency_ps: u64,
}

impl StackView {
    fn new(stack: &Stack) -> Self {
        let of = |kind| stack.get(kind).as_ps();
        Self {
            compute_ps: of(Kind::Compute),
            dma_ps: of(Kind::Dma),
            hbm_ps: of(Kind::Hbm),
            mesh_ps: of(Kind::Mesh),
            latency_ps: of(Kind::Latency),
            link_ps: of(Kind::Link),
            credit_ps: of(Kind::Credit),
            dependency_ps: of(Kind::Dependency),
        }
    }
}

#[derive(serde::Serialize)]
struct StallsView {
    resource: String,
    #[serde(flatten)]
    stack: StackView,
    idle_ps: u64,
}

impl StallsView {
    fn new(report: &Report, stalls: &Stalls) -> Self {
        let stack = StackView::new(&stalls.stack);
        let idle_ps = stalls.stack.idle(report.simulated).as_ps();
        Self { resource: report.name(stalls.resource), stack, idle_ps }
    }
}

#[derive(serde::Serialize)]
struct PathView {
    end: Option<String>,
    total_ps: u64,
    #[serde(flatten)]
    stack: StackView,
    complete: bool,
    parts: Vec<PartView>,
}

#[derive(serde::Serialize)]
struct PartView {
    resource: String,
    kind: &'static str,
    count: u64,
    time_ps: u64,
}

impl PathView {
    fn new(report: &Report, path: &CriticalPath) -> Self {
        let part = |part: &PathPart| PartView {
            resource: report.name(part.resource),
            kind: part.kind.name(),
            count: part.count,
            time_ps: part.time.as_ps(),
        };
        Self {
            end: path.end.map(|pe| report.names.text(&pe.to_string()).into_owned()),
            total_ps: path.spent.total().as_ps(),
            stack: StackView::new(&path.spent),
            complete: path.complete,
            parts: path.parts.iter().map(part).collect(),
        }
    }
}

#[derive(serde::Serialize)]
struct RangeView<'a> {
    range: &'a str,
    count: u64,
    total_ps: u64,
    from_ps: u64,
    to_ps: u64,
}

impl<'a> RangeView<'a> {
    fn new(range: &'a RangeUsage) -> Self {
        let [total_ps, from_ps, to_ps] = [range.total, range.from, range.to].map(Time::as_ps);
        Self { range: &range.name, count: range.count, total_ps, from_ps, to_ps }
    }
}

#[derive(serde::Serialize)]
struct EdgeView {
    edge: String,
    n_slots: u32,
    slot_size: u64,
    messages: u64,
    bytes: u64,
    credit_wait_ps: u64,
    most_slots: u32,
    polls: u64,
}

impl EdgeView {
    fn new(report: &Report, edge: &EdgeUsage) -> Self {
        Self {
            edge: report.names.text(&edge.edge.to_string()).into_owned(),
            n_slots: edge.spec.n_slots,
            slot_size: edge.spec.slot_size,
            messages: edge.messages,
            bytes: edge.bytes,
            credit_wait_ps: edge.credit_wait.as_ps(),
            most_slots: edge.most_slots,
            polls: edge.polls,
        }
    }
}

#[derive(serde::Serialize)]
struct AdviceView<'a> {
    target: &'static str,
    name: &'a str,
    from: &'a str,
    to: &'a str,
    kind: &'static str,
    before_ps: u64,
    after_ps: u64,
}

impl<'a> AdviceView<'a> {
    fn new(advice: &'a Advice) -> Self {
        let Advice { change, kind, before, after } = advice;
        Self {
            target: change.target.name(),
            name: &change.name,
            from: &change.from,
            to: &change.to,
            kind: kind.name(),
            before_ps: before.as_ps(),
            after_ps: after.as_ps(),
        }
    }
}
