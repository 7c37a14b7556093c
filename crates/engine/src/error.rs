//! Answers to a submitter.

use crate::buffer::BufferId;
use crate::run::{Cause, RunId};
use crate::task::{Slab, TaskId};
use crate::worker::{PoolId, WorkerId};
use std::fmt;

/// The answer to a submission that is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// It is in the ring.
    Accepted {
        /// Its name.
        task: TaskId,
        /// Its bytes, if it asked for some.
        slab: Option<Slab>,
    },
    /// The ring is full: submit again after [`crate::Action::RoomFreed`].
    Blocked {
        /// Free slots.
        slots: u32,
        /// Free bytes.
        bytes: u64,
        /// The longest free piece, in bytes.
        longest: u64,
    },
}

impl Submit {
    /// Returns the task, if it was accepted.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::Accepted { task, .. } => Some(*task),
            Self::Blocked { .. } => None,
        }
    }
}

/// The answer to beginning a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It takes tasks.
    Started(RunId),
    /// Begin again after [`crate::Action::AdmissionFreed`].
    Blocked {
        /// The run it waits for.
        behind: RunId,
    },
}

/// The setting that is too small for a submitter that holds everything itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// [`crate::Config::slots`].
    Slots,
    /// [`crate::Config::bytes`].
    Bytes,
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Slots { "Config::slots" } else { "Config::bytes" })
    }
}

/// Reasons why a submission is refused; nothing of it remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no such run, or it is sealed.
    NotBuilding(RunId),
    /// The run has failed, and this is why.
    RunFailed(Cause),
    /// A buffer that does not exist any more.
    StaleBuffer(BufferId),
    /// A view beyond the end of its buffer.
    OutOfBounds {
        /// The member of a group.
        member: usize,
        /// The argument.
        argument: usize,
        /// The byte behind the view's last.
        end: u64,
        /// The bytes of the buffer.
        bytes: u64,
    },
    /// A write to a buffer that may only be read.
    ReadOnly {
        /// The member of a group.
        member: usize,
        /// The argument.
        argument: usize,
    },
    /// One argument writes bytes that another touches.
    Aliasing {
        /// The member of a group.
        member: usize,
        /// The two arguments, the lower first.
        arguments: (usize, usize),
    },
    /// A dependency on a task of another run.
    OtherRun(TaskId),
    /// A worker that is not there or that the run does not use.
    NotMine(WorkerId),
    /// A pool that is not there or has workers that the run does not use.
    PoolNotMine(PoolId),
    /// A worker that is gone.
    WorkerLost(WorkerId),
    /// More members than the pool has living workers.
    GroupTooLarge {
        /// Number of members.
        members: usize,
        /// Number of workers.
        workers: usize,
    },
    /// Two members for one worker.
    SameWorker(WorkerId),
    /// A group without members, or arguments beside the members'.
    BadGroup,
    /// More members or arguments than 2^16.
    TooMany,
    /// A collective that is not a group.
    CollectiveAlone,
    /// A slab that would not fit an empty ring.
    TooLarge {
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes of an empty ring.
        capacity: u64,
    },
    /// The ring is full of what only this submitter can free: waiting would be for ever.
    ScopePinned {
        /// The scope that holds most of it.
        scope: &'static str,
        /// Bytes that the scope holds.
        bytes: u64,
        /// Tasks that the run holds by open scopes.
        tasks: u32,
        /// The setting to raise, if the scope cannot be closed earlier.
        knob: Knob,
    },
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilding(run) => write!(f, "run {run} takes no tasks"),
            Self::RunFailed(cause) => write!(f, "the run has failed: {cause}"),
            Self::StaleBuffer(id) => {
                write!(f, "no such buffer any more: {}.{}", id.index, id.generation)
            }
            Self::OutOfBounds { member, argument, end, bytes } => {
                write!(
                    f,
                    "argument {argument} of member {member} ends at byte {end} of a buffer of {bytes}"
                )
            }
            Self::ReadOnly { member, argument } => {
                write!(
                    f,
                    "argument {argument} of member {member} writes a buffer that may only be read"
                )
            }
            Self::Aliasing { member, arguments: (a, b) } => {
                write!(
                    f,
                    "arguments {a} and {b} of member {member} share bytes and one writes; use one `InOut`"
                )
            }
            Self::OtherRun(task) => write!(f, "task {task} belongs to another run"),
            Self::NotMine(worker) => write!(f, "the run does not use worker {}", worker.0),
            Self::PoolNotMine(pool) => write!(f, "the run does not use all of pool {}", pool.0),
            Self::WorkerLost(worker) => write!(f, "worker {} is gone", worker.0),
            Self::GroupTooLarge { members, workers } => {
                write!(f, "a group of {members} can never start on {workers} workers")
            }
            Self::SameWorker(worker) => write!(f, "two members for worker {}", worker.0),
            Self::BadGroup => write!(f, "a group has members, and only they have arguments"),
            Self::TooMany => write!(f, "at most 65535 members and arguments"),
            Self::CollectiveAlone => {
                write!(f, "a collective must be a group: alone it would wait for peers for ever")
            }
            Self::TooLarge { bytes, capacity } => {
                write!(f, "{bytes} bytes never fit `Config::bytes`: {capacity}")
            }
            Self::ScopePinned { scope, bytes, tasks, knob } => write!(
                f,
                "the ring is full of what only the submitter can free: scope `{scope}` holds {bytes} bytes, \
                 {tasks} tasks are held; close it earlier or raise `{knob}`"
            ),
        }
    }
}

impl std::error::Error for SubmitError {}
