//! The failure of a graph: root causes and the tasks that were never started.

use super::outcome::Outcome;
use super::task::{TaskId, named};
use phalanx_sim::Time;
use phalanx_sim::executor::Wait;
use phalanx_sim::kernel::KernelError;
use phalanx_sim::machine::RunError;
use phalanx_sim::topology::PeId;
use std::fmt;

/// The failure of a graph (GRF-4).
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFailure {
    /// The name of the graph.
    pub graph: String,
    /// The tasks that failed by themselves, in the order of submission.
    pub roots: Vec<TaskFailure>,
    /// The tasks that were never started because of them.
    pub never_started: Vec<TaskId>,
    /// The reason why the watchdog gave up the graph as a whole, if it did.
    pub stall: Option<String>,
    /// The outcome of all tasks, failed ones included.
    pub outcome: Outcome,
}

/// A task that failed by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: String,
    /// Its label.
    pub label: String,
    /// The PE on which it failed.
    pub pe: PeId,
    /// The time of the failure.
    pub time: Time,
    /// The cause.
    pub error: TaskError,
}

/// The cause of a task's failure.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskError {
    /// Its kernel failed.
    Kernel(KernelError),
    /// It waited for another process for its whole budget.
    Stalled {
        /// The time of its last activity.
        since: Time,
        /// The waits of its programs, by the name of the program.
        waits: Vec<(String, Wait)>,
    },
}

impl TaskError {
    /// The error of a launch, and the PE where it happened.
    pub(super) fn of(error: RunError, first: PeId) -> (PeId, Self) {
        match error {
            RunError::Kernel { pe, error, .. } => (pe, Self::Kernel(error)),
            other => (first, Self::Kernel(KernelError::Other(other.to_string()))),
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => write!(f, "{error}"),
            Self::Stalled { since, waits } => {
                write!(f, "stuck since {since}")?;
                for (process, wait) in waits {
                    write!(f, "\n    `{process}` waits for {}", wait.what)?;
                    if !wait.providers.is_empty() {
                        write!(f, "; could come from `{}`", wait.providers.join("`, `"))?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, kernel, label, pe, time, error } = self;
        write!(f, "task {task} `{}` failed on {pe} at {time}: {error}", named(kernel, label))
    }
}

/// Most tasks never started that a message names.
const NAMED: usize = 4;

impl fmt::Display for GraphFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}`: ", self.graph)?;
        if let Some(stall) = &self.stall {
            write!(f, "{stall}")?;
        }
        for (position, root) in self.roots.iter().enumerate() {
            let separator = if position > 0 || self.stall.is_some() { "\n  " } else { "" };
            write!(f, "{separator}{root}")?;
        }
        let all = self.outcome.tasks().len();
        let count = self.never_started.len();
        let done = all - count - self.roots.len();
        write!(f, "\n  {done} of {all} tasks completed, {count} never started")?;
        for (position, task) in self.never_started.iter().take(NAMED).enumerate() {
            let report = self.outcome.task(*task);
            let name = report.map_or_else(String::new, |report| format!(" `{}`", report.name()));
            write!(f, "{}{task}{name}", if position == 0 { ": " } else { ", " })?;
        }
        if count > NAMED {
            write!(f, " and {} more", count - NAMED)?;
        }
        Ok(())
    }
}

impl std::error::Error for GraphFailure {}
