//! A trial: one collective alone on a machine, without ranks and without data.
//!
//! A trial runs the kernels that ranks run, on the same PEs, over the same host command, and on tensors of the same layout. So
//! its time is the time from the call until the last rank is done, if all ranks call at the same instant.

use super::algorithm::{CollectiveAlgorithm, Operation};
use super::config::Plan;
use super::job::{Job, Members};
use super::layout::{Layout, Role};
use super::part::{ReduceOp, Splits};
use phalanx_sim::machine::{Cause, Host, Launch, Machine, Options, RunError};
use phalanx_sim::memory::MemoryError;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::cell::RefCell;
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
    /// A sum, if anything is combined, of f32 with root 0 and tensors in one piece; the larger of input and output has
    /// `elements`, rounded up to equal parts.
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

/// The time of a collective.
pub fn measure(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> Result<Time, TrialError> {
    match measure_within(machine, trial, plan, || Time::MAX)? {
        Outcome::Ended(timing) => Ok(timing.time),
        Outcome::Longer(_) => Err(TrialError::Run(RunError::TooLong)),
    }
}

/// The time of a collective, if it is within `limit`, which may fall meanwhile. The simulation ends soon after the limit.
pub fn measure_within(
    machine: &MachineSpec,
    trial: &Trial,
    plan: &Plan,
    limit: impl Fn() -> Time,
) -> Result<Outcome, TrialError> {
    plan.check(trial.operation, machine, &trial.members).map_err(TrialError::Unfit)?;
    let options = Options { data: false, critical_path: false, ..Options::default() };
    let mut machine = Machine::new(machine.clone(), options);
    let ends = launch(&mut machine, trial, plan)?;
    let advanced = machine.advance_while(|now| now <= limit());
    match ends.last()? {
        Some(time) => {
            advanced?;
            Ok(Outcome::Ended(Timing { time, busiest: machine.busiest() }))
        }
        // All events up to now have fired, and a rank is not done: the collective ends later.
        None if !advanced? => Ok(Outcome::Longer(machine.now())),
        None => Err(RunError::TooLong.into()),
    }
}

/// Launches every member's part on a machine.
pub fn launch(machine: &mut Machine, trial: &Trial, plan: &Plan) -> Result<Ends, TrialError> {
    let algorithm = plan
        .algorithm()
        .ok_or_else(|| TrialError::Unfit(format!("there is no algorithm `{}`", plan.module)))?;
    let members = Members {
        ranks: (0..trial.members.len()).collect(),
        sips: trial.members.as_slice().into(),
    };
    let ends = Ends::default();
    *ends.0.borrow_mut() = vec![None; trial.members.len()];
    for (rank, &sip) in trial.members.iter().enumerate() {
        let job = Rc::new(trial.job(machine, rank, plan, &algorithm, &members)?);
        let (host, ends) = (machine.host(sip), ends.clone());
        let program = async move {
            let end = run(&host, job).await;
            if end.is_err() {
                host.sim().stop();
            }
            ends.0.borrow_mut()[rank] = Some(end);
        };
        machine.spawn(sip, format!("host{sip}"), program).detach();
    }
    Ok(ends)
}

/// Runs one rank's part; returns the time of its end.
async fn run(host: &Host, job: Rc<Job>) -> Result<Time, RunError> {
    let cause = host.command("launch", Cause::default()).await;
    let (name, pes) = (job.operation.name(), job.pes());
    let launch = Launch { name, label: None, pes: &pes, exclusive: true, cause };
    host.run(launch, |tl| job.run(tl)).await?;
    Ok(host.sim().now())
}
