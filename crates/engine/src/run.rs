//! Runs: graphs that are submitted, executed and waited for as a whole.
//!
//! ```text
//!   begin ──► building ──► sealed ──► finished ──► forgotten
//!                │  submit     │  cancel, deadline, failure: tasks that have not begun never begin
//! ```
//!
//! A run that shares a worker with an earlier one begins to build when that one is sealed, and executes when it is
//! finished; so no run ever waits for room that a later run has taken. Runs that share no worker do not see each other.
//!
//! - **RUN-1 (depth).** At most `depth` runs are unfinished.
//! - **RUN-2 (strict order).** Tasks of two runs that share a worker never interleave.
//! - **RUN-3 (disjoint).** Runs that share no worker execute side by side.
//! - **RUN-4 (fence).** A run is finished, once, when it is sealed and all its tasks are gone; an empty run at once.
//! - **RUN-5 (first error).** The first error of a run is its outcome for every waiter and refuses what it still submits; no
//!   other run sees it.
//! - **RUN-6 (cancel).** A cancelled run leaves nothing behind: tasks that have not begun never begin, and running
//!   tasks are waited for.
//! - **RUN-7 (deadline).** A run whose deadline has passed is cancelled at the next step.

use crate::record::Record;
use crate::scope::OpenScope;
use crate::task::{TaskId, Time};
use crate::worker::{PoolId, WorkerId};
use std::collections::VecDeque;
use std::fmt;

/// The name of a run; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    pub(crate) number: u64,
    pub(crate) index: u32,
}

impl RunId {
    /// Returns its number, counted from 1 in the order in which runs began.
    pub fn number(self) -> u64 {
        self.number
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.number)
    }
}

/// The workers that a run uses.
#[derive(Clone, Copy, Debug)]
pub enum Resources<'a> {
    /// All of them.
    All,
    /// These, and those of these pools.
    Only(&'a [WorkerId], &'a [PoolId]),
}

/// A run as it is begun.
#[derive(Clone, Copy, Debug)]
pub struct RunSpec<'a> {
    /// Its name in messages.
    pub label: &'static str,
    /// The workers that it uses.
    pub resources: Resources<'a>,
    /// The time at which it is cancelled.
    pub deadline: Option<Time>,
}

impl RunSpec<'_> {
    /// Describes a run on all workers without deadline.
    pub fn new(label: &'static str) -> Self {
        Self { label, resources: Resources::All, deadline: None }
    }
}

/// The reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The worker said so, with this code.
    Failed(u32),
    /// The worker it was with, or had to run on, is gone.
    WorkerLost(WorkerId),
    /// No worker of its pool is left, or too few for a group.
    PoolLost(PoolId),
    /// The run was cancelled.
    Cancelled,
    /// The run's deadline has passed.
    Deadline(Time),
    /// The run ended with this scope open.
    ScopeOpen(&'static str),
}

/// The root of a failure: which task, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The task in which it began, if it was a task.
    pub task: Option<TaskId>,
    /// The member of a group.
    pub member: u16,
    /// The driver's number for the work of that task.
    pub work: u64,
    /// The reason.
    pub reason: Reason,
}

impl Cause {
    pub(crate) fn of_run(reason: Reason) -> Self {
        Self { task: None, member: 0, work: 0, reason }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(task) = self.task {
            write!(f, "task {task} (work {}, member {}): ", self.work, self.member)?;
        }
        match self.reason {
            Reason::Failed(code) => write!(f, "failed with code {code}"),
            Reason::WorkerLost(worker) => write!(f, "worker {} is gone", worker.0),
            Reason::PoolLost(pool) => write!(f, "too few workers are left in pool {}", pool.0),
            Reason::Cancelled => write!(f, "cancelled"),
            Reason::Deadline(time) => write!(f, "the deadline has passed: {}", time.0),
            Reason::ScopeOpen(label) => write!(f, "the run ended with scope `{label}` open"),
        }
    }
}

impl std::error::Error for Cause {}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Tasks that were submitted.
    pub tasks: u64,
    /// Tasks that ended well.
    pub completed: u64,
    /// The sum of the reported durations.
    pub work: u64,
    /// The longest chain of reported durations along edges that had to be waited for; if the engine records, along all.
    pub critical: u64,
    /// Pairs of overlapping accesses, one of them a write, that were left unordered on request.
    pub unordered: u64,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its figures.
    pub report: RunReport,
    /// Its first error.
    pub error: Option<Cause>,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts of which any may hold")]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) label: &'static str,
    pub(crate) is_sealed: bool,
    /// Its tasks are dispatched.
    pub(crate) is_active: bool,
    pub(crate) is_finished: bool,
    /// Its submitter was told to wait and has not come back.
    pub(crate) is_blocked: bool,
    /// One bit for each worker.
    pub(crate) resources: Vec<u64>,
    /// One bit for each pool whose workers it uses all; without the bit, look at the workers.
    pub(crate) pools: Vec<u64>,
    pub(crate) deadline: Option<Time>,
    pub(crate) scopes: Vec<OpenScope>,
    /// Tasks that are not gone.
    pub(crate) live: u32,
    /// Live tasks that a scope holds.
    pub(crate) scoped: u32,
    /// Ready tasks while it is not active.
    pub(crate) waiting: VecDeque<u32>,
    /// Ready groups; the first reserves its workers.
    pub(crate) groups: VecDeque<u32>,
    pub(crate) error: Option<Cause>,
    pub(crate) report: RunReport,
    pub(crate) record: Record,
}

impl Run {
    pub(crate) fn new(
        id: RunId,
        label: &'static str,
        resources: Vec<u64>,
        deadline: Option<Time>,
    ) -> Self {
        Self {
            id,
            label,
            is_sealed: false,
            is_active: false,
            is_finished: false,
            is_blocked: false,
            resources,
            pools: Vec::new(),
            deadline,
            scopes: Vec::new(),
            live: 0,
            scoped: 0,
            waiting: VecDeque::new(),
            groups: VecDeque::new(),
            error: None,
            report: RunReport::default(),
            record: Record::default(),
        }
    }

    /// The first error stays.
    pub(crate) fn fail(&mut self, cause: Cause) {
        self.error.get_or_insert(cause);
    }

    pub(crate) fn shares(&self, other: &[u64]) -> bool {
        self.resources.iter().zip(other).any(|(mine, theirs)| mine & theirs != 0)
    }

    #[inline]
    pub(crate) fn uses(&self, worker: u32) -> bool {
        self.resources.get(worker as usize / 64).is_some_and(|bits| bits >> (worker % 64) & 1 == 1)
    }

    /// True if it surely uses all workers of a pool.
    #[inline]
    pub(crate) fn has_pool(&self, pool: u32) -> bool {
        self.pools.get(pool as usize / 64).is_some_and(|bits| bits >> (pool % 64) & 1 == 1)
    }

    /// A pool has another worker from now on.
    pub(crate) fn forget_pool(&mut self, pool: u32) {
        if let Some(bits) = self.pools.get_mut(pool as usize / 64) {
            *bits &= !(1 << (pool % 64));
        }
    }
}
