//! The notes that a run takes, SIP by SIP: operations, host requests, ranges, and the steps of the critical path.
//!
//! - **REC-1 (path is time).** A `Path` accounts for every picosecond from the start of the run to the instant it
//!   leads to.
//! - **REC-2 (bounded).** Without recording, a run keeps a fixed number of steps and folds older ones into sums, however
//!   long it is. The critical path still goes back to the start, and is the one of the same run recorded.
//! - **REC-3 (whole when recorded).** A recorded run keeps all steps as they are, so that its path can be cut.
//! - **REC-4 (again).** A report can be made again: the later report contains the earlier one and everything since.
//! - **REC-5 (on demand).** A run that is asked for no critical path keeps no steps; its report is that of the same run with one,
//!   but for the path.
//! - **REC-6 (named).** Every wait for a credit on a critical path is a part: that of the port out of the sender's SIP, or of the
//!   store channel of its PE. So is every latency inside a SIP: that of the stage that the bytes wait for.

mod causes;
mod fold;
mod lines;
mod log;
mod notes;
mod path;
mod path_lines;
mod ranges;
mod spare;
mod sums;
mod usage;

pub(crate) use fold::{Chain, Room, fold};
pub(crate) use lines::{LineTable, LineTotal};
pub(crate) use log::Shared;
pub(crate) use notes::{RecordNotes, StepsNotes};
pub(crate) use path::{Entry, Gap, Gaps, Path, Step, StepId, Steps, stack_of};
pub(crate) use path_lines::{LineMark, LineSum, LineSums};
pub use ranges::{Owner, RangeSpan};
pub(crate) use ranges::{RangeTotal, Ranges};
pub use sums::PathPart;
pub(crate) use sums::Sums;
pub(crate) use usage::Use;

use crate::kernel::{LineTotals, Lines};
use crate::machine::Request;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use causes::Causes;
use log::{Log, Names};
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::rc::Rc;

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
    /// The cache of a SIP.
    Cache(u32),
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

crate::portable!(enum Resource {
    0 => Program(pe),
    1 => Gemm(pe),
    2 => Vector(pe),
    3 => Load(pe),
    4 => Store(pe),
    5 => PeLink(pe, side),
    6 => CubeLink(pe, side),
    7 => Hbm(pe),
    8 => Cache(sip),
    9 => Link { from, to },
    10 => Ingress(sip),
    11 => Host(sip),
    12 => Upload(sip),
});

impl Resource {
    /// The end of a link of a SIP on a switch.
    pub const SWITCH: u32 = u32::MAX;
    /// Number of levels that the ends of links on switches can tell apart.
    const SWITCHES: u32 = 16;

    /// Returns the end of a link that leads to the switch of a level.
    pub(crate) fn switch(level: usize) -> u32 {
        Self::SWITCH - u32::try_from(level).unwrap_or(Self::SWITCHES).min(Self::SWITCHES - 1)
    }

    /// Returns the end of a wire that leads from the switch of a level into a node.
    pub(crate) fn switch_in(level: usize) -> u32 {
        Self::switch(level) - Self::SWITCHES
    }

    /// True for a wire between SIPs, or between a SIP and its host.
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
            Self::Cache(sip) => write!(f, "sip{sip}.cache"),
            Self::Link { from, to: Self::SWITCH } => write!(f, "sip{from}->switch"),
            Self::Link { from, to } => match (Self::SWITCH - to, Self::SWITCHES) {
                (level, most) if level < most => write!(f, "sip{from}->switch{level}"),
                (level, most) if level < 2 * most => write!(f, "switch{}->sip{from}", level - most),
                _ => write!(f, "sip{from}->sip{to}"),
            },
            Self::Ingress(sip) => write!(f, "switch->sip{sip}"),
            Self::Host(sip) => write!(f, "host{sip}->sip{sip}"),
            Self::Upload(sip) => write!(f, "sip{sip}->host{sip}"),
        }
    }
}

/// One operation, as the op log keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The instant at which it began to use the resource.
    pub start: Time,
    /// The instant of its end.
    pub end: Time,
    /// The resource it used.
    pub resource: Resource,
    /// The operation in one word; a kernel has a name as well, see [`OpLog::label`].
    pub label: &'static str,
    /// The name of the launch, for a kernel.
    pub(crate) name: Option<NameId>,
    /// Bytes moved or read.
    pub bytes: u64,
    /// The message that leaves with it.
    pub flow_out: Option<NonZeroU64>,
    /// The message that came with it.
    pub flow_in: Option<NonZeroU64>,
}

crate::portable!(struct Op { start, end, resource, label, name, bytes, flow_out, flow_in });

impl Op {
    pub(crate) fn new(
        (start, end): (Time, Time),
        resource: Resource,
        label: &'static str,
        bytes: u64,
    ) -> Self {
        Self { start, end, resource, label, name: None, bytes, flow_out: None, flow_in: None }
    }
}

/// The number of a name within its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(pub(crate) u32);

crate::portable!(tuple NameId);

/// The operations of one SIP, in the order they were issued.
#[derive(Clone, Debug, Default)]
pub struct OpLog {
    pub(crate) ops: Shared<Op>,
    pub(crate) names: Shared<String>,
    /// Stretches of time that PEs and links spent on something, for cuts.
    pub(crate) stalls: Shared<StallSpan>,
}

crate::portable!(struct OpLog { ops, names, stalls });

impl OpLog {
    /// Returns the name of an operation in traces: the launch's own for a kernel, [`Op::label`] for all others.
    pub fn label<'a>(&'a self, op: &Op) -> &'a str {
        op.name.map_or(op.label, |name| &self.names[name.0 as usize])
    }
}

impl Deref for OpLog {
    type Target = [Op];

    fn deref(&self) -> &[Op] {
        &self.ops
    }
}

/// A stretch of time that a PE or a link spent on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallSpan {
    pub(crate) resource: Resource,
    pub(crate) kind: Kind,
    pub(crate) from: Time,
    pub(crate) to: Time,
}

crate::portable!(struct StallSpan { resource, kind, from, to });

/// The notes of one SIP.
///
/// The fields that every operation uses come first, to fit few cache lines.
#[repr(C)]
pub(crate) struct Record {
    sip: u32,
    recording: bool,
    next_flow: u64,
    steps: Steps,
    causes: Causes,
    ops: Log<Op>,
    names: Names,
    stalls: Log<StallSpan>,
    requests: Vec<Request>,
    pub(crate) ranges: Ranges,
    lines: Vec<LineTable>,
}

impl Record {
    pub(crate) fn new(sip: u32, sips: u32, recording: bool, room: &Rc<Room>) -> Self {
        Self {
            sip,
            recording,
            steps: Steps::new(sip, sips, recording, room.clone()),
            causes: Causes::new(sips),
            next_flow: 0,
            ops: Log::default(),
            names: Names::default(),
            stalls: Log::default(),
            requests: Vec::new(),
            ranges: Ranges::new(recording),
            lines: Vec::new(),
        }
    }

    /// Returns a number for a message, unique in the machine.
    #[inline]
    pub(crate) fn flow(&mut self) -> u64 {
        self.next_flow += 1;
        u64::from(self.sip) << path::SEQUENCE_BITS | self.next_flow
    }

    /// Notes an operation, if the run is recorded.
    #[inline]
    pub(crate) fn op(&mut self, op: impl FnOnce() -> Op) {
        if self.recording {
            let op = op();
            self.add_op(op);
        }
    }

    /// Adds an operation to the log, in code apart from that of runs that are not recorded.
    #[cold]
    #[inline(never)]
    fn add_op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Notes the whole of a kernel, if the run is recorded.
    pub(crate) fn kernel(&mut self, name: &str, span: (Time, Time), pe: PeId) {
        if self.recording {
            let name = Some(self.names.number(name));
            self.ops.push(Op { name, ..Op::new(span, Resource::Program(pe), "kernel", 0) });
        }
    }

    /// Notes a stretch of time of a PE or a link, if the run is recorded.
    #[inline]
    pub(crate) fn stall(&mut self, span: impl FnOnce() -> StallSpan) {
        if self.recording {
            let span = span();
            self.add_stall(span);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_stall(&mut self, span: StallSpan) {
        self.stalls.push(span);
    }

    /// Notes a request of the host, if the run is recorded.
    pub(crate) fn request(&mut self, request: impl FnOnce() -> Request) {
        if self.recording {
            self.requests.push(request());
        }
    }

    /// Notes that `path` went on to `to` by using `resource`.
    #[inline]
    pub(crate) fn step(&mut self, path: &mut Path, to: Time, kind: Kind, resource: Resource) {
        self.steps.add(path, to, Use::new(resource, kind));
    }

    /// Does the same, with resource and kind in one word.
    #[inline]
    pub(crate) fn step_of(&mut self, path: &mut Path, to: Time, what: Use) {
        self.steps.add(path, to, what);
    }

    pub(crate) fn steps(&self) -> &Steps {
        &self.steps
    }

    pub(crate) fn steps_mut(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// Notes that the host learns of the end of `path`.
    pub(crate) fn cause(&mut self, path: &Path) {
        if !self.recording {
            self.causes.add(path.last());
        }
    }

    /// Returns the steps that the host learned of last.
    pub(crate) fn causes(&self) -> &[StepId] {
        self.causes.latest()
    }

    /// Returns the number of a kernel's lines, and their totals, which begin with the kernel's first program.
    pub(crate) fn lines_of(&mut self, lines: &Rc<Lines>) -> (u32, LineTotals) {
        let known = self.lines.iter().rposition(|known| Rc::ptr_eq(&known.lines, lines));
        let place = known.unwrap_or_else(|| {
            self.lines.push(LineTable::new(lines));
            self.lines.len() - 1
        });
        let number = u32::try_from(place).unwrap_or(u32::MAX - 1);
        (number, self.lines[place].totals.clone())
    }

    /// Notes that a program spent a stretch of time at a line of its source, if the run is recorded (LIN-2).
    pub(crate) fn at_line(&mut self, table: u32, line: u32, span: (Time, Time), pe: PeId) {
        let table = self.lines.get(table as usize);
        let found = table.and_then(|table| table.lines.lines.get(line as usize));
        if let Some((place, text)) = found.filter(|(place, _)| !place.is_empty()) {
            let name = Some(self.names.number(&format!("{place} {}", text.trim())));
            self.ops.push(Op { name, ..Op::new(span, Resource::Program(pe), "line", 0) });
        }
    }

    /// Marks the end of a path with a line, if its last step is one of this SIP and has no mark.
    pub(crate) fn mark(&mut self, path: &Path, line: LineMark) {
        if path.last().sip() == Some(self.sip) {
            self.steps.mark(path.last(), line);
        }
    }

    pub(crate) fn line_tables(&self) -> &[LineTable] {
        &self.lines
    }

    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the operations so far (REC-4).
    pub(crate) fn op_log(&mut self) -> OpLog {
        OpLog { ops: self.ops.share(), names: self.names.share(), stalls: self.stalls.share() }
    }
}
