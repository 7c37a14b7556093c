//! `gemm`: `c = a · b` on PEs, tile by tile, with loads behind computing.
//!
//! Every cube that takes part holds `a` and `b`, and the tiles of `c` that its PEs compute.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, numbers};
use super::parameters::{Default, Kind, Parameter, SEED, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{Gemm, Operand};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Evaluator, Value};
use phalanx_torch::limits::ParameterError;
use std::sync::Arc;

const SIDE: Kind = Kind::Count { least: 1, most: MOST_SIDE };
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
            kind: Kind::DType,
            default: Default::Text("f16"),
        },
        Parameter {
            name: "buffers",
            help: "2 to load the next operands while computing, 1 not to",
            kind: Kind::Count { least: 1, most: 2 },
            default: Default::Text("2"),
        },
        Parameter {
            name: "pes",
            help: "how many PEs share the work, SIP after SIP",
            kind: Kind::Count { least: 1, most: 1 << 20 },
            default: Default::Machine(|machine| {
                (machine.cubes.count() * machine.pes.count()).to_string()
            }),
        },
        SEED,
    ],
    knobs: &["buffers", "pes"],
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
    let (data, evaluator) = (options.data, options.evaluator.clone());
    let tile = spec.gemm.tile.map(|side| side as usize);
    let buffers = u32::try_from(settings.count("buffers")).expect("1 or 2");
    let mut machine = Machine::new(spec, options);
    let chosen: Vec<PeId> =
        (0..machine.spec().devices()).flat_map(|sip| machine.pes(sip)).take(pes).collect();
    let cubes: Vec<&[PeId]> = chosen.chunk_by(|x, y| (x.sip, x.cube) == (y.sip, y.cube)).collect();
    check_capacity(&machine, &cubes, settings, data)?;
    let problem = Problem::new(settings, data);
    let (mut pieces, mut first) = (Vec::new(), 0);
    for &cube in &cubes {
        let regions = problem.place(&machine, cube[0])?;
        let gemm = problem.gemm(regions, tile, buffers);
        machine.launch(cube[0].sip, "gemm", cube, move |tl| async move {
            gemm.share(first + tl.program_id(), pes).run(&tl).await
        });
        pieces.push((regions[2], cube.len()));
        first += cube.len();
    }
    let report = machine.run()?;
    let check = if data { Some(problem.check(&machine, &pieces, tile, &evaluator)?) } else { None };
    Ok(Outcome::new(report, check))
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
    data: bool,
) -> Result<(), WorkloadError> {
    let (sizes, dtype) = (sizes(dims(settings)), settings.dtype("dtype"));
    let tensors = cubes.iter().flat_map(|cube| {
        let PeId { sip, cube, .. } = cube[0];
        sizes.map(|elements| PlannedTensor { sip, cube, dtype, elements })
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
        pieces: &[(Region, usize)],
        tile: [usize; 3],
        evaluator: &Arc<dyn Evaluator>,
    ) -> Result<Check, WorkloadError> {
        let mut parts = Vec::new();
        for (region, _) in pieces {
            let value = machine.read(region)?.expect("data is on");
            evaluator.force(&value.pending_parts());
            parts.push(value.to_f32());
        }
        let owners: Vec<usize> = pieces
            .iter()
            .enumerate()
            .flat_map(|(piece, (_, pes))| std::iter::repeat_n(piece, *pes))
            .collect();
        let [m, n, k] = self.dims;
        let rows = (MOST_PRODUCTS / (n * k)).clamp(1, m);
        let mut check = Check::EMPTY;
        for row in (0..rows).map(|row| row * m / rows) {
            let of_column = |column: usize| {
                let number = (row / tile[0]) * n.div_ceil(tile[1]) + column / tile[1];
                parts[owners[number % owners.len()]][row * n + column]
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
