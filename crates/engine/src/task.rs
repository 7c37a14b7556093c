//! Tasks: the specification of a submitter, and the state in the engine.
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
use crate::inline_list::InlineList;
use crate::refs::{ConsumerRef, Holders, SelfRef};
use crate::run::Cause;
use crate::tensormap::{Effect, Kinds};
use crate::view::View;
use crate::worker::{PoolId, WorkerId};

/// A reading of the driver's clock, in the driver's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// The name of a task: a slot of the ring, and the number of its uses so far.
///
/// One number, the slot in its upper half: parts that were written apart are slow to read as one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// The name of no task.
    pub(crate) const NONE: Self = Self::new(NONE, 0);

    #[inline]
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self((slot as u64) << 32 | generation as u64)
    }

    /// Returns its slot of the ring, from 0; another task has it later.
    #[inline]
    pub fn slot(self) -> usize {
        self.place() as usize
    }

    /// Returns its slot as the ring numbers it.
    #[inline]
    pub(crate) fn place(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number of uses of its slot, itself included.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub(crate) fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Debug for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (slot, generation) = (self.place(), self.generation());
        f.debug_struct("TaskId").field("slot", &slot).field("generation", &generation).finish()
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "t{}.{}", self.place(), self.generation())
    }
}

/// The use of one argument by a task.
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
    /// Touches it without order; the submitter is responsible for that.
    NoDep,
}

impl Tag {
    #[inline]
    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Input | Self::InOut)
    }

    #[inline]
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Output | Self::InOut | Self::OutputExisting)
    }

    /// Returns the conflicts with the last writer of its bytes.
    #[inline]
    pub(crate) fn kinds(self) -> Kinds {
        match self {
            Self::Input => Kinds::READ_AFTER_WRITE,
            Self::InOut => Kinds::READ_AFTER_WRITE.and(Kinds::WRITE_AFTER_WRITE),
            Self::Output | Self::OutputExisting | Self::NoDep => Kinds::WRITE_AFTER_WRITE,
        }
    }

    #[inline]
    pub(crate) fn effect(self, is_unordered: bool) -> Effect {
        Effect { reads: self.reads(), writes: self.writes(), is_unordered }
    }
}

/// One argument: its bytes and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The bytes.
    pub view: View,
    /// The use of them by the task.
    pub tag: Tag,
}

impl View {
    /// Returns an argument that is read.
    #[inline]
    pub fn input(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::Input }
    }

    /// Returns an argument that is written whole.
    #[inline]
    pub fn output(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::Output }
    }

    /// Returns an argument that is read and written.
    #[inline]
    pub fn in_out(&self) -> Arg {
        Arg { view: self.clone(), tag: Tag::InOut }
    }
}

/// The worker or workers that a task runs on.
#[derive(Clone, Copy, Debug)]
pub enum Placement<'a> {
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
    /// The worker or workers that it runs on.
    pub placement: Placement<'a>,
    /// Its arguments; those of a group's members are given with the members.
    pub args: &'a [Arg],
    /// Tasks of the same run that must have ended before.
    pub after: &'a [TaskId],
    /// Bytes of its own slab; they live until its scope and all who name them are over.
    pub bytes: u64,
    /// The driver's number for the work.
    pub work: u64,
    /// Higher ones leave a queue first; equal ones in order.
    pub priority: u8,
    /// True if nothing is inferred for it: it waits only for `after`. Later tasks still wait for it.
    pub is_unordered: bool,
    /// True if its members wait for each other while they run. Such a task must be a group.
    pub is_collective: bool,
    /// Its expected duration, if longer than the budget: it is not taken for stuck before.
    pub expected: Time,
    /// True if it takes so long that no other task of a pool is to wait behind it at a worker, nor it behind another.
    pub is_alone: bool,
}

impl<'a> TaskSpec<'a> {
    /// The arguments of each member.
    pub(crate) fn members(&self) -> Vec<(u16, &'a [Arg])> {
        match self.placement {
            Placement::Worker(_) | Placement::Pool(_) => vec![(0, self.args)],
            Placement::Group(members) => (0..).zip(members.iter().map(|(_, args)| *args)).collect(),
            Placement::PoolGroup(_, members) => (0..).zip(members.iter().copied()).collect(),
        }
    }

    /// Describes a task for `placement` without arguments.
    pub fn new(placement: Placement<'a>) -> Self {
        Self {
            placement,
            args: &[],
            after: &[],
            bytes: 0,
            work: 0,
            priority: 0,
            is_unordered: false,
            is_collective: false,
            expected: Time(0),
            is_alone: false,
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(self, args: &'a [Arg]) -> Self {
        Self { args, ..self }
    }

    /// Lets the task begin only after these tasks have ended.
    #[must_use]
    pub fn after(self, after: &'a [TaskId]) -> Self {
        Self { after, ..self }
    }

    /// Gives the task a slab of its own.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Sets the driver's number for the work.
    #[must_use]
    pub fn work(self, work: u64) -> Self {
        Self { work, ..self }
    }

    /// Sets the priority: the task goes ahead of tasks with a lower one.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Switches inferred dependencies off.
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// Meets others while it runs.
    #[must_use]
    pub fn collective(self) -> Self {
        Self { is_collective: true, ..self }
    }

    /// Has its worker to itself, if it is one of a pool.
    #[must_use]
    pub fn alone(self, is_alone: bool) -> Self {
        Self { is_alone, ..self }
    }

    /// Takes about this long.
    #[must_use]
    pub fn expected(self, expected: Time) -> Self {
        Self { expected, ..self }
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for others.
    Pending,
    /// Waits for its turn.
    Ready,
    /// Is with a worker.
    Running,
    /// Successful; its slab is still held.
    Completed,
    /// Failed, or will never begin.
    Failed,
    /// Gone; the slot is free.
    Consumed,
}

/// The queue that a ready task goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Worker(u32),
    Pool(u32),
    /// The number of its group.
    Group(u32),
}

impl Route {
    /// That of a slab without a task.
    pub(crate) const NOWHERE: Self = Self::Pool(NONE);
}

/// A task that another one waited for, and the conflicts that caused it.
///
/// Two whole numbers: parts that were written apart are slow to read as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) producer: TaskId,
    /// The argument in the lower half, the conflicts in the upper one.
    cause: u64,
}

/// An argument of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArgumentOf(u32);

impl ArgumentOf {
    /// No argument: the submitter said so.
    pub(crate) const NONE: Self = Self(u16::MAX as u32);

    #[inline]
    pub(crate) fn first(member: u16) -> Self {
        Self(u32::from(member) << 16)
    }

    /// The argument `count` further on, of which there are fewer than 2^16.
    #[inline]
    pub(crate) fn after(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    pub(crate) fn member(self) -> u16 {
        u16::try_from(self.0 >> 16).unwrap_or_default()
    }

    pub(crate) fn argument(self) -> Option<u16> {
        let argument = u16::try_from(self.0 & 0xffff).unwrap_or_default();
        (self != Self::NONE).then_some(argument)
    }
}

impl Edge {
    /// No edge.
    pub(crate) const NONE: Self = Self::new(TaskId::NONE, ArgumentOf::NONE, Kinds::EXPLICIT);

    #[inline]
    pub(crate) const fn new(producer: TaskId, at: ArgumentOf, kinds: Kinds) -> Self {
        Self { producer, cause: (kinds.bits() as u64) << 32 | at.0 as u64 }
    }

    /// Returns the argument that caused it.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub(crate) fn at(self) -> ArgumentOf {
        ArgumentOf(self.cause as u32)
    }

    /// Returns the conflicts that caused it.
    #[expect(clippy::cast_possible_truncation, reason = "eight bits")]
    pub(crate) fn kinds(self) -> Kinds {
        Kinds::of_bits((self.cause >> 32) as u8)
    }
}

/// A slot of the ring: the state that every task needs, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    /// The generation until its consumers have been told, then none.
    pub(crate) under_way: u32,
    pub(crate) state: State,
    pub(crate) priority: u8,
    /// True if it fails, for the cause in [`Rare`].
    pub(crate) is_failing: bool,
    /// True if it has a slab.
    pub(crate) has_slab: bool,
    /// True if it stands in trees.
    pub(crate) has_accesses: bool,
    /// True if it holds slabs of others.
    pub(crate) has_held: bool,
    /// True if it has memory beyond this that is given back.
    pub(crate) is_bulky: bool,
    /// True if it has its worker to itself.
    pub(crate) is_alone: bool,
    pub(crate) route: Route,
    pub(crate) run: u32,
    /// Producers that have not ended.
    pub(crate) waits: u32,
    pub(crate) itself: Option<SelfRef>,
    pub(crate) holders: Holders,
    /// The submission that met it last.
    pub(crate) mark: u64,
    pub(crate) work: u64,
    /// The longest path that ends where it begins.
    pub(crate) path: u64,
}

const _: () = assert!(size_of::<Slot>() == 64, "one cache line");

/// State that is only needed on request.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Extra {
    pub(crate) sequence: u64,
    pub(crate) expected: u64,
    /// Its number in the run's record.
    pub(crate) record: u32,
    /// Members whose worker is free again but that have not ended.
    pub(crate) deferred: u32,
    /// Arguments that others may have to wait for.
    pub(crate) entered: u32,
    /// The first of its accesses in trees.
    pub(crate) accesses: u32,
    /// True if a scope holds it.
    pub(crate) is_scoped: bool,
    /// The worker it was started on, of which it may be the last member if it is a group; kept only while a worker keeps order.
    pub(crate) worker: u32,
    /// All that it waited for.
    pub(crate) edges: InlineList<Edge, 8>,
}

/// State that few tasks need.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) slab: Option<Slab>,
    pub(crate) cause: Option<Cause>,
    /// The slabs of others that it keeps.
    pub(crate) held: Vec<ConsumerRef>,
}

/// Bytes of the ring that belong to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Its name in arguments.
    pub buffer: crate::buffer::BufferId,
    /// Its start in the ring's bytes.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

impl Slot {
    /// True if its consumers have been told.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.under_way == 0
    }

    pub(crate) fn vacant() -> Self {
        Self {
            generation: 0,
            under_way: 0,
            state: State::Consumed,
            priority: 0,
            is_failing: false,
            has_slab: false,
            has_accesses: false,
            has_held: false,
            is_bulky: false,
            is_alone: false,
            route: Route::NOWHERE,
            run: NONE,
            waits: 0,
            itself: None,
            holders: Holders::default(),
            mark: 0,
            work: 0,
            path: 0,
        }
    }
}

impl Extra {
    pub(crate) fn vacant() -> Self {
        Self {
            sequence: 0,
            expected: 0,
            record: NONE,
            deferred: 0,
            entered: 0,
            accesses: NONE,
            is_scoped: false,
            worker: NONE,
            edges: InlineList::default(),
        }
    }
}
