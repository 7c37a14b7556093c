//! What failed in a graph, and what that cost.

use super::outcome::Outcome;
use super::task::{TaskId, named};
use phalanx_sim::Time;
use phalanx_sim::executor::Wait;
use phalanx_sim::kernel::KernelError;
use phalanx_sim::machine::RunError;
use phalanx_sim::topology::PeId;
use std::fmt;

/// Why a graph did not end well (GRF-4).
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFailure {
    /// What the graph is called.
    pub graph: String,
    /// The tasks that failed by themselves, in the order of submission.
    pub roots: Vec<TaskFailure>,
    /// The tasks that were never started because of them.
    pub never_started: Vec<TaskId>,
    /// Why the graph as a whole was given up, if it was.
    pub stall: Option<String>,
    /// What the graph did all the same.
    pub outcome: Outcome,
}

/// A task that failed by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// Which.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: String,
    /// What it is about.
    pub label: String,
    /// Where it failed.
    pub pe: PeId,
    /// When.
    pub time: Time,
    /// Why.
    pub error: TaskError,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskError {
    /// Its kernel did.
    Kernel(KernelError),
    /// It waited for somebody for its whole budget.
    Stalled {
        /// Since when.
        since: Time,
        /// What for: each program of it that waits, by name.
        waits: Vec<(String, Wait)>,
    },
}

impl TaskError {
    /// The error of a launch, and where it happened.
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

/// How many tasks that were never started are named.
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
