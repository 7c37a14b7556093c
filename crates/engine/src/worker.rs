//! Workers, pools, and the queues in front of them.
//!
//! - **QUE-1 (FIFO).** Tasks leave a queue in the order in which they became ready, those that became ready together in
//!   the order of submission; only a higher priority goes ahead.
//! - **QUE-2 (directed).** A task for one worker stands in that worker's queue and runs there or nowhere.
//! - **QUE-3 (work conserving).** The first task of a queue does not wait while a worker can take it. A worker can take a task
//!   if it is ready, not reserved for a group, and has fewer tasks than its depth; QUE-6 restricts tasks of a pool further.
//! - **QUE-4 (spread, then local).** A ready task of a pool goes to a worker without tasks if there is one: to the one whose
//!   task has made it ready, before others.
//! - **QUE-5 (behind).** A task that waits is sent behind the tasks it waits for if one worker that keeps order has all of them,
//!   the last task of that worker is one of them, and no ready task waits in the queue that the task would go to.
//! - **QUE-6 (alone).** A worker can take a task of a pool that is alone only if it has no task, and other tasks of the pool only
//!   if none of its tasks is alone. A task for one certain worker is not asked whether it is alone.

use crate::task::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// The number of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub(crate) u32);

impl WorkerId {
    /// Returns its number, counted from 0 in the order of [`crate::Engine::add_worker`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub(crate) u32);

/// The health of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Has not yet said that it is ready; nothing is sent to it.
    Starting,
    /// Takes tasks.
    Ready,
    /// Is gone.
    Lost,
}

/// A task that is with a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) dispatch: u64,
    pub(crate) slot: u32,
    pub(crate) member: u16,
    /// True if nothing is sent behind it.
    pub(crate) is_alone: bool,
}

/// All that the engine knows of one worker.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says one thing about it")]
pub(crate) struct WorkerState {
    pub(crate) health: Health,
    /// Maximum number of tasks at a time.
    depth: usize,
    pub(crate) flights: VecDeque<Flight>,
    /// Number of flights that are alone.
    alone: u32,
    pub(crate) queue: Fifo,
    pub(crate) pool: u32,
    /// The run whose first group waits for it.
    pub(crate) reserved: u32,
    /// True if the worker only waits for another worker.
    pub(crate) is_held_up: bool,
    /// True if it runs tasks in the order in which they were sent, each only if the tasks that it was sent behind ended
    /// well.
    pub(crate) keeps_order: bool,
    /// True if it is in its pool's list of those with room.
    is_listed: bool,
    /// True if it is in its pool's list of those without tasks.
    is_listed_idle: bool,
    /// Time of its last message or end, or of a start while it had nothing.
    pub(crate) progress: Time,
}

/// Flights that a worker has memory for from the beginning; a deeper worker grows.
const ROOM: usize = 64;

impl WorkerState {
    pub(crate) fn new(depth: usize, pool: u32) -> Self {
        Self {
            health: Health::Starting,
            depth,
            flights: VecDeque::with_capacity(depth.min(ROOM)),
            alone: 0,
            queue: Fifo::default(),
            pool,
            reserved: crate::arena::NONE,
            is_held_up: false,
            keeps_order: false,
            is_listed: false,
            is_listed_idle: false,
            progress: Time(0),
        }
    }

    /// True if a task of its pool can be sent to it.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.alone == 0 && self.has_room_of_its_own()
    }

    /// True if a task that can only run here can be sent to it: it would wait here or there.
    #[inline]
    pub(crate) fn has_room_of_its_own(&self) -> bool {
        self.health == Health::Ready
            && self.reserved == crate::arena::NONE
            && self.flights.len() < self.depth
    }

    /// True if a member of a group can be sent to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.health == Health::Ready && self.flights.is_empty()
    }

    /// Removes the flight `dispatch`.
    #[inline]
    pub(crate) fn land(&mut self, dispatch: u64) -> Option<Flight> {
        let is_first = self.flights.front().is_some_and(|flight| flight.dispatch == dispatch);
        let flight = if is_first {
            self.flights.pop_front()?
        } else {
            let at = self.flights.iter().position(|flight| flight.dispatch == dispatch)?;
            self.flights.remove(at)?
        };
        if flight.is_alone {
            self.alone -= 1;
        }
        Some(flight)
    }

    #[inline]
    pub(crate) fn take_off(&mut self, flight: Flight) {
        if flight.is_alone {
            self.alone += 1;
        }
        self.flights.push_back(flight);
    }

    /// Removes and returns all flights.
    pub(crate) fn take_flights(&mut self) -> VecDeque<Flight> {
        self.alone = 0;
        std::mem::take(&mut self.flights)
    }
}

/// Workers that are alike.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) workers: Vec<u32>,
    pub(crate) queue: Fifo,
    /// Workers with room at the time of their entry, oldest entry first.
    free: VecDeque<u32>,
    /// Workers without a task at the time of their entry, oldest entry first.
    idle: VecDeque<u32>,
    /// The worker that is just ending a task: a task that becomes ready is likely to use the same data.
    pub(crate) ending: Option<u32>,
    /// Number of workers that are not gone.
    pub(crate) living: usize,
}

impl Pool {
    /// Lists `worker` unless it is listed.
    #[inline]
    pub(crate) fn list(&mut self, worker: u32, state: &mut WorkerState) {
        if state.flights.is_empty() && !state.is_listed_idle {
            state.is_listed_idle = true;
            self.idle.push_back(worker);
        }
        if !state.is_listed {
            state.is_listed = true;
            self.free.push_back(worker);
        }
    }

    #[inline(never)]
    fn rotate(&mut self) {
        self.free.rotate_left(1);
    }

    /// The worker for the next task: one without tasks if there is any, else the next that has room, unless it is to be alone.
    #[inline]
    pub(crate) fn next_free(&mut self, workers: &mut [WorkerState], is_alone: bool) -> Option<u32> {
        if self.ending.is_some()
            && let Some(worker) = self.next_local(workers)
        {
            return Some(worker);
        }
        if !self.idle.is_empty()
            && let Some(worker) = self.next_idle(workers)
        {
            return Some(worker);
        }
        if is_alone { None } else { self.next_with_room(workers) }
    }

    /// The worker that is ending a task, if it has no other.
    #[inline]
    fn next_local(&mut self, workers: &[WorkerState]) -> Option<u32> {
        let is_free = |worker: &u32| {
            let state = &workers[*worker as usize];
            state.flights.is_empty() && state.has_room()
        };
        // A worker that is ending a task is not listed as idle yet: it is forgotten only once it was asked.
        self.ending.take().filter(is_free)
    }

    /// The worker that has had no task for the longest.
    #[inline(never)]
    fn next_idle(&mut self, workers: &mut [WorkerState]) -> Option<u32> {
        while let Some(worker) = self.idle.pop_front() {
            let state = &mut workers[worker as usize];
            state.is_listed_idle = false;
            if state.flights.is_empty() && state.has_room() {
                return Some(worker);
            }
        }
        None
    }

    /// Removes the task that waits longest, if only the calling worker has room for it.
    #[inline]
    pub(crate) fn pop_for_the_only_one(&mut self) -> Option<u32> {
        if self.free.is_empty() { self.queue.pop() } else { None }
    }

    /// The next worker that has room; if it is the only room it has, it is listed no longer.
    #[inline]
    fn next_with_room(&mut self, workers: &mut [WorkerState]) -> Option<u32> {
        while let Some(&worker) = self.free.front() {
            let state = &mut workers[worker as usize];
            let has_room = state.has_room();
            if !has_room || state.flights.len() + 1 >= state.depth {
                state.is_listed = false;
                self.free.pop_front();
            } else if self.free.len() > 1 {
                self.rotate();
            }
            if has_room {
                return Some(worker);
            }
        }
        None
    }
}

/// A queue of slots.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    usual: VecDeque<u32>,
    urgent: BTreeMap<(Reverse<u8>, i64), u32>,
    count: i64,
    /// Number of slots that were put before all others.
    before: i64,
}

impl Fifo {
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, priority: u8) {
        if priority == 0 {
            return self.usual.push_back(slot);
        }
        self.count += 1;
        self.urgent.insert((Reverse(priority), self.count), slot);
    }

    /// Puts one back that had left.
    pub(crate) fn push_front(&mut self, slot: u32, priority: u8) {
        if priority == 0 {
            return self.usual.push_front(slot);
        }
        self.before += 1;
        self.urgent.insert((Reverse(priority), -self.before), slot);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.urgent.is_empty() {
            return self.usual.pop_front();
        }
        self.urgent.pop_first().map(|(_, slot)| slot)
    }

    /// The one that leaves next.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        if self.urgent.is_empty() {
            return self.usual.front().copied();
        }
        self.urgent.first_key_value().map(|(_, slot)| *slot)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.usual.is_empty() && self.urgent.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.usual.len() + self.urgent.len()
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.usual.retain(|slot| keep(*slot));
        self.urgent.retain(|_, slot| keep(*slot));
    }
}
