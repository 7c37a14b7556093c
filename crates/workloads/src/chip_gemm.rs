//! `chip-gemm`: `c = a · b` on the PEs of one chip as a graph of tasks: a partial product for each tile and step of `k`, and a
//! sum for each tile, which depends on its partial products because it reads their outputs.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, number};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_device::{Dispatch, GraphOptions, KernelTask, OpenGraph};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::Machine;
use phalanx_sim::value::{DType, Value};
use phalanx_torch::Context;
use phalanx_torch::DpPolicy;
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::Tensor;
use phalanx_torch::limits::ParameterError;
use phalanx_torch::{Args, Grid};

const SIDE: ParameterKind = ParameterKind::Count { least: 1, most: 1 << 13 };
/// Most tasks of a graph of this workload.
const MOST_TASKS: u64 = 1 << 18;

pub(super) const WORKLOAD: Workload = Workload {
    name: "chip-gemm",
    summary: "a matrix product on one chip as a task graph: tiles, inferred edges, a sum for each tile",
    parameters: &[
        Parameter { name: "m", help: "rows of a and c", kind: SIDE, default: Default::Text("512") },
        Parameter {
            name: "n",
            help: "columns of b and c",
            kind: SIDE,
            default: Default::Text("512"),
        },
        Parameter {
            name: "k",
            help: "columns of a, rows of b",
            kind: SIDE,
            default: Default::Text("512"),
        },
        Parameter {
            name: "pes",
            help: "how many PEs of the chip are workers",
            kind: ParameterKind::Count { least: 1, most: 1 << 20 },
            default: Default::Machine(|machine| {
                (machine.cubes.count() * machine.pes.count()).to_string()
            }),
        },
        Parameter {
            name: "depth",
            help: "how many tasks a PE is sent at a time",
            kind: ParameterKind::Count { least: 1, most: 64 },
            default: Default::Text("1"),
        },
        Parameter {
            name: "slots",
            help: "how many tasks can be unfinished",
            kind: ParameterKind::Count { least: 1, most: 1 << 20 },
            default: Default::Text("1024"),
        },
        Parameter {
            name: "dispatch",
            help: "what starting a task costs on the chip; 0 ns: a launch command over the host link",
            kind: ParameterKind::Time,
            default: Default::Text("0 ns"),
        },
        SEED,
    ],
    knobs: &["pes", "depth", "slots"],
    one_sip: true,
    run,
};

/// The problem and the options of its graph.
#[derive(Clone)]
struct Problem {
    /// `m, n, k`.
    dims: [usize; 3],
    tile: [usize; 3],
    options: GraphOptions,
    seed: u64,
}

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine, options, .. } = setup;
    let problem = Problem::new(&machine, settings)?;
    let (data, evaluator) = (options.data, options.evaluator.clone());
    problem.check_capacity(&Machine::new(machine.clone(), options.clone()), data)?;
    let mut context = Context::new(machine, options);
    let on_chip = problem.clone();
    let c = context.run(move |cx| {
        let problem = on_chip.clone();
        async move { problem.compute(&cx).await }
    })?;
    let report = context.report();
    let value = context.machine().read(&c.shards()[0].region)?;
    let check = value.map(|value| {
        evaluator.force(&value.pending_parts());
        problem.check(&value)
    });
    Ok(Outcome::new(report, check))
}

impl Problem {
    fn new(machine: &MachineSpec, settings: &Settings) -> Result<Self, ParameterError> {
        let most = machine.cubes.count() * machine.pes.count();
        let pes = settings.size("pes");
        if pes > most as usize {
            let message = format!("parameter `pes`: a chip of `{}` has no {pes} PEs", machine.name);
            return Err(ParameterError::new(message, format!("allowed: 1 to {most}")));
        }
        let dispatch = match settings.time("dispatch") {
            phalanx_sim::Time::ZERO => Dispatch::Command,
            span => Dispatch::OnChip(span),
        };
        let options = GraphOptions {
            pes: Grid::Pes(pes),
            slots: u32::try_from(settings.count("slots")).unwrap_or(u32::MAX),
            depth: settings.size("depth"),
            dispatch,
            ..GraphOptions::default()
        };
        let problem = Self {
            dims: ["m", "n", "k"].map(|name| settings.size(name)),
            tile: machine.gemm.tile.map(|side| side as usize),
            options,
            seed: settings.count("seed"),
        };
        let tasks = problem.tiles().iter().map(|count| *count as u64).product::<u64>();
        if tasks > MOST_TASKS {
            let message = format!("parameter `m`: {tasks} tiles are more than {MOST_TASKS} tasks");
            return Err(ParameterError::new(message, "use smaller sides or a larger pe.gemm.tile"));
        }
        Ok(problem)
    }

    /// The number of tiles along `m, n, k`.
    fn tiles(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.dims[axis].div_ceil(self.tile[axis]))
    }

    fn check_capacity(&self, machine: &Machine, data: bool) -> Result<(), WorkloadError> {
        let [m, n, k] = self.dims;
        let parts = self.tiles()[2] * m * n;
        let sized = |elements| PlannedTensor { sip: 0, cube: 0, dtype: DType::F32, elements };
        let all = [m * k, k * n, m * n, parts];
        let numbers = || capacity::bytes(all.iter().sum::<usize>() + m * n, 4);
        capacity::check(machine, all.map(sized), data.then(numbers))
    }

    fn number(&self, stream: u64, index: usize) -> f32 {
        number(self.seed, stream, index as u64, 3)
    }

    /// Tile `[row, column]` of a matrix that is cut into tiles of `size`.
    fn tile(x: &Tensor, [row, column]: [usize; 2], size: [usize; 2]) -> Result<Tensor, Error> {
        let [high, wide] = size;
        let (down, right) = (row * high, column * wide);
        let rows = x.narrow(0, down, high.min(x.shape()[0] - down))?;
        rows.narrow(1, right, wide.min(x.shape()[1] - right))
    }

    async fn compute(self, cx: &Rank) -> Result<Tensor, Error> {
        let ([height, width, depth], [high, wide, deep]) = (self.dims, self.tile);
        let [rows, columns, steps] = self.tiles();
        let here = cx.placed(DpPolicy::default());
        let a = here.resident([height, depth], DType::F32, |index| self.number(0, index))?;
        let b = here.resident([depth, width], DType::F32, |index| self.number(1, index))?;
        let c = here.empty([height, width], DType::F32)?;
        let parts = here.empty([steps * height, width], DType::F32)?.chunk(steps, 0)?;
        let graph = cx.graph("gemm", self.options.clone())?;
        for (i, j) in (0..rows * columns).map(|at| (at / columns, at % columns)) {
            let mut sum = KernelTask::new("reduce", reduce).label(format!("c[{i}, {j}]"));
            sum = sum.output(&Self::tile(&c, [i, j], [high, wide])?);
            for (step, part) in parts.iter().enumerate() {
                let partial = Self::tile(part, [i, j], [high, wide])?;
                let task = KernelTask::new("dot", dot)
                    .label(format!("c[{i}, {j}] k={step}"))
                    .input(&Self::tile(&a, [i, step], [high, deep])?)
                    .input(&Self::tile(&b, [step, j], [deep, wide])?)
                    .output(&partial);
                graph.submit(task).await?;
                sum = sum.input(&partial);
            }
            graph.submit(sum).await?;
        }
        graph.finish().await?;
        Ok(c)
    }

    /// Compares rows of the result with plain loops: all of them, or as many as a second allows.
    fn check(&self, result: &Value) -> Check {
        let ([height, width, depth], result) = (self.dims, result.to_f32());
        let factors: Vec<f32> = (0..depth * width).map(|index| self.number(1, index)).collect();
        let rows = (MOST_PRODUCTS / (width * depth)).clamp(1, height);
        let mut check = Check::EMPTY;
        for row in (0..rows).map(|row| row * height / rows) {
            let mut sums = vec![0.0f32; width];
            for (step, line) in factors.chunks_exact(width).enumerate() {
                let factor = self.number(0, row * depth + step);
                sums.iter_mut().zip(line).for_each(|(sum, other)| *sum += factor * other);
            }
            check = check.and(&result[row * width..(row + 1) * width], sums);
        }
        check
    }
}

/// Most products that the reference computes.
const MOST_PRODUCTS: usize = 1 << 30;

/// `partial = a · b`, one tile each.
async fn dot(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
    let product = tl.dot(&a, &b, None).await?;
    tl.store(&args.view(2)?, &product).await
}

/// `c = partial 0 + partial 1 + ...`, in this order.
async fn reduce(tl: Tl, args: Args) -> Result<(), KernelError> {
    let mut sum = tl.load(&args.view(1)?).await?;
    for part in 2..args.count() {
        let next = tl.load(&args.view(part)?).await?;
        sum = tl.add(&sum, &next).await?;
    }
    tl.store(&args.view(0)?, &sum).await
}
