//! From ready to running.

use super::{Action, Engine, Start, lost};
use crate::arena::NONE;
use crate::run::{Cause, Reason};
use crate::task::{Route, State, TaskId};
use crate::worker::{Flight, Health, PoolId, WorkerId};

impl Engine {
    /// The last producer of `slot` has ended, or there was none.
    #[inline(never)]
    pub(super) fn make_ready(&mut self, slot: u32) {
        let entry = &mut self.ring[slot];
        entry.state = State::Ready;
        let run = entry.run;
        if self.runs[run as usize].is_active {
            self.route(slot);
        } else {
            self.runs[run as usize].waiting.push_back(slot);
        }
    }

    #[inline]
    pub(super) fn route(&mut self, slot: u32) {
        let entry = &self.ring[slot];
        let (route, priority, run) = (entry.route, entry.priority, entry.run);
        let is_alone = entry.is_alone;
        match route {
            Route::Worker(worker) => {
                if self.workers[worker as usize].health == Health::Lost {
                    return self.fail(slot, lost(worker));
                }
                self.workers[worker as usize].queue.push(slot, priority);
                self.fill_worker(worker);
            }
            Route::Pool(pool) => {
                let entry = &mut self.pools[pool as usize];
                if entry.queue.is_empty()
                    && let Some(worker) = entry.next_free(&mut self.workers, is_alone)
                {
                    return self.start(worker, slot, 0);
                }
                entry.queue.push(slot, priority);
                self.fill_pool(pool);
            }
            Route::Group(_) => {
                self.runs[run as usize].groups.push_back(slot);
                self.launch_groups(run);
            }
        }
    }

    /// Sends `worker` tasks while it has room: first from its own queue, then from the queue of its pool.
    #[inline]
    pub(super) fn fill(&mut self, worker: u32) {
        let state = &mut self.workers[worker as usize];
        if state.reserved != NONE {
            let run = state.reserved;
            return self.launch_groups(run);
        }
        if !state.queue.is_empty() {
            self.fill_worker(worker);
        }
        let pool = self.workers[worker as usize].pool;
        if pool != NONE {
            self.fill_from(pool, worker);
        }
        if self.has_order && self.counts.pending > 0 {
            self.extend(worker);
        }
    }

    /// Gives `worker` what waits for its pool, and lists it if it has room for more.
    #[inline]
    fn fill_from(&mut self, pool: u32, worker: u32) {
        if !self.pools[pool as usize].queue.is_empty() {
            self.feed(worker, pool);
        }
        let state = &mut self.workers[worker as usize];
        if state.has_room() {
            let entry = &mut self.pools[pool as usize];
            entry.list(worker, state);
            if !entry.queue.is_empty() {
                self.fill_pool(pool);
            }
        }
    }

    /// Gives `worker` what waits for its pool, while nobody else has room.
    #[inline]
    fn feed(&mut self, worker: u32, pool: u32) {
        while self.workers[worker as usize].has_room()
            && let Some(slot) = self.pools[pool as usize].pop_for_the_only_one()
        {
            if self.ring[slot].is_alone && !self.workers[worker as usize].flights.is_empty() {
                let priority = self.ring[slot].priority;
                return self.pools[pool as usize].queue.push_front(slot, priority);
            }
            self.start(worker, slot, 0);
        }
    }

    #[inline(never)]
    fn fill_worker(&mut self, worker: u32) {
        while self.workers[worker as usize].has_room_of_its_own() {
            let Some(slot) = self.workers[worker as usize].queue.pop() else { return };
            self.start(worker, slot, 0);
        }
    }

    #[inline(never)]
    pub(super) fn fill_pool(&mut self, pool: u32) {
        let entry = &mut self.pools[pool as usize];
        if entry.living == 0 {
            return self.fail_abandoned(pool);
        }
        while let Some(slot) = self.pools[pool as usize].queue.first() {
            let (entry, is_alone) = (&mut self.pools[pool as usize], self.ring[slot].is_alone);
            let Some(worker) = entry.next_free(&mut self.workers, is_alone) else { return };
            entry.queue.pop();
            self.start(worker, slot, 0);
        }
    }

    /// Nobody will ever come for what waits in a pool whose workers are all gone.
    fn fail_abandoned(&mut self, pool: u32) {
        while let Some(slot) = self.pools[pool as usize].queue.pop() {
            self.fail(slot, Reason::PoolLost(PoolId(pool)));
        }
    }

    /// Returns the number of workers of a pool that are not gone.
    pub(super) fn living(&self, pool: u32) -> usize {
        self.pools[pool as usize].living
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "on the way of every task: a call costs a tenth of it"
    )]
    pub(super) fn start(&mut self, worker: u32, slot: u32, member: u16) {
        self.counts.dispatches += 1;
        let dispatch = self.counts.dispatches;
        let state = &mut self.workers[worker as usize];
        if state.flights.is_empty() {
            state.progress = self.clock.now;
        }
        let entry = &mut self.ring[slot];
        state.take_off(Flight { dispatch, slot, member, is_alone: entry.is_alone });
        entry.state = State::Running;
        let (work, task) = (entry.work, TaskId::new(slot, entry.generation));
        if self.has_order {
            self.ring.extra_mut(slot).worker = worker;
        }
        let start = Start { worker: WorkerId(worker), dispatch, task, member, work };
        self.actions.push_back(Action::Start(start));
    }

    /// Starts the groups of `run` that can start, in order; the first that cannot reserves its workers.
    pub(super) fn launch_groups(&mut self, run: u32) {
        let mut freed = Vec::new();
        while let Some(&slot) = self.runs[run as usize].groups.front() {
            let Route::Group(group) = self.ring[slot].route else {
                unreachable!("GRP-1: only groups are here")
            };
            if let Some(reason) = self.impossible(group) {
                self.release_group(run, group, &mut freed);
                self.fail(slot, reason);
                continue;
            }
            for worker in self.wanted(group) {
                self.workers[worker as usize].reserved = run;
            }
            if !self.choose(group) {
                break;
            }
            self.release_group(run, group, &mut freed);
            for member in 0..self.groups[group].members {
                let worker = self.groups[group].targets[member];
                self.start(worker, slot, u16::try_from(member).unwrap_or(u16::MAX));
            }
        }
        for worker in freed {
            if self.workers[worker as usize].reserved == NONE {
                self.fill(worker);
            }
        }
    }

    /// Returns the reason why a group can never start any more.
    fn impossible(&self, group: u32) -> Option<Reason> {
        let group = &self.groups[group];
        if let Some(pool) = group.pool {
            return (self.living(pool) < group.members).then_some(Reason::PoolLost(PoolId(pool)));
        }
        let is_lost = |worker: &&u32| self.workers[**worker as usize].health == Health::Lost;
        group.targets.iter().find(is_lost).map(|worker| lost(*worker))
    }

    /// The workers that a group keeps free while it waits.
    fn wanted(&self, group: u32) -> Vec<u32> {
        let group = &self.groups[group];
        group
            .pool
            .map_or_else(|| group.targets.clone(), |pool| self.pools[pool as usize].workers.clone())
    }

    /// True if all its workers are idle; a group of a pool takes the first that are.
    fn choose(&mut self, group: u32) -> bool {
        let Some(pool) = self.groups[group].pool else {
            return self.groups[group]
                .targets
                .iter()
                .all(|worker| self.workers[*worker as usize].is_idle());
        };
        let idle = self.pools[pool as usize]
            .workers
            .iter()
            .filter(|worker| self.workers[**worker as usize].is_idle());
        let targets: Vec<u32> = idle.take(self.groups[group].members).copied().collect();
        let is_enough = targets.len() == self.groups[group].members;
        if is_enough {
            self.groups[group].targets = targets;
        }
        is_enough
    }

    /// The first group of `run` waits no longer.
    fn release_group(&mut self, run: u32, group: u32, freed: &mut Vec<u32>) {
        self.runs[run as usize].groups.pop_front();
        for worker in self.wanted(group) {
            self.workers[worker as usize].reserved = NONE;
            freed.push(worker);
        }
    }

    /// A task that has not begun never will; its consumers are told by [`Engine::settle`].
    pub(super) fn fail(&mut self, slot: u32, reason: Reason) {
        let task = Some(self.ring.id(slot));
        let cause = Cause { task, member: 0, work: self.ring[slot].work, reason };
        self.fail_because(slot, cause);
    }

    pub(super) fn fail_because(&mut self, slot: u32, cause: Cause) {
        let entry = &mut self.ring[slot];
        entry.state = State::Failed;
        entry.is_failing = true;
        self.ring.rare_mut(slot).cause = Some(cause);
        self.failing.push(slot);
    }
}
