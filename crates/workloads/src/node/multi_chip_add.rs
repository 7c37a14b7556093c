//! `multi-chip-add`: each chip adds its vectors, then a sub worker checks all sums. Its dependency on the chips is inferred: it
//! reads their outputs.

use super::harness::Harness;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{
    Default, Parameter, ParameterError, ParameterKind, SEED, Settings, number, numbers, vector_add,
};
use phalanx_device::SimChip;
use phalanx_runtime::{Call, Callable, DType, Failure, Target, Task, Tensor, register};
use phalanx_torch::Grid;

pub(super) const WORKLOAD: Workload = Workload {
    name: "multi-chip-add",
    summary: "each chip adds vectors of its own; a sub worker that reads all sums checks them",
    parameters: &[
        Parameter {
            name: "elements",
            help: "how many numbers each vector has",
            kind: ParameterKind::Count { least: 1, most: 1 << 24 },
            default: Default::Text("65536"),
        },
        REPEATS,
        SEED,
        SPOIL,
    ],
    chips: Chips::All,
    bytes,
    run,
};

#[expect(clippy::unnecessary_wraps, reason = "others refuse")]
fn bytes(settings: &Settings, chips: u32) -> Result<u64, ParameterError> {
    Ok((settings.count("elements") * 12 + 4096) * u64::from(chips))
}

/// Small whole numbers: their sums are exact.
const SPAN: u16 = 1000;

/// `sum = a + b`, on all PEs.
pub(super) const ADD: Callable = register!(add);

fn add(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "add", Grid::All, |tl, args| async move {
        vector_add::add(tl, [args.region(0)?, args.region(1)?, args.region(2)?]).await
    })
}

/// Counts the wrong elements of all sums into its last argument, one number for each sum.
pub(super) const COUNT_WRONG: Callable = register!(count_wrong);

fn count_wrong(task: &mut Task<'_>) -> Result<(), Failure> {
    let (seed, sums) = (task.scalar(0)?, task.argument_count() - 1);
    let mut counts = Vec::new();
    for chip in 0..sums {
        let sum = task.argument(chip)?;
        let wrong = (0..).zip(sum.slice::<f32>()?).filter(|(index, got)| {
            let [a, b] = [0, 1].map(|side| number(seed, stream(chip, side), *index, SPAN));
            got.to_bits() != (a + b).to_bits()
        });
        counts.push(f32::from(u16::try_from(wrong.count()).unwrap_or(u16::MAX)));
    }
    task.argument(sums)?.write_elements(&counts)?;
    Ok(())
}

/// The stream of random numbers of an input.
fn stream(chip: usize, side: u64) -> u64 {
    chip as u64 * 2 + side
}

/// The vectors of one chip.
struct Vectors {
    a: Tensor,
    b: Tensor,
    sum: Tensor,
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let (elements, seed) = (harness.settings.size("elements"), harness.settings.count("seed"));
    let input = |chip, side| numbers(seed, stream(chip, side), 0, elements, SPAN);
    let mut chips = Vec::new();
    for chip in 0..harness.chips as usize {
        let vector = |side| harness.tensor(DType::F32, &[elements], &input(chip, side));
        let sum = harness.empty(DType::F32, &[elements])?;
        chips.push(Vectors { a: vector(0)?, b: vector(1)?, sum });
    }
    let counts = harness.empty(DType::F32, &[chips.len()])?;
    harness.repeat("multi-chip-add", |graph| {
        for (chip, Vectors { a, b, sum }) in (0..).zip(&chips) {
            let call = Call::new(&ADD).args([a.input(), b.input(), sum.output()]);
            graph.submit_next_level(Target::Chip(chip), &call)?;
        }
        let sums = chips.iter().map(|vectors| vectors.sum.input());
        let call = Call::new(&COUNT_WRONG).scalar(seed).args(sums).args([counts.output()]);
        graph.submit_sub(&call)?;
        Ok(())
    })?;
    for (chip, vectors) in chips.iter().enumerate() {
        let (a, b) = (input(chip, 0), input(chip, 1));
        let expected = a.iter().zip(&b).map(|(a, b)| f64::from(a + b));
        harness.compare(&format!("the sum of chip {chip}"), &vectors.sum, expected, 0.0)?;
    }
    let none = vec![0.0; chips.len()];
    harness.compare("what the sub worker found wrong, by chip", &counts, none, 0.0)
}
