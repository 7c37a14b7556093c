//! Task graphs on a chip: kernels over tiles, whose order follows from the bytes they touch.
//!
//! A rank opens a graph over PEs of its SIP and submits tasks: a kernel, as `launch` takes it, and views of tensors with
//! what the kernel does to them. The engine of `phalanx_engine` finds out who must wait for whom; a task runs as soon as
//! nothing is in its way, on its PE or on whichever is free, in simulated time. Each PE is a worker of the engine, each
//! end of a kernel an event for it.
//!
//! ```text
//!   program ── submit ──► engine ── start ──► command ──► kernel on its PE ──┐
//!      ▲                     ▲                                               │ the instant it ends
//!      └── room, the end ────┴───────────────────────────────────────────────┘
//! ```
//!
//! What it costs: submitting takes no simulated time. Starting a task costs one launch command over the rank's host link
//! (64 bytes, as every launch does), or a fixed span where a scheduler on the chip is meant ([`Dispatch`]); a group costs
//! it once. The end of a kernel is known at once. With [`GraphOptions::depth`] above 1 commands cross while PEs are busy.
//!
//! A tensor that a task names belongs to the graph from then on until the graph is over: naming it waits for what was asked
//! of it before, and what is asked of it later (a read, a launch) waits for the graph. Tasks are remembered until then.
//!
//! - **GRF-1 (inferred).** The edges are those between overlapping tiles of which one is written, no more and no fewer,
//!   also for strided views; two tasks on disjoint tiles run side by side.
//! - **GRF-2 (right).** Numbers are those of the tasks one after the other in the order of submission, whatever the number
//!   of PEs.
//! - **GRF-3 (same again).** Two runs of one program give the same trace, byte for byte.
//! - **GRF-4 (root cause).** A task that fails poisons those behind it, which are never started; all others go on. The error
//!   names each task that failed by itself with its kernel, PE and cause, and how many were never started.
//! - **GRF-5 (usable).** After a failure nothing is left of the graph: its PEs, queues and tensors can be used at once.
//! - **GRF-6 (watched).** A task that waits for somebody for its whole budget fails, and the error says what it waited for;
//!   one that computes is not stuck, however long it takes. If nothing at all can happen any more, that is a deadlock,
//!   reported at once.
//! - **GRF-7 (bounded).** More tasks than slots make the submitter wait, not the graph fail.
//! - **GRF-8 (together).** The members of a group start at the same instant as the programs of one launch, or not at all.
//! - **GRF-9 (in order with requests).** A graph comes after what was asked of its tensors before, and before what is asked
//!   later.

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
pub use why::Why;

use drive::Graph;
use phalanx_sim::Time;
use phalanx_torch::Error;
use phalanx_torch::Grid;
use phalanx_torch::Rank;
use std::rc::Rc;

/// What starting a task costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// A launch command that crosses the rank's host link, in turn with whatever else does.
    Command,
    /// This long, for a scheduler on the chip; no link is used.
    OnChip(Time),
}

/// Which PEs a task that names none may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pools {
    /// All of the graph are one pool, [`TaskTarget::Any`].
    Whole,
    /// Those of each cube are one, [`TaskTarget::Cube`].
    Cubes,
}

/// How a graph runs.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions {
    /// Which PEs it uses.
    pub pes: Grid,
    /// How they are pooled.
    pub pools: Pools,
    /// How many tasks can be unfinished; a submitter waits for room.
    pub slots: u32,
    /// How many tasks a PE is sent at a time: with 2, the next command crosses while the PE is busy. A task that was sent
    /// stays with its PE, even if another becomes free sooner.
    pub depth: usize,
    /// What starting a task costs.
    pub dispatch: Dispatch,
    /// How long a task may wait for others before it is thought stuck; `None` is for ever.
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
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// Submits a task. Waits while all slots are taken, and for what was asked of its tensors before.
    ///
    /// A graph in which a task has failed starts nothing that is submitted later; that is told by [`TaskGraph::finish`], so
    /// that a program needs to look in one place only.
    pub async fn submit(&self, task: KernelTask) -> Result<TaskId, Error> {
        self.graph.submit(task).await
    }

    /// Opens a scope inside the innermost one. In a [`Mode::Manual`] scope nothing is inferred: only `after` counts.
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

    /// Why a task is where it is; `None` if it is no task of this graph.
    pub fn why(&self, task: TaskId) -> Option<Why> {
        self.graph.why(task)
    }

    /// Waits until all tasks are over, and says what they did.
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
