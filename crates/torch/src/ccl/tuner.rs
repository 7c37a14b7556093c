//! The tuner: chooses an algorithm by simulating each that fits, without data, on a machine of its own.
//!
//! A measurement depends on machine, members, operation and size alone, so that every rank makes the same choice without
//! communication.

use super::algorithm::{Algorithm, Operation};
use super::config::Plan;
use super::part::{Buffer, Part, Peers, ReduceOp};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::memory::MemoryError;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The parameters of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trial {
    /// The operation.
    pub operation: Operation,
    /// The SIPs that take part.
    pub members: Vec<u32>,
    /// Elements of the larger of input and output.
    pub elements: usize,
    /// Bytes of an element.
    pub size: usize,
}

/// A cache of measurements on one machine.
pub struct Tuner {
    machine: MachineSpec,
    known: RefCell<BTreeMap<(Trial, String), Option<Time>>>,
}

/// Largest simulated collective, in bytes a rank, if the time grows with the size by then. The time of larger collectives
/// is extrapolated from the last two measurements.
const LARGEST: usize = 4 << 20;

/// Largest simulated collective in any case.
const LIMIT: usize = 64 << 20;

/// True if twice the size takes at least 1.5 times as long.
fn is_linear(small: Time, large: Time) -> bool {
    2 * u128::from(large.as_ps()) >= 3 * u128::from(small.as_ps())
}

impl Tuner {
    /// A tuner for a machine.
    pub fn new(machine: MachineSpec) -> Self {
        Self { machine, known: RefCell::default() }
    }

    /// The fastest of `plans` for a trial, the first of equals; `None` if none fits.
    pub fn fastest(&self, trial: &Trial, plans: &[Plan]) -> Option<Plan> {
        let timed = plans.iter().filter_map(|plan| Some((self.time(trial, plan)?, plan)));
        timed.min_by_key(|(time, _)| *time).map(|(_, plan)| plan.clone())
    }

    /// The time of a plan; `None` if it does not fit.
    pub fn time(&self, trial: &Trial, plan: &Plan) -> Option<Time> {
        // Sizes are rounded up to powers of two: a few trials serve all sizes.
        let elements = trial.elements.max(1).next_power_of_two();
        let at = |elements| self.measured(&Trial { elements, ..trial.clone() }, plan);
        let within = |bytes: usize| (bytes / trial.size.max(1)).max(2).next_power_of_two();
        let mut most = within(LARGEST);
        if elements <= most {
            return at(elements);
        }
        // Where latencies still hide the cost of more bytes, larger sizes are measured.
        let (mut small, mut large) = (at(most / 2)?, at(most)?);
        while !is_linear(small, large) && most < elements.min(within(LIMIT)) {
            most *= 2;
            (small, large) = (large, at(most)?);
        }
        let (more, per) = if is_linear(small, large) {
            (large - small, most / 2)
        } else {
            // As if the collective ran piece by piece.
            (large, most)
        };
        let beyond = (elements - most) as u128 * u128::from(more.as_ps()) / per as u128;
        Some(large + Time::ps(u64::try_from(beyond).unwrap_or(u64::MAX)))
    }

    /// The number of cached measurements.
    pub fn measurements(&self) -> usize {
        self.known.borrow().len()
    }

    fn measured(&self, trial: &Trial, plan: &Plan) -> Option<Time> {
        let key = (trial.clone(), plan.name.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let time = measure(&self.machine, trial, plan).ok();
        self.known.borrow_mut().insert(key, time);
        time
    }
}

/// The error of a trial.
#[derive(Debug, thiserror::Error)]
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

/// Simulates the kernels of a collective without ranks and without data; returns the time of the last end.
pub fn measure(machine: &MachineSpec, trial: &Trial, plan: &Plan) -> Result<Time, TrialError> {
    let algorithm = Algorithm::find(&plan.module)
        .ok_or_else(|| TrialError::Unfit(format!("there is no algorithm `{}`", plan.module)))?;
    algorithm.check(trial.operation, machine, &trial.members).map_err(TrialError::Unfit)?;
    let options = Options { data: false, ..Options::default() };
    let mut machine = Machine::new(machine.clone(), options);
    launch(&mut machine, trial, plan, algorithm)?;
    Ok(machine.run()?.simulated)
}

/// Launches every member's part on a machine.
pub fn launch(
    machine: &mut Machine,
    trial: &Trial,
    plan: &Plan,
    algorithm: &'static Algorithm,
) -> Result<(), TrialError> {
    let dtype = match trial.size {
        2 => DType::F16,
        _ => DType::F32,
    };
    let lanes: Vec<PeId> = if algorithm.all_pes && trial.operation.is_elementwise() {
        machine.pes(0)
    } else {
        vec![PeId::first(0)]
    };
    let ranks = trial.members.len();
    let [input_len, output_len] = lengths(trial.operation, trial.elements, ranks);
    for (rank, &sip) in trial.members.iter().enumerate() {
        let input = Buffer::of(machine.empty(sip, 0, dtype, input_len)?);
        let output = if trial.operation.is_elementwise() {
            input.clone()
        } else {
            Buffer::of(machine.empty(sip, 0, dtype, output_len)?)
        };
        let own: Vec<PeId> = lanes.iter().map(|pe| PeId { sip, ..*pe }).collect();
        let members = trial.members.clone();
        let (operation, edge, count) = (trial.operation, plan.edge, lanes.len());
        machine.launch(sip, operation.name(), &own, move |tl| {
            let cut = |buffer: &Buffer| {
                let range = crate::placement::share(&(0..buffer.len), tl.program_id(), count);
                buffer.part(&range)
            };
            let pes = members.iter().map(|sip| PeId { sip: *sip, ..tl.pe() }).collect();
            let peers = Peers {
                pes,
                names: (0..ranks).collect(),
                edge,
                channel: 0,
                topic: "a trial".into(),
                mismatch: Rc::default(),
            };
            let part = Part {
                operation,
                combine: ReduceOp::Sum,
                rank,
                ranks,
                root: 0,
                dtype,
                input: cut(&input),
                output: cut(&output),
                splits: None,
                peers,
            };
            (algorithm.run)(part, tl)
        });
    }
    Ok(())
}

/// Elements of input and output, if the larger has `elements`, rounded up to equal parts.
fn lengths(operation: Operation, elements: usize, ranks: usize) -> [usize; 2] {
    let part = elements.div_ceil(ranks);
    match operation {
        Operation::AllReduce | Operation::Broadcast | Operation::Reduce => [elements, elements],
        Operation::ReduceScatter | Operation::Scatter => [part * ranks, part],
        Operation::AllGather | Operation::Gather => [part, part * ranks],
        Operation::AllToAll => [part * ranks, part * ranks],
    }
}
