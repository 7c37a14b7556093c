//! A trial: one collective alone on a machine, without ranks and without data.
//!
//! A trial runs the kernels that ranks run, on the same PEs, over the same host command, and on tensors of the same layout. So
//! its time is the time from the call until the last rank is done, if all ranks call at the same instant.
//!
//! - **TRI-1 (one for all).** If all ranks do the same, one rank is simulated, and stands for all (MIR-1). The result
//!   is that of simulating every rank; where that cannot be shown, every rank is simulated.
//! - **TRI-2 (by content).** Groups whose members come in the same order on a machine whose SIPs reach each other alike have the same
//!   times, and [`Trial::standard`] is the same trial for all of them.
//! - **TRI-3 (shared).** A trial of every rank may be shared by several threads. The result is that of one.

use super::algorithm::{CollectiveAlgorithm, Operation, Shape};
use super::config::Plan;
use super::job::{Job, Members};
use super::lanes::Lane;
use super::layout::{Layout, Role};
use super::part::{ReduceOp, Splits};
use super::sweep::Bound;
use crate::shards;
use phalanx_sim::exchange::{Exchange, Mirror};
use phalanx_sim::machine::{Cause, Host, Launch, Machine, Options, RunError};
use phalanx_sim::memory::MemoryError;
use phalanx_sim::spec::Topology;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The parameters of a collective that its time depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trial {
    /// The operation.
    pub operation: Operation,
    /// The operation that combines numbers.
    pub combine: ReduceOp,
    /// The type of the elements.
    pub dtype: DType,
    /// The SIPs that take part.
    pub members: Vec<u32>,
    /// The root, by its number among the members.
    pub root: usize,
    /// The places and sizes of every rank's tensors.
    pub layout: Layout,
    /// True if an all-to-all has split sizes.
    pub has_splits: bool,
}

impl Trial {
    /// Describes a trial: a sum, if anything is combined, of f32 with root 0 and tensors in one piece; the larger of
    /// input and output has `elements`, rounded up to equal parts.
    pub fn new(operation: Operation, members: Vec<u32>, elements: usize) -> Self {
        let parts = if operation.is_elementwise() { 1 } else { members.len().max(1) };
        Self {
            operation,
            combine: ReduceOp::Sum,
            dtype: DType::F32,
            members,
            root: 0,
            layout: Layout::single(elements.div_ceil(parts)),
            has_splits: false,
        }
    }

    /// Returns the trial with the same times on the first SIPs of a machine, if every SIP of it reaches every other
    /// alike (TRI-2). The numbers of SIPs count for their order alone, which stays.
    #[must_use]
    pub fn standard(&self, machine: &MachineSpec) -> Self {
        let alike = matches!(machine.sips.topology, Topology::Switch | Topology::FullyConnected);
        if !alike || !machine.levels.is_empty() {
            return self.clone();
        }
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        let place = |sip: &u32| u32::try_from(sorted.partition_point(|other| other < sip));
        let members = self.members.iter().map(place).collect::<Result<_, _>>();
        Self { members: members.unwrap_or_else(|_| self.members.clone()), ..self.clone() }
    }

    /// The same trial with tensors of other sizes.
    #[must_use]
    pub(crate) fn resized(&self, size: impl Fn(usize) -> usize) -> Self {
        Self { layout: self.layout.resized(size), ..self.clone() }
    }

    /// Bytes of the larger of a rank's input and output.
    pub(crate) fn bytes(&self) -> usize {
        let parts = if self.operation.is_elementwise() { 1 } else { self.members.len() };
        self.layout.count().saturating_mul(parts).saturating_mul(self.dtype.size())
    }

    /// The shape of a PE's part with so many elements, and so many in a message at most.
    pub(super) fn shape(&self, elements: usize, slot: usize) -> Shape {
        let (operation, ranks) = (self.operation, self.members.len());
        Shape { operation, ranks, elements, slot, has_splits: self.has_splits }
    }

    /// The split sizes of every rank: equal parts, passed like others.
    fn splits(&self) -> Option<Rc<Splits>> {
        let parts = vec![self.layout.count(); self.members.len()];
        self.has_splits.then(|| Rc::new(Splits { sent: parts.clone(), received: parts }))
    }

    /// The part of a rank.
    fn job(
        &self,
        machine: &Machine,
        rank: usize,
        plan: &Plan,
        algorithm: &Arc<dyn CollectiveAlgorithm>,
        members: &Members,
    ) -> Result<Job, MemoryError> {
        let (ranks, sip) = (self.members.len(), self.members[rank]);
        let role = Role { operation: self.operation, ranks, is_root: rank == self.root };
        let channels = plan.channels_of(&**algorithm, self.has_splits);
        let lanes = self.layout.lanes(machine, sip, self.dtype, role, channels)?;
        let edge = channels.queues(plan.edge, lanes.len());
        Ok(Job {
            lanes,
            algorithm: algorithm.clone(),
            operation: self.operation,
            combine: self.combine,
            dtype: self.dtype,
            rank,
            root: self.root,
            splits: self.splits(),
            sips: members.sips.clone(),
            names: members.ranks.clone(),
            edge,
            start: plan.start,
            in_loops: plan.in_loops,
            channel: 0,
            topic: "a trial".into(),
            mismatch: Rc::default(),
        })
    }
}

/// The error of a trial.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrialError {
    /// The algorithm does not fit.
    #[error("{0}")]
    Unfit(String),
    /// The machine has no room for the tensors.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The end of each rank's part, as far as it has ended.
#[derive(Clone, Default)]
pub struct Ends(Rc<RefCell<Vec<Option<End>>>>);

/// The time of an end, or the failure.
type End = Result<Time, RunError>;

impl Ends {
    /// The last end; `None` if a part has not ended.
    fn last(&self) -> Result<Option<Time>, RunError> {
        let mut last = Some(Time::ZERO);
        for end in self.0.borrow().iter() {
            let end = end.clone().transpose()?;
            last = last.zip(end).map(|(one, other)| one.max(other));
        }
        Ok(last)
    }
}

/// The times of a trial that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from the call until the last rank is done.
    pub time: Time,
    /// The busy time of the busiest engine, wire or memory.
    pub busiest: Time,
}

/// The end of a trial with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The trial ended.
    Ended(Timing),
    /// The trial takes longer than this.
    Longer(Time),
}

impl Outcome {
    /// The finding of two shards of a trial together.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Ended(one), Self::Ended(other)) => Self::Ended(Timing {
                time: one.time.max(other.time),
                busiest: one.busiest.max(other.busiest),
            }),
            (Self::Longer(one), Self::Longer(other)) => Self::Longer(one.max(other)),
            (Self::Longer(least), Self::Ended(_)) | (Self::Ended(_), Self::Longer(least)) => {
                Self::Longer(least)
            }
        }
    }
}

/// Simulates a collective, and returns its time.
pub fn measure(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> Result<Time, TrialError> {
    match measure_within(machine, trial, plan, || Time::MAX)? {
        Outcome::Ended(timing) => Ok(timing.time),
        Outcome::Longer(_) => Err(TrialError::Run(RunError::TooLong)),
    }
}

/// Simulates a collective, and returns its time if it is within `limit`, which may fall meanwhile. The simulation ends
/// soon after the limit.
pub fn measure_within(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time,
) -> Result<Outcome, TrialError> {
    plan.check(trial.operation, machine, &trial.members).map_err(TrialError::Unfit)?;
    match mirrored_within(machine, trial, plan, &limit) {
        Some(outcome) => Ok(outcome),
        None => whole_within(machine, trial, plan, limit),
    }
}

/// As [`measure_within`]; a trial of every rank is shared by as many threads as `shards` says then.
pub(crate) fn measure_on(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time + Sync,
    shards: impl Fn() -> usize,
) -> Result<Outcome, TrialError> {
    plan.check(trial.operation, machine, &trial.members).map_err(TrialError::Unfit)?;
    match mirrored_within(machine, trial, plan, &limit) {
        Some(outcome) => Ok(outcome),
        None => shared_within(machine, trial, plan, limit, shards()),
    }
}

/// The times of a collective, and what bounds it.
pub(crate) fn observe(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
) -> Result<(Timing, Bound), TrialError> {
    plan.check(trial.operation, machine, &trial.members).map_err(TrialError::Unfit)?;
    let forever = || Time::MAX;
    let seen = |outcome, machine: &Machine| match outcome {
        Outcome::Ended(timing) => Ok((timing, Bound::of(&machine.report()))),
        Outcome::Longer(_) => Err(TrialError::Run(RunError::TooLong)),
    };
    if let Some((outcome, machine)) = mirrored(machine, trial, plan, Detail::Path, forever) {
        return seen(outcome, &machine);
    }
    let (outcome, machine) = whole(machine, trial, plan, Detail::Path, forever)?;
    seen(outcome, &machine)
}

/// True if one rank may stand for all; its simulation tells.
pub(crate) fn may_be_mirrored(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> bool {
    let symmetry =
        plan.algorithm().and_then(|algorithm| algorithm.symmetry(&trial.shape(0, usize::MAX)));
    symmetry.is_some_and(|symmetry| Mirror::new(machine, &trial.members, symmetry).is_some())
}

/// As [`measure_within`], with every rank simulated.
pub fn whole_within(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time,
) -> Result<Outcome, TrialError> {
    Ok(whole(machine, trial, plan, Detail::Times, limit)?.0)
}

/// As [`whole_within`], on so many threads, each of which has a block of the SIPs (TRI-3).
pub fn shared_within(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time + Sync,
    shards: usize,
) -> Result<Outcome, TrialError> {
    let shards = shards.min(machine.devices() as usize);
    shards::run(shards, |exchange| {
        let Some(exchange) = exchange else { return whole_within(machine, trial, plan, &limit) };
        let options = Options { exchange: Some(exchange.clone()), ..Detail::Times.options() };
        let mut machine = Machine::new(machine.clone(), options);
        let ends = launch(&mut machine, trial, plan);
        let is_launched = |launched: &bool| *launched;
        if !gathered(&*exchange, ends.is_ok()).iter().all(is_launched) {
            let elsewhere = || TrialError::Unfit("it does not fit on another SIP".to_owned());
            return Err(ends.err().unwrap_or_else(elsewhere));
        }
        let own = outcome(&mut machine, &ends?, &limit);
        let others = gathered(&*exchange, own.as_ref().ok().copied());
        let all = others.into_iter().reduce(|one, other| Some(one?.join(other?))).flatten();
        all.map_or_else(|| Err(own.err().unwrap_or(RunError::TooLong.into())), Ok)
    })
}

/// The finding of one shard.
fn gathered<T: Copy + Send + Sync + 'static>(exchange: &dyn Exchange, own: T) -> Vec<T> {
    let all = exchange.gather(Arc::new(own));
    all.iter().filter_map(|notes| notes.downcast_ref().copied()).collect()
}

fn whole(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    detail: Detail,
    limit: impl Fn() -> Time,
) -> Result<(Outcome, Machine), TrialError> {
    let mut machine = Machine::new(machine.clone(), detail.options());
    let ends = launch(&mut machine, trial, plan)?;
    Ok((outcome(&mut machine, &ends, limit)?, machine))
}

/// As [`measure_within`], with one rank simulated for all; `None` where it cannot stand for all (TRI-1).
pub fn mirrored_within(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time,
) -> Option<Outcome> {
    mirrored(machine, trial, plan, Detail::Times, limit).map(|(outcome, _)| outcome)
}

fn mirrored(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    detail: Detail,
    limit: impl Fn() -> Time,
) -> Option<(Outcome, Machine)> {
    let algorithm = plan.algorithm()?;
    let symmetry = |elements| algorithm.symmetry(&trial.shape(elements, usize::MAX));
    // A vector of no elements is cut evenly: a symmetry of another one is a symmetry of this one.
    let likely = symmetry(0)?;
    let mirror = Mirror::new(machine, &trial.members, likely)?;
    let exchange: Arc<dyn Exchange> = Arc::new(mirror);
    let options = Options { exchange: Some(exchange), ..detail.options() };
    let mut machine = Machine::new(machine.clone(), options);
    let ends = launch_where(&mut machine, trial, plan, |job| {
        let elements = |lane: &Lane| lane.input.len.max(lane.output.len);
        job.lanes.iter().all(|lane| symmetry(elements(lane)) == Some(likely))
    });
    let outcome = outcome(&mut machine, &ends.ok().flatten()?, limit).ok()?;
    (!machine.has_ties()).then_some((outcome, machine))
}

/// The detail that a trial is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// The times alone.
    Times,
    /// The times and the critical path.
    Path,
}

impl Detail {
    fn options(self) -> Options {
        Options { data: false, critical_path: self == Self::Path, ..Options::default() }
    }
}

/// Runs a machine up to a limit.
fn outcome(
    machine: &mut Machine,
    ends: &Ends,
    limit: impl Fn() -> Time,
) -> Result<Outcome, TrialError> {
    // After the run, the clock shows the last credit on its way, which may come after the end.
    let reached = Cell::new(Time::ZERO);
    let advanced = machine.advance_while(|now| {
        reached.set(now);
        now <= limit()
    });
    match ends.last()? {
        Some(time) => {
            advanced?;
            Ok(Outcome::Ended(Timing { time, busiest: machine.busiest() }))
        }
        // All events up to now have fired, and a rank is not done: the collective ends later.
        None if !advanced? => Ok(Outcome::Longer(reached.get())),
        None => Err(RunError::TooLong.into()),
    }
}

/// Launches every member's part on a machine.
pub fn launch(machine: &mut Machine, trial: &Trial, plan: &Plan) -> Result<Ends, TrialError> {
    Ok(launch_where(machine, trial, plan, |_| true)?.unwrap_or_default())
}

/// Launches the part of every member that the machine simulates, if all of them are as wanted.
fn launch_where(
    machine: &mut Machine,
    trial: &Trial,
    plan: &Plan,
    is_wanted: impl Fn(&Job) -> bool,
) -> Result<Option<Ends>, TrialError> {
    let algorithm = plan
        .algorithm()
        .ok_or_else(|| TrialError::Unfit(format!("there is no algorithm `{}`", plan.module)))?;
    let members = Members {
        ranks: (0..trial.members.len()).collect(),
        sips: trial.members.as_slice().into(),
    };
    let ends = Ends::default();
    let own = trial.members.iter().enumerate().filter(|(_, sip)| machine.owns(**sip));
    let own: Vec<(usize, u32)> = own.map(|(rank, sip)| (rank, *sip)).collect();
    *ends.0.borrow_mut() = vec![None; own.len()];
    for (number, (rank, sip)) in own.into_iter().enumerate() {
        let job = Rc::new(trial.job(machine, rank, plan, &algorithm, &members)?);
        if !is_wanted(&job) {
            return Ok(None);
        }
        let (host, ends) = (machine.host(sip), ends.clone());
        let program = async move {
            let end = run(&host, job).await;
            if end.is_err() {
                host.sim().stop();
            }
            ends.0.borrow_mut()[number] = Some(end);
        };
        machine.spawn(sip, format!("host{sip}"), program).detach();
    }
    Ok(Some(ends))
}

/// Runs one rank's part; returns the time of its end.
async fn run(host: &Host, job: Rc<Job>) -> Result<Time, RunError> {
    let cause = host.command("launch", Cause::default()).await;
    let (name, pes) = (job.operation.name(), job.pes());
    let launch = Launch { name, label: None, pes: &pes, exclusive: true, cause };
    host.run(launch, |tl| job.run(tl)).await?;
    Ok(host.sim().now())
}
