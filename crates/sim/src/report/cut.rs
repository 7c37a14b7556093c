//! A report cut to a named range.

use super::{RangeUsage, Report, Stalls, Usage, link_stack};
use crate::config::suggestion;
use crate::record::{Op, OpLog, Resource};
use crate::stall::Stack;
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason why a report cannot be cut to a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The run has no range of this name.
    #[error("no range named `{name}`: {}{}", suggest(suggestion.as_deref()), known(ranges))]
    Unknown {
        /// The name given.
        name: String,
        /// The range with the closest spelling, if one is close.
        suggestion: Option<String>,
        /// The ranges of the run.
        ranges: Vec<String>,
    },
    /// The run kept no operations to cut.
    #[error("the run was not recorded: only a recorded run (`Options::record`) can be cut")]
    NotRecorded,
}

fn suggest(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("did you mean `{name}`? "))
}

fn known(ranges: &[String]) -> String {
    if ranges.is_empty() {
        return "the run has no ranges".to_owned();
    }
    let names: Vec<String> = ranges.iter().map(|name| format!("`{name}`")).collect();
    format!("the ranges are {}", names.join(", "))
}

impl Report {
    /// Returns the report of the part of a recorded run from the first start to the last end of the ranges called `name`.
    ///
    /// Utilisation, stalls, operations and requests are those of that part. An operation that reaches over its start or end
    /// counts with the busy time inside, and with its bytes if it begins inside. The critical path is the part of the
    /// chain that led to the end of the last range; where the cut falls into a wait of several kinds, their order is a guess.
    /// Queues, advice, events and ranges cannot be cut, and are left out.
    ///
    /// # Errors
    ///
    /// If there is no such range, or the run was not recorded.
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, machine::{Machine, Options}, Time};
    /// let options = Options { record: true, ..Options::default() };
    /// let mut machine = Machine::new(MachineSpec::preset("bare").unwrap(), options);
    /// machine.launch(0, "steps", &machine.pes(0), |tl| async move {
    ///     for step in 0..4 {
    ///         let _range = tl.range(format!("step {step}"));
    ///         tl.compute(Time::ns(5)).await;
    ///     }
    ///     Ok(())
    /// });
    /// let step = machine.run().unwrap().within("step 3").unwrap();
    /// assert_eq!((step.simulated, step.utilisation[0].busy), (Time::ns(5), Time::ns(5)));
    /// ```
    pub fn within(&self, name: &str) -> Result<Self, RangeError> {
        let Some(range) = self.ranges.iter().find(|range| range.name == name) else {
            return Err(self.unknown(name));
        };
        let critical_path = range.path.clone().ok_or(RangeError::NotRecorded)?;
        let cut = Cut { from: range.from, to: range.to };
        let uses = cut.uses(&self.ops);
        let is_inside = |from: Time, to: Time| from < cut.to && to > cut.from;
        let mut requests = self.requests.clone();
        requests.retain(|request| is_inside(request.asked, request.over));
        Ok(Self {
            simulated: range.to - range.from,
            events: 0,
            utilisation: cut.utilisation(self, &uses),
            stalls: cut.stalls(self, &uses),
            edges: Vec::new(),
            ranges: Vec::new(),
            lines: Vec::new(),
            critical_path,
            ops: self.ops.iter().map(|log| cut.log(log)).filter(|log| !log.is_empty()).collect(),
            requests,
            range_spans: Vec::new(),
            names: self.names.clone(),
            advice: None,
        })
    }

    fn unknown(&self, name: &str) -> RangeError {
        let ranges: Vec<String> =
            self.ranges.iter().map(|RangeUsage { name, .. }| name.clone()).collect();
        let suggestion = suggestion(name, ranges.iter().map(String::as_str)).map(str::to_owned);
        RangeError::Unknown { name: name.to_owned(), suggestion, ranges }
    }
}

/// A stretch of time.
struct Cut {
    from: Time,
    to: Time,
}

/// The use of a resource: inside the cut, and from its first operation to its last.
#[derive(Clone, Copy)]
struct Use {
    busy: Time,
    bytes: u64,
    operations: u64,
    first: Time,
    last: Time,
}

impl Cut {
    /// Returns the part of a stretch that lies inside.
    fn overlap(&self, from: Time, to: Time) -> Time {
        to.min(self.to).saturating_sub(from.max(self.from))
    }

    fn uses(&self, logs: &[OpLog]) -> BTreeMap<Resource, Use> {
        let mut uses: BTreeMap<Resource, Use> = BTreeMap::new();
        for op in logs.iter().flat_map(|log| log.iter()) {
            let (busy, begins) =
                (self.overlap(op.start, op.end), (self.from..self.to).contains(&op.start));
            let none =
                Use { busy: Time::ZERO, bytes: 0, operations: 0, first: op.start, last: op.end };
            let entry = uses.entry(op.resource).or_insert(none);
            entry.busy += busy;
            entry.bytes += if begins { op.bytes } else { 0 };
            entry.operations += u64::from(begins);
            (entry.first, entry.last) = (entry.first.min(op.start), entry.last.max(op.end));
        }
        uses
    }

    fn utilisation(&self, report: &Report, uses: &BTreeMap<Resource, Use>) -> Vec<Usage> {
        let length = self.to - self.from;
        let usage = |whole: &Usage| {
            let Use { busy, bytes, operations, .. } = *uses.get(&whole.resource)?;
            let is_used = operations > 0 || busy > Time::ZERO;
            is_used.then_some(Usage {
                resource: whole.resource,
                busy: busy.min(length),
                bytes,
                operations,
            })
        };
        report.utilisation.iter().filter_map(usage).collect()
    }

    fn stalls(&self, report: &Report, uses: &BTreeMap<Resource, Use>) -> Vec<Stalls> {
        let mut stacks: BTreeMap<Resource, Stack> = BTreeMap::new();
        for span in report.ops.iter().flat_map(|log| log.stalls.iter()) {
            let stack = stacks.entry(span.resource).or_default();
            stack.add(span.kind, self.overlap(span.from, span.to));
        }
        let cut = |whole: &Stalls| {
            let resource = whole.resource;
            let stack = stacks.get(&resource).copied().unwrap_or_default();
            let link = uses.get(&resource).filter(|_| matches!(resource, Resource::Link { .. }));
            let stack = link.map_or(stack, |link| {
                link_stack(link.busy, stack.total(), self.overlap(link.first, link.last))
            });
            Stalls { resource, stack }
        };
        report.stalls.iter().map(cut).collect()
    }

    fn log(&self, log: &OpLog) -> OpLog {
        let is_inside = |op: &&Op| op.start < self.to && op.end > self.from;
        let ops: Vec<Op> = log.iter().filter(is_inside).copied().collect();
        OpLog { ops: Arc::new(ops), names: log.names.clone(), stalls: Arc::default() }
    }
}
