//! What becomes of tasks whose worker is gone.

use super::{Core, Ending, Lane};
use crate::error::{Lost, RunError};
use phalanx_engine::{Cause, Event, Reason, Report as RunReport, Start, Time, WorkerId};

/// How many replaced workers are remembered.
const MAX_REPLACED: usize = 64;

impl Core {
    /// Tells those who wait for what a worker had, before it is certain that it touches nothing any more.
    pub(super) fn worker_dying(&mut self, worker: WorkerId, words: &str) {
        let is_replaced = self.lanes[worker.index()].endpoint.is_replaced();
        for flight in self.flights(worker) {
            let job = &self.jobs[flight.task.slot()];
            let Some(run) = job.run.filter(|_| !(is_replaced && job.is_idempotent)) else {
                continue;
            };
            let failures = vec![self.failure(&flight, words.into())];
            let Start { task, member, .. } = flight;
            let (task, reason) = (Some(task), Reason::WorkerLost(worker));
            let cause = Cause { task, member, work: 0, reason };
            self.give_up(run, RunError::new(cause, RunReport::default(), failures));
        }
        self.has_news = true;
    }

    /// Fails what a worker had, with the reason it is gone.
    pub(crate) fn worker_lost(&mut self, now: Time, worker: WorkerId, words: &str) {
        let lane = &mut self.lanes[worker.index()];
        let words = lane.with_doom(words);
        lane.lost = Some(words.clone());
        lane.unflushed = 0;
        self.has_news = true;
        for flight in self.flights(worker) {
            self.note_failure(&flight, words.clone());
        }
        self.engine.step(now, Event::Lost(worker));
    }

    /// Another process takes the place of a lost one: what may run twice is sent again, what may not has failed.
    pub(super) fn worker_replaced(&mut self, now: Time, worker: WorkerId, words: &str) {
        let at = worker.index();
        let words = self.lanes[at].with_doom(words);
        let lost = Lost { worker: self.lanes[at].endpoint.name(), words: words.clone() };
        self.replaced.truncate(MAX_REPLACED - 1);
        self.replaced.push_front(lost);
        self.lanes[at].unflushed = 0;
        self.has_news = true;
        for flight in self.flights(worker) {
            let job = &self.jobs[flight.task.slot()];
            let is_over = job.run.is_none_or(|run| self.engine.error(run).is_some());
            let is_doomed = self.engine.is_doomed(flight.task);
            if job.is_idempotent && !is_over && !is_doomed {
                let behind: Vec<u64> = self.engine.behind(flight.task).collect();
                self.lanes[at].endpoint.send(flight.dispatch, &behind, job.message(flight.member));
                continue;
            }
            let ending = if is_doomed { Ending::Skipped } else { Ending::Failed(1) };
            if !is_doomed {
                self.note_failure(&flight, words.clone());
            }
            let (dispatch, took) = (flight.dispatch, 0);
            self.engine.step(now, Event::Finished { worker, dispatch, ending, took });
        }
        self.lanes[at].endpoint.flush();
    }

    /// What a worker was sent and has not ended.
    fn flights(&self, worker: WorkerId) -> Vec<Start> {
        let sent = self.lanes[worker.index()].sent;
        self.engine.flights(worker).filter(|flight| flight.dispatch <= sent).collect()
    }

    /// Who was lost, and how.
    pub(crate) fn losses(&self) -> Vec<Lost> {
        let lost = |lane: &Lane| {
            let (worker, words) = (lane.endpoint.name(), lane.lost.clone()?);
            Some(Lost { worker, words })
        };
        self.lanes.iter().filter_map(lost).collect()
    }

    /// Who was lost and replaced, the last first.
    pub(crate) fn replaced(&self) -> Vec<Lost> {
        self.replaced.iter().cloned().collect()
    }
}

impl Lane {
    /// How a worker ended, behind why it was ended.
    fn with_doom(&mut self, words: &str) -> Box<str> {
        let doom = self.doom.take();
        doom.map_or_else(|| words.into(), |doom| format!("{doom}; {words}").into())
    }
}
