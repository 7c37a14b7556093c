//! From running to gone, and the effect of the end of one task on others.

use super::{Action, Ending, Engine, lost};
use crate::arena::NONE;
use crate::refs::Reference;
use crate::run::{Cause, Reason};
use crate::task::{Route, State, TaskId};
use crate::worker::{Health, WorkerId};

impl Engine {
    #[inline]
    pub(super) fn finished(&mut self, worker: WorkerId, dispatch: u64, ending: Ending, took: u64) {
        let now = self.clock.now;
        let flight = self.workers.get_mut(worker.index()).and_then(|state| {
            let flight = state.land(dispatch)?;
            state.progress = now;
            Some((flight, state.pool))
        });
        let Some((flight, pool)) = flight else {
            self.counts.stale += 1;
            return;
        };
        self.clock.progress = now;
        if let Some(pool) = self.pools.get_mut(pool as usize) {
            pool.ending = Some(worker.0);
        }
        if ending == Ending::Deferred {
            self.ring.extra_mut(flight.slot).deferred += 1;
        } else {
            self.end_member(flight.slot, flight.member, ending, took);
        }
        if let Some(pool) = self.pools.get_mut(pool as usize) {
            pool.ending = None;
        }
        self.fill(worker.0);
    }

    pub(super) fn resolved(&mut self, task: TaskId, ending: Ending) {
        let slot = self.ring.find(task).filter(|slot| self.ring.extra(*slot).deferred > 0);
        let (Some(slot), false) = (slot, ending == Ending::Deferred) else {
            self.counts.stale += 1;
            return;
        };
        self.clock.progress = self.clock.now;
        self.ring.extra_mut(slot).deferred -= 1;
        self.end_member(slot, 0, ending, 0);
    }

    pub(super) fn worker_ready(&mut self, worker: WorkerId) {
        let now = self.clock.now;
        if let Some(state) = self.workers.get_mut(worker.index()) {
            let was = std::mem::replace(&mut state.health, Health::Ready);
            (state.progress, self.clock.progress) = (now, now);
            if was == Health::Lost && state.pool != NONE {
                self.pools[state.pool as usize].living += 1;
            }
            self.fill(worker.0);
        }
    }

    pub(super) fn worker_progress(&mut self, worker: WorkerId) {
        let now = self.clock.now;
        if let Some(state) = self.workers.get_mut(worker.index()) {
            state.progress = now;
        }
    }

    pub(super) fn worker_lost(&mut self, worker: WorkerId) {
        let Some(state) = self.workers.get_mut(worker.index()) else { return };
        let was = std::mem::replace(&mut state.health, Health::Lost);
        self.clock.progress = self.clock.now;
        let (pool, reserved) = (state.pool, state.reserved);
        if was != Health::Lost && pool != NONE {
            self.pools[pool as usize].living -= 1;
        }
        for flight in state.take_flights() {
            let reason = lost(worker.0);
            self.end_with(flight.slot, Some(self.cause(flight.slot, flight.member, reason)), 0);
        }
        while let Some(slot) = self.workers[worker.index()].queue.pop() {
            self.fail(slot, lost(worker.0));
        }
        if pool != NONE {
            self.fill_pool(pool);
        }
        if reserved != NONE {
            self.launch_groups(reserved);
        }
    }

    fn cause(&self, slot: u32, member: u16, reason: Reason) -> Cause {
        Cause { task: Some(self.ring.id(slot)), member, work: self.ring[slot].work, reason }
    }

    #[inline]
    fn end_member(&mut self, slot: u32, member: u16, ending: Ending, took: u64) {
        let cause = match ending {
            Ending::Failed(code) => Some(self.cause(slot, member, Reason::Failed(code))),
            Ending::Skipped => Some(self.skipped(slot, member)),
            Ending::Done | Ending::Deferred => None,
        };
        self.end_with(slot, cause, took);
    }

    /// Returns the cause of a task that was sent and did not begin: that of its group, of the task it was sent behind, or of its run.
    fn skipped(&self, slot: u32, member: u16) -> Cause {
        let of_group = match self.ring[slot].route {
            Route::Group(group) => self.groups[group].cause,
            // The task that this one was sent behind has failed.
            _ if self.ring[slot].is_failing => self.ring.rare(slot).cause,
            _ => None,
        };
        let of_run = self.runs[self.ring[slot].run as usize].error;
        of_group.or(of_run).unwrap_or_else(|| self.cause(slot, member, Reason::Cancelled))
    }

    #[inline]
    fn end_with(&mut self, slot: u32, cause: Option<Cause>, took: u64) {
        let Route::Group(at) = self.ring[slot].route else {
            self.blame(slot, cause);
            return self.end(slot, took);
        };
        let group = &mut self.groups[at];
        group.remaining -= 1;
        group.took = group.took.max(took);
        let is_first = cause.is_some() && group.cause.is_none();
        group.cause = group.cause.or(cause);
        let (remaining, cause, took) = (group.remaining, group.cause, group.took);
        if is_first {
            self.recall(slot);
        }
        if remaining == 0 {
            self.blame(slot, cause);
            self.end(slot, took);
        }
    }

    #[inline]
    fn blame(&mut self, slot: u32, cause: Option<Cause>) {
        if cause.is_some() {
            self.ring[slot].is_failing = true;
            self.ring.rare_mut(slot).cause = cause;
        }
    }

    /// Asks the workers that have `slot` not to begin it.
    pub(super) fn recall(&mut self, slot: u32) {
        for (worker, state) in (0..).map(WorkerId).zip(&self.workers) {
            for flight in state.flights.iter().filter(|flight| flight.slot == slot) {
                self.actions.push_back(Action::Recall { worker, dispatch: flight.dispatch });
            }
        }
    }

    /// The task in `slot` has ended, for the reason it carries or well.
    #[inline]
    pub(super) fn end(&mut self, slot: u32, took: u64) {
        let entry = &mut self.ring[slot];
        let (is_failing, has_held) = (entry.is_failing, entry.has_held);
        let state = if is_failing { State::Failed } else { State::Completed };
        entry.state = state;
        let has_accesses = std::mem::take(&mut entry.has_accesses);
        let (run, route, until) = (entry.run, entry.route, entry.path.saturating_add(took));
        entry.under_way = 0;
        // A producer that has not ended still has this slot on its list.
        let itself = if entry.waits == 0 { entry.itself.take() } else { None };
        if has_accesses {
            self.map.retire(std::mem::replace(&mut self.ring.extra_mut(slot).accesses, NONE));
        }
        if let Route::Group(group) = route {
            self.groups.remove(group);
        }
        let run = &mut self.runs[run as usize];
        let cause = if is_failing { self.ring.rare(slot).cause } else { None };
        match cause {
            Some(cause) => run.fail(cause),
            None => run.report.completed += u64::from(route != Route::NOWHERE),
        }
        run.report.work = run.report.work.saturating_add(took);
        run.report.critical = run.report.critical.max(until);
        if self.config.is_recording
            && let Some(entry) = run.record.entries.get_mut(self.ring.extra(slot).record as usize)
        {
            (entry.took, entry.state, entry.until) = (took, state, until);
        }
        self.tell_consumers(slot, until);
        if has_held {
            self.let_go(slot);
        }
        if let Some(itself) = itself {
            self.drop_reference(itself);
        }
    }

    #[inline]
    fn tell_consumers(&mut self, slot: u32, until: u64) {
        if !self.ring.has_consumers(slot) {
            return;
        }
        let is_failing = self.ring[slot].is_failing;
        let mut at = 0;
        while let Some(consumer) = self.ring.consumer(slot, at) {
            if self.ring.release(consumer, until) || is_failing {
                self.tell(slot, consumer);
            }
            at += 1;
        }
        let mut more = self.ring.others(slot);
        while let Some((some, next)) = self.ring.more_consumers(more) {
            for consumer in some {
                if self.ring.release(consumer, until) || is_failing {
                    self.tell(slot, consumer);
                }
            }
            more = next;
        }
        self.ring.clear_consumers(slot);
    }

    /// `consumer` has nobody left to wait for, or its producer in `slot` has failed.
    #[inline(never)]
    fn tell(&mut self, slot: u32, consumer: u32) {
        let entry = &mut self.ring[consumer];
        let is_last = entry.waits == 0;
        if entry.state != State::Pending {
            let itself = if is_last && entry.is_ended() { entry.itself.take() } else { None };
            if let Some(itself) = itself {
                self.drop_reference(itself);
            } else if self.ring[slot].is_failing {
                self.doom(slot, consumer);
            }
        } else if self.ring[slot].is_failing {
            if let Some(cause) = self.ring.rare(slot).cause {
                self.counts.pending -= 1;
                self.fail_because(consumer, cause);
            }
        } else if is_last {
            self.counts.pending -= 1;
            self.make_ready(consumer);
        }
    }

    /// The producer in `slot` of a task that was sent behind it has failed: so will the task.
    #[cold]
    fn doom(&mut self, slot: u32, consumer: u32) {
        let entry = &self.ring[consumer];
        if entry.state == State::Running && !entry.is_failing {
            self.blame(consumer, self.ring.rare(slot).cause);
        }
    }

    /// Gives back the slabs that `slot` has named.
    fn let_go(&mut self, slot: u32) {
        self.ring[slot].has_held = false;
        let mut held = std::mem::take(&mut self.ring.rare_mut(slot).held);
        for reference in held.drain(..) {
            self.drop_reference(reference);
        }
        self.ring.rare_mut(slot).held = held;
    }

    #[inline]
    pub(super) fn drop_reference(&mut self, reference: impl Reference) {
        let slot = reference.slot();
        if self.ring[slot].holders.release(reference) {
            self.consume(slot);
        }
    }

    /// Nobody refers to `slot` any more.
    #[inline]
    fn consume(&mut self, slot: u32) {
        let entry = &mut self.ring[slot];
        let run = entry.run;
        if std::mem::take(&mut entry.has_slab)
            && let Some(slab) = self.ring.rare_mut(slot).slab.take()
        {
            self.ring.bytes.release(slab.offset, slab.bytes);
            self.buffers.remove(slab.buffer);
        }
        self.ring.give(slot);
        if self.wants.room {
            self.wants.room = false;
            self.actions.push_back(Action::RoomFreed);
        }
        let entry = &mut self.runs[run as usize];
        entry.live -= 1;
        if entry.live == 0 && entry.is_sealed {
            self.lists.ending.push(run);
        }
    }
}
