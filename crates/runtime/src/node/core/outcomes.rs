//! What those who wait for a run are told, at its end or before.

use super::{Core, Ended, Finished};
use crate::error::{RunError, TaskFailure};
use phalanx_engine::{BufferId, Cause, Outcome, RunId, RunReport};

impl Core {
    /// What those who wait for a run are told of its end.
    pub(super) fn ended(&self, run: RunId, outcome: Outcome) -> Ended {
        let simulated = self.runs.get(&run).map_or(0, |notes| notes.simulated);
        match outcome.error {
            None => Ok(Finished { report: outcome.report, simulated }),
            Some(cause) => Err(self.error_so_far(run, cause)),
        }
    }

    /// Why a run has failed, as far as it is known.
    pub(super) fn error_so_far(&self, run: RunId, cause: Cause) -> RunError {
        let notes = self.runs.get(&run);
        if let Some(Err(error)) = notes.and_then(|notes| notes.outcome.as_ref()) {
            return error.clone();
        }
        let mut failures = notes.map(|notes| notes.failures.clone()).unwrap_or_default();
        let is_root =
            |one: &TaskFailure| Some(one.task) == cause.task && one.member == cause.member;
        if !failures.iter().any(is_root) {
            failures.splice(0..0, self.failure_without_worker(run, &cause));
        }
        RunError::new(cause, self.report_so_far(run), failures)
    }

    /// What a run has done so far.
    pub(super) fn report_so_far(&self, run: RunId) -> RunReport {
        self.engine.report(run).unwrap_or_default()
    }

    /// Whether its waiters were told how a run ends, and nothing more comes to it, while tasks of it have not ended.
    fn is_given_up(&self, run: RunId) -> bool {
        let is_told = self.runs.get(&run).is_some_and(|notes| notes.outcome.is_some());
        is_told && self.engine.is_sealed(run)
    }

    /// Whether a buffer is in use, and only by runs that were given up: their tasks end or are proven dead.
    pub(crate) fn is_soon_idle(&self, buffer: BufferId) -> bool {
        let is_going_on = |run| !self.is_given_up(run);
        self.engine.is_in_use(buffer) && !self.engine.is_in_use_by(buffer, is_going_on)
    }
}
