//! Cancelling runs.

use super::Engine;
use crate::arena::{NONE, number};
use crate::run::{Cause, Reason, RunId};
use crate::task::State;

impl Engine {
    /// Ends a run early: tasks that have not begun never begin; running tasks are recalled and waited for. Returns
    /// false if the run is finished or not known.
    pub fn cancel(&mut self, run: RunId) -> bool {
        let Some(at) = self.run_index(run).filter(|at| !self.runs[*at].is_finished) else {
            return false;
        };
        self.cancel_because(at, Reason::Cancelled);
        self.settle();
        true
    }

    /// Cancels the runs whose deadline has passed.
    pub(super) fn expire(&mut self) {
        let now = self.clock.now;
        let late =
            |at: &u32| self.runs[*at as usize].deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<u32> = self.lists.unfinished.iter().copied().filter(late).collect();
        for at in late {
            let deadline = self.runs[at as usize].deadline.take().unwrap_or_default();
            self.cancel_because(at as usize, Reason::Deadline(deadline));
        }
        self.find_deadline();
    }

    fn cancel_because(&mut self, at: usize, reason: Reason) {
        let run = number(at);
        self.runs[at].fail(Cause::of_run(reason));
        let cause = self.runs[at].error.unwrap_or(Cause::of_run(reason));
        let tasks = self.ring.tasks().filter(|(_, slot, _)| slot.run == run);
        let mut tasks: Vec<(u64, u32, State)> =
            tasks.map(|(at, slot, extra)| (extra.sequence, at, slot.state)).collect();
        tasks.sort_unstable_by_key(|(sequence, _, _)| *sequence);
        for (_, slot, state) in tasks {
            match state {
                State::Pending => {
                    self.counts.pending -= 1;
                    self.fail_because(slot, cause);
                }
                State::Ready => self.fail_because(slot, cause),
                State::Running => self.recall(slot),
                State::Completed | State::Failed | State::Consumed => {}
            }
        }
        self.clear_queues(run);
        if !self.runs[at].is_sealed {
            self.seal_at(at);
        }
        self.settle_failures();
    }

    /// Failed tasks leave all queues; workers kept for the run's groups are free.
    fn clear_queues(&mut self, run: u32) {
        let ring = &self.ring;
        let is_ready = |slot: u32| ring[slot].state == State::Ready;
        self.runs[run as usize].waiting.clear();
        self.runs[run as usize].groups.clear();
        for state in &mut self.workers {
            state.queue.retain(is_ready);
        }
        for pool in &mut self.pools {
            pool.queue.retain(is_ready);
        }
        for worker in 0..self.workers.len() {
            if self.workers[worker].reserved == run {
                self.workers[worker].reserved = NONE;
                self.fill(number(worker));
            }
        }
    }

    /// The first half of [`Engine::settle`].
    pub(super) fn settle_failures(&mut self) {
        while let Some(slot) = self.failing.pop() {
            self.end(slot, 0);
        }
    }
}
