//! `gemm`: `c = a · b` on PEs, tile by tile, with loads behind computing.
//!
//! Every cube that takes part holds `a` and `b`, and the tiles of `c` that its PEs compute. `tile` and `split_k` set the blocks; `auto`
//! takes those that the figures of the machine make the fastest.

mod choice;

use super::capacity::{self, PlannedTensor};
use super::check::{Check, numbers};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{Gemm, GemmPlan, KernelError, Operand, SplitGemm, Tl};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Evaluator, Value};
use phalanx_torch::limits::ParameterError;
use std::sync::Arc;

const SIDE: ParameterKind = ParameterKind::Count { least: 1, most: MOST_SIDE };
const MOST_SIDE: u64 = 1 << 20;
const _: () = assert!(MOST_SIDE * MOST_SIDE <= capacity::MOST_ELEMENTS);

pub(super) const WORKLOAD: Workload = Workload {
    name: "gemm",
    summary: "a matrix product over PEs, tiled, loads behind computing",
    parameters: &[
        Parameter {
            name: "m",
            help: "rows of a and c",
            kind: SIDE,
            default: Default::Text("1024"),
        },
        Parameter {
            name: "n",
            help: "columns of b and c",
            kind: SIDE,
            default: Default::Text("1024"),
        },
        Parameter {
            name: "k",
            help: "columns of a, rows of b",
            kind: SIDE,
            default: Default::Text("1024"),
        },
        Parameter {
            name: "dtype",
            help: "the type of a, b and c; sums are f32 (i32 for i32)",
            kind: ParameterKind::DType,
            default: Default::Text("f16"),
        },
        Parameter {
            name: "tile",
            help: "the block of a product: auto, engine, or m x n x k as in 128x256x64",
            kind: ParameterKind::Name,
            default: Default::Machine(choice::default_tile),
        },
        Parameter {
            name: "split_k",
            help: "the number of parts of k that are computed apart and added: auto, or a number",
            kind: ParameterKind::Name,
            default: Default::Machine(choice::default_split),
        },
        Parameter {
            name: "buffers",
            help: "2 or more to load the next operands while computing, 1 not to",
            kind: ParameterKind::Count { least: 1, most: 64 },
            default: Default::Machine(choice::default_buffers),
        },
        Parameter {
            name: "pes",
            help: "how many PEs share the work, SIP after SIP",
            kind: ParameterKind::Count { least: 1, most: 1 << 20 },
            default: Default::Machine(|machine| {
                (machine.cubes.count() * machine.pes.count()).to_string()
            }),
        },
        SEED,
    ],
    knobs: &["buffers", "pes"],
    one_sip: false,
    run,
};

/// The problem and its numbers; no numbers without data.
struct Problem {
    dims: [usize; 3],
    dtype: DType,
    a: Vec<f32>,
    b: Vec<f32>,
    /// The two inputs in their type, shared by all cubes.
    inputs: [Value; 2],
}

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine: spec, options, .. } = setup;
    let pes = pes(&spec, settings)?;
    let dims = dims(settings);
    let plan = choice::plan(&spec, settings, (dims, pes))?;
    let (data, evaluator) = (options.data, options.evaluator.clone());
    let tile = spec.gemm.tile.map(|side| side as usize);
    let buffers = u32::try_from(settings.count("buffers")).expect("at most 64");
    let mut machine = Machine::new(spec, options);
    let chosen: Vec<PeId> =
        (0..machine.spec().devices()).flat_map(|sip| machine.pes(sip)).take(pes).collect();
    let cubes: Vec<&[PeId]> = chosen.chunk_by(|x, y| (x.sip, x.cube) == (y.sip, y.cube)).collect();
    check_capacity(&machine, &cubes, settings, plan.as_ref(), data)?;
    let problem = Problem::new(settings, data);
    let (mut regions, mut first) = (Vec::new(), 0);
    for (number, &cube) in cubes.iter().enumerate() {
        let operands = problem.place(&machine, cube[0])?;
        let gemm = problem.gemm(operands, tile, buffers);
        let sums = plan.map_or(Ok(None), |plan| problem.place_sums(&machine, cube[0], &plan))?;
        let blocks = match plan {
            Some(plan) => {
                Blocks::Planned(SplitGemm { gemm, plan, launch: (number, cubes.len()), sums })
            }
            None => Blocks::Engine { gemm, first, pes },
        };
        let kernel = move |tl: Tl| async move { blocks.run(&tl).await };
        machine.launch(cube[0].sip, "gemm", cube, kernel);
        regions.push(operands[2]);
        first += cube.len();
    }
    let report = machine.run()?;
    let owners = owners(dims, tile, plan.as_ref(), &cubes);
    let check =
        if data { Some(problem.check(&machine, &regions, &owners, &evaluator)?) } else { None };
    Ok(Outcome::new(report, check))
}

/// The blocks of a program.
#[derive(Clone, Copy)]
enum Blocks {
    /// Tiles of the matrix engine, row by row: the number of the cube's first PE, and the number of all PEs.
    Engine {
        gemm: Gemm,
        first: usize,
        pes: usize,
    },
    Planned(SplitGemm),
}

impl Blocks {
    async fn run(&self, tl: &Tl) -> Result<(), KernelError> {
        match self {
            Self::Engine { gemm, first, pes } => {
                gemm.share(first + tl.program_id(), *pes).run(tl).await
            }
            Self::Planned(product) => product.run(tl).await,
        }
    }
}

/// The blocks of the output: their sides, and the number of the cube that computed each, row by row.
struct Owners {
    tile: [usize; 2],
    cubes: Vec<usize>,
}

fn owners(
    dims: [usize; 3],
    engine: [usize; 3],
    plan: Option<&GemmPlan>,
    cubes: &[&[PeId]],
) -> Owners {
    let [tm, tn, _] = plan.map_or(engine, |plan| plan.tile);
    let (rows, columns) = (dims[0].div_ceil(tm), dims[1].div_ceil(tn));
    let mut owners = vec![0; rows * columns];
    if let Some(plan) = plan {
        for (number, (row, column)) in plan.places(dims).enumerate() {
            owners[row * columns + column] = number % cubes.len();
        }
    } else {
        let of_pe: Vec<usize> = cubes
            .iter()
            .enumerate()
            .flat_map(|(cube, pes)| std::iter::repeat_n(cube, pes.len()))
            .collect();
        (0..).zip(&mut owners).for_each(|(tile, owner)| *owner = of_pe[tile % of_pe.len()]);
    }
    Owners { tile: [tm, tn], cubes: owners }
}

/// The number of PEs, if the machine has as many.
fn pes(spec: &MachineSpec, settings: &Settings) -> Result<usize, ParameterError> {
    let pes = settings.size("pes");
    let available = spec.devices() as usize * (spec.cubes.count() * spec.pes.count()) as usize;
    if pes <= available {
        return Ok(pes);
    }
    let message = format!("parameter `pes`: `{}` has no {pes} PEs", spec.name);
    Err(ParameterError::new(message, format!("allowed: 1 to {available}")))
}

/// The dimensions `m, n, k`.
fn dims(settings: &Settings) -> [usize; 3] {
    ["m", "n", "k"].map(|name| settings.size(name))
}

/// The number of elements of `a`, `b` and `c`.
fn sizes([m, n, k]: [usize; 3]) -> [usize; 3] {
    [m * k, k * n, m * n]
}

fn check_capacity(
    machine: &Machine,
    cubes: &[&[PeId]],
    settings: &Settings,
    plan: Option<&GemmPlan>,
    data: bool,
) -> Result<(), WorkloadError> {
    let (sizes, dtype) = (sizes(dims(settings)), settings.dtype("dtype"));
    let sums = plan.map_or(0, |plan| SplitGemm::sums(dims(settings), plan));
    let tensors = cubes.iter().flat_map(|cube| {
        let PeId { sip, cube, .. } = cube[0];
        let tensor = |dtype, elements| PlannedTensor { sip, cube, dtype, elements };
        let operands = sizes.map(|elements| tensor(dtype, elements));
        let sums = (sums > 0).then(|| tensor(SplitGemm::sum_type(dtype), sums));
        operands.into_iter().chain(sums)
    });
    // Inputs in f32 and in their type, once; in every cube a whole result, and one more in f32.
    let both = 4 + dtype.size() as u64;
    let numbers = || {
        let inputs = capacity::bytes(sizes[0] + sizes[1], both);
        inputs.saturating_add(capacity::bytes(cubes.len() + 1, capacity::bytes(sizes[2], both)))
    };
    capacity::check(machine, tensors, data.then(numbers))
}

/// Factors are whole numbers up to this: products of a few thousand of them are exact in f32.
const SPAN: u16 = 3;

impl Problem {
    fn new(settings: &Settings, data: bool) -> Self {
        let (dims, dtype) = (dims(settings), settings.dtype("dtype"));
        let ([left, right, _], seed) = (sizes(dims), settings.count("seed"));
        if !data {
            let inputs = [left, right].map(|len| Value::zeros(dtype, len));
            return Self { dims, dtype, a: Vec::new(), b: Vec::new(), inputs };
        }
        let (a, b) = (numbers(seed, 0, 0, left, SPAN), numbers(seed, 1, 0, right, SPAN));
        let inputs = [&a, &b].map(|numbers| Value::from_f32(dtype, numbers));
        Self { dims, dtype, a, b, inputs }
    }

    /// `a`, `b` and room for `c` in the cube of a PE.
    fn place(&self, machine: &Machine, pe: PeId) -> Result<[Region; 3], WorkloadError> {
        let [a, b] = &self.inputs;
        Ok([
            machine.resident(pe.sip, pe.cube, a.clone())?,
            machine.resident(pe.sip, pe.cube, b.clone())?,
            machine.zeros(pe.sip, pe.cube, self.dtype, sizes(self.dims)[2])?,
        ])
    }

    /// Room for the sums of the parts of k in the cube of a PE; none if k is in one part.
    fn place_sums(
        &self,
        machine: &Machine,
        pe: PeId,
        plan: &GemmPlan,
    ) -> Result<Option<Region>, WorkloadError> {
        let (sums, dtype) = (SplitGemm::sums(self.dims, plan), SplitGemm::sum_type(self.dtype));
        if sums == 0 {
            return Ok(None);
        }
        Ok(Some(machine.empty(pe.sip, pe.cube, dtype, sums)?))
    }

    fn gemm(&self, [a, b, c]: [Region; 3], tile: [usize; 3], buffers: u32) -> Gemm {
        let [_, columns, depth] = self.dims;
        Gemm {
            a: Operand::row_major(a, depth),
            b: Operand::row_major(b, columns),
            c: Operand::row_major(c, columns),
            dims: self.dims,
            tile,
            buffers,
            share: (0, 1),
        }
    }

    /// Compares rows of the result with a plain sum of products: all of them, or as many as a second allows.
    fn check(
        &self,
        machine: &Machine,
        regions: &[Region],
        owners: &Owners,
        evaluator: &Arc<dyn Evaluator>,
    ) -> Result<Check, WorkloadError> {
        let mut parts = Vec::new();
        for value in machine.read_all(regions)? {
            let value = value.expect("data is on");
            evaluator.force(&value.pending_parts());
            parts.push(value.to_f32());
        }
        let ([tm, tn], columns) = (owners.tile, self.dims[1].div_ceil(owners.tile[1]));
        let [m, n, k] = self.dims;
        let rows = (MOST_PRODUCTS / (n * k)).clamp(1, m);
        let mut check = Check::EMPTY;
        for row in (0..rows).map(|row| row * m / rows) {
            let of_column = |column: usize| {
                let owner = owners.cubes[row / tm * columns + column / tn];
                parts[owner][row * n + column]
            };
            let got: Vec<f32> = (0..n).map(of_column).collect();
            check = check.and(&got, self.row(row));
        }
        Ok(check)
    }

    /// One row of the product in plain code, rounded to the type.
    fn row(&self, row: usize) -> Vec<f32> {
        let [_, n, k] = self.dims;
        let mut sums = vec![0.0f32; n];
        for (x, line) in self.a[row * k..(row + 1) * k].iter().zip(self.b.chunks_exact(n)) {
            for (sum, y) in sums.iter_mut().zip(line) {
                *sum += x * y;
            }
        }
        Value::from_f32(self.dtype, &sums).to_f32()
    }
}

/// Most products that the reference computes.
const MOST_PRODUCTS: usize = 1 << 30;
