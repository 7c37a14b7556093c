//! `vector-add`: `c = a + b` over every PE of every SIP, each on memory of its own cube, with loads ahead of sums.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, numbers};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Loading, Tile, Tl, View};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};

pub(super) const WORKLOAD: Workload = Workload {
    name: "vector-add",
    summary: "c = a + b in f32 over every PE of the machine",
    parameters: &[
        Parameter {
            name: "elements",
            help: "how many numbers each vector has",
            kind: ParameterKind::Count { least: 1, most: 1 << 36 },
            default: Default::Text("1048576"),
        },
        SEED,
    ],
    knobs: &[],
    one_sip: false,
    run,
};

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine: spec, options, .. } = setup;
    let (elements, seed, data) = (settings.size("elements"), settings.count("seed"), options.data);
    let evaluator = options.evaluator.clone();
    let (shards, per_cube) = (shards(&spec, elements), spec.pes.count());
    let mut machine = Machine::new(spec, options);
    let tensors = shards.iter().flat_map(|shard| [shard.tensor(); 3]);
    // Two inputs and their sum; in checking, a shard of all of them again.
    let largest = elements.div_ceil(shards.len());
    capacity::check(&machine, tensors, data.then(|| capacity::bytes(elements + largest, 3 * 4)))?;
    let mut outputs = Vec::new();
    for shard in &shards {
        let PlannedTensor { sip, cube, dtype, elements } = shard.tensor();
        let place = |stream| machine.resident(sip, cube, shard.input(seed, stream, data));
        let (a, b) = (place(0)?, place(1)?);
        let c = machine.empty(sip, cube, dtype, elements)?;
        outputs.push((shard.start, c));
        let pe = |pe: u32| PeId { sip, cube, pe: u16::try_from(pe).expect("checked size") };
        let pes: Vec<PeId> = (0..per_cube).map(pe).collect();
        machine.launch(sip, "vector-add", &pes, move |tl| add(tl, [a, b, c]));
    }
    let report = machine.run()?;
    if !data {
        return Ok(Outcome::new(report, None));
    }
    let mut check = Check::EMPTY;
    let regions: Vec<Region> = outputs.iter().map(|(_, region)| *region).collect();
    for ((start, region), value) in outputs.into_iter().zip(machine.read_all(&regions)?) {
        let Some(value) = value else { continue };
        evaluator.force(&value.pending_parts());
        let expected = |stream| numbers(seed, stream, start, region.elements, SPAN).into_iter();
        check = check.and(&value.to_f32(), expected(0).zip(expected(1)).map(|(a, b)| a + b));
    }
    Ok(Outcome::new(report, Some(check)))
}

/// A cube's part of the vectors.
struct Shard {
    sip: u32,
    cube: u16,
    start: usize,
    len: usize,
}

/// All of them, of nearly equal length.
fn shards(spec: &MachineSpec, elements: usize) -> Vec<Shard> {
    let cubes = spec.cubes.count();
    let homes = (0..spec.devices()).flat_map(|sip| (0..cubes).map(move |cube| (sip, cube)));
    let count = spec.devices() as usize * cubes as usize;
    let shard = |(number, (sip, cube))| {
        let (start, end) = (elements * number / count, elements * (number + 1) / count);
        let cube = u16::try_from(cube).expect("checked size");
        Shard { sip, cube, start, len: end - start }
    };
    homes.enumerate().map(shard).collect()
}

impl Shard {
    fn tensor(&self) -> PlannedTensor {
        PlannedTensor { sip: self.sip, cube: self.cube, dtype: DType::F32, elements: self.len }
    }

    fn input(&self, seed: u64, stream: u64, data: bool) -> Value {
        if data {
            Value::from_vec_f32(numbers(seed, stream, self.start, self.len, SPAN))
        } else {
            Value::zeros(DType::F32, self.len)
        }
    }
}

const SPAN: u16 = 1000;

/// Elements of a tile: three tiles, double-buffered, are 384 KiB.
const BLOCK: usize = 16 * 1024;

/// Adds one program's share, block by block; loads the next block while it adds the current one.
pub(crate) async fn add(tl: Tl, [a, b, c]: [Region; 3]) -> Result<(), KernelError> {
    let (start, len) = tl.share(c.elements);
    let block = |at: usize| View::dense(&c, start + at, BLOCK.min(len - at));
    let mut next = load(&tl, [a, b], start, 0, len);
    let mut at = 0;
    while let Some(current) = next.take() {
        let (left, right) = current.await?;
        next = load(&tl, [a, b], start, at + BLOCK, len);
        let sum = tl.add(&left, &right).await?;
        drop(tl.store(&block(at), &sum));
        at += BLOCK;
    }
    Ok(())
}

fn load(
    tl: &Tl,
    [a, b]: [Region; 2],
    start: usize,
    at: usize,
    len: usize,
) -> Option<Loading<(Tile, Tile)>> {
    let here = |region| View::dense(region, start + at, BLOCK.min(len - at));
    (at < len).then(|| tl.load_pair(&here(&a), &here(&b)))
}
