//! The notes of a SIP as plain data, which another shard can take over.

use super::lines::{LineTable, LineTotal};
use super::log::Log;
use super::path::{Gaps, Step, Steps};
use super::path_lines::LineMark;
use super::{Chain, OpLog, RangeSpan, RangeTotal, Record, Shared};
use crate::kernel::Lines;
use crate::machine::Request;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The steps of a SIP.
#[derive(Clone)]
pub(crate) struct StepsNotes {
    list: Vec<Step>,
    first: u64,
    taken: usize,
    folded: Vec<Chain>,
    before: Option<Vec<Gaps>>,
    marks: Vec<LineMark>,
    has_lines: bool,
}

crate::portable!(struct StepsNotes { list, first, taken, folded, before, marks, has_lines });

/// The notes of a SIP.
pub(crate) struct RecordNotes {
    steps: StepsNotes,
    ops: OpLog,
    requests: Vec<Request>,
    totals: BTreeMap<String, RangeTotal>,
    spans: Shared<RangeSpan>,
    lines: Vec<LineNotes>,
}

crate::portable!(struct RecordNotes { steps, ops, requests, totals, spans, lines });

/// The lines of a kernel, and the totals of each.
struct LineNotes {
    kernel: String,
    lines: Vec<(String, String)>,
    totals: Vec<LineTotal>,
}

crate::portable!(struct LineNotes { kernel, lines, totals });

impl Steps {
    fn notes(&self) -> StepsNotes {
        StepsNotes {
            list: self.list.clone(),
            first: self.first,
            taken: self.taken,
            folded: self.folded.clone(),
            before: self.before.clone(),
            marks: self.marks.clone(),
            has_lines: self.has_lines,
        }
    }

    /// Takes all steps out.
    pub(crate) fn take(&mut self) -> StepsNotes {
        StepsNotes {
            list: std::mem::take(&mut self.list),
            first: self.first,
            taken: self.taken,
            folded: std::mem::take(&mut self.folded),
            before: self.before.take(),
            marks: std::mem::take(&mut self.marks),
            has_lines: self.has_lines,
        }
    }

    /// Replaces all steps.
    pub(crate) fn put(&mut self, notes: StepsNotes) {
        let StepsNotes { list, first, taken, folded, before, marks, has_lines } = notes;
        (self.list, self.first, self.taken) = (list, first, taken);
        (self.folded, self.before) = (folded, before);
        (self.marks, self.has_lines) = (marks, has_lines);
        self.renumber();
    }
}

impl Record {
    /// Copies what a report needs.
    pub(crate) fn notes(&mut self) -> RecordNotes {
        let lines = |table: &LineTable| {
            let (kernel, lines) = (table.lines.kernel.clone(), table.lines.lines.clone());
            LineNotes { kernel, lines, totals: table.totals.borrow().clone() }
        };
        RecordNotes {
            steps: self.steps.notes(),
            ops: self.op_log(),
            requests: self.requests.clone(),
            totals: self.ranges.totals().clone(),
            spans: self.ranges.spans(),
            lines: self.lines.iter().map(lines).collect(),
        }
    }

    /// Replaces the notes by those of another shard.
    pub(crate) fn put(&mut self, notes: &RecordNotes) {
        self.steps.put(notes.steps.clone());
        let OpLog { ops, names, stalls } = notes.ops.clone();
        (self.ops, self.stalls) = (Log::of(ops), Log::of(stalls));
        self.names.put(names);
        self.requests.clone_from(&notes.requests);
        self.ranges.put(notes.totals.clone(), notes.spans.clone());
        let table = |notes: &LineNotes| {
            let (kernel, lines) = (notes.kernel.clone(), notes.lines.clone());
            let table = LineTable::new(&Rc::new(Lines { kernel, lines }));
            table.totals.borrow_mut().clone_from(&notes.totals);
            table
        };
        self.lines = notes.lines.iter().map(table).collect();
    }
}
