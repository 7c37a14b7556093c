//! Tasks that are sent before their producers have ended: behind them, to the same worker.
//!
//! A worker that keeps order runs its tasks one after the other. If one worker has every task that a later task waits
//! for, the engine sends the later task to the same worker at once, and no message about an ending is needed in
//! between. The later task goes directly behind one of its producers, so no other worker could start it earlier
//! (QUE-5).

use super::Engine;
use crate::task::{Edge, Route, Slot, State, TaskId};
use crate::worker::WorkerId;

impl Engine {
    /// Declares that `worker` keeps order: it runs tasks in the order in which they are sent, defers none, and ends a
    /// task [behind](Engine::behind) a failed or skipped task as [`Ending::Skipped`](crate::Ending::Skipped). The
    /// driver asks [`Engine::is_doomed`] before it starts a task that was sent behind others.
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

    /// Sends `slot`, which waits, behind its producers, if one worker has them all.
    #[inline]
    pub(super) fn send_behind(&mut self, slot: u32) {
        if let Some(worker) = self.worker_ahead(slot) {
            self.counts.pending -= 1;
            self.start(worker, slot, 0);
        }
    }

    /// Sends `worker` the consumers of its own tasks while it has room (QUE-5).
    #[inline(never)]
    pub(super) fn extend(&mut self, worker: u32) {
        while let Some(slot) = self.next_behind(worker) {
            self.counts.pending -= 1;
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
        let can_follow = |slot: &u32| self.can_follow(*slot, worker, last);
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

    /// True if `slot`, which waits for `last`, can be sent behind `last`, the last task of `worker`.
    #[inline]
    fn can_follow(&self, slot: u32, worker: u32, last: u32) -> bool {
        let (entry, state) = (&self.ring[slot], &self.workers[worker as usize]);
        // A task that waits for more tasks than the worker has waits for another worker too.
        if entry.waits as usize > state.flights.len() || !self.may_be_behind(entry) {
            return false;
        }
        if entry.waits == 1 {
            // Only for `last`.
            return !self.is_group(last) && self.may_follow_on(entry, worker);
        }
        self.worker_of_producers(slot) == Some(worker)
    }

    /// The worker behind whose last task `slot` can be sent: it has all that `slot` waits for.
    fn worker_ahead(&self, slot: u32) -> Option<u32> {
        if self.may_be_behind(&self.ring[slot]) { self.worker_of_producers(slot) } else { None }
    }

    /// True if a task waits, may be sent behind others, and no other is ahead of it.
    #[inline]
    fn may_be_behind(&self, entry: &Slot) -> bool {
        let is_waiting = entry.state == State::Pending && !entry.is_alone;
        is_waiting && self.is_next_in_queue(entry.route)
    }

    /// True if a task may run on `worker`, which has room for it and keeps order.
    #[inline]
    fn may_follow_on(&self, entry: &Slot, worker: u32) -> bool {
        let state = &self.workers[worker as usize];
        let is_free = state.keeps_order && state.has_room() && state.queue.is_empty();
        is_free && self.may_run(entry.route, worker)
    }

    fn worker_of_producers(&self, slot: u32) -> Option<u32> {
        match self.ring.inline_edges(slot) {
            Some(edges) => self.common_worker(slot, edges.iter().copied()),
            None => self.common_worker(slot, self.ring.edges(slot)),
        }
    }

    /// The worker that has all unfinished producers among `edges`, one of them as its last task, if `slot` may follow there.
    #[inline]
    fn common_worker(&self, slot: u32, edges: impl Iterator<Item = Edge>) -> Option<u32> {
        let producers = edges.map(|edge| edge.producer);
        let mut producers = producers.filter(|producer| self.ring.is_under_way(*producer));
        let first = producers.next()?;
        let worker = self.ring.extra(first.place()).worker;
        let last = self.workers.get(worker as usize)?.flights.back()?.slot;
        let mut has_last = false;
        for producer in std::iter::once(first).chain(producers) {
            let producer = producer.place();
            let is_running = self.ring[producer].state == State::Running;
            let is_there = is_running && self.ring.extra(producer).worker == worker;
            if !is_there || self.is_group(producer) {
                return None;
            }
            has_last |= producer == last;
        }
        (has_last && self.may_follow_on(&self.ring[slot], worker)).then_some(worker)
    }

    fn is_group(&self, slot: u32) -> bool {
        matches!(self.ring[slot].route, Route::Group(_))
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
