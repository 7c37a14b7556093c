//! What happened when, in the parent and in all workers, on one clock.
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

/// What ran where and when; see [`Worker::timeline`](crate::Worker::timeline). Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What the workers are called, chips first.
    pub workers: Vec<String>,
    /// Runs, in the order in which they were begun.
    pub runs: Vec<RunSpan>,
    /// Tasks, in the order in which their endings arrived.
    pub tasks: Vec<TaskSpan>,
}

/// A run, as its parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// Which.
    pub run: RunId,
    /// What it was called.
    pub label: &'static str,
    /// When its graph began to be built.
    pub begun: u64,
    /// When its graph was complete.
    pub built: u64,
    /// When its last task had ended, if it has.
    pub ended: Option<u64>,
}

/// A task, or a member of a group, as its worker saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpan {
    /// Of which run.
    pub run: RunId,
    /// Which.
    pub task: TaskId,
    /// Which member of a group.
    pub member: u16,
    /// What it is called, if it has a name of its own.
    pub name: Option<Arc<str>>,
    /// Where it ran: a place in [`Timeline::workers`].
    pub worker: usize,
    /// What it called.
    pub callable: &'static str,
    /// When it began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// How long it would have taken on the machine that is simulated, in picoseconds.
    pub simulated: u64,
    /// Whether it ended well.
    pub is_done: bool,
}

/// What is remembered, if anything is.
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
