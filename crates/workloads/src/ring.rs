//! `ring`: an all-reduce around the SIPs, as a kernel over `tl.send` and `tl.recv`.
//!
//! The vector of each rank is cut into one segment per rank, and segments into chunks of a slot. In the first `P - 1` steps
//! every rank adds its numbers to a received segment and sends the sum on; in the other `P - 1` steps it sends complete
//! segments on. A chunk is sent on as soon as it arrives: steps overlap.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, number, numbers};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::queue::{N_SLOTS, SLOT_SIZE, edge};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tile, Tl, View};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_torch::limits::{MOST_BYTES, MOST_CHUNKS, ParameterError};
use std::ops::Range;

pub(super) const WORKLOAD: Workload = Workload {
    name: "ring",
    summary: "a ring all-reduce of f32 over all SIPs, through bounded slots",
    parameters: &[
        Parameter {
            name: "bytes",
            help: "the size of each rank's vector",
            kind: ParameterKind::Bytes { least: 4, most: MOST_BYTES, multiple: 4 },
            default: Default::Text("1 MiB"),
        },
        SLOT_SIZE,
        N_SLOTS,
        SEED,
    ],
    knobs: &["slot_size", "n_slots"],
    one_sip: false,
    run,
};

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine: spec, options, .. } = setup;
    let (ranks, elements) = (spec.devices(), settings.size("bytes") / 4);
    let (seed, data) = (settings.count("seed"), options.data);
    check_slots(settings)?;
    let evaluator = options.evaluator.clone();
    let mut machine = Machine::new(spec, options);
    let vector = |sip| PlannedTensor { sip, cube: 0, dtype: DType::F32, elements };
    // Inputs and results of every rank, and the reference and one result as compared.
    let numbers_of = |ranks: usize| capacity::bytes(2 * ranks + 2, capacity::bytes(elements, 4));
    capacity::check(&machine, (0..ranks).map(vector), data.then(|| numbers_of(ranks as usize)))?;
    let vectors = place(&machine, ranks, |rank| {
        if data {
            Value::from_vec_f32(numbers(seed, rank.into(), 0, elements, SPAN))
        } else {
            Value::zeros(DType::F32, elements)
        }
    })?;
    launch(&mut machine, &vectors, edge(settings));
    let report = machine.run()?;
    if !data {
        return Ok(Outcome::new(report, None));
    }
    let results: Vec<Value> = machine.read_all(&vectors)?.into_iter().flatten().collect();
    evaluator.force(&results);
    Ok(Outcome::new(report, Some(compare(&results, seed, elements))))
}

/// Refuses slots so small that a vector needs too many of them.
fn check_slots(settings: &Settings) -> Result<(), ParameterError> {
    let slots = settings.count("bytes").div_ceil(settings.count("slot_size"));
    if slots <= MOST_CHUNKS {
        return Ok(());
    }
    let message = format!("parameter `slot_size`: a vector of {slots} slots is too many");
    Err(ParameterError::new(
        message,
        format!("allowed: at most {MOST_CHUNKS} slots a vector; use larger ones"),
    ))
}

/// Inputs are whole numbers up to this, so that sums are exact.
const SPAN: u16 = 8;

/// Puts each rank's vector into its SIP.
pub fn place(
    machine: &Machine,
    ranks: u32,
    vector: impl Fn(u32) -> Value,
) -> Result<Vec<Region>, WorkloadError> {
    Ok((0..ranks).map(|rank| machine.resident(rank, 0, vector(rank))).collect::<Result<_, _>>()?)
}

/// Launches the kernel of every rank, on the first PE of its SIP.
pub fn launch(machine: &mut Machine, vectors: &[Region], edge: EdgeSpec) {
    let ranks = u32::try_from(vectors.len()).expect("as many as SIPs");
    for (rank, &vector) in (0..).zip(vectors) {
        machine.launch(rank, "ring", &[PeId::first(rank)], move |tl| {
            Ring { rank, ranks, vector, edge }.run(tl)
        });
    }
}

/// One rank's part.
#[derive(Clone, Copy)]
struct Ring {
    rank: u32,
    ranks: u32,
    vector: Region,
    edge: EdgeSpec,
}

impl Ring {
    async fn run(self, tl: Tl) -> Result<(), KernelError> {
        if self.ranks == 1 {
            return Ok(());
        }
        let next = tl.sender(PeId::first((self.rank + 1) % self.ranks), self.edge)?;
        let previous =
            tl.receiver(PeId::first((self.rank + self.ranks - 1) % self.ranks), self.edge)?;
        for chunk in self.chunks(self.rank) {
            let mine = tl.load(&self.view(&chunk)).await?;
            drop(tl.send(&next, &mine));
        }
        let steps = 2 * (self.ranks - 1);
        for step in 0..steps {
            let reducing = step < self.ranks - 1;
            for chunk in self.chunks(self.rank + 2 * self.ranks - step - 1) {
                let mine = if reducing { Some(tl.load(&self.view(&chunk))) } else { None };
                let received = tl.recv(&previous, DType::F32, chunk.len()).await?;
                let current = match mine {
                    Some(mine) => tl.add(&received, &mine.await?).await?,
                    None => received,
                };
                if step + 1 < steps {
                    drop(tl.send(&next, &current));
                }
                self.keep(&tl, step, &chunk, &current);
            }
        }
        Ok(())
    }

    /// Stores a complete chunk without waiting.
    fn keep(&self, tl: &Tl, step: u32, chunk: &Range<usize>, tile: &Tile) {
        if step + 2 >= self.ranks {
            drop(tl.store(&self.view(chunk), tile));
        }
    }

    fn view(&self, chunk: &Range<usize>) -> View {
        View::dense(&self.vector, chunk.start, chunk.len())
    }

    /// The chunks of a segment, by number modulo the ranks.
    fn chunks(&self, segment: u32) -> impl Iterator<Item = Range<usize>> + use<> {
        let (segment, ranks) = ((segment % self.ranks) as usize, self.ranks as usize);
        let (start, end) =
            (self.vector.elements * segment / ranks, self.vector.elements * (segment + 1) / ranks);
        let slot = usize::try_from(self.edge.slot_size / 4).expect("a 64-bit machine").max(1);
        (start..end).step_by(slot).map(move |at| at..(at + slot).min(end))
    }
}

/// Compares the results of all ranks with the sum of all inputs, computed directly.
fn compare(results: &[Value], seed: u64, elements: usize) -> Check {
    let ranks = results.len() as u64;
    let sum =
        |index: usize| (0..ranks).map(|rank| number(seed, rank, index as u64, SPAN)).sum::<f32>();
    let expected: Vec<f32> = (0..elements).map(sum).collect();
    results
        .iter()
        .fold(Check::EMPTY, |check, value| check.and(&value.to_f32(), expected.iter().copied()))
}
