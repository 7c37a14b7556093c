//! Tasks of lost workers.

use super::{Core, Ending, WorkerLink};
use crate::error::{Error, Lost, RunError, TaskFailure};
use phalanx_engine::{Cause, Event, Placement, Reason, RunId, Start, SubmitError, Time, WorkerId};

/// Most replaced workers that are remembered.
const MAX_REPLACED: usize = 64;

impl Core {
    /// Tells the waiters for a dying worker's tasks, before it is proven that the worker touches nothing any more.
    pub(super) fn worker_dying(&mut self, worker: WorkerId, words: &str) {
        let link = &self.links[worker.index()];
        let (is_replaced, words) = (link.endpoint.is_replaced(), link.with_kill_reason(words));
        if !is_replaced {
            self.tell_of_loss(worker.index(), &words);
        }
        for flight in self.flights(worker) {
            let job = &self.jobs[flight.task.slot()];
            let Some(run) = job.run.filter(|_| !(is_replaced && job.is_idempotent)) else {
                continue;
            };
            let failure = self.failure(&flight, words.clone());
            self.tell_of_failure(&flight, &failure.to_string());
            let Start { task, member, work, .. } = flight;
            let (task, reason) = (Some(task), Reason::WorkerLost(worker));
            let cause = Cause { task, member, work, reason };
            let report = self.report_so_far(run);
            self.give_up(run, RunError::new(cause, report, vec![failure]));
        }
        self.news.is_pending = true;
    }

    /// Fails the tasks of a lost worker, with the cause of its loss.
    pub(crate) fn worker_lost(&mut self, now: Time, worker: WorkerId, words: &str) {
        let link = &mut self.links[worker.index()];
        let words = link.with_kill_reason(words);
        link.kill_reason = None;
        link.lost = Some(words.clone());
        link.unflushed = 0;
        self.news.is_pending = true;
        self.tell_of_loss(worker.index(), &words);
        for flight in self.flights(worker) {
            self.note_failure(&flight, words.clone());
        }
        self.engine.step(now, Event::Lost(worker));
    }

    /// Takes in a replacement: tasks that may run twice are sent again, the others have failed.
    pub(super) fn worker_replaced(&mut self, now: Time, worker: WorkerId, words: &str) {
        let at = worker.index();
        let words = self.links[at].with_kill_reason(words);
        self.links[at].kill_reason = None;
        self.note_replaced(worker, words.clone());
        self.links[at].unflushed = 0;
        for flight in self.flights(worker) {
            let job = &self.jobs[flight.task.slot()];
            let is_over = job.run.is_none_or(|run| self.engine.error(run).is_some());
            let is_doomed = self.engine.is_doomed(flight.task);
            if job.is_idempotent && !is_over && !is_doomed {
                let mut behind = Vec::new();
                self.engine.behind(flight.task, |dispatch| behind.push(dispatch));
                self.links[at].endpoint.send(flight.dispatch, &behind, job.message(flight.member));
                continue;
            }
            let ending = if is_doomed { Ending::Skipped } else { Ending::Failed(1) };
            if is_doomed {
                self.note_skipped(&flight);
            } else {
                self.note_failure(&flight, words.clone());
            }
            let (dispatch, took) = (flight.dispatch, 0);
            self.engine.step(now, Event::Finished { worker, dispatch, ending, took });
        }
        self.links[at].endpoint.flush();
    }

    /// Records the loss of a process that is replaced.
    pub(super) fn note_replaced(&mut self, worker: WorkerId, words: Box<str>) {
        let worker = self.links[worker.index()].endpoint.name();
        self.replaced.truncate(MAX_REPLACED - 1);
        self.replaced.push_front(Lost { worker, words });
        self.news.is_pending = true;
    }

    /// Returns the tasks that a worker was sent and has not ended.
    fn flights(&self, worker: WorkerId) -> Vec<Start> {
        let sent = self.links[worker.index()].sent;
        self.engine.flights(worker).filter(|flight| flight.dispatch <= sent).collect()
    }

    /// Returns the lost workers, and the causes of their ends.
    pub(crate) fn losses(&self) -> Vec<Lost> {
        self.links.iter().filter_map(WorkerLink::loss).collect()
    }

    /// Returns the lost ones of some workers, and the causes of their ends.
    fn losses_of(&self, workers: impl Iterator<Item = WorkerId>) -> Vec<Lost> {
        workers.filter_map(|worker| self.links[worker.index()].loss()).collect()
    }

    /// Returns a task that failed because nobody was left to run it: nobody has noted that when it happened.
    pub(super) fn failure_without_worker(&self, run: RunId, cause: &Cause) -> Option<TaskFailure> {
        let (worker, words) = match cause.reason {
            Reason::WorkerLost(worker) => {
                let lost = self.links[worker.index()].loss()?;
                (lost.worker, format!("it is lost: {}", lost.words))
            }
            Reason::PoolLost(pool) => {
                let lost = self.losses_of(self.engine.pool_workers(pool));
                ("no worker".to_owned(), format!("too few are left: {}", Lost::all(&lost)))
            }
            _ => return None,
        };
        let (task, member, words) = (cause.task?, cause.member, words.into());
        let callable = usize::try_from(cause.work).ok();
        let callable = callable.and_then(|at| self.program.callables().get(at));
        let callable = callable.map_or("?", |callable| callable.name());
        // Its slot may be another task's by now.
        let job = self.jobs.get(task.slot()).filter(|job| job.run == Some(run));
        let name = job.and_then(|job| job.name(member));
        Some(TaskFailure { task, member, name, callable, worker, words })
    }

    /// Returns the error of a refused submission, with the lost workers and the causes of their ends.
    pub(crate) fn refusal(
        &self,
        run: RunId,
        placement: &Placement<'_>,
        refused: SubmitError,
    ) -> Error {
        let lost = match (refused, placement) {
            (SubmitError::RunFailed(cause), _) => {
                return Error::RunFailed(self.error_so_far(run, cause));
            }
            (SubmitError::WorkerLost(worker), _) => self.losses_of([worker].into_iter()),
            (
                SubmitError::GroupTooLarge { .. },
                Placement::Pool(pool) | Placement::PoolGroup(pool, _),
            ) => self.losses_of(self.engine.pool_workers(*pool)),
            _ => Vec::new(),
        };
        if lost.is_empty() { refused.into() } else { Error::WorkersLost { refused, lost } }
    }

    /// Returns the workers that were lost and replaced, the last first.
    pub(crate) fn replaced(&self) -> Vec<Lost> {
        self.replaced.iter().cloned().collect()
    }
}
