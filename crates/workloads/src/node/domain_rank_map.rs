//! `domain-rank-map`: two domains that share a chip. Each domain has its own ranks, the shared chip has a window in each, and
//! non-members are refused; then a small all-reduce runs in each.

use super::allreduce_window::{ELEMENTS, Member, OVERHEAD, domain_of, expected, members, submit};
use super::harness::Harness;
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
    Ok(4 * (settings.count("elements") * 4 + OVERHEAD * 4))
}

/// The two domains.
const DOMAINS: [(&str, [u32; 2]); 2] = [("left", [0, 2]), ("right", [1, 2])];

/// Writes a mark into its own window, and rank and number of ranks into its argument.
pub(super) const MARK: Callable = register!(mark);

fn mark(task: &mut Task<'_>) -> Result<(), Failure> {
    let (view, number) = (task.domain(0)?, task.scalar(0)?);
    view.buffer("mark")?.write(0, &[small(usize::try_from(number)?)])?;
    let found = [small(view.rank()), small(view.ranks())];
    Ok(task.argument(0)?.write_elements(&found)?)
}

/// Writes the mark in its own window into its argument.
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

/// The answers of one chip about one domain.
struct Answers {
    ranks: Tensor,
    mark: Tensor,
}

/// The members of a domain and their answers.
struct Part {
    members: Vec<Member>,
    answers: Vec<Answers>,
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let elements = harness.settings.size("elements");
    let mut parts: Vec<Part> = Vec::new();
    for (number, (_, chips)) in (0..).zip(&DOMAINS) {
        let answers = chips.iter().map(|_| {
            let (ranks, mark) =
                (harness.empty(DType::F32, &[2])?, harness.empty(DType::F32, &[1])?);
            Ok(Answers { ranks, mark })
        });
        let answers = answers.collect::<Result<Vec<Answers>, NodeError>>()?;
        parts.push(Part { members: members(harness, chips, elements, 100 * number)?, answers });
    }
    harness.repeat("domain-rank-map", |graph| {
        let mut domains = Vec::new();
        for (name, chips) in &DOMAINS {
            domains.push(domain_of(graph, name, chips, elements)?);
        }
        refuse_non_members(graph, &domains)?;
        ask_chips(graph, &domains, &parts)?;
        for (domain, part) in domains.iter().zip(&parts) {
            submit(graph, domain, &part.members)?;
        }
        Ok(())
    })?;
    for (number, ((name, chips), part)) in DOMAINS.iter().zip(&parts).enumerate() {
        let Part { members, answers } = part;
        for (rank, (chip, answers)) in chips.iter().zip(answers).enumerate() {
            let what = format!("rank and ranks of chip {chip} in `{name}`");
            harness.compare(&what, &answers.ranks, [f64::from(small(rank)), 2.0], 0.0)?;
            let what = format!("the mark of chip {chip} in its window of `{name}`");
            let mark = f64::from(small(mark_of(number, *chip)));
            harness.compare(&what, &answers.mark, [mark], 0.0)?;
        }
        for member in members {
            let what = format!("the sum of chip {} in `{name}`", member.chip);
            harness.compare(&what, &member.sum, expected(members), 0.0)?;
        }
    }
    Ok(())
}

/// Each chip writes a mark into its window of each domain; after all marks are written, each chip reads its windows.
fn ask_chips(
    graph: &mut Orchestrator<'_>,
    domains: &[Domain],
    parts: &[Part],
) -> Result<(), Failure> {
    let mut marked = Vec::new();
    for (number, (domain, part)) in domains.iter().zip(parts).enumerate() {
        for (member, answers) in part.members.iter().zip(&part.answers) {
            let mark = mark_of(number, member.chip) as u64;
            let call = Call::new(&MARK).scalar(mark).domain(domain).args([answers.ranks.output()]);
            marked.push(graph.submit_next_level(Target::Chip(member.chip), &call)?);
        }
    }
    for (domain, part) in domains.iter().zip(parts) {
        for (member, answers) in part.members.iter().zip(&part.answers) {
            // The engine infers no edge from windows: peers access them at any time.
            let call = Call::new(&FIND).domain(domain).after(&marked).args([answers.mark.output()]);
            graph.submit_next_level(Target::Chip(member.chip), &call)?;
        }
    }
    Ok(())
}

/// Checks that a chip outside a domain has no rank in it, and that a task on it is refused.
fn refuse_non_members(graph: &mut Orchestrator<'_>, domains: &[Domain]) -> Result<(), Failure> {
    for (domain, outsider) in domains.iter().zip([1, 0]) {
        let call = Call::new(&FIND).domain(domain);
        let is_known = domain.rank_of(outsider).is_ok()
            || graph.submit_next_level(Target::Chip(outsider), &call).is_ok();
        if is_known {
            let words = format!("chip {outsider} is taken for a member of {domain:?}");
            return Err(Failure::new(words));
        }
    }
    Ok(())
}
