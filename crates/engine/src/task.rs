//! What a submitter says about a task, and what the engine keeps of it.
//!
//! ```text
//!   BUILDING ──► PENDING ──► READY ──► RUNNING ──► COMPLETED ──► CONSUMED (the slot is free)
//!                    └─────────┴──────────┴──────► FAILED ──────────┘
//! ```
//!
//! BUILDING is a value on the submitter's stack, not a state others can see: a submit that is refused has touched
//! nothing, so there is never a half-built task to act on.
//!
//! - **TASK-1 (generational).** The id of a task that is gone never names another task.

use crate::arena::NONE;
use crate::refs::{ConsumerRef, Holders, SelfRef};
use crate::run::Cause;
use crate::tensormap::{Effect, Kinds};
use crate::view::View;
use crate::worker::{PoolId, WorkerId};

/// A reading of the driver's clock, in the driver's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// The name of a task: a slot of the ring, and how often it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    /// Which place of the ring it has, from 0; another task has it later.
    #[inline]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "t{}.{}", self.slot, self.generation)
    }
}

/// What a task does with one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Reads it.
    Input,
    /// Writes all of it; what was there does not matter.
    Output,
    /// Reads and writes it.
    InOut,
    /// Writes some of it; the rest stays as it was.
    OutputExisting,
    /// Touches it without order; the submitter answers for that.
    NoDep,
}

impl Tag {
    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Input | Self::InOut)
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Output | Self::InOut | Self::OutputExisting)
    }

    pub(crate) fn effect(self, is_unordered: bool) -> Effect {
        Effect { reads: self.reads(), writes: self.writes(), is_unordered }
    }
}

/// One argument: which bytes, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Which bytes.
    pub view: View,
    /// What the task does with them.
    pub tag: Tag,
}

impl View {
    /// An argument that is read.
    #[inline]
    pub fn input(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::Input }
    }

    /// An argument that is written whole.
    #[inline]
    pub fn output(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::Output }
    }

    /// An argument that is read and written.
    #[inline]
    pub fn in_out(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::InOut }
    }
}

/// Where a task runs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// On this worker and no other.
    Worker(WorkerId),
    /// On any worker of the pool.
    Pool(PoolId),
    /// As many members as there are entries, each on its worker with its arguments, all at once.
    Group(&'a [(WorkerId, &'a [Arg])]),
    /// As many members as there are entries, each on another worker of the pool, all at once.
    PoolGroup(PoolId, &'a [&'a [Arg]]),
}

/// A task as it is submitted.
#[derive(Clone, Copy, Debug)]
pub struct TaskSpec<'a> {
    /// Where it runs.
    pub place: Place<'a>,
    /// Its arguments; those of a group's members are given with the members.
    pub args: &'a [Arg],
    /// Tasks of the same run that must have ended before.
    pub after: &'a [TaskId],
    /// How many bytes of its own it writes; they live until its scope and all who name them are over.
    pub bytes: u64,
    /// What it is to the driver.
    pub work: u64,
    /// Higher ones leave a queue first; equal ones in order.
    pub priority: u8,
    /// Whether nothing is inferred for it: it waits only for `after`. Later tasks still wait for it.
    pub is_unordered: bool,
    /// Whether it meets others while it runs, so that it must be a group.
    pub is_collective: bool,
    /// How long it may take without being thought stuck, if longer than the budget.
    pub expected: Time,
}

impl<'a> TaskSpec<'a> {
    /// A task for `place` without arguments.
    pub fn new(place: Place<'a>) -> Self {
        Self {
            place,
            args: &[],
            after: &[],
            bytes: 0,
            work: 0,
            priority: 0,
            is_unordered: false,
            is_collective: false,
            expected: Time(0),
        }
    }

    /// With these arguments.
    #[must_use]
    pub fn args(self, args: &'a [Arg]) -> Self {
        Self { args, ..self }
    }

    /// Not before these tasks have ended.
    #[must_use]
    pub fn after(self, after: &'a [TaskId]) -> Self {
        Self { after, ..self }
    }

    /// With a slab of its own.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// What it is to the driver.
    #[must_use]
    pub fn work(self, work: u64) -> Self {
        Self { work, ..self }
    }

    /// Ahead of those with a lower one.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Without inferred dependencies.
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// Meets others while it runs.
    #[must_use]
    pub fn collective(self) -> Self {
        Self { is_collective: true, ..self }
    }

    /// Takes about this long.
    #[must_use]
    pub fn expected(self, expected: Time) -> Self {
        Self { expected, ..self }
    }
}

/// What has become of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for others.
    Pending,
    /// Waits for its turn.
    Ready,
    /// Is with a worker.
    Running,
    /// Has ended well; its slab is still held.
    Completed,
    /// Has ended badly, or will not begin.
    Failed,
    /// Is gone.
    Consumed,
}

/// Which queue a task goes to when it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Worker(u32),
    Pool(u32),
    /// The number of its group.
    Group(u32),
}

/// What a task waited for, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) producer: TaskId,
    pub(crate) member: u16,
    pub(crate) argument: u16,
    pub(crate) kinds: Kinds,
}

/// One place of the ring.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) state: State,
    pub(crate) priority: u8,
    /// Whether its consumers have been told.
    pub(crate) is_ended: bool,
    /// Whether a scope holds it.
    pub(crate) is_scoped: bool,
    pub(crate) route: Route,
    pub(crate) run: u32,
    /// Producers that have not ended.
    pub(crate) waits: u32,
    /// Members that have given their lane back but not ended.
    pub(crate) deferred: u32,
    /// The first of its accesses.
    pub(crate) accesses: u32,
    /// Its number in the run's record.
    pub(crate) record: u32,
    /// The submission that met it last.
    pub(crate) mark: u64,
    pub(crate) sequence: u64,
    pub(crate) work: u64,
    pub(crate) expected: u64,
    /// The longest path that ends where it begins.
    pub(crate) path: u64,
    pub(crate) slab: Option<Slab>,
    pub(crate) itself: Option<SelfRef>,
    pub(crate) holders: Holders,
    /// Boxed, so that a slot stays small while nothing fails.
    pub(crate) cause: Option<Box<Cause>>,
    /// Tasks that wait for it.
    pub(crate) consumers: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) held: Vec<ConsumerRef>,
}

/// Bytes of the ring that belong to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// How arguments name it.
    pub buffer: crate::buffer::BufferId,
    /// Where in the ring's bytes it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Slot {
    pub(crate) fn vacant() -> Self {
        Self {
            generation: 0,
            state: State::Consumed,
            priority: 0,
            is_ended: false,
            is_scoped: false,
            route: Route::Pool(NONE),
            run: NONE,
            waits: 0,
            deferred: 0,
            accesses: NONE,
            record: NONE,
            mark: 0,
            sequence: 0,
            work: 0,
            expected: 0,
            path: 0,
            slab: None,
            itself: None,
            holders: Holders::default(),
            cause: None,
            consumers: Vec::new(),
            edges: Vec::new(),
            held: Vec::new(),
        }
    }
}
