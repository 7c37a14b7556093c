//! What a run has shown: data, not text.
//!
//! - **RPT-1 (whole).** Each stall stack adds up to the simulated time, and so does the critical path.
//! - **RPT-2 (same).** A report depends on the run alone, not on the order in which places took their turns.

pub mod figures;
mod table;
mod text;

pub use table::{Style, Table};

use crate::ipcq::{Edge, EdgeName, EdgeSpec};
use crate::machine::{Request, Sip, World};
use crate::record::{Op, Path, Resource, StepId};
use crate::stall::{Kind, Stack};
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// When the last kernel finished.
    pub simulated: Time,
    /// How many events it took.
    pub events: u64,
    /// How busy each used engine, wire and memory was.
    pub utilisation: Vec<Usage>,
    /// Where the time of each used PE and link went.
    pub stalls: Vec<Stalls>,
    /// What each queue between PEs has seen.
    pub edges: Vec<EdgeUsage>,
    /// What led to the end.
    pub critical_path: CriticalPath,
    /// Every operation, if the run was recorded: a list for each SIP that had any, in the order they were issued.
    pub ops: Vec<Vec<Op>>,
    /// What hosts have asked of their SIPs, if the run was recorded: SIP by SIP, in order of their ends.
    pub requests: Vec<Request>,
    /// What to change to go faster, in words.
    pub advice: Vec<String>,
}

/// How busy something was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What.
    pub resource: Resource,
    /// For how long.
    pub busy: Time,
    /// How many bytes it moved or read.
    pub bytes: u64,
    /// How many operations.
    pub operations: u64,
}

/// Where the time of something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// A PE or a link.
    pub resource: Resource,
    /// By kind; the rest of the simulated time it was idle.
    pub stack: Stack,
}

/// What a queue between PEs has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeUsage {
    /// Which.
    pub edge: EdgeName,
    /// Its settings.
    pub spec: EdgeSpec,
    /// How many slots were sent.
    pub messages: u64,
    /// How many bytes.
    pub bytes: u64,
    /// For how long the next message stood without credit.
    pub credit_wait: Time,
    /// The most slots in use at once.
    pub most_slots: u32,
    /// How often a polling sender looked.
    pub polls: u64,
    /// The least number of slots with which the wire would never wait for a credit.
    pub slots_needed: u64,
}

/// The chain of operations that led to the end of the run.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    /// The program that ended last.
    pub end: Option<PeId>,
    /// The time on it, by kind: all of the simulated time.
    pub spent: Stack,
    /// What it went through, longest first, as far back as steps were kept.
    pub parts: Vec<PathPart>,
    /// The time that passed behind the wires of SIPs and hosts among them, before the next part began.
    pub latency: Time,
    /// Whether that is all the way to the start.
    pub complete: bool,
}

/// One resource's part in the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// Which.
    pub resource: Resource,
    /// What for.
    pub kind: Kind,
    /// How often.
    pub count: u64,
    /// For how long in all.
    pub time: Time,
}

impl Report {
    pub(crate) fn new(world: &World) -> Self {
        let last = *world.last.borrow();
        let simulated = last.map_or(Time::ZERO, |(time, ..)| time);
        let mut report = Self {
            simulated,
            events: world.sim.events(),
            utilisation: Vec::new(),
            stalls: Vec::new(),
            edges: world.edges.borrow().sorted().map(|edge| usage_of(world, edge)).collect(),
            critical_path: last
                .map(|(_, pe, path)| CriticalPath::new(world, pe, &path))
                .unwrap_or_default(),
            ops: Vec::new(),
            requests: Vec::new(),
            advice: Vec::new(),
        };
        for (number, sip) in (0..).zip(&world.sips) {
            report.add_sip(number, &mut sip.borrow_mut());
        }
        report.advice = advice(&report.edges, simulated);
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
            let stack = link_stack(
                port.wire.busy,
                port.starved,
                port.wire.first,
                port.wire.free(),
                self.simulated,
            );
            self.add_stalls(Resource::Link { from: number, to: port.to }, stack);
        }
        let ops = sip.record.take_ops();
        if !ops.is_empty() {
            self.ops.push(ops);
        }
        self.requests.extend(sip.record.take_requests());
    }

    fn add_stalls(&mut self, resource: Resource, stack: Stack) {
        assert!(
            stack.total() <= self.simulated,
            "RPT-1: {resource}: {stack:?} in {}",
            self.simulated
        );
        self.stalls.push(Stalls { resource, stack });
    }

    /// The op log as text, one line an operation, by time and then by SIP.
    pub fn op_log(&self) -> String {
        let mut ops: Vec<&Op> = self.ops.iter().flatten().collect();
        ops.sort_by_key(|op| op.start);
        ops.iter().fold(String::new(), |mut log, op| {
            let _ = writeln!(log, "{op}"); // a `String` takes all
            log
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.as_ps(), self.end.as_ps());
        write!(f, "{start} {end} {} {} {}", self.resource, self.label, self.bytes)?;
        if let Some(flow) = self.flow_out {
            write!(f, " out={flow}")?;
        }
        if let Some(flow) = self.flow_in {
            write!(f, " in={flow}")?;
        }
        Ok(())
    }
}

/// A link's time: on the wire, starved of credits, or waiting for somebody to send, from its first use to its last.
fn link_stack(busy: Time, starved: Time, first: Time, last: Time, simulated: Time) -> Stack {
    let mut stack = Stack::default();
    let mut left = last.min(simulated).saturating_sub(first);
    for (kind, span) in [(Kind::Link, busy), (Kind::Credit, starved), (Kind::Dependency, left)] {
        let span = span.min(left);
        stack.add(kind, span);
        left = left - span;
    }
    stack
}

fn usage_of(world: &World, edge: &Edge) -> EdgeUsage {
    let mean = edge.stats.bytes.checked_div(edge.stats.messages).unwrap_or(0);
    let link = world.spec.sips.link;
    let way = Time::ps(link.latency.as_ps().saturating_mul(u64::from(edge.hops)));
    EdgeUsage {
        edge: edge.name,
        spec: edge.spec,
        messages: edge.stats.messages,
        bytes: edge.stats.bytes,
        credit_wait: Time::ps(edge.stats.credit_wait),
        most_slots: edge.stats.most_slots,
        polls: edge.stats.polls,
        slots_needed: edge.slots_needed(link.bandwidth.time_for(mean), way),
    }
}

/// What to change: one line for all edges that lack the same.
fn advice(edges: &[EdgeUsage], simulated: Time) -> Vec<String> {
    let mut groups: Vec<(String, EdgeName, u64)> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.lacks_slots(simulated)) {
        let (slots, size) = (edge.spec.n_slots, Bytes(edge.spec.slot_size));
        let lack = format!("{slots} slots of {size}; {} needed", edge.slots_needed);
        match groups.iter_mut().find(|(known, ..)| *known == lack) {
            Some((.., count)) => *count += 1,
            None => groups.push((lack, edge.edge, 1)),
        }
    }
    let line = |(lack, first, count): &(String, EdgeName, u64)| match count {
        1 => format!("credit-bound on edge {first} ({lack})"),
        _ => format!("credit-bound on {count} edges, e.g. {first} ({lack})"),
    };
    groups.iter().map(line).collect()
}

impl EdgeUsage {
    /// Whether a tenth of the run or more was spent waiting for credits, and more slots would help.
    fn lacks_slots(&self, simulated: Time) -> bool {
        self.credit_wait > Time::ZERO
            && self.credit_wait.as_ps() >= simulated.as_ps() / 10
            && u64::from(self.spec.n_slots) < self.slots_needed
    }
}

impl CriticalPath {
    fn new(world: &World, end: PeId, path: &Path) -> Self {
        let mut parts: BTreeMap<(Resource, Kind), (u64, Time)> = BTreeMap::new();
        let (mut at, mut next, mut latency) = (path.last(), path.at(), Time::ZERO);
        let complete = loop {
            let Some(sip) = at.sip() else { break true };
            let sip = world.sips[sip as usize].borrow();
            let Some(step) = sip.record.get(at) else { break false };
            let part = parts.entry((step.resource, step.kind)).or_default();
            *part = (part.0 + 1, part.1 + (step.to - step.from));
            if step.resource.is_wire_outside() {
                latency += next.saturating_sub(step.to);
            }
            (at, next) = (step.parent, step.from);
        };
        debug_assert!(at == StepId::default() || !complete);
        let mut parts: Vec<PathPart> = parts
            .into_iter()
            .map(|((resource, kind), (count, time))| PathPart { resource, kind, count, time })
            .collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.time), part.resource));
        assert_eq!(path.spent().total(), path.at(), "REC-1: the path accounts for all of its time");
        Self { end: Some(end), spent: path.spent(), parts, latency, complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(from: u32, n_slots: u32, credit_wait: Time) -> EdgeUsage {
        let edge = EdgeName { from: PeId::first(from), to: PeId::first(from + 1), channel: 0 };
        let spec = EdgeSpec { n_slots, ..EdgeSpec::default() };
        EdgeUsage {
            edge,
            spec,
            messages: 1,
            bytes: 1,
            credit_wait,
            most_slots: 1,
            polls: 0,
            slots_needed: 9,
        }
    }

    #[test]
    fn equal_advice_is_given_once() {
        let run = Time::ns(100);
        let half = |from, n_slots| usage(from, n_slots, Time::ns(50));
        let one =
            ["credit-bound on edge sip0.cube0.pe0->sip1.cube0.pe0 (4 slots of 16 KiB; 9 needed)"];
        let short = usage(1, 4, Time::ns(9));
        assert_eq!(advice(&[half(0, 4), half(1, 9), short], run), one);
        let many = [
            "credit-bound on 2 edges, e.g. sip0.cube0.pe0->sip1.cube0.pe0 (4 slots of 16 KiB; 9 needed)",
            "credit-bound on edge sip1.cube0.pe0->sip2.cube0.pe0 (2 slots of 16 KiB; 9 needed)",
        ];
        assert_eq!(advice(&[half(0, 4), half(1, 2), half(2, 4)], run), many);
    }
}
