//! `allreduce-window`: every chip writes its vector into the window of each chip, notifies it, and sums the vectors in its own
//! window, on the chip. All ranks start together, as a group.

use super::harness::Harness;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{Default, Parameter, ParameterError, ParameterKind, SEED, Settings, numbers};
use phalanx_device::{Operand, SimChip};
use phalanx_runtime::{
    Call, Callable, DType, Domain, DomainSpec, Failure, Orchestrator, Task, Tensor, register,
};
use phalanx_torch::Grid;
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "allreduce-window",
    summary: "an all-reduce over windows of a domain: put, notify, wait, and a sum on each chip",
    parameters: &[ELEMENTS, REPEATS, SEED, SPOIL],
    chips: Chips::All,
    bytes,
    run,
};

/// The length of the vectors of an all-reduce.
pub(super) const ELEMENTS: Parameter = Parameter {
    name: "elements",
    help: "how many numbers each vector has",
    kind: ParameterKind::Count { least: 1, most: 1 << 22 },
    default: Default::Text("256"),
};

#[expect(clippy::unnecessary_wraps, reason = "others refuse")]
fn bytes(settings: &Settings, chips: u32) -> Result<u64, ParameterError> {
    let (elements, chips) = (settings.count("elements"), u64::from(chips));
    Ok((4 * elements * (2 + chips) + OVERHEAD * (2 + chips)) * chips)
}

/// Bytes of a rank for signal cells and gaps between buffers.
pub(super) const OVERHEAD: u64 = 8 << 10;
/// Small whole numbers: their sums are exact.
pub(super) const SPAN: u16 = 1000;
/// Longest wait for a peer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Sums argument 0 of all ranks of domain 0 into argument 1 of each.
pub(super) const ALL_REDUCE: Callable = register!(all_reduce).collective();

fn all_reduce(task: &mut Task<'_>) -> Result<(), Failure> {
    let view = task.domain(0)?;
    let [x, mut sum] = task.arguments()?;
    let own = x.slice::<f32>()?;
    for peer in 0..view.ranks() {
        view.put(peer, "inbox", view.rank() * own.len(), own)?;
        view.notify(peer, 0, 1)?;
    }
    for peer in 0..view.ranks() {
        view.wait(peer, 0, 1, TIMEOUT)?;
    }
    let inbox = view.buffer("inbox")?.read::<f32>()?;
    let operands =
        vec![Operand::input(&inbox, &[view.ranks(), own.len()])?, Operand::argument(1, &mut sum)?];
    SimChip::launch_on(task, operands, "sum", Grid::All, super::ffn_tp::sum_parts)
}

/// A domain in which these chips can reduce vectors of `elements` elements.
pub(super) fn domain_of(
    graph: &mut Orchestrator<'_>,
    name: &str,
    chips: &[u32],
    elements: usize,
) -> Result<Domain, Failure> {
    let shape = [chips.len() as u64, elements as u64];
    let buffers: &[(&str, DType, &[u64])] =
        &[("inbox", DType::F32, &shape), ("mark", DType::F32, &[1])];
    let window = 4 * shape.iter().product::<u64>() + 4;
    let spec = DomainSpec { name, chips, window, buffers, signals: 1 };
    Ok(graph.allocate_domain(&spec)?)
}

/// A rank of an all-reduce with its input and result.
pub(super) struct Member {
    pub(super) chip: u32,
    pub(super) x: Vec<f32>,
    given: Tensor,
    pub(super) sum: Tensor,
}

/// The members of an all-reduce on these chips; `stream` tells the numbers of one from those of another.
pub(super) fn members(
    harness: &Harness<'_>,
    chips: &[u32],
    elements: usize,
    stream: u64,
) -> Result<Vec<Member>, NodeError> {
    let mut members = Vec::new();
    for chip in chips {
        let stream = stream + u64::from(*chip);
        let x = numbers(harness.settings.count("seed"), stream, 0, elements, SPAN);
        let given = harness.tensor(DType::F32, &[elements], &x)?;
        let sum = harness.empty(DType::F32, &[elements])?;
        members.push(Member { chip: *chip, x, given, sum });
    }
    Ok(members)
}

/// Submits an all-reduce of all members.
pub(super) fn submit(
    graph: &mut Orchestrator<'_>,
    domain: &Domain,
    members: &[Member],
) -> Result<(), Failure> {
    let call = |member: &Member| {
        let args = [member.given.input(), member.sum.output()];
        (member.chip, Call::new(&ALL_REDUCE).domain(domain).args(args))
    };
    graph.submit_next_level_group(&members.iter().map(call).collect::<Vec<_>>())?;
    Ok(())
}

/// The expected result of every member.
pub(super) fn expected(members: &[Member]) -> Vec<f64> {
    let elements = members.first().map_or(0, |member| member.x.len());
    let of = |index: usize| members.iter().map(|member| f64::from(member.x[index])).sum();
    (0..elements).map(of).collect()
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let elements = harness.settings.size("elements");
    let chips: Vec<u32> = (0..harness.chips).collect();
    let members = members(harness, &chips, elements, 0)?;
    harness.repeat("allreduce-window", |graph| {
        let domain = domain_of(graph, "world", &chips, elements)?;
        submit(graph, &domain, &members)
    })?;
    let expected = expected(&members);
    for Member { chip, sum, .. } in &members {
        harness.compare(&format!("the sum of chip {chip}"), sum, expected.iter().copied(), 0.0)?;
    }
    Ok(())
}
