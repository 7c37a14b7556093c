//! Timeline of the parent and of all workers, on one clock.
//!
//! The clock is the kernel's monotonic one, which all processes of a host read alike: a task is timed where it runs, and
//! its times come back with its ending. A worker remembers them if its builder was asked for
//! [`recording`](crate::Builder::recording).
//!
//! - **TIM-1 (one clock).** Times of the parent and of every worker can be compared: a task begins after the graph that
//!   submits it, a consumer begins after its producer has ended.
//! - **TIM-2 (all).** Every task that was begun is in the timeline once, each member of a group by itself.

mod write;

use crate::clock;
use phalanx_engine::{RunId, TaskId};
use std::sync::Arc;

/// Runs and tasks with their times in nanoseconds; see [`Worker::timeline`](crate::Worker::timeline).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Names of the workers, chips first.
    pub workers: Vec<String>,
    /// Runs, in the order in which they were begun.
    pub runs: Vec<RunSpan>,
    /// Tasks, in the order in which their endings arrived.
    pub tasks: Vec<TaskSpan>,
}

/// A run, as its parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// The run or task.
    pub run: RunId,
    /// Its name.
    pub label: &'static str,
    /// Beginning of the construction of its graph.
    pub begun: u64,
    /// End of the construction of its graph.
    pub built: u64,
    /// End of its last task, if it has ended.
    pub ended: Option<u64>,
}

/// A task, or a member of a group, as its worker saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpan {
    /// Its run.
    pub run: RunId,
    /// The run or task.
    pub task: TaskId,
    /// Member of a group.
    pub member: u16,
    /// Its name, if it has one of its own.
    pub name: Option<Arc<str>>,
    /// Index of its worker in [`Timeline::workers`].
    pub worker: usize,
    /// Its callable.
    pub callable: &'static str,
    /// Its beginning.
    pub begun: u64,
    /// Its end.
    pub ended: u64,
    /// Simulated length of the task, in picoseconds.
    pub simulated: u64,
    /// True if it ended well.
    pub is_done: bool,
}

/// Records spans of runs and tasks.
#[derive(Debug)]
pub(crate) struct Recorder {
    timeline: Timeline,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        Self { timeline: Timeline::default() }
    }

    /// A graph begins to be built.
    pub(crate) fn begin(&mut self, run: RunId, label: &'static str) {
        let begun = clock::now();
        self.timeline.runs.push(RunSpan { run, label, begun, built: begun, ended: None });
    }

    /// A graph is complete.
    pub(crate) fn built(&mut self, run: RunId) {
        let now = clock::now();
        if let Some(span) = self.run(run) {
            span.built = now;
        }
    }

    /// All tasks of a run have ended.
    pub(crate) fn ended(&mut self, run: RunId) {
        let now = clock::now();
        if let Some(span) = self.run(run) {
            span.ended = Some(now);
        }
    }

    /// A task has ended.
    pub(crate) fn task(&mut self, span: TaskSpan) {
        self.timeline.tasks.push(span);
    }

    fn run(&mut self, run: RunId) -> Option<&mut RunSpan> {
        self.timeline.runs.iter_mut().rev().find(|span| span.run == run)
    }

    /// Hands out all that is remembered and forgets it; runs that are not over stay.
    pub(crate) fn take(&mut self, workers: Vec<String>) -> Timeline {
        let runs = std::mem::take(&mut self.timeline.runs);
        self.timeline.runs = runs.iter().copied().filter(|span| span.ended.is_none()).collect();
        Timeline { workers, runs, tasks: std::mem::take(&mut self.timeline.tasks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tim_1_the_clock_goes_forward() {
        let readings: Vec<u64> = (0..1000).map(|_| clock::now()).collect();
        assert!(readings.is_sorted(), "TIM-1");
        assert!(clock::instant(clock::now()).is_some());
    }
}
