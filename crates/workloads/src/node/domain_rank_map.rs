//! `domain-rank-map`: two domains that share a chip. Ranks are counted in each by itself, the shared chip has a window in
//! each, whoever is no member is refused; then a small all-reduce in each.

use super::allreduce_window::{ELEMENTS, LINES, Member, domain_of, expected, members, submit};
use super::bench::Bench;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{ParameterError, SEED, Settings};
use phalanx_runtime::{
    Call, Callable, DType, Domain, Failure, Orchestrator, Target, Task, Tensor, register,
};

pub(super) const WORKLOAD: Workload = Workload {
    name: "domain-rank-map",
    summary: "domains of chips 0, 2 and 1, 2: ranks, windows, refusals, an all-reduce in each",
    parameters: &[ELEMENTS, REPEATS, SEED, SPOIL],
    chips: Chips::Exactly(3),
    bytes,
    run,
};

#[expect(clippy::unnecessary_wraps, reason = "others refuse")]
fn bytes(settings: &Settings, _: u32) -> Result<u64, ParameterError> {
    Ok(4 * (settings.count("elements") * 4 + LINES * 4))
}

/// The two domains.
const DOMAINS: [(&str, [u32; 2]); 2] = [("left", [0, 2]), ("right", [1, 2])];

/// Leaves a mark in its own window, and says rank and number of ranks in its argument.
pub(super) const MARK: Callable = register!(mark);

fn mark(task: &mut Task<'_>) -> Result<(), Failure> {
    let (view, number) = (task.domain(0)?, task.scalar(0)?);
    view.buffer("mark")?.write(0, &[small(usize::try_from(number)?)])?;
    let found = [small(view.rank()), small(view.ranks())];
    Ok(task.argument(0)?.write_elements(&found)?)
}

/// Says in its argument which mark is in its own window.
pub(super) const FIND: Callable = register!(find);

fn find(task: &mut Task<'_>) -> Result<(), Failure> {
    let found = task.domain(0)?.buffer("mark")?.read::<f32>()?;
    Ok(task.argument(0)?.write_elements(&found)?)
}

fn small(number: usize) -> f32 {
    f32::from(u16::try_from(number).unwrap_or(u16::MAX))
}

/// The mark of a chip in a domain.
fn mark_of(domain: usize, chip: u32) -> usize {
    10 * (domain + 1) + chip as usize
}

/// What a chip says of a domain.
struct Said {
    ranks: Tensor,
    mark: Tensor,
}

fn run(bench: &mut Bench<'_>) -> Result<(), NodeError> {
    let elements = bench.settings.size("elements");
    let mut parts: Vec<(Vec<Member>, Vec<Said>)> = Vec::new();
    for (number, (_, chips)) in (0..).zip(&DOMAINS) {
        let said = chips.iter().map(|_| {
            let (ranks, mark) = (bench.empty(DType::F32, &[2])?, bench.empty(DType::F32, &[1])?);
            Ok(Said { ranks, mark })
        });
        let said = said.collect::<Result<Vec<Said>, NodeError>>()?;
        parts.push((members(bench, chips, elements, 100 * number)?, said));
    }
    bench.repeat("domain-rank-map", |graph| {
        let mut domains = Vec::new();
        for (name, chips) in &DOMAINS {
            domains.push(domain_of(graph, name, chips, elements)?);
        }
        refuse_strangers(graph, &domains)?;
        look(graph, &domains, &parts)?;
        for (domain, (members, _)) in domains.iter().zip(&parts) {
            submit(graph, domain, members)?;
        }
        Ok(())
    })?;
    for (number, ((name, chips), (members, said))) in DOMAINS.iter().zip(&parts).enumerate() {
        for (rank, (chip, said)) in chips.iter().zip(said).enumerate() {
            let what = format!("rank and ranks of chip {chip} in `{name}`");
            bench.compare(&what, &said.ranks, [f64::from(small(rank)), 2.0], 0.0)?;
            let what = format!("the mark of chip {chip} in its window of `{name}`");
            let mark = f64::from(small(mark_of(number, *chip)));
            bench.compare(&what, &said.mark, [mark], 0.0)?;
        }
        for member in members {
            let what = format!("the sum of chip {} in `{name}`", member.chip);
            bench.compare(&what, &member.sum, expected(members), 0.0)?;
        }
    }
    Ok(())
}

/// Each chip of each domain leaves a mark; when all have, each looks what is there.
fn look(
    graph: &mut Orchestrator<'_>,
    domains: &[Domain],
    parts: &[(Vec<Member>, Vec<Said>)],
) -> Result<(), Failure> {
    let mut marked = Vec::new();
    for (number, (domain, (members, said))) in domains.iter().zip(parts).enumerate() {
        for (member, said) in members.iter().zip(said) {
            let mark = mark_of(number, member.chip) as u64;
            let call = Call::new(&MARK).scalar(mark).domain(domain).args([said.ranks.output()]);
            marked.push(graph.submit_next_level(Target::Chip(member.chip), &call)?);
        }
    }
    for (domain, (members, said)) in domains.iter().zip(parts) {
        for (member, said) in members.iter().zip(said) {
            // Nothing can be inferred from windows: peers may reach them at any time.
            let call = Call::new(&FIND).domain(domain).after(&marked).args([said.mark.output()]);
            graph.submit_next_level(Target::Chip(member.chip), &call)?;
        }
    }
    Ok(())
}

/// A chip that is no member has no rank, and a task on it is refused.
fn refuse_strangers(graph: &mut Orchestrator<'_>, domains: &[Domain]) -> Result<(), Failure> {
    for (domain, stranger) in domains.iter().zip([1, 0]) {
        let call = Call::new(&FIND).domain(domain);
        let is_known = domain.rank_of(stranger).is_ok()
            || graph.submit_next_level(Target::Chip(stranger), &call).is_ok();
        if is_known {
            let words = format!("chip {stranger} is taken for a member of {domain:?}");
            return Err(Failure::new(words));
        }
    }
    Ok(())
}
