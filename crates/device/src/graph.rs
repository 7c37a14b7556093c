//! Task graphs on a chip: kernels over tiles. The order of tasks follows from the bytes that they access.
//!
//! A rank opens a graph over PEs of its SIP and submits tasks: a kernel, as `launch` takes it, and views of tensors with the
//! access of the kernel. The engine of `phalanx_engine` infers the dependencies. A task runs in simulated time as soon as
//! its dependencies are over, on its PE or on the first free one. Each PE is a worker of the engine, and the end of a kernel
//! is an event.
//!
//! ```text
//!   program ── submit ──► engine ── start ──► command ──► kernel on its PE ──┐
//!      ▲                     ▲                                               │ the instant it ends
//!      └── room, the end ────┴───────────────────────────────────────────────┘
//! ```
//!
//! Costs: submitting takes no simulated time. Starting a task costs one launch command over the rank's host link (64 bytes,
//! like every launch), or a fixed span for a scheduler on the chip ([`Dispatch`]); a group costs that once. The end of a
//! kernel is known at once. With [`GraphOptions::depth`] above 1 commands cross while PEs are busy.
//!
//! A tensor that a task names belongs to the graph until the graph is over: submitting waits for earlier requests on the
//! tensor, and later requests (a read, a launch) wait for the graph. Tasks are remembered until then.
//!
//! - **GRF-1 (inferred).** There is an edge between two tasks exactly if two of their tiles overlap and one of the two is
//!   written, also for strided views. Two tasks on disjoint tiles run side by side.
//! - **GRF-2 (right).** The numbers are those of the tasks run one after the other in the order of submission, for any number
//!   of PEs.
//! - **GRF-3 (same again).** Two runs of one program give the same trace, byte for byte.
//! - **GRF-4 (root cause).** A task that fails poisons its dependents, which are never started; all other tasks go on. The
//!   error names each task that failed by itself with its kernel, PE and cause, and counts the tasks never started.
//! - **GRF-5 (usable).** After a failure nothing is left of the graph: its PEs, queues and tensors can be used at once.
//! - **GRF-6 (watched).** A task that waits for another process for its whole budget fails, and the error names the wait. A
//!   task that computes is not stuck, however long it takes. A deadlock is reported at once.
//! - **GRF-7 (bounded).** If all slots are taken, the submitter waits; the graph does not fail.
//! - **GRF-8 (together).** The members of a group start at the same instant as the programs of one launch, or not at all.
//! - **GRF-9 (in order with requests).** A graph comes after earlier requests on its tensors and before later ones.

mod drive;
mod failure;
mod lease;
mod outcome;
mod submit;
mod task;
mod watchdog;
mod why;

pub use failure::{GraphFailure, TaskError, TaskFailure};
pub use outcome::{Edge, Outcome, TaskReport, TaskState};
pub use phalanx_engine::{Kinds, Mode, Scope};
pub use task::{KernelTask, Member, Tag, TaskId, TaskTarget};
pub use why::{Dependency, Why};

use drive::Graph;
use phalanx_sim::Time;
use phalanx_torch::Error;
use phalanx_torch::Grid;
use phalanx_torch::Rank;
use std::rc::Rc;

/// The cost of starting a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// A launch command that crosses the rank's host link, in turn with other commands.
    Command,
    /// A span of time, for a scheduler on the chip; no link is used.
    OnChip(Time),
}

/// The pools of PEs for tasks that name no PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pools {
    /// One pool of all PEs of the graph, [`TaskTarget::Any`].
    Whole,
    /// One pool for each cube, [`TaskTarget::Cube`].
    Cubes,
}

/// The options of a graph.
#[derive(Clone, Debug)]
pub struct GraphOptions {
    /// The PEs of the graph.
    pub pes: Grid,
    /// The pools of these PEs.
    pub pools: Pools,
    /// Most unfinished tasks; a submitter waits for a free slot.
    pub slots: u32,
    /// Tasks sent to a PE at a time: with 2, the next command crosses while the PE is busy. A sent task stays on its PE, even
    /// if another PE becomes free sooner.
    pub depth: usize,
    /// The cost of starting a task.
    pub dispatch: Dispatch,
    /// Longest wait of a task for another process before the watchdog ends it; `None` for no limit.
    pub budget: Option<Time>,
}

impl Default for GraphOptions {
    /// All PEs in one pool, 1024 slots, one task a PE, launch commands, 10 ms.
    fn default() -> Self {
        Self {
            pes: Grid::All,
            pools: Pools::Whole,
            slots: 1024,
            depth: 1,
            dispatch: Dispatch::Command,
            budget: Some(Time::us(10_000)),
        }
    }
}

/// A graph that takes tasks; see the [module](self). Dropping it cancels it.
#[must_use = "a graph that is dropped is cancelled; await `finish`"]
pub struct TaskGraph {
    graph: Rc<Graph>,
}

/// Opens task graphs: `cx.graph("gemm", GraphOptions::default())`.
pub trait OpenGraph {
    /// Opens a graph over PEs of this rank's SIP.
    fn graph(&self, name: &str, options: GraphOptions) -> Result<TaskGraph, Error>;
}

impl OpenGraph for Rank {
    fn graph(&self, name: &str, options: GraphOptions) -> Result<TaskGraph, Error> {
        Ok(TaskGraph { graph: Graph::new(self, name, &options)? })
    }
}

impl TaskGraph {
    /// The name of the graph.
    pub(crate) fn name(&self) -> &str {
        &self.graph.name
    }

    /// Submits a task. Waits while all slots are taken, and for earlier requests on its tensors.
    ///
    /// After a task has failed, the graph starts no task that is submitted later. [`TaskGraph::finish`] reports the failure, so
    /// that a program handles it in one place.
    pub async fn submit(&self, task: KernelTask) -> Result<TaskId, Error> {
        self.graph.submit(task).await
    }

    /// Opens a scope inside the innermost one. A [`Mode::Manual`] scope infers no edges: only `after` counts.
    pub fn open(&self, label: &'static str, mode: Mode) -> Result<Scope, Error> {
        let state = &mut *self.graph.state.borrow_mut();
        state.engine.open(state.run, label, mode).map_err(|error| self.refused(label, &error))
    }

    /// Closes a scope.
    pub fn close(&self, scope: Scope) -> Result<(), Error> {
        let closed = self.graph.state.borrow_mut().engine.close(scope);
        closed.map_err(|error| self.refused("close", &error))
    }

    fn refused(&self, what: &str, error: &dyn std::fmt::Display) -> Error {
        Error::argument(format!("graph `{}`: scope `{what}`: {error}", self.name()))
    }

    /// Explains the state of a task; `None` for a task of another graph.
    pub fn why(&self, task: TaskId) -> Option<Why> {
        self.graph.why(task)
    }

    /// Waits until all tasks are over, and returns the outcome.
    ///
    /// # Errors
    ///
    /// A [`GraphFailure`] if a task failed (GRF-4), by [`Error::downcast_ref`]; it holds the outcome too.
    pub async fn finish(self) -> Result<Outcome, Error> {
        self.graph.finish().await
    }
}

impl Drop for TaskGraph {
    fn drop(&mut self) {
        self.graph.abandon();
    }
}
