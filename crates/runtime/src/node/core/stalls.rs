//! Stalls: nothing makes progress.

use super::Core;
use crate::clock;
use crate::error::RunError;
use phalanx_engine::{Cause, Reason, RunId, Stall, TaskId, Time, WorkerId};
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// Nothing moves any more: says so to whom it concerns, and ends the worker that is stuck, if it can be. One that only waits
    /// in a domain is well: its wait ends.
    pub(crate) fn stalled(&mut self, stall: &Stall) {
        if stall.worker.is_some_and(|worker| self.links[worker.index()].kill_reason.is_some()) {
            // Said, and the proof of its end is on its way.
            return;
        }
        let words = self.describe(stall);
        let is_going = |run: &RunId| self.engine.outcome(*run).is_none();
        let runs: Vec<RunId> = self.runs.by_id.keys().copied().filter(is_going).collect();
        let cause = Cause { task: stall.task, member: 0, work: 0, reason: Reason::Cancelled };
        for run in runs {
            let report = self.report_so_far(run);
            self.give_up(run, RunError::of_stall(cause, report, stall.clone(), words.clone()));
            self.engine.cancel(run);
        }
        self.news.is_pending = true;
        if let Some(worker) = stall.worker.filter(|worker| !self.end_wait(*worker)) {
            let now = Time(clock::now());
            let link = &mut self.links[worker.index()];
            if link.endpoint.kill() {
                link.kill_reason = Some(words.into());
            } else {
                self.worker_lost(now, worker, &words);
            }
        }
        self.carry_out();
    }

    /// Returns the name of a worker's task, or of its member, if it has one.
    fn name_of(&self, worker: WorkerId, task: TaskId) -> Option<Arc<str>> {
        let mut flights = self.engine.flights(worker);
        let flight = flights.find(|flight| flight.task == task)?;
        self.jobs[task.slot()].name(flight.member)
    }

    /// A stall in words: which worker, which task, since when.
    fn describe(&self, stall: &Stall) -> String {
        let since = Duration::from_nanos(clock::now().saturating_sub(stall.since.0));
        let counts = stall.counts;
        let what = match (stall.worker, stall.task) {
            (Some(worker), Some(task)) => {
                let link = &self.links[worker.index()];
                let job = &self.jobs[task.slot()];
                let callable = self.program.callables().get(job.callable as usize);
                let callable = callable.map_or("?", |one| one.name());
                let name = self.name_of(worker, task).map(|name| format!(" `{name}`"));
                let name = name.unwrap_or_default();
                let (link, wait) = (link.endpoint.name(), self.say_wait(worker.index()));
                format!("{link} has shown no progress in task {task}{name} (`{callable}`){wait}")
            }
            (_, Some(task)) => format!("nobody runs anything and task {task} waits"),
            _ => "nothing moves".to_owned(),
        };
        format!(
            "{what} for {since:.1?} ({:?}: {} running, {} ready, {} waiting)",
            stall.class, counts.running, counts.ready, counts.pending
        )
    }
}
