//! The state machine: events go in, actions come out.
//!
//! ```text
//!   submitter ── begin, open, submit, close, seal ──►┌────────┐──► Action::Start ──────► workers
//!                                                    │ Engine │──► RoomFreed, RunFinished ──► submitter
//!   workers ──── Event::Finished, Lost, Progress ───►└────────┘
//! ```
//!
//! One owner holds the engine; there is no clock, no thread, no lock. Nothing blocks: a full ring and a run that must wait
//! are answers. After every call, each task that can start has its action in [`Engine::actions`].
//!
//! - **ENG-1 (deterministic).** The same calls give the same actions in the same order.
//! - **ENG-2 (exactly once).** Each dispatch ends exactly once; an event about an unknown dispatch is counted and ignored.
//! - **ENG-3 (bounded).** Memory follows live tasks, buffers, workers and unforgotten runs, and in steady state a task
//!   allocates nothing.
//! - **ENG-4 (refusals leave nothing).** A call that is refused has changed nothing.

mod behind;
mod cancel;
mod dispatch;
mod progress;
mod runs;
mod submit;
mod wire;

use crate::arena::{Arena, NONE, number};
use crate::buffer::{Buffer, BufferError, BufferId, Buffers, Grant, Identity};
use crate::group::Group;
use crate::ring::Ring;
use crate::run::{Reason, Run, RunId};
use crate::task::{State, TaskId, Time};
use crate::tensormap::{RunKey, TensorMap};
use crate::worker::{Flight, Health, Pool, PoolId, WorkerId, WorkerState};
use std::collections::VecDeque;

/// The size of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum number of live tasks.
    pub slots: u32,
    /// Maximum bytes of live slabs, rounded up to whole [alignments](crate::Regions).
    pub bytes: u64,
    /// Maximum number of unfinished runs.
    pub depth: usize,
    /// True if runs record all their tasks, for [`Engine::graph`] and [`Engine::critical_path`].
    pub is_recording: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { slots: 1024, bytes: 1 << 30, depth: 2, is_recording: false }
    }
}

/// The end of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Successful.
    Done,
    /// Failed, with a code of the driver.
    Failed(u32),
    /// Recalled before it began; it will not begin.
    Skipped,
    /// The worker is free, but the task ends later, with [`Event::Resolved`].
    Deferred,
}

/// An input of the engine: something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker takes tasks from now on.
    Ready(WorkerId),
    /// A worker is gone; nothing it has will end.
    Lost(WorkerId),
    /// A worker has ended what it was sent.
    Finished {
        /// The worker.
        worker: WorkerId,
        /// The number it was sent with.
        dispatch: u64,
        /// The end of the dispatch.
        ending: Ending,
        /// Its duration, in the driver's unit.
        took: u64,
    },
    /// A worker is busy, not stuck.
    Progress(WorkerId),
    /// A deferred task (or one member of it) has ended.
    Resolved {
        /// The task.
        task: TaskId,
        /// Its end.
        ending: Ending,
    },
    /// Nothing, but time passes.
    Tick,
}

/// An output of the engine: something that the driver must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a task to a worker.
    Start(Start),
    /// Recall a dispatch that has not begun; it must still be ended, perhaps as [`Ending::Skipped`].
    Recall {
        /// The worker.
        worker: WorkerId,
        /// The number it was sent with.
        dispatch: u64,
    },
    /// A submitter that was told to wait may submit again.
    RoomFreed,
    /// A run that was told to wait may begin.
    AdmissionFreed,
    /// A run is finished.
    RunFinished(RunId),
}

/// One task, or one member of a group, on its way to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The worker.
    pub worker: WorkerId,
    /// The number to end it with.
    pub dispatch: u64,
    /// The task.
    pub task: TaskId,
    /// The member of a group, else 0.
    pub member: u16,
    /// The driver's number for the work.
    pub work: u64,
}

/// Counts of everything that an engine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Live tasks.
    pub tasks: u32,
    /// Free bytes of slabs.
    pub free_bytes: u64,
    /// Live buffers, slabs included.
    pub buffers: usize,
    /// Arguments of tasks that have not ended.
    pub accesses: usize,
    /// Regions that are told apart.
    pub regions: usize,
    /// Live groups.
    pub groups: usize,
    /// Tasks and members that are with workers.
    pub running: usize,
    /// Ready tasks in queues.
    pub queued: usize,
    /// Runs that are not forgotten.
    pub runs: usize,
    /// Endings of dispatches nobody knew.
    pub stale: u64,
    /// Regions, writers and readers visited so far to find dependencies.
    pub visits: u64,
}

/// The state machine: events go in, actions come out.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) ring: Ring,
    map: TensorMap,
    buffers: Buffers,
    pub(crate) workers: Vec<WorkerState>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) groups: Arena<Group>,
    pub(crate) runs: Vec<Run>,
    pub(crate) lists: RunLists,
    actions: VecDeque<Action>,
    /// Failed tasks whose consumers do not know yet.
    failing: Vec<u32>,
    pub(crate) wants: Wants,
    /// True if a worker keeps order.
    has_order: bool,
    counts: Counts,
}

/// The times that the engine knows.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Time of the last change.
    pub(crate) progress: Time,
    next_deadline: Time,
}

/// Indices of runs.
#[derive(Debug, Default)]
pub(crate) struct RunLists {
    free: Vec<u32>,
    /// Unfinished runs, oldest first.
    pub(crate) unfinished: Vec<u32>,
    /// Runs that may be finished.
    ending: Vec<u32>,
}

/// Waits that a submitter was told of and that are not over.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    pub(crate) room: bool,
    admission: bool,
}

/// Numbers that the engine counts.
#[derive(Debug, Default)]
struct Counts {
    /// Tasks that wait for others and were not sent behind them.
    pending: u32,
    dispatches: u64,
    /// Submissions.
    sequence: u64,
    last_run: u64,
    last_scope: u64,
    /// Endings of dispatches nobody knew.
    stale: u64,
    /// Checks of arguments.
    checks: u32,
    /// Writers and readers that were looked at outside of trees.
    visits: u64,
}

impl Engine {
    /// Makes an engine without workers.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            clock: Clock { now: Time(0), progress: Time(0), next_deadline: Time(u64::MAX) },
            ring: Ring::new(config.slots, config.bytes),
            map: TensorMap::default(),
            buffers: Buffers::default(),
            workers: Vec::new(),
            pools: Vec::new(),
            groups: Arena::default(),
            runs: Vec::new(),
            lists: RunLists::default(),
            actions: VecDeque::new(),
            failing: Vec::new(),
            wants: Wants::default(),
            has_order: false,
            counts: Counts::default(),
        }
    }

    /// Adds a pool without workers.
    pub fn add_pool(&mut self) -> PoolId {
        self.pools.push(Pool::default());
        PoolId(number(self.pools.len() - 1))
    }

    /// Adds a worker that is sent up to `depth` tasks at a time once it is [`Event::Ready`]. Runs that have begun do
    /// not use it.
    pub fn add_worker(&mut self, pool: Option<PoolId>, depth: usize) -> WorkerId {
        let worker = number(self.workers.len());
        let pool = pool.map_or(NONE, |pool| pool.0);
        if let Some(pool) = self.pools.get_mut(pool as usize) {
            pool.workers.push(worker);
            pool.living += 1;
        }
        for run in &mut self.runs {
            run.forget_pool(pool);
        }
        self.workers.push(WorkerState::new(depth.max(1), pool));
        WorkerId(worker)
    }

    /// Says whether `worker` only waits for another worker with its task: then that one is judged, by its own budget, and
    /// `worker` is no evidence of a stall nor speaks for the others of its group.
    pub fn hold_up(&mut self, worker: WorkerId, is_held_up: bool) {
        if let Some(state) = self.workers.get_mut(worker.index()) {
            state.is_held_up = is_held_up;
        }
    }

    /// Returns all workers, in the order in which they were added.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..number(self.workers.len())).map(WorkerId)
    }

    /// Returns the workers of a pool, those that are gone too.
    pub fn pool_workers(&self, pool: PoolId) -> impl Iterator<Item = WorkerId> {
        let pool = self.pools.get(pool.0 as usize);
        pool.into_iter().flat_map(|pool| &pool.workers).copied().map(WorkerId)
    }

    /// Makes a buffer known; the same identity gives the same number.
    pub fn register(
        &mut self,
        identity: Identity,
        bytes: u64,
        grant: Grant,
    ) -> Result<BufferId, BufferError> {
        self.buffers.register(identity, bytes, grant)
    }

    /// Forgets a buffer that no unfinished run names.
    pub fn release(&mut self, buffer: BufferId) -> Result<(), BufferError> {
        let entry = self.buffers.get(buffer).ok_or(BufferError::Stale(buffer))?;
        if entry.owner != NONE {
            return Err(BufferError::Slab(buffer));
        }
        if self.is_named(entry) {
            return Err(BufferError::InUse(buffer));
        }
        self.buffers.remove(buffer);
        Ok(())
    }

    /// True if there is still such a buffer: it was not released, or, if it is a slab, not given to another task.
    pub fn knows(&self, buffer: BufferId) -> bool {
        self.buffers.get(buffer).is_some()
    }

    /// True if an unfinished run names a buffer.
    pub fn is_in_use(&self, buffer: BufferId) -> bool {
        self.buffers.get(buffer).is_some_and(|entry| self.is_named(entry))
    }

    /// True if an unfinished run of which `is_meant` is true names a buffer.
    pub fn is_in_use_by(&self, buffer: BufferId, is_meant: impl Fn(RunId) -> bool) -> bool {
        let is_meant = |(index, number)| is_meant(RunId { number, index });
        self.buffers.get(buffer).is_some_and(|entry| self.is_named_by(entry, is_meant))
    }

    /// True if a run that is not finished names `buffer`.
    fn is_named(&self, buffer: &Buffer) -> bool {
        self.is_named_by(buffer, |_| true)
    }

    fn is_named_by(&self, buffer: &Buffer, is_meant: impl Fn(RunKey) -> bool) -> bool {
        let is_left_out = |run| is_over(&self.runs, run) || !is_meant(run);
        !is_left_out(buffer.trail.run()) || self.map.is_named(buffer.trail.maps, is_left_out)
    }

    /// Applies an event at `now`, and returns the actions.
    pub fn step(&mut self, now: Time, event: Event) -> Actions<'_> {
        self.apply(now, event);
        self.actions()
    }

    /// Applies many events at `now`, and returns the actions.
    pub fn step_all(&mut self, now: Time, events: impl IntoIterator<Item = Event>) -> Actions<'_> {
        for event in events {
            self.apply(now, event);
        }
        self.actions()
    }

    /// Returns the actions that were not taken yet.
    #[inline]
    pub fn actions(&mut self) -> Actions<'_> {
        Actions(&mut self.actions)
    }

    /// Returns the state of a task.
    pub fn state(&self, task: TaskId) -> State {
        self.ring.find(task).map_or(State::Consumed, |slot| self.ring[slot].state)
    }

    /// Returns the health of a worker.
    pub fn health(&self, worker: WorkerId) -> Option<Health> {
        self.workers.get(worker.index()).map(|state| state.health)
    }

    /// Returns the tasks of a worker, in the order in which they were sent.
    pub fn flights(&self, worker: WorkerId) -> impl Iterator<Item = Start> {
        let state = self.workers.get(worker.index());
        state.into_iter().flat_map(|state| &state.flights).map(move |flight| {
            let (Flight { dispatch, slot, member, .. }, entry) = (*flight, &self.ring[flight.slot]);
            let task = TaskId::new(slot, entry.generation);
            Start { worker, dispatch, task, member, work: entry.work }
        })
    }

    /// Returns the number of tasks of a worker.
    #[inline]
    pub fn in_flight(&self, worker: WorkerId) -> usize {
        self.workers.get(worker.index()).map_or(0, |state| state.flights.len())
    }

    /// Returns the number of free slots of the ring.
    #[inline]
    pub fn free_slots(&self) -> u32 {
        self.config.slots.saturating_sub(self.ring.live())
    }

    /// Counts everything that the engine holds.
    pub fn stats(&self) -> Stats {
        let pending = self.ring.tasks().filter(|(_, slot, _)| slot.state == State::Pending);
        debug_assert_eq!(self.counts.pending as usize, pending.count(), "QUE-5: all that wait");
        let unended = self.ring.tasks().filter(|(_, slot, _)| !slot.is_ended());
        let only = self.buffers.iter().filter(|buffer| buffer.is_used(&self.ring));
        let queues = self
            .workers
            .iter()
            .map(|state| state.queue.len())
            .chain(self.pools.iter().map(|pool| pool.queue.len()));
        let waiting = self.lists.unfinished.iter().map(|run| &self.runs[*run as usize]);
        Stats {
            tasks: self.ring.live(),
            free_bytes: self.ring.bytes.free(),
            buffers: self.buffers.live(),
            accesses: unended.map(|(_, _, extra)| extra.entered as usize).sum(),
            regions: self.map.live() + only.count(),
            groups: self.groups.live(),
            running: self.workers.iter().map(|state| state.flights.len()).sum(),
            queued: queues.sum::<usize>()
                + waiting.map(|run| run.waiting.len() + run.groups.len()).sum::<usize>(),
            runs: self.runs.len() - self.lists.free.len(),
            stale: self.counts.stale,
            visits: self.counts.visits + self.map.visits(),
        }
    }

    #[inline]
    fn apply(&mut self, now: Time, event: Event) {
        self.clock.now = self.clock.now.max(now);
        match event {
            Event::Finished { worker, dispatch, ending, took } => {
                self.finished(worker, dispatch, ending, took);
            }
            Event::Ready(worker) => self.worker_ready(worker),
            Event::Lost(worker) => self.worker_lost(worker),
            Event::Progress(worker) => self.worker_progress(worker),
            Event::Resolved { task, ending } => self.resolved(task, ending),
            Event::Tick => {}
        }
        if self.clock.now >= self.clock.next_deadline {
            self.expire();
        }
        self.settle();
    }

    /// Tells consumers of failed tasks, one after the other and never within each other, and ends runs.
    #[inline]
    fn settle(&mut self) {
        while let Some(slot) = self.failing.pop() {
            self.end(slot, 0);
        }
        if !self.lists.ending.is_empty() {
            self.end_runs();
        }
    }

    fn run_index(&self, run: RunId) -> Option<usize> {
        let entry = self.runs.get(run.index as usize)?;
        (entry.id == run).then_some(run.index as usize)
    }
}

fn lost(worker: u32) -> Reason {
    Reason::WorkerLost(WorkerId(worker))
}

/// True if a run with this index and number has finished.
fn is_over(runs: &[Run], (index, number): (u32, u64)) -> bool {
    runs.get(index as usize).is_none_or(|run| run.id.number != number || run.is_finished)
}

/// The actions that were not taken yet, oldest first: an iterator that removes each action that it returns.
#[derive(Debug)]
pub struct Actions<'a>(&'a mut VecDeque<Action>);

impl<'a> Actions<'a> {
    /// Returns the oldest action, and does not remove it. Parts of an action that was just decided on are faster to read in
    /// place than after the whole was copied.
    #[inline]
    pub fn first(self) -> Option<&'a Action> {
        self.0.front()
    }
}

impl Iterator for Actions<'_> {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}
