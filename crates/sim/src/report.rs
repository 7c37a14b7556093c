//! The report of a run: utilisation, stalls, queues, ranges, the critical path and advice.
//!
//! - **RPT-1 (whole).** Each stall stack adds up to the simulated time, and so does the critical path.
//! - **RPT-2 (same).** A report depends on the run alone, not on the order in which partitions took their turns.
//! - **RPT-3 (cut).** A cut to a range that is the whole run has the utilisation, stalls and path of the run.

mod cut;
pub mod figures;
mod lines;
mod path;
mod table;
mod text;

pub use crate::record::PathPart;
pub use cut::RangeError;
pub use path::CriticalPath;
pub use table::{Style, Table};

use crate::advice::Advice;
use crate::ipcq::{Edge, EdgeName, EdgeSpec};
use crate::machine::{Request, Sip, World};
use crate::names::Names;
use crate::record::{Op, OpLog, Owner, RangeSpan, RangeTotal, Resource};
use crate::stall::{Kind, Stack};
use crate::time::Time;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The report of a run, or of a part of it.
///
/// `println!("{report}")` prints it as `phalanx run` does. A recorded run can be written as a timeline:
///
/// ```
/// use phalanx_sim::machine::{Machine, Options};
/// use phalanx_sim::{MachineSpec, Time, timeline};
/// use phalanx_trace::{Format, Writer};
/// let options = Options { record: true, ..Options::default() };
/// let mut machine = Machine::new(MachineSpec::preset("bare")?, options);
/// machine.launch(0, "nap", &machine.pes(0), |tl| async move {
///     tl.compute(Time::ns(5)).await;
///     Ok(())
/// });
/// let report = machine.run()?;
/// println!("{report}");
/// # let file = Vec::new();
/// let mut writer = Writer::new(file, Format::Perfetto)?; // `File::create("run.pftrace")?` for a file
/// timeline::write(&report, &mut writer)?;
/// writer.finish()?;
/// assert_eq!(report.op_log(), "0 5000 sip0.cube0.pe0.vector compute 0\n0 5000 sip0.cube0.pe0 nap 0\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// The end of the last kernel; of a cut, the length of the range.
    pub simulated: Time,
    /// Number of events; of a cut, zero.
    pub events: u64,
    /// Busy time of each used engine, wire and memory.
    pub utilisation: Vec<Usage>,
    /// Stall stack of each used PE and link.
    pub stalls: Vec<Stalls>,
    /// Figures of each queue between PEs.
    pub edges: Vec<EdgeUsage>,
    /// Named ranges by name, in the order of their starts.
    pub ranges: Vec<RangeUsage>,
    /// Lines of kernels that account for their time by lines, the longest first.
    pub lines: Vec<LineUsage>,
    /// The chain of operations that led to the end; of a run that was asked for none, a path without an end.
    pub critical_path: CriticalPath,
    /// Operations, if the run was recorded: a log for each SIP that had any.
    pub ops: Vec<OpLog>,
    /// Requests of hosts to their SIPs, if the run was recorded: SIP by SIP, in order of their ends.
    pub requests: Vec<Request>,
    /// Each named range, if the run was recorded: SIP by SIP, in order of their ends.
    pub range_spans: Vec<RangeSpan>,
    /// The names of devices; texts of the report name levels by them.
    pub names: Names,
    /// Changes that make the run faster, if its owner looked for them: see [`advice`](crate::advice).
    pub advice: Option<Vec<Advice>>,
}

/// The time, waiting and bytes of a kernel's programs at one line of its source.
#[derive(Clone, Debug)]
pub struct LineUsage {
    /// The kernel.
    pub kernel: String,
    /// File and line.
    pub place: String,
    /// The text of the line; empty if the source is not at hand.
    pub text: String,
    /// The time that programs spent there, by kind.
    pub stack: Stack,
    /// Bytes of the operations issued there.
    pub bytes: u64,
    /// Number of operations issued there.
    pub operations: u64,
}

/// The part of a line of a kernel's source in the critical path.
#[derive(Clone, Debug)]
pub struct PathLine {
    /// The kernel.
    pub kernel: String,
    /// File and line.
    pub place: String,
    /// The text of the line; empty if the source is not at hand.
    pub text: String,
    /// The time on the path that leads to the ends of operations issued there, waits between them included.
    pub time: Time,
    /// The time of the operations on the path, by kind.
    pub spent: Stack,
    /// Number of steps of the path.
    pub steps: u64,
}

/// The ranges of one name.
#[derive(Clone, Debug)]
pub struct RangeUsage {
    /// Their name.
    pub name: String,
    /// Number of ranges.
    pub count: u64,
    /// Sum of their lengths.
    pub total: Time,
    /// Start of the first.
    pub from: Time,
    /// End of the last.
    pub to: Time,
    /// The critical path from `from` to `to`, if the run was recorded.
    path: Option<CriticalPath>,
}

/// Busy time of one engine, wire or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The engine, wire or memory.
    pub resource: Resource,
    /// Its busy time.
    pub busy: Time,
    /// Bytes it moved or read.
    pub bytes: u64,
    /// Number of operations.
    pub operations: u64,
}

/// Stall stack of one PE or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// A PE or a link.
    pub resource: Resource,
    /// Time by kind; the rest of the simulated time is idle.
    pub stack: Stack,
}

/// Figures of one queue between PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeUsage {
    /// The queue.
    pub edge: EdgeName,
    /// Its settings.
    pub spec: EdgeSpec,
    /// Number of slots sent.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time that the next message stood without credit.
    pub credit_wait: Time,
    /// Most slots in use at once.
    pub most_slots: u32,
    /// Number of looks of a polling sender.
    pub polls: u64,
}

crate::portable!(struct EdgeUsage { edge, spec, messages, bytes, credit_wait, most_slots, polls });

impl Report {
    pub(crate) fn new(world: &World) -> Self {
        let (edges, events) = world.gather_notes();
        let last = *world.launched.last.borrow();
        let simulated = last.map_or(Time::ZERO, |(time, ..)| time);
        let mut report = Self {
            simulated,
            events,
            utilisation: Vec::new(),
            stalls: Vec::new(),
            edges,
            ranges: ranges(world),
            lines: lines::lines(world),
            critical_path: last
                .filter(|_| world.options.has_critical_path())
                .map(|(_, pe, path)| CriticalPath::new(world, Owner::Kernel(pe), &path))
                .unwrap_or_default(),
            ops: Vec::new(),
            requests: Vec::new(),
            range_spans: Vec::new(),
            names: Names::new(&world.spec),
            advice: None,
        };
        for (number, sip) in (0..).zip(&world.sips) {
            report.add_sip(number, &mut sip.borrow_mut());
        }
        report
    }

    fn add_sip(&mut self, number: u32, sip: &mut Sip) {
        for (resource, wire) in sip.wires(number) {
            let busy = wire.busy.min(self.simulated);
            self.utilisation.push(Usage {
                resource,
                busy,
                bytes: wire.bytes,
                operations: wire.turns,
            });
        }
        for (index, pe) in sip.pes.iter().enumerate().filter(|(_, pe)| pe.programs > 0) {
            let resource = Resource::Program(sip.pe_id(number, index));
            self.add_stalls(resource, pe.stalls);
        }
        for port in sip.sorted_ports().filter(|port| port.wire.turns > 0) {
            let (first, last) = (port.wire.first, port.wire.free().min(self.simulated));
            let stack = link_stack(port.wire.busy, port.starved, last.saturating_sub(first));
            self.add_stalls(Resource::Link { from: number, to: port.to }, stack);
        }
        let log = sip.record.op_log();
        if !log.is_empty() {
            self.ops.push(log);
        }
        self.requests.extend_from_slice(sip.record.requests());
        self.range_spans.extend_from_slice(&sip.record.ranges.spans());
    }

    fn add_stalls(&mut self, resource: Resource, stack: Stack) {
        assert!(
            stack.total() <= self.simulated,
            "RPT-1: {resource}: {stack:?} in {}",
            self.simulated
        );
        self.stalls.push(Stalls { resource, stack });
    }

    /// Returns the op log as text, one line an operation, by time and then by SIP.
    pub fn op_log(&self) -> String {
        let mut ops: Vec<(&OpLog, &Op)> =
            self.ops.iter().flat_map(|log| log.iter().map(move |op| (log, op))).collect();
        ops.sort_by_key(|(_, op)| op.start);
        let text = ops.iter().fold(String::new(), |mut text, (log, op)| {
            write_op(&mut text, log, op);
            text
        });
        self.names.text(&text).into_owned()
    }
}

/// Adds the line of an operation.
fn write_op(text: &mut String, log: &OpLog, op: &Op) {
    let (start, end) = (op.start.as_ps(), op.end.as_ps());
    // Writing to a `String` does not fail.
    let _ = write!(text, "{start} {end} {} {} {}", op.resource, log.label(op), op.bytes);
    for (direction, flow) in [("out", op.flow_out), ("in", op.flow_in)] {
        if let Some(flow) = flow {
            let _ = write!(text, " {direction}={flow}");
        }
    }
    text.push('\n');
}

/// Returns the ranges of all SIPs by name, in the order of their starts.
fn ranges(world: &World) -> Vec<RangeUsage> {
    let mut totals: BTreeMap<String, RangeTotal> = BTreeMap::new();
    for sip in &world.sips {
        for (name, total) in sip.borrow().record.ranges.totals() {
            match totals.get_mut(name) {
                Some(known) => known.add(total),
                None => drop(totals.insert(name.clone(), total.clone())),
            }
        }
    }
    let usage = |(name, total): (String, RangeTotal)| {
        let RangeTotal { count, total, from, to, last: (owner, path) } = total;
        let path = world.options.record.then(|| CriticalPath::since(world, owner, &path, from));
        RangeUsage { name, count, total, from, to, path }
    };
    let mut ranges: Vec<RangeUsage> = totals.into_iter().map(usage).collect();
    ranges.sort_by_key(|range| range.from);
    ranges
}

/// Returns a link's time from its first use to its last: on the wire, without credits, or with nothing to send.
fn link_stack(busy: Time, starved: Time, used: Time) -> Stack {
    let (mut stack, mut left) = (Stack::default(), used);
    for (kind, span) in [(Kind::Link, busy), (Kind::Credit, starved), (Kind::Dependency, left)] {
        let span = span.min(left);
        stack.add(kind, span);
        left = left - span;
    }
    stack
}

impl EdgeUsage {
    pub(crate) fn of(edge: &Edge) -> Self {
        Self {
            edge: edge.name,
            spec: edge.spec,
            messages: edge.stats.messages,
            bytes: edge.stats.bytes,
            credit_wait: Time::ps(edge.stats.credit_wait),
            most_slots: edge.stats.most_slots,
            polls: edge.stats.polls,
        }
    }
}
