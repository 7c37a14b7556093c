//! Records of runs, and outcomes for their waiters, at the end or before.

use super::Core;
use crate::error::{RunError, TaskFailure};
use crate::failure::Failure;
use crate::timeline::Recorder;
use phalanx_engine::{BufferId, Cause, Outcome, Reason, RunId, RunReport};
use std::any::Any;
use std::collections::BTreeMap;

/// Records of runs beside the engine's own.
pub(crate) struct RunRecords {
    pub(super) by_id: BTreeMap<RunId, RunRecord>,
    /// Records spans of runs and tasks, if the builder asked for that.
    pub(crate) recorder: Option<Recorder>,
}

/// Record of one run.
#[derive(Default)]
pub(super) struct RunRecord {
    pub(super) failures: Vec<TaskFailure>,
    pub(super) outcome: Option<Ended>,
    /// True if nobody will ask for the outcome.
    is_abandoned: bool,
    /// Simulated time of its tasks, in picoseconds.
    pub(super) simulated: u64,
    /// Values that live until the run is over.
    keep: Vec<Box<dyn Any + Send>>,
}

/// Outcome of a run, the same for every waiter.
pub(crate) type Ended = Result<Finished, RunError>;

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Counts of tasks, and durations in nanoseconds.
    pub report: RunReport,
    /// Sum of the simulated times of its tasks, in picoseconds.
    pub simulated: u64,
}

impl RunRecords {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        Self { by_id: BTreeMap::new(), recorder }
    }

    /// Begins the record of a run.
    pub(crate) fn begin(&mut self, run: RunId, label: &'static str) {
        self.by_id.insert(run, RunRecord::default());
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(run, label);
        }
    }
}

impl Core {
    pub(super) fn run_finished(&mut self, run: RunId) {
        self.news.is_pending = true;
        let Some(outcome) = self.engine.outcome(run) else { return };
        if outcome.error.is_some() {
            self.realign_barriers();
        }
        let ended = self.ended(run, outcome);
        let Some(record) = self.runs.by_id.get_mut(&run) else { return };
        record.outcome.get_or_insert(ended);
        if let Some(recorder) = &mut self.runs.recorder {
            recorder.ended(run);
        }
        // In reverse order: a later entry may refer to an earlier one.
        while record.keep.pop().is_some() {}
        if record.is_abandoned {
            self.forget(run);
        }
        self.release_dropped();
    }

    /// Returns the outcome of a run, if it has ended.
    pub(crate) fn outcome(&self, run: RunId) -> Option<Ended> {
        self.runs.by_id.get(&run)?.outcome.clone()
    }

    /// Ends a run for its waiters, whatever its workers still do.
    pub(crate) fn give_up(&mut self, run: RunId, error: RunError) {
        if let Some(record) = self.runs.by_id.get_mut(&run) {
            record.outcome.get_or_insert(Err(error));
        }
    }

    /// Notes that nobody will ask for the outcome of a run.
    pub(crate) fn abandon(&mut self, run: RunId) {
        if let Some(record) = self.runs.by_id.get_mut(&run) {
            record.is_abandoned = true;
        }
        self.forget(run);
    }

    fn forget(&mut self, run: RunId) {
        if self.engine.forget(run) {
            self.runs.by_id.remove(&run);
        }
    }

    /// Keeps something until a run is over.
    pub(crate) fn keep(&mut self, run: RunId, kept: Box<dyn std::any::Any + Send>) {
        if let Some(record) = self.runs.by_id.get_mut(&run) {
            record.keep.push(kept);
        }
    }

    /// Takes the values that were kept for a run.
    #[cfg(test)]
    pub(crate) fn take_kept(&mut self, run: RunId) -> Vec<Box<dyn std::any::Any + Send>> {
        self.runs
            .by_id
            .get_mut(&run)
            .map(|record| std::mem::take(&mut record.keep))
            .unwrap_or_default()
    }

    /// Seals a run after the code of its graph has ended, well or badly.
    pub(crate) fn end_graph(&mut self, run: RunId, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            self.cancel_graph(run, failure);
        }
        if let Some(recorder) = &mut self.runs.recorder {
            recorder.built(run);
        }
        // A scope is open only if the code has panicked: scopes are closures.
        let _ = self.engine.seal(run);
        self.carry_out();
        self.pump();
    }

    /// Cancels the run of a graph whose code failed; the words of the code are the run's error.
    pub(super) fn cancel_graph(&mut self, run: RunId, failure: &Failure) {
        if self.engine.error(run).is_none() {
            let cause = Cause { task: None, member: 0, work: 0, reason: Reason::Cancelled };
            let words = failure.words().to_owned();
            self.give_up(run, RunError::of_graph(cause, self.report_so_far(run), words));
        }
        self.engine.cancel(run);
    }

    /// Returns the outcome of a run for its waiters.
    pub(super) fn ended(&self, run: RunId, outcome: Outcome) -> Ended {
        let simulated = self.runs.by_id.get(&run).map_or(0, |record| record.simulated);
        match outcome.error {
            None => Ok(Finished { report: outcome.report, simulated }),
            Some(cause) => Err(self.error_so_far(run, cause)),
        }
    }

    /// Returns the failure of a run, as far as it is known.
    pub(super) fn error_so_far(&self, run: RunId, cause: Cause) -> RunError {
        let record = self.runs.by_id.get(&run);
        if let Some(Err(error)) = record.and_then(|record| record.outcome.as_ref()) {
            return error.clone();
        }
        let mut failures = record.map(|record| record.failures.clone()).unwrap_or_default();
        let is_root =
            |one: &TaskFailure| Some(one.task) == cause.task && one.member == cause.member;
        if !failures.iter().any(is_root) {
            failures.splice(0..0, self.failure_without_worker(run, &cause));
        }
        RunError::new(cause, self.report_so_far(run), failures)
    }

    /// Returns the report of a run so far.
    pub(super) fn report_so_far(&self, run: RunId) -> RunReport {
        self.engine.report(run).unwrap_or_default()
    }

    /// True if its waiters were told how a run ends, and nothing more comes to it, while tasks of it have not ended.
    fn is_given_up(&self, run: RunId) -> bool {
        let is_told = self.runs.by_id.get(&run).is_some_and(|record| record.outcome.is_some());
        is_told && self.engine.is_sealed(run)
    }

    /// True if a buffer is in use, and only by runs that were given up: their tasks end or are proven dead.
    pub(crate) fn is_soon_idle(&self, buffer: BufferId) -> bool {
        let is_going_on = |run| !self.is_given_up(run);
        self.engine.is_in_use(buffer) && !self.engine.is_in_use_by(buffer, is_going_on)
    }
}
