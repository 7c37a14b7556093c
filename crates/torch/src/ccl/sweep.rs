//! Measurements of collectives as users see them: a size, an algorithm, a time, bandwidths, and the bottleneck.
//!
//! All ranks call the collective at the same instant, with their tensors in place; the time ends when the last rank knows
//! that its part is over.
//!
//! - **SWP-1 (as nccl-tests).** Sizes, counts and bandwidths follow nccl-tests: the size is the larger of a rank's input and
//!   output, and bandwidths are in units of 1e9 bytes a second.
//! - **SWP-2 (checked).** With data on, every element of every rank is compared with a reference computed another way.
//! - **SWP-3 (alone).** Without data a row is that of a [`Trial`]: its time and its bottleneck are those of the ranks of a program.

mod bound;
mod check;
mod limit;

pub use bound::Bound;
pub use limit::{link_limit, memory_limit};

use super::algorithm::{Algorithm, Operation};
use super::config::{CclConfig, Choice, Plan};
use super::layout::Layout;
use super::part::ReduceOp;
use super::trial::Trial;
use super::tuner::Tuner;
use crate::Error;
use crate::context::Context;
use crate::distributed::{self, CollectiveCall};
use crate::limits::{ParameterError, check_numbers};
use crate::multiprocessing::{SpawnError, spawn};
use crate::rank::Rank;
use crate::shards;
use crate::tensor::Tensor;
use phalanx_sim::machine::Options;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::rc::Rc;

/// A series of measurements of one operation.
#[derive(Clone)]
pub struct Sweep {
    /// The machine; a rank is a SIP.
    pub machine: MachineSpec,
    /// The options of the simulation.
    pub options: Options,
    /// The configuration of collectives.
    pub ccl: CclConfig,
    /// The operation.
    pub operation: Operation,
    /// The operation that combines numbers.
    pub combine: ReduceOp,
    /// The type of the elements.
    pub dtype: DType,
    /// The number of ranks, on the first devices of the machine; `None` for all devices.
    pub ranks: Option<u32>,
}

/// The time of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Time from the call until the last rank is done.
    pub time: Time,
    /// The plan that the call followed.
    pub plan: Plan,
}

/// The measurement of one size and one algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The larger of a rank's input and output, in bytes.
    pub bytes: u64,
    /// The count that the collective is called with, in elements.
    pub count: usize,
    /// The algorithm, by its name in the configuration.
    pub algorithm: String,
    /// The run with separate input and output.
    pub out_of_place: Figures,
    /// The run with input and output in the same memory.
    pub in_place: Figures,
    /// The bottleneck.
    pub bound: Bound,
    /// The least time that the links and the memories allow (LNK-1, LNK-2); `None` if they set no limit.
    pub limit: Option<Time>,
}

impl Measured {
    /// Returns the least time that the links and the memories allow, in per cent of the time of the run out of place.
    #[expect(clippy::cast_precision_loss, reason = "a ratio is read, not added up")]
    pub fn percent_of_bound(&self) -> Option<f64> {
        let time = self.out_of_place.time.as_ps() as f64;
        self.limit.filter(|_| time > 0.0).map(|limit| 100.0 * limit.as_ps() as f64 / time)
    }
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Time from the call until the last rank is done.
    pub time: Time,
    /// Algorithm bandwidth: bytes by time, in GB/s.
    pub algbw: f64,
    /// Bus bandwidth: the least traffic of the wires by time, in GB/s.
    pub busbw: f64,
    /// Wrong elements on all ranks; `None` without data.
    pub wrong: Option<u64>,
}

impl Sweep {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.unwrap_or(self.machine.devices()) as usize
    }

    /// Checks that the numbers of a size fit on this host; without data they always do.
    pub fn check_room(&self, bytes: u64) -> Result<(), ParameterError> {
        if !self.options.data {
            return Ok(());
        }
        // Inputs, outputs, read-back values and references, four bytes each.
        let numbers = (bytes / self.dtype.size() as u64).saturating_mul(self.ranks() as u64);
        check_numbers(numbers.saturating_mul(4 * 4))
    }

    /// Checks that `plan` can do this; the error says why not.
    pub fn fits(&self, plan: &Plan) -> Result<(), String> {
        let members: Vec<u32> = (0..self.ranks.unwrap_or(self.machine.devices())).collect();
        plan.check(self.operation, &self.machine, &members)
    }

    /// Returns the plans of this machine's library for a call of a size, in bytes: the one that it takes, or all of
    /// which the fastest is taken; none if no library chooses.
    pub fn library_plans(&self, bytes: u64) -> Vec<Plan> {
        let Some(profile) = self.ccl.profile(&self.machine) else { return Vec::new() };
        if self.ccl.default_choice() != Choice::Auto {
            return Vec::new();
        }
        let trial = self.trial(bytes);
        let chosen = profile.choose(&self.machine, &trial).map(|plan| vec![plan]);
        chosen.unwrap_or_else(|| profile.plans(&self.machine, &trial))
    }

    fn trial(&self, bytes: u64) -> Trial {
        let members: Vec<u32> = (0..self.ranks.unwrap_or(self.machine.devices())).collect();
        let elements = self.elements(self.count(bytes));
        Trial { dtype: self.dtype, ..Trial::new(self.operation, members, elements) }
    }

    /// Returns the plan called `name` that a call of a size, in bytes, may follow on this machine: one of its library,
    /// or a configured one.
    pub fn plan_named(&self, bytes: u64, name: &str) -> Option<Plan> {
        let trial = self.trial(bytes);
        let profile = self.ccl.profile(&self.machine);
        let own = profile.map_or_else(Vec::new, |profile| profile.plans(&self.machine, &trial));
        let plan = own.into_iter().find(|plan| plan.name == name);
        let plan = plan.or_else(|| self.ccl.plan(name, &Algorithm::names()));
        plan.filter(|plan| self.fits(plan).is_ok())
    }

    /// Simulates one call of a size, in bytes, out of place, with `plan` or the configured choice, and returns its
    /// time. `tuner` must be one for the same machine; it remembers its trials.
    pub fn time(
        &self,
        bytes: u64,
        plan: Option<&Plan>,
        tuner: &Rc<Tuner>,
    ) -> Result<Timed, SpawnError> {
        let run = self.run(self.count(bytes), plan, false, tuner)?;
        let none = || SpawnError::of(0, Error::other("no rank of this shard has made the call"));
        Ok(Timed { time: run.time, plan: run.plan.ok_or_else(none)? })
    }

    /// Measures a size on several threads and processes, or fewer if there are fewer SIPs (XCH-1).
    pub fn measure_on(
        &self,
        layout: &shards::ShardLayout,
        bytes: u64,
        plan: Option<&Plan>,
    ) -> Result<Measured, SpawnError> {
        let layout = layout.at_most(self.machine.devices() as usize);
        shards::run_over(&layout, |exchange| {
            let options = Options { exchange, ..self.options.clone() };
            Self { options, ..self.clone() }.measure(bytes, plan)
        })
    }

    /// Measures a size, in bytes, with `plan`, or with the configured choice.
    pub fn measure(&self, bytes: u64, plan: Option<&Plan>) -> Result<Measured, SpawnError> {
        let count = self.count(bytes);
        let tuner = Tuner::new(self.machine.clone());
        let tuner = Rc::new(match &self.options.interrupt {
            None => tuner.with_rows(),
            interrupt => tuner.with_interrupt(interrupt.clone()),
        });
        let out = self.run(count, plan, false, &tuner)?;
        let inside = self.run(count, plan, true, &tuner)?;
        let bytes = (self.elements(count) * self.dtype.size()) as u64;
        Ok(Measured {
            bytes,
            count,
            algorithm: out.plan.map_or_else(String::new, |plan| plan.name),
            out_of_place: self.figures(bytes, out.time, out.wrong),
            in_place: self.figures(bytes, inside.time, inside.wrong),
            bound: out.bound,
            limit: link_limit(&self.machine, self.operation, bytes).max(memory_limit(
                &self.machine,
                self.operation,
                bytes,
            )),
        })
    }

    /// The count for a size: one rank's share where the vector is cut, rounded down to 16 bytes if it is that long.
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

    fn run(
        &self,
        count: usize,
        plan: Option<&Plan>,
        in_place: bool,
        tuner: &Rc<Tuner>,
    ) -> Result<Run, SpawnError> {
        match self.run_alone(count, plan, in_place, tuner) {
            Some(run) => Ok(run),
            None => self.run_ranks(count, plan, in_place, tuner),
        }
    }

    /// Simulates the collective alone, as a trial (SWP-3); `None` if it has data, other shards or an algorithm of a
    /// program, or fails.
    pub fn alone(&self, bytes: u64, plan: &Plan, in_place: bool) -> Option<(Time, Bound)> {
        let tuner = Rc::new(Tuner::new(self.machine.clone()));
        let run = self.run_alone(self.count(bytes), Some(plan), in_place, &tuner)?;
        Some((run.time, run.bound))
    }

    /// Simulates the collective of ranks of a program; as [`Self::alone`].
    pub fn of_ranks(&self, bytes: u64, plan: &Plan, in_place: bool) -> Option<(Time, Bound)> {
        let tuner = Rc::new(Tuner::new(self.machine.clone()));
        let run = self.run_ranks(self.count(bytes), Some(plan), in_place, &tuner).ok()?;
        Some((run.time, run.bound))
    }

    fn run_alone(
        &self,
        count: usize,
        plan: Option<&Plan>,
        in_place: bool,
        tuner: &Rc<Tuner>,
    ) -> Option<Run> {
        let Options { data, record, exchange, interrupt, .. } = &self.options;
        if *data || *record || exchange.is_some() || interrupt.is_some() {
            return None;
        }
        let members = (0..self.ranks.unwrap_or(self.machine.devices())).collect();
        let apart = self.operation == Operation::Broadcast && !in_place;
        let trial = Trial {
            combine: self.combine,
            dtype: self.dtype,
            layout: Layout { apart, ..Layout::single(count) },
            ..Trial::new(self.operation, members, count)
        };
        let plan = match (plan, self.ccl.default_choice()) {
            (Some(plan), _) => plan.clone(),
            (None, Choice::Auto) => tuner.choose(&self.ccl, &trial)?,
            (None, Choice::Named(_)) => return None,
        };
        if plan.own.is_some() {
            return None;
        }
        let (time, bound) = tuner.row(&trial, &plan)?;
        Some(Run { time, plan: Some(plan), bound, wrong: None })
    }

    fn run_ranks(
        &self,
        count: usize,
        plan: Option<&Plan>,
        in_place: bool,
        tuner: &Rc<Tuner>,
    ) -> Result<Run, SpawnError> {
        // The bound of a row is read off the critical path.
        let options = Options { critical_path: true, ..self.options.clone() };
        let mut context = Context::new(self.machine.clone(), options)
            .with_ccl(self.ccl.clone())
            .with_tuner(tuner.clone());
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
        let first = context.own_ranks(ranks).start;
        let (own, plan, shared) = (sweep, plan.cloned(), Rc::new(tensors.clone()));
        let start = context.now();
        let results = spawn(&mut context, ranks, move |rank, cx| {
            let (sweep, plan, (input, output)) =
                (own.clone(), plan.clone(), shared[rank - first].clone());
            async move {
                let world = distributed::init_process_group(&cx)?;
                let call = sweep.call(&input, &output);
                let (handle, chosen) = distributed::launch_by(&cx, &world, &call, plan)?;
                handle.wait().await?;
                Ok((cx.now(), chosen))
            }
        })?;
        let ends = context.gather(results.iter().map(|(end, _)| *end).collect());
        let end = ends.into_iter().max().unwrap_or(start);
        let bound = Bound::of(&context.report());
        let wrong = self.wrong(&mut context, &tensors, count)?;
        let plan = results.into_iter().next().map(|(_, plan)| plan);
        Ok(Run { time: end - start, plan, bound, wrong })
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

    /// A rank's input and output.
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
        // If input and output differ in length, their place does not change the time.
        let same = self.operation.is_elementwise() && in_place;
        let output = if same { input.clone() } else { cx.zeros([gets], self.dtype)? };
        Ok((input, output))
    }
}

struct Run {
    time: Time,
    /// The plan of the own ranks: none in a shard without ranks.
    plan: Option<Plan>,
    bound: Bound,
    wrong: Option<u64>,
}

/// Returns the algorithm bandwidth: bytes by time, in GB/s.
#[expect(clippy::cast_precision_loss, reason = "a ratio is read, not added up")]
pub fn bandwidth(bytes: u64, time: Time) -> f64 {
    if time == Time::ZERO { 0.0 } else { bytes as f64 * 1000.0 / time.as_ps() as f64 }
}

/// Returns the ratio of bus bandwidth to algorithm bandwidth (SWP-1).
#[expect(clippy::cast_precision_loss, reason = "few ranks")]
pub fn bus_factor(operation: Operation, ranks: usize) -> f64 {
    let n = ranks as f64;
    match operation {
        Operation::AllReduce => 2.0 * (n - 1.0) / n,
        Operation::Broadcast | Operation::Reduce => 1.0,
        _ => (n - 1.0) / n,
    }
}
