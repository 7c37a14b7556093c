//! Measuring collectives as users see them: a size, an algorithm, a time, bandwidths, and what bound it.
//!
//! All ranks ask for the collective at the same instant, with their tensors in place; the time is over when the last
//! of them knows that its own part is.
//!
//! - **SWP-1 (as nccl-tests).** Sizes, counts and bandwidths follow nccl-tests: size is the larger of what a rank sends
//!   and receives, bandwidths are in units of 1e9 bytes a second.
//! - **SWP-2 (checked).** With numbers, every element that every rank gets is compared with one computed another way.

mod bound;
mod check;

pub use bound::Bound;

use super::algorithm::Operation;
use super::config::{CclConfig, Plan};
use super::part::ReduceOp;
use crate::context::Context;
use crate::distributed::{self, CollectiveCall};
use crate::limits::{ParameterError, check_numbers};
use crate::multiprocessing::{SpawnError, spawn};
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::machine::Options;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::rc::Rc;

/// What to measure, but for its size.
#[derive(Clone)]
pub struct Sweep {
    /// The machine; every SIP is a rank.
    pub machine: MachineSpec,
    /// Whether numbers are computed, and by whom.
    pub options: Options,
    /// How collectives are set up.
    pub ccl: CclConfig,
    /// What is done.
    pub operation: Operation,
    /// How numbers are combined.
    pub combine: ReduceOp,
    /// Their type.
    pub dtype: DType,
}

/// What was measured of one size and one algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The larger of what a rank sends and receives, in bytes.
    pub bytes: u64,
    /// The count that the collective is called with, in elements.
    pub count: usize,
    /// The algorithm, by its name in the configuration.
    pub algorithm: String,
    /// With input and output apart.
    pub out_of_place: Figures,
    /// With both in the same place.
    pub in_place: Figures,
    /// What it spent most time on.
    pub bound: Bound,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Time from the call until the last rank is done.
    pub time: Time,
    /// Bytes by time, in GB/s.
    pub algbw: f64,
    /// What wires have to carry at least, in GB/s.
    pub busbw: f64,
    /// How many elements are wrong, on all ranks; `None` if nobody looked.
    pub wrong: Option<u64>,
}

impl Sweep {
    /// How many ranks take part.
    pub fn ranks(&self) -> usize {
        self.machine.sips.count as usize
    }

    /// Whether the numbers of a size fit on this host; they always do where there are none.
    pub fn check_room(&self, bytes: u64) -> Result<(), ParameterError> {
        if !self.options.data {
            return Ok(());
        }
        // Inputs, outputs, what is read back and what it is compared with, as four bytes each.
        let numbers = (bytes / self.dtype.size() as u64).saturating_mul(self.ranks() as u64);
        check_numbers(numbers.saturating_mul(4 * 4))
    }

    /// Why `plan` cannot do this, if it cannot.
    pub fn fits(&self, plan: &Plan) -> Result<(), String> {
        let members: Vec<u32> = (0..self.machine.sips.count).collect();
        plan.check(self.operation, &self.machine, &members)
    }

    /// Measures a size, in bytes, with `plan`, or with the configured choice.
    pub fn measure(&self, bytes: u64, plan: Option<&Plan>) -> Result<Measured, SpawnError> {
        let count = self.count(bytes);
        let out = self.run(count, plan, false)?;
        let inside = self.run(count, plan, true)?;
        let bytes = (self.elements(count) * self.dtype.size()) as u64;
        Ok(Measured {
            bytes,
            count,
            algorithm: out.algorithm,
            out_of_place: self.figures(bytes, out.time, out.wrong),
            in_place: self.figures(bytes, inside.time, inside.wrong),
            bound: out.bound,
        })
    }

    /// The count for a size: one rank's share where the vector is cut, in pieces of 16 bytes where it is that long.
    fn count(&self, bytes: u64) -> usize {
        let elements = usize::try_from(bytes).unwrap_or(usize::MAX) / self.dtype.size();
        if self.operation.is_elementwise() {
            return elements.max(1);
        }
        let share = elements / self.ranks();
        let unit = 16 / self.dtype.size();
        if share >= unit { share / unit * unit } else { share.max(1) }
    }

    /// The elements of the larger tensor.
    fn elements(&self, count: usize) -> usize {
        if self.operation.is_elementwise() { count } else { count * self.ranks() }
    }

    fn figures(&self, bytes: u64, time: Time, wrong: Option<u64>) -> Figures {
        let algbw = bandwidth(bytes, time);
        Figures { time, algbw, busbw: algbw * bus_factor(self.operation, self.ranks()), wrong }
    }

    fn run(&self, count: usize, plan: Option<&Plan>, in_place: bool) -> Result<Run, SpawnError> {
        let mut context =
            Context::new(self.machine.clone(), self.options.clone()).with_ccl(self.ccl.clone());
        let sweep = Rc::new(self.clone());
        let (own, ranks) = (sweep.clone(), self.ranks());
        let tensors = spawn(&mut context, ranks, move |rank, cx| {
            let sweep = own.clone();
            async move {
                let tensors = sweep.tensors(&cx, rank, count, in_place)?;
                tensors.0.ready().await?;
                tensors.1.ready().await?;
                Ok(tensors)
            }
        })?;
        let (own, plan, shared) = (sweep, plan.cloned(), Rc::new(tensors.clone()));
        let start = context.now();
        let results = spawn(&mut context, ranks, move |rank, cx| {
            let (sweep, plan, (input, output)) = (own.clone(), plan.clone(), shared[rank].clone());
            async move {
                let world = distributed::init_process_group(&cx)?;
                let call = sweep.call(&input, &output);
                let (handle, chosen) = distributed::launch_by(&cx, &world, &call, plan)?;
                handle.wait().await?;
                Ok((cx.now(), chosen.name))
            }
        })?;
        let end = results.iter().map(|(end, _)| *end).max().unwrap_or(start);
        let bound = Bound::of(&context.report());
        let wrong = self.wrong(&mut context, &tensors, count)?;
        let algorithm = results.into_iter().next().map(|(_, name)| name).unwrap_or_default();
        Ok(Run { time: end - start, algorithm, bound, wrong })
    }

    fn call<'a>(&self, input: &'a Tensor, output: &'a Tensor) -> CollectiveCall<'a> {
        CollectiveCall {
            name: self.operation.name(),
            operation: self.operation,
            combine: self.combine,
            root: 0,
            input,
            output,
            splits: None,
        }
    }

    /// A rank's tensors: what it has, and what it gets.
    fn tensors(
        &self,
        cx: &Rank,
        rank: usize,
        count: usize,
        in_place: bool,
    ) -> Result<(Tensor, Tensor), crate::Error> {
        let all = self.elements(count);
        let [has, gets] = match self.operation {
            Operation::AllReduce | Operation::Broadcast | Operation::Reduce => [count, count],
            Operation::AllToAll => [all, all],
            Operation::ReduceScatter => [all, count],
            Operation::AllGather => [count, all],
            Operation::Scatter => [if rank == 0 { all } else { 0 }, count],
            Operation::Gather => [count, if rank == 0 { all } else { 0 }],
        };
        let input = self.input(cx, rank, has)?;
        // Where input and output are not the same vector, one in place of the other changes no time.
        let same = self.operation.is_elementwise() && in_place;
        let output = if same { input.clone() } else { cx.zeros([gets], self.dtype)? };
        Ok((input, output))
    }
}

struct Run {
    time: Time,
    algorithm: String,
    bound: Bound,
    wrong: Option<u64>,
}

/// Bytes by time, in GB/s.
#[expect(clippy::cast_precision_loss, reason = "a ratio is read, not added up")]
pub fn bandwidth(bytes: u64, time: Time) -> f64 {
    if time == Time::ZERO { 0.0 } else { bytes as f64 * 1000.0 / time.as_ps() as f64 }
}

/// How the bandwidth of wires follows from that of an operation (SWP-1).
#[expect(clippy::cast_precision_loss, reason = "few ranks")]
pub fn bus_factor(operation: Operation, ranks: usize) -> f64 {
    let n = ranks as f64;
    match operation {
        Operation::AllReduce => 2.0 * (n - 1.0) / n,
        Operation::Broadcast | Operation::Reduce => 1.0,
        _ => (n - 1.0) / n,
    }
}
