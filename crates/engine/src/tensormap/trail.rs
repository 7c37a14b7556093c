//! The only region of a buffer, in the buffer's own record.

use super::RunKey;
use crate::arena::NONE;
use crate::task::TaskId;
use crate::view::Region;

/// The users of the only region of a buffer on behalf of one run. Tasks that have ended may still be named.
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

/// Maximum readers of an only region; with more, the region goes to a tree.
const READERS: usize = 7;

/// Tasks that have read an only region since it was written, in one cache line.
#[derive(Debug)]
pub(crate) struct Readers {
    count: u32,
    tasks: [TaskId; READERS],
}

impl Readers {
    pub(crate) fn new() -> Self {
        Self { count: 0, tasks: [TaskId::NONE; READERS] }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count as usize >= READERS
    }

    /// Adds one, unless it is full.
    #[inline]
    pub(crate) fn push(&mut self, task: TaskId) {
        if let Some(place) = self.tasks.get_mut(self.count as usize) {
            *place = task;
            self.count += 1;
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    pub(crate) fn tasks(&self) -> &[TaskId] {
        &self.tasks[..(self.count as usize).min(READERS)]
    }

    /// Keeps those that `is_wanted`, in their order.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(TaskId) -> bool) {
        let tasks = self.tasks;
        let count = std::mem::take(&mut self.count) as usize;
        for task in tasks.into_iter().take(count).filter(|task| is_wanted(*task)) {
            self.push(task);
        }
    }
}

impl Trail {
    pub(crate) fn new() -> Self {
        Self { number: 0, run: NONE, maps: NONE, start: -1, end: -1, writer: TaskId::NONE }
    }

    /// True if this is about `run`; no two runs have the same number.
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
