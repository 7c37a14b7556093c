//! What a run leaves behind: the op log, and the latest steps of the critical path, kept by each SIP for itself.
//!
//! - **REC-1 (path is time).** A `Path` accounts for every picosecond from the start of the run to the instant it
//!   leads to.
//! - **REC-2 (bounded).** Without recording, a run keeps a fixed number of steps, however long it is.

use crate::machine::Request;
use crate::stall::{Kind, Stack};
use crate::time::Time;
use crate::topology::PeId;
use std::fmt;
use std::num::NonZeroU64;

/// Something that can be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A kernel on a PE.
    Program(PeId),
    /// The matrix engine of a PE.
    Gemm(PeId),
    /// The vector engine of a PE.
    Vector(PeId),
    /// The DMA channel into a PE.
    Load(PeId),
    /// The DMA channel out of a PE.
    Store(PeId),
    /// The wire out of a PE toward a neighbour in its cube (0 east, 1 west, 2 south, 3 north).
    PeLink(PeId, u8),
    /// The wire out of a cube toward a neighbour in its SIP.
    CubeLink(PeId, u8),
    /// The memory stack of a cube.
    Hbm(PeId),
    /// The wire between two SIPs.
    Link {
        /// The sender.
        from: u32,
        /// The receiver, or [`Resource::SWITCH`].
        to: u32,
    },
    /// The switch port into a SIP.
    Ingress(u32),
    /// The wire from a host to its SIP.
    Host(u32),
    /// The wire from a SIP to its host.
    Upload(u32),
}

impl Resource {
    /// What a link leads to where all SIPs hang on one switch.
    pub const SWITCH: u32 = u32::MAX;

    /// Whether it is a wire between SIPs, or between a SIP and its host.
    pub fn is_wire_outside(self) -> bool {
        matches!(self, Self::Link { .. } | Self::Ingress(_) | Self::Host(_) | Self::Upload(_))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SIDES: [&str; 4] = ["east", "west", "south", "north"];
        match self {
            Self::Program(pe) => write!(f, "{pe}"),
            Self::Gemm(pe) => write!(f, "{pe}.gemm"),
            Self::Vector(pe) => write!(f, "{pe}.vector"),
            Self::Load(pe) => write!(f, "{pe}.dma.load"),
            Self::Store(pe) => write!(f, "{pe}.dma.store"),
            Self::PeLink(pe, side) => write!(f, "{pe}.{}", SIDES[*side as usize]),
            Self::CubeLink(pe, side) => {
                write!(f, "sip{}.cube{}.{}", pe.sip, pe.cube, SIDES[*side as usize])
            }
            Self::Hbm(pe) => write!(f, "sip{}.cube{}.hbm", pe.sip, pe.cube),
            Self::Link { from, to: Self::SWITCH } => write!(f, "sip{from}->switch"),
            Self::Link { from, to } => write!(f, "sip{from}->sip{to}"),
            Self::Ingress(sip) => write!(f, "switch->sip{sip}"),
            Self::Host(sip) => write!(f, "host{sip}->sip{sip}"),
            Self::Upload(sip) => write!(f, "sip{sip}->host{sip}"),
        }
    }
}

/// One operation, as the op log keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// When it began to use the resource.
    pub start: Time,
    /// When it was over.
    pub end: Time,
    /// What it used.
    pub resource: Resource,
    /// What it was.
    pub label: &'static str,
    /// How many bytes it moved or read.
    pub bytes: u64,
    /// The message that leaves with it.
    pub flow_out: Option<NonZeroU64>,
    /// The message that came with it.
    pub flow_in: Option<NonZeroU64>,
}

/// Why an instant is when it is: the chain of operations that led to it, summed up by kind.
///
/// Time not spent on one of the four kinds was a dependency: five numbers would be one more to carry everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    spent: [u64; Kind::COUNT - 1],
    at: Time,
    last: StepId,
}

impl Path {
    /// A chain that begins at `at`, with everything before it spent on `kind`.
    #[cfg(test)]
    pub(crate) fn starting(at: Time, kind: Kind) -> Self {
        let mut path = Self::default();
        path.advance(at, kind);
        path
    }

    /// Goes on to `to`, spending the time between on `kind` (REC-1).
    #[inline]
    pub(crate) fn advance(&mut self, to: Time, kind: Kind) {
        if to > self.at {
            if let Some(spent) = self.spent.get_mut(kind as usize) {
                *spent += (to - self.at).as_ps();
            }
            self.at = to;
        }
    }

    /// Has the same last step as `other`.
    #[inline]
    pub(crate) fn follow(&mut self, other: &Self) {
        self.last = other.last;
    }

    /// All of its time, by kind.
    pub(crate) fn spent(&self) -> Stack {
        let mut stack = Stack::default();
        for (kind, span) in Kind::ALL.into_iter().zip(self.spent) {
            stack.add(kind, Time::ps(span));
        }
        stack.add(Kind::Dependency, self.at - stack.total());
        stack
    }

    pub(crate) fn at(&self) -> Time {
        self.at
    }

    pub(crate) fn last(&self) -> StepId {
        self.last
    }
}

/// The number of a step: which SIP's, and its place in that SIP's row. Zero is no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepId(u64);

const SEQUENCE_BITS: u32 = 44;

impl StepId {
    fn new(sip: u32, sequence: u64) -> Self {
        Self(u64::from(sip) << SEQUENCE_BITS | (sequence + 1))
    }

    pub(crate) fn sip(self) -> Option<u32> {
        (self.0 != 0).then_some((self.0 >> SEQUENCE_BITS) as u32)
    }

    fn sequence(self) -> u64 {
        (self.0 & ((1 << SEQUENCE_BITS) - 1)) - 1
    }
}

/// One link of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) parent: StepId,
    pub(crate) resource: Resource,
    pub(crate) kind: Kind,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

/// What one SIP has noted down.
pub(crate) struct Record {
    sip: u32,
    recording: bool,
    ops: Vec<Op>,
    requests: Vec<Request>,
    steps: Vec<Step>,
    next_step: u64,
    capacity: usize,
    next_flow: u64,
}

/// How many steps all SIPs together keep at most, and one of them (REC-2): more than the second would not stay in a
/// processor's cache.
const STEPS: usize = 1 << 14;
const STEPS_OF_ONE: usize = 1 << 11;

impl Record {
    pub(crate) fn new(sip: u32, sips: u32, recording: bool) -> Self {
        // A power of two, so that finding a step's place needs no division.
        let capacity = (STEPS / (sips as usize).next_power_of_two()).clamp(16, STEPS_OF_ONE);
        Self {
            sip,
            recording,
            ops: Vec::new(),
            requests: Vec::new(),
            steps: Vec::new(),
            next_step: 0,
            capacity,
            next_flow: 0,
        }
    }

    /// A number for a message, unique in the machine.
    #[inline]
    pub(crate) fn flow(&mut self) -> u64 {
        self.next_flow += 1;
        u64::from(self.sip) << SEQUENCE_BITS | self.next_flow
    }

    /// Notes an operation, if somebody wants the log.
    #[inline]
    pub(crate) fn op(&mut self, op: impl FnOnce() -> Op) {
        if self.recording {
            self.ops.push(op());
        }
    }

    /// Notes a request of the host, if somebody wants the log.
    pub(crate) fn request(&mut self, request: impl FnOnce() -> Request) {
        if self.recording {
            self.requests.push(request());
        }
    }

    /// Notes that `path` went on to `to` by using `resource`.
    #[inline]
    pub(crate) fn step(&mut self, path: &mut Path, to: Time, kind: Kind, resource: Resource) {
        debug_assert!(to >= path.at, "REC-1: {resource} goes back from {} to {to}", path.at);
        let step = Step { parent: path.last, resource, kind, from: path.at, to };
        path.last = StepId::new(self.sip, self.next_step);
        path.advance(to, kind);
        if self.steps.len() < self.capacity {
            self.steps.push(step);
        } else {
            let slot = self.slot_of(self.next_step);
            self.steps[slot] = step;
        }
        self.next_step += 1;
    }

    /// A step, unless it was so long ago that it has been forgotten.
    pub(crate) fn get(&self, id: StepId) -> Option<&Step> {
        let sequence = id.sequence();
        let kept = self.next_step.saturating_sub(sequence) <= self.capacity as u64;
        if kept { self.steps.get(self.slot_of(sequence)) } else { None }
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are kept")]
    fn slot_of(&self, sequence: u64) -> usize {
        sequence as usize & (self.capacity - 1)
    }

    pub(crate) fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    pub(crate) fn take_ops(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rec_1_a_path_accounts_for_every_picosecond() {
        let mut record = Record::new(3, 4, false);
        let mut path = Path::starting(Time::ps(5), Kind::Dependency);
        for (to, kind) in [(9, Kind::Dma), (9, Kind::Link), (30, Kind::Compute), (12, Kind::Credit)]
        {
            if to >= path.at().as_ps() {
                record.step(&mut path, Time::ps(to), kind, Resource::Host(3));
            } else {
                path.advance(Time::ps(to), kind);
            }
            assert_eq!(path.spent().total(), path.at(), "REC-1");
        }
        assert_eq!((path.at(), path.last().sip()), (Time::ps(30), Some(3)));
        assert_eq!(path.spent().get(Kind::Credit), Time::ZERO, "REC-1: no way back");
    }

    #[test]
    fn rec_2_old_steps_are_forgotten_and_new_ones_kept() {
        let mut record = Record::new(1, 1 << 20, false);
        let mut path = Path::default();
        let mut ids = Vec::new();
        for step in 1..=100 {
            record.step(&mut path, Time::ps(step), Kind::Link, Resource::Host(1));
            ids.push(path.last());
        }
        assert_eq!(record.steps.len(), record.capacity, "REC-2");
        let (gone, kept) = ids.split_at(100 - record.capacity);
        assert!(gone.iter().all(|id| record.get(*id).is_none()), "REC-2");
        let ends = kept.iter().map(|id| record.get(*id).unwrap().to);
        assert!(ends.eq((85..=100).map(Time::ps)), "REC-2");
        assert!(record.take_ops().is_empty());
    }
}
