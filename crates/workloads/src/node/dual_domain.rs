//! `dual-domain`: two domains that share a chip: an all-reduce in each, then on each chip of each domain a step
//! `scale · x + bias`, which depends on the all-reduce because it reads its result. Domains do not affect each other.

use super::allreduce_window::{ELEMENTS, Member, OVERHEAD, domain_of, expected, members, submit};
use super::harness::Harness;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{ParameterError, SEED, Settings};
use phalanx_device::SimChip;
use phalanx_runtime::{Call, Callable, DType, Failure, Target, Task, Tensor, register};
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_torch::{Args, Grid};

pub(super) const WORKLOAD: Workload = Workload {
    name: "dual-domain",
    summary: "domains of chips 0, 1 and 1, 2: an all-reduce in each, then scale * x + bias",
    parameters: &[ELEMENTS, REPEATS, SEED, SPOIL],
    chips: Chips::Exactly(3),
    bytes,
    run,
};

#[expect(clippy::unnecessary_wraps, reason = "others refuse")]
fn bytes(settings: &Settings, _: u32) -> Result<u64, ParameterError> {
    Ok(4 * (settings.count("elements") * 5 + OVERHEAD * 4))
}

/// The two domains.
const DOMAINS: [(&str, [u32; 2]); 2] = [("first", [0, 1]), ("second", [1, 2])];

/// `y = scale · x + bias`; scale and bias are its scalars.
pub(super) const AFFINE: Callable = register!(affine);

fn affine(task: &mut Task<'_>) -> Result<(), Failure> {
    let (scale, bias) = (task.real(0)?, task.real(1)?);
    SimChip::launch(task, "affine", Grid::All, move |tl, args| step(tl, args, scale, bias))
}

/// Elements of a tile.
const BLOCK: usize = 16 * 1024;

async fn step(tl: Tl, args: Args, scale: f64, bias: f64) -> Result<(), KernelError> {
    let (x, y) = (args.region(0)?, args.region(1)?);
    let (scale, bias) = (tl.full(x.dtype, 1, scale)?, tl.full(x.dtype, 1, bias)?);
    let (start, len) = tl.share(y.elements);
    for at in (0..len).step_by(BLOCK) {
        let count = BLOCK.min(len - at);
        let tile = tl.load(&View::dense(&x, start + at, count)).await?;
        let scaled = tl.mul(&tile, &scale).await?;
        let moved = tl.add(&scaled, &bias).await?;
        tl.store(&View::dense(&y, start + at, count), &moved).await?;
    }
    Ok(())
}

/// Scale and bias of a chip in a domain: exact in f32, and no two alike.
fn factors(domain: usize, chip: u32) -> (f64, f64) {
    let domain = f64::from(u32::try_from(domain).unwrap_or(0));
    (0.5 + domain + 0.25 * f64::from(chip), 100.0 * (domain + 1.0) + f64::from(chip))
}

/// The members of a domain and their results.
struct Part {
    members: Vec<Member>,
    results: Vec<Tensor>,
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let elements = harness.settings.size("elements");
    let mut parts: Vec<Part> = Vec::new();
    for (number, (_, chips)) in (0..).zip(&DOMAINS) {
        let results = chips.iter().map(|_| harness.empty(DType::F32, &[elements]));
        let results = results.collect::<Result<Vec<Tensor>, NodeError>>()?;
        parts.push(Part { members: members(harness, chips, elements, 100 * number)?, results });
    }
    harness.repeat("dual-domain", |graph| {
        for ((name, chips), part) in DOMAINS.iter().zip(&parts) {
            let domain = domain_of(graph, name, chips, elements)?;
            submit(graph, &domain, &part.members)?;
        }
        for (number, Part { members, results }) in parts.iter().enumerate() {
            for (member, y) in members.iter().zip(results) {
                let (scale, bias) = factors(number, member.chip);
                let args = [member.sum.input(), y.output()];
                let call = Call::new(&AFFINE).real(scale).real(bias).args(args);
                graph.submit_next_level(Target::Chip(member.chip), &call)?;
            }
        }
        Ok(())
    })?;
    for (number, ((name, _), part)) in DOMAINS.iter().zip(&parts).enumerate() {
        let Part { members, results } = part;
        let sums = expected(members);
        for (member, y) in members.iter().zip(results) {
            let what = format!("the sum of chip {} in `{name}`", member.chip);
            harness.compare(&what, &member.sum, sums.iter().copied(), 0.0)?;
            let (scale, bias) = factors(number, member.chip);
            let what = format!("scale * sum + bias of chip {} in `{name}`", member.chip);
            harness.compare(&what, y, sums.iter().map(|sum| scale * sum + bias), 0.0)?;
        }
    }
    Ok(())
}
