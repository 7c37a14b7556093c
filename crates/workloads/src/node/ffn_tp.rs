//! `ffn-tp`: a matrix product that is spread over chips by its inner dimension. Each chip multiplies its shards into its
//! part of a shared buffer; then each sums all parts. The second stage waits for the first because it reads that buffer.

use super::harness::Harness;
use super::{Chips, NodeError, REPEATS, SPOIL, Workload};
use crate::{Default, Parameter, ParameterError, ParameterKind, SEED, Settings, number};
use phalanx_device::SimChip;
use phalanx_runtime::{Call, Callable, DType, Failure, Target, Task, Tensor, register};
use phalanx_sim::kernel::{Gemm, KernelError, Operand, Tl, View};
use phalanx_torch::{Args, Grid};

const SIDE: ParameterKind = ParameterKind::Count { least: 1, most: 1 << 11 };

pub(super) const WORKLOAD: Workload = Workload {
    name: "ffn-tp",
    summary: "a product of shards on each chip, then their sum, behind it through a shared buffer",
    parameters: &[
        Parameter { name: "m", help: "rows of x and y", kind: SIDE, default: Default::Text("64") },
        Parameter {
            name: "n",
            help: "columns of w and y",
            kind: SIDE,
            default: Default::Text("64"),
        },
        Parameter {
            name: "k",
            help: "columns of x and rows of w on each chip",
            kind: SIDE,
            default: Default::Text("64"),
        },
        REPEATS,
        SEED,
        SPOIL,
    ],
    chips: Chips::From(2, 2),
    bytes,
    run,
};

/// The tolerance of a result: f32 sums against f64 sums.
const TOLERANCE: f64 = 1e-4;

#[expect(clippy::unnecessary_wraps, reason = "others refuse")]
fn bytes(settings: &Settings, chips: u32) -> Result<u64, ParameterError> {
    let [m, n, k] = ["m", "n", "k"].map(|name| settings.count(name));
    Ok((4 * (m * k + k * n + 2 * m * n) + 4096) * u64::from(chips))
}

/// `part = x · w`, tile by tile on all PEs.
pub(super) const PRODUCT: Callable = register!(product);

fn product(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "product", Grid::All, |tl, args| async move {
        let [rows, columns] = [args.tensor(2).shape()[0], args.tensor(2).shape()[1]];
        let depth = args.tensor(0).shape()[1];
        let gemm = Gemm {
            a: Operand::row_major(args.region(0)?, depth),
            b: Operand::row_major(args.region(1)?, columns),
            c: Operand::row_major(args.region(2)?, columns),
            dims: [rows, columns, depth],
            tile: tl.machine().gemm.tile.map(|side| side as usize),
            buffers: 2,
            share: (0, 1),
        };
        gemm.share(tl.program_id(), tl.num_programs()).run(&tl).await
    })
}

/// `y = part 0 + part 1 + ...`, where the parts lie one after the other.
pub(super) const SUM: Callable = register!(sum);

fn sum(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "sum", Grid::All, sum_parts)
}

/// Elements of a tile.
const BLOCK: usize = 16 * 1024;

/// Sums the parts of argument 0, each as long as argument 1, into argument 1.
pub(super) async fn sum_parts(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (parts, y) = (args.region(0)?, args.region(1)?);
    let (start, len) = tl.share(y.elements);
    for at in (0..len).step_by(BLOCK) {
        let count = BLOCK.min(len - at);
        let part = |number| View::dense(&parts, number * y.elements + start + at, count);
        let mut total = tl.load(&part(0)).await?;
        for number in 1..parts.elements / y.elements {
            let next = tl.load(&part(number)).await?;
            total = tl.add(&total, &next).await?;
        }
        tl.store(&View::dense(&y, start + at, count), &total).await?;
    }
    Ok(())
}

/// A number between -1 and 1 whose sums are not exact in f32.
fn fraction(seed: u64, stream: u64, index: usize) -> f32 {
    number(seed, stream, index as u64, 9999) / 9999.0
}

/// The input elements of one chip.
struct Shard {
    x: Vec<f32>,
    w: Vec<f32>,
}

/// The tensors of one chip.
struct ChipTensors {
    x: Tensor,
    w: Tensor,
    y: Tensor,
}

/// `x · w` summed over all shards, in f64.
fn reference(shards: &[Shard], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let mut y = vec![0.0; m * n];
    for Shard { x, w } in shards {
        for (row, sums) in y.chunks_mut(n).enumerate() {
            for (x, line) in x[row * k..(row + 1) * k].iter().zip(w.chunks(n)) {
                for (sum, w) in sums.iter_mut().zip(line) {
                    *sum += f64::from(*x) * f64::from(*w);
                }
            }
        }
    }
    y
}

fn run(harness: &mut Harness<'_>) -> Result<(), NodeError> {
    let dims @ [m, n, k] = ["m", "n", "k"].map(|name| harness.settings.size(name));
    let seed = harness.settings.count("seed");
    let shard = |chip: u64| {
        let of = |side, count| (0..count).map(|at| fraction(seed, chip * 2 + side, at)).collect();
        Shard { x: of(0, m * k), w: of(1, k * n) }
    };
    let shards: Vec<Shard> = (0..u64::from(harness.chips)).map(shard).collect();
    let parts = harness.empty(DType::F32, &[shards.len() * m, n])?;
    let mut chips = Vec::new();
    for Shard { x, w } in &shards {
        let (x, w) =
            (harness.tensor(DType::F32, &[m, k], x)?, harness.tensor(DType::F32, &[k, n], w)?);
        chips.push(ChipTensors { x, w, y: harness.empty(DType::F32, &[m, n])? });
    }
    harness.repeat("ffn-tp", |graph| {
        let rows = m as u64;
        for (chip, ChipTensors { x, w, .. }) in (0..).zip(&chips) {
            let first = u64::from(chip) * rows;
            let part = parts.rows(first, first + rows)?;
            let call = Call::new(&PRODUCT).args([x.input(), w.input(), part.output()]);
            graph.submit_next_level(Target::Chip(chip), &call)?;
        }
        for (chip, ChipTensors { y, .. }) in (0..).zip(&chips) {
            let call = Call::new(&SUM).args([parts.input(), y.output()]);
            graph.submit_next_level(Target::Chip(chip), &call)?;
        }
        Ok(())
    })?;
    let expected = reference(&shards, dims);
    for (chip, ChipTensors { y, .. }) in chips.iter().enumerate() {
        harness.compare(&format!("y of chip {chip}"), y, expected.iter().copied(), TOLERANCE)?;
    }
    Ok(())
}
