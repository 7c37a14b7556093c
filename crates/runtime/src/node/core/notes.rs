//! Records of tasks that have ended: failures, simulated time, lengths, spans.

use super::{Core, TaskEnded, Verdict};
use crate::error::TaskFailure;
use crate::timeline::TaskSpan;
use phalanx_engine::{Start, TaskId, WorkerId};

/// Number of failures of one run whose words are kept.
const MAX_FAILURES: usize = 16;

impl Core {
    /// Remembers what is to be remembered of a task that has ended, and that the engine is told of next.
    #[inline]
    pub(super) fn look_at(
        &mut self,
        worker: WorkerId,
        ended: &TaskEnded,
        words: &mut Option<Box<str>>,
    ) {
        if self.lengths.is_sampled(ended.nanoseconds) {
            self.note_length(worker, ended);
        }
        let is_plain = ended.verdict == Verdict::Done && ended.picoseconds == 0;
        if !is_plain || self.runs.recorder.is_some() {
            self.note(worker, ended, words.take());
        }
    }

    /// Notes a task that has ended, if it is not plain.
    #[inline(never)]
    fn note(&mut self, worker: WorkerId, ended: &TaskEnded, words: Option<Box<str>>) {
        let is_meant = |flight: &Start| flight.dispatch == ended.dispatch;
        let Some(flight) = self.engine.flights(worker).find(is_meant) else { return };
        match ended.verdict {
            Verdict::Done => {}
            Verdict::Failed => self.note_failure(&flight, words.unwrap_or_default()),
            Verdict::Skipped => self.note_skipped(&flight),
        }
        if ended.picoseconds > 0 {
            self.note_simulated(flight.task, ended.picoseconds);
        }
        self.record(&flight, ended);
    }

    pub(super) fn failure(&self, flight: &Start, words: Box<str>) -> TaskFailure {
        let job = &self.jobs[flight.task.slot()];
        let callables = self.program.callables();
        let callable = callables.get(job.callable as usize).map_or("?", |callable| callable.name());
        let worker = self.links[flight.worker.index()].endpoint.name();
        let Start { task, member, .. } = *flight;
        TaskFailure { task, member, name: job.name(member), callable, worker, words }
    }

    /// Remembers a failure, and tells those who may wait for the task in a domain.
    pub(super) fn note_failure(&mut self, flight: &Start, words: Box<str>) {
        let failure = self.failure(flight, words);
        if !self.domains.is_empty() {
            self.tell_of_failure(flight, &failure.to_string());
        }
        let run = self.jobs[flight.task.slot()].run;
        let notes = run.and_then(|run| self.runs.by_id.get_mut(&run));
        if let Some(notes) = notes.filter(|notes| notes.failures.len() < MAX_FAILURES) {
            notes.failures.push(failure);
        }
    }

    /// Tells those who may wait for a task in a domain that it never begins.
    pub(super) fn note_skipped(&mut self, flight: &Start) {
        if !self.domains.is_empty() {
            let words = "it was not begun, since it was recalled or what it waits for has failed";
            let failure = self.failure(flight, words.into());
            self.tell_of_failure(flight, &failure.to_string());
        }
    }

    /// Remembers when a task ran, if it has and that is asked for.
    fn record(&mut self, flight: &Start, ended: &TaskEnded) {
        let Some(recorder) = self.runs.recorder.as_mut() else { return };
        let job = &self.jobs[flight.task.slot()];
        let Some(run) = job.run.filter(|_| ended.verdict != Verdict::Skipped) else { return };
        let callable = self.program.callables().get(job.callable as usize);
        recorder.task(TaskSpan {
            run,
            task: flight.task,
            member: flight.member,
            name: job.name(flight.member),
            worker: flight.worker.index(),
            callable: callable.map_or("?", |callable| callable.name()),
            begun: ended.begun,
            ended: ended.begun.saturating_add(ended.nanoseconds),
            simulated: ended.picoseconds,
            is_done: ended.verdict == Verdict::Done,
        });
    }

    fn note_simulated(&mut self, task: TaskId, picoseconds: u64) {
        let run = self.jobs[task.slot()].run;
        if let Some(notes) = run.and_then(|run| self.runs.by_id.get_mut(&run)) {
            notes.simulated = notes.simulated.saturating_add(picoseconds);
        }
    }

    /// Remembers how long a task took that has just ended and is still known to the engine.
    #[inline(never)]
    fn note_length(&mut self, worker: WorkerId, ended: &TaskEnded) {
        let mut flights = self.engine.flights(worker);
        let flight = flights.find(|flight| flight.dispatch == ended.dispatch);
        let Some(task) = flight.map(|flight| flight.task) else { return };
        drop(flights);
        self.lengths.note(self.jobs[task.slot()].callable, ended.nanoseconds);
    }
}
