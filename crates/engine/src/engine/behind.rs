//! Tasks that are sent before all they wait for has ended: behind it, on the same worker.
//!
//! A worker that keeps order runs what it was sent one after the other. If it has all the tasks that another one waits for,
//! that one can be sent behind them: nobody has to hear of their ends in between. It goes directly behind one of them, so
//! it could not have begun earlier elsewhere (QUE-5).

use super::Engine;
use crate::arena::NONE;
use crate::task::{Route, State, TaskId};
use crate::worker::WorkerId;

impl Engine {
    /// Says that `worker` runs tasks in the order in which they are sent, never defers one, and ends a task that was sent
    /// [behind](Engine::behind) one that failed or was skipped as [`Ending::Skipped`](crate::Ending::Skipped). Whoever carries
    /// out a start of a task that was sent behind others looks whether it [is doomed](Engine::is_doomed) by then.
    pub fn keeps_order(&mut self, worker: WorkerId) {
        if let Some(state) = self.workers.get_mut(worker.index()) {
            state.keeps_order = true;
            self.has_order = true;
        }
    }

    /// True if `task`, which is with a worker, was sent behind tasks that have not ended or have failed.
    #[inline]
    pub fn is_behind(&self, task: TaskId) -> bool {
        let is_so = |slot| self.ring[slot].waits > 0 || self.ring[slot].is_failing;
        self.ring.find(task).is_some_and(is_so)
    }

    /// Names the dispatches that `task`, which is with a worker, was sent behind and that have not ended.
    pub fn behind(&self, task: TaskId, mut name: impl FnMut(u64)) {
        let Some(slot) = self.ring.find(task) else { return };
        for edge in self.ring.edges(slot) {
            let producer = edge.producer;
            if !self.ring.is_under_way(producer) {
                continue;
            }
            let state = self.workers.get(self.ring.extra(producer.place()).worker as usize);
            let mut flights = state.into_iter().flat_map(|state| state.flights.iter().rev());
            if let Some(flight) = flights.find(|flight| flight.slot == producer.place()) {
                name(flight.dispatch);
            }
        }
    }

    /// True if a task that is with a worker and [is behind](Engine::is_behind) others was sent behind one that has failed since: it will not begin.
    #[inline]
    pub fn is_doomed(&self, task: TaskId) -> bool {
        self.ring.find(task).is_some_and(|slot| self.ring[slot].is_failing)
    }

    /// Sends `slot`, which waits, behind what it waits for, if it can be.
    #[inline]
    pub(super) fn send_behind(&mut self, slot: u32) {
        if let Some(worker) = self.worker_ahead(slot) {
            self.pending -= 1;
            self.start(worker, slot, 0);
        }
    }

    /// Sends `worker` tasks that wait for what it has, if it has room for more.
    #[inline(never)]
    pub(super) fn extend(&mut self, worker: u32) {
        while let Some(slot) = self.next_behind(worker) {
            self.pending -= 1;
            self.start(worker, slot, 0);
        }
    }

    /// A task that can be sent behind the last one of `worker`: the first that was submitted.
    fn next_behind(&self, worker: u32) -> Option<u32> {
        let state = &self.workers[worker as usize];
        if !state.keeps_order || !state.has_room() {
            return None;
        }
        let last = state.flights.back()?.slot;
        if !self.ring.has_consumers(last) {
            return None;
        }
        let can_follow = |slot: &u32| self.worker_ahead(*slot) == Some(worker);
        let mut first = (0..).map_while(|at| self.ring.consumer(last, at));
        if let Some(slot) = first.find(can_follow) {
            return Some(slot);
        }
        let mut more = self.ring.others(last);
        while let Some((mut some, next)) = self.ring.more_consumers(more) {
            if let Some(slot) = some.find(can_follow) {
                return Some(slot);
            }
            more = next;
        }
        None
    }

    /// The worker behind whose last task `slot` can be sent: it has all that `slot` waits for.
    fn worker_ahead(&self, slot: u32) -> Option<u32> {
        let entry = &self.ring[slot];
        if entry.state != State::Pending || entry.is_alone || !self.is_next_in_queue(entry.route) {
            return None;
        }
        let mut worker = NONE;
        let mut has_last = false;
        for edge in self.ring.edges(slot) {
            if !self.ring.is_under_way(edge.producer) {
                continue;
            }
            let (producer, on) =
                (edge.producer.place(), self.ring.extra(edge.producer.place()).worker);
            let is_group = matches!(self.ring[producer].route, Route::Group(_));
            if self.ring[producer].state != State::Running || is_group {
                return None;
            }
            if worker == NONE {
                worker = on;
            } else if worker != on {
                return None;
            }
            let last = self.workers.get(on as usize)?.flights.back()?.slot;
            has_last |= last == producer;
        }
        let state = self.workers.get(worker as usize)?;
        let is_next = has_last && state.keeps_order && state.has_room() && state.queue.is_empty();
        (is_next && self.may_run(entry.route, worker)).then_some(worker)
    }

    /// True if nothing waits in the queue that a task of this route would go to.
    #[inline]
    fn is_next_in_queue(&self, route: Route) -> bool {
        match route {
            Route::Worker(worker) => self.workers[worker as usize].queue.is_empty(),
            Route::Pool(pool) => self.pools[pool as usize].queue.is_empty(),
            Route::Group(_) => false,
        }
    }

    /// True if a task of this route may run on `worker`.
    #[inline]
    fn may_run(&self, route: Route, worker: u32) -> bool {
        match route {
            Route::Worker(only) => only == worker,
            Route::Pool(pool) => self.workers[worker as usize].pool == pool,
            Route::Group(_) => false,
        }
    }
}
