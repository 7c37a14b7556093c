//! Source lines along a chain of steps.
//!
//! A program with lines marks the step at the end of each operation with the line that asked for the operation. Back from there, the
//! steps and the time between them belong to that line, until an earlier mark. Steps of programs without lines have no marks, and cost nothing.

use super::path::{StepId, Steps};
use crate::stall::{Kind, Stack};
use crate::time::Time;
use std::collections::BTreeMap;

/// The line that a step ends an operation of, by numbers of its SIP. Zero is no mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineMark(u32);

crate::portable!(tuple LineMark);

impl LineMark {
    /// The mark of a step before the first line of a kernel.
    pub(crate) const OUTSIDE: Self = Self(u32::MAX);
    const LINE_BITS: u32 = 16;

    /// Returns the mark of a line of a table. Kernels beyond the numbers of marks are outside.
    pub(crate) fn new(table: u32, line: u32) -> Self {
        let most = (1 << Self::LINE_BITS) - 1;
        if table + 1 >= most || line > most {
            return Self::OUTSIDE;
        }
        Self((table + 1) << Self::LINE_BITS | line)
    }
}

/// A line of the machine: the SIP and the mark of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineKey {
    pub(crate) sip: u32,
    mark: u32,
}

crate::portable!(struct LineKey { sip, mark });

impl LineKey {
    const OUTSIDE: Self = Self { sip: u32::MAX, mark: LineMark::OUTSIDE.0 };

    fn new(sip: u32, mark: LineMark) -> Option<Self> {
        match mark {
            LineMark(0) => None,
            LineMark::OUTSIDE => Some(Self::OUTSIDE),
            LineMark(mark) => Some(Self { sip, mark }),
        }
    }

    /// Returns the numbers of the table and the line; nothing outside of lines.
    pub(crate) fn place(self) -> Option<(usize, usize)> {
        let (table, line) = (self.mark >> LineMark::LINE_BITS, self.mark & 0xFFFF);
        if self == Self::OUTSIDE {
            None
        } else {
            Some(((table as usize).checked_sub(1)?, line as usize))
        }
    }
}

/// The part of a line, or of what is outside of lines, in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineSum {
    /// All time, that between steps included.
    pub(crate) time: Time,
    /// The time of steps, by kind.
    pub(crate) spent: Stack,
    pub(crate) steps: u64,
}

crate::portable!(struct LineSum { time, spent, steps });

impl LineSum {
    pub(crate) fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.steps += other.steps;
        for kind in Kind::ALL {
            self.spent.add(kind, other.spent.get(kind));
        }
    }
}

/// The lines of a chain, from its end back.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineSums {
    /// The time after the last mark of the chain; it belongs to the line of the next step.
    open: LineSum,
    /// The line of the last mark on the way back.
    current: Option<LineKey>,
    sums: BTreeMap<LineKey, LineSum>,
}

crate::portable!(struct LineSums { open, current, sums });

impl LineSums {
    fn now(&mut self) -> &mut LineSum {
        match self.current {
            Some(line) => self.sums.entry(line).or_default(),
            None => &mut self.open,
        }
    }

    /// Gives the part at the end that belongs to no line yet to this line.
    fn end_with(&mut self, line: Option<LineKey>) {
        let Some(line) = line else { return };
        let open = std::mem::take(&mut self.open);
        self.sums.entry(line).or_default().add(&open);
        self.current = self.current.or(Some(line));
    }

    /// Goes back over the time between a step and the next one.
    pub(crate) fn over_gap(&mut self, span: Time) {
        if span > Time::ZERO {
            self.now().time += span;
        }
    }

    /// Goes back over a step.
    pub(crate) fn over_step(&mut self, (sip, mark): (u32, LineMark), kind: Kind, span: Time) {
        self.current = LineKey::new(sip, mark).or(self.current);
        let sum = self.now();
        sum.time += span;
        sum.spent.add(kind, span);
        sum.steps += 1;
    }

    /// Goes back over a chain of so much time. One without lines was folded before the first line of the run.
    pub(crate) fn over_chain(&mut self, earlier: Option<&Self>, span: Time) {
        let Some(earlier) = earlier else {
            self.current = Some(LineKey::OUTSIDE);
            return self.over_gap(span);
        };
        self.now().add(&earlier.open);
        for (line, sum) in &earlier.sums {
            self.sums.entry(*line).or_default().add(sum);
        }
        self.current = earlier.current.or(self.current);
    }

    /// Returns the sums of the lines.
    pub(crate) fn finish(self) -> BTreeMap<LineKey, LineSum> {
        self.sums
    }
}

impl Steps {
    /// Marks a step with its line, unless it has one. Of a step that was folded, the chain that ends with it is marked.
    pub(crate) fn mark(&mut self, id: StepId, mark: LineMark) {
        self.has_lines = true;
        if let Some(index) = self.index_of(id) {
            return self.set_mark(index, mark);
        }
        let sip = self.sip();
        let chain = self.chain_index(id).map(|index| &mut self.folded[index]);
        if let Some(lines) = chain.and_then(|chain| chain.lines.as_mut()) {
            lines.end_with(LineKey::new(sip, mark));
        }
    }

    /// Marks the step that is added next.
    pub(crate) fn mark_next(&mut self, mark: LineMark) {
        self.set_mark(self.list.len(), mark);
    }

    fn set_mark(&mut self, index: usize, mark: LineMark) {
        self.has_lines = true;
        if self.marks.len() <= index {
            self.marks.resize(index + 1, LineMark::default());
        }
        if self.marks[index] == LineMark::default() {
            self.marks[index] = mark;
        }
    }

    /// Returns the mark of a step of the list.
    pub(crate) fn mark_at(&self, index: usize) -> LineMark {
        self.marks.get(index).copied().unwrap_or_default()
    }

    /// Returns the mark of a step.
    pub(crate) fn mark_of(&self, id: StepId) -> LineMark {
        self.index_of(id).map_or_else(LineMark::default, |index| self.mark_at(index))
    }
}
