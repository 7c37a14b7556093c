//! The only region of a buffer, in the buffer's own record.

use super::RunKey;
use crate::arena::NONE;
use crate::few::Few;
use crate::task::TaskId;
use crate::view::Region;

/// Who used the only region of a buffer on behalf of one run. Tasks that have ended may still be named.
#[derive(Debug)]
pub(crate) struct Trail {
    /// The number and the index of the run.
    number: u64,
    run: u32,
    /// The first of the trees of runs for which one region is not enough.
    pub(crate) maps: u32,
    /// The region, which has no gaps.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The task that wrote it last.
    pub(crate) writer: TaskId,
}

/// Tasks that have read it since it was written.
pub(crate) type Readers = Few<TaskId, 4>;

impl Trail {
    pub(crate) fn new() -> Self {
        Self { number: 0, run: NONE, maps: NONE, start: -1, end: -1, writer: TaskId::NONE }
    }

    /// Whether this is about `run`; no two runs have the same number.
    #[inline]
    pub(crate) fn is_of(&self, run: RunKey) -> bool {
        self.number == run.1
    }

    pub(crate) fn run(&self) -> RunKey {
        (self.run, self.number)
    }

    /// Nobody has written the region, and the next who do are of this run.
    #[inline]
    pub(crate) fn begin(&mut self, (run, number): RunKey) {
        (self.run, self.number) = (run, number);
        self.writer = TaskId::NONE;
        self.forget_region();
    }

    /// There is no only region: whoever comes next must look for trees.
    #[inline]
    pub(crate) fn forget_region(&mut self) {
        (self.start, self.end) = (-1, -1);
    }

    #[inline]
    pub(crate) fn is_about(&self, region: &Region) -> bool {
        self.start == region.start && self.end == region.end && region.geometry.is_none()
    }
}
