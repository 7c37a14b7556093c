//! The discrete-event executor: the only module that moves simulated time.
//!
//! ```text
//!   processes (async)  ── sleep, wait ──►  event queue  ──► devices (scheduled actions)
//!          ▲                                   │                     │
//!          └────────────── resume ◄────────────┴──────── wake ◄──────┘
//! ```
//!
//! Every event belongs to a *partition*: a part of the machine that could run alone (a SIP). Processes are plain
//! futures in a slab, polled by id, without wakers, locks or threads. Hardware is not a process but a `Device`: the
//! device computes the end of an operation and schedules one action for that instant.
//!
//! - **SIM-1 (monotone).** Time never goes backwards, and only the executor moves it: a process holds a
//!   [`Sim`], which reads the time and waits, but cannot advance the time.
//! - **SIM-2 (local order).** Events of one partition and instant fire in the order of (time of creation, creating
//!   partition, the creating partition's own counter). No global counter takes part, so the order in which partitions
//!   take their turns changes nothing (PAR-2).
//! - **SIM-3 (no shared state).** A partition affects another one only by an event at least one lookahead later. A
//!   wake-up across partitions, or an earlier event, is a bug and panics (PAR-1). So one partition runs through a
//!   whole window of time before the next partition does.
//! - **SIM-4 (deadlock is a result).** If no event is left and a process is unfinished, `run` returns the processes
//!   that wait, the conditions they wait for, and the processes that could satisfy them.
//! - **SIM-5 (structured).** Dropping a [`JoinHandle`] cancels the process and runs its destructors.
//! - **SIM-6 (common start).** All events due at the start of a run fire, in every partition, before time moves.
//! - **SIM-9 (slices).** A run that was stopped or interrupted can be continued by another run: the two fire the events of
//!   one whole run. A request between the two takes effect at the time of the stop, or later in a partition that is
//!   ahead.
//! - **SIM-10 (shards).** Several executors with a part of the partitions each go through the windows of one: they meet
//!   before each window, and agree on its start and on the end of the run (PAR-3).
//! - **SIM-7 (polling is not progress).** A process that polls a condition ([`Sim::pause`]) continues while other
//!   processes make progress, and does not keep a run alive.
//! - **PAR-1 (by events).** State crosses from SIP to SIP only as an event at least one link latency ahead.
//! - **PAR-2 (own order).** Equal times fire in an order that each partition can compute alone.
//! - **PAR-3 (decided at the end).** Deadlock, unread messages and the end are decided when no event is left.

mod action;
mod agenda;
mod deadlock;
mod name;
mod sim;
mod state;
mod task;
mod watch;

pub use crate::signal::{Signal, WaitFor};
pub use deadlock::{Deadlock, Wait, Waiting};
pub use name::Name;
pub use sim::Sim;
pub use task::{Canceled, JoinHandle, Pause, Sleep, TaskId};
pub use watch::{Doze, Look};

use crate::exchange::Standing;
use crate::time::Time;
use action::Action;
pub(crate) use action::Key;
use agenda::Agenda;
use state::State;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use task::Processes;

/// The number of a partition: a part of the machine that advances through time as one, a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

crate::portable!(tuple Partition);

/// The number of a registered [`Device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(u32);

/// Simulated hardware: the receiver of scheduled actions.
pub(crate) trait Device {
    /// Performs the action that was scheduled with `payload`.
    fn fire(&self, sim: &Sim, payload: u64);

    /// Handles the alarm of a partition, before time has moved to it; see [`Sim::set_alarm`]. Nothing happens in the
    /// partition before `_until` that is not known yet.
    fn wake_up(&self, _: &Sim, _: Partition, _until: Time) {}

    /// Tidies up between two windows: no event fires, and none will fire before `since`.
    fn rest(&self, _since: Time) {}
}

/// A shared device is a device.
impl<D: Device> Device for Rc<D> {
    #[inline]
    fn fire(&self, sim: &Sim, payload: u64) {
        (**self).fire(sim, payload);
    }

    #[inline]
    fn wake_up(&self, sim: &Sim, partition: Partition, until: Time) {
        (**self).wake_up(sim, partition, until);
    }

    #[inline]
    fn rest(&self, since: Time) {
        (**self).rest(since);
    }
}

/// The other shards of a run, which have the other partitions (SIM-10).
pub(crate) trait Peers {
    /// Sends the parcels of this shard, takes in those of others, and returns the standing of all shards together.
    /// `own` is asked for the standing of this shard alone.
    fn meet(&self, own: &dyn Fn() -> Standing) -> Standing;
}

/// The order in which the partitions with events in one window take their turns.
///
/// The order has no observable effect (SIM-2); runs with a shuffled order test that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionOrder {
    /// By partition number.
    #[default]
    Queued,
    /// By a hash of this seed, the time and the partition number.
    Shuffled(u64),
}

type Process = Pin<Box<dyn Future<Output = ()>>>;

/// The way in which a run ended without a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// No event and no process is left.
    Complete,
    /// A process stopped the run; the next run continues.
    Stopped,
    /// The caller interrupted the run; the next run continues.
    Interrupted,
}

/// The owner of all processes and devices, which drives them through time.
pub(crate) struct Executor {
    sim: Sim,
    devices: Vec<Box<dyn Device>>,
    processes: Processes,
    order: PartitionOrder,
    /// The partitions with events in the current window.
    turns: Vec<Partition>,
    peers: Option<Rc<dyn Peers>>,
}

impl Executor {
    /// Creates an executor for `partitions` partitions.
    pub(crate) fn new(partitions: u32) -> Self {
        Self {
            sim: Sim::new(State::new(partitions)),
            devices: Vec::new(),
            processes: Processes::default(),
            order: PartitionOrder::Queued,
            turns: Vec::new(),
            peers: None,
        }
    }

    /// Sets the other shards of the run (SIM-10).
    pub(crate) fn set_peers(&mut self, peers: Rc<dyn Peers>) {
        self.sim.state().run.is_shared.set(true);
        self.peers = Some(peers);
    }

    /// Ends the run at the first tie from now on: two events of one partition and instant, created at one instant by different partitions.
    pub(crate) fn watch_ties(&self) {
        self.sim.state().run.watches_ties.set(true);
    }

    /// True if there was a tie.
    pub(crate) fn has_ties(&self) -> bool {
        self.sim.state().run.has_ties.get()
    }

    /// Sets the order of turns; see [`PartitionOrder`].
    pub(crate) fn set_partition_order(&mut self, order: PartitionOrder) {
        self.order = order;
    }

    /// Sets the lookahead: the promise that no partition affects another sooner than `span` later. Each partition then
    /// runs through `span` of time alone, which is good for the cache. The default is one picosecond.
    pub(crate) fn set_lookahead(&mut self, span: Time) {
        self.sim.state().clock.lookahead.set(span.as_ps().max(1));
    }

    /// Returns a handle for processes and devices.
    pub(crate) fn sim(&self) -> Sim {
        self.sim.clone()
    }

    /// Starts a process in `partition` when the run begins or continues.
    pub(crate) fn spawn<T: 'static>(
        &mut self,
        partition: Partition,
        name: impl Into<Name>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        task::spawn(&self.sim, partition, name.into(), process)
    }

    /// Runs until no event is left, a process stops the run, or `is_interrupted` returns true, which is asked after every
    /// window. A run that was stopped or interrupted can be continued by another one.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if unfinished processes remain (SIM-4). They are dropped with the executor.
    pub(crate) fn run(&mut self, is_interrupted: impl Fn() -> bool) -> Result<Ended, Deadlock> {
        let state = self.sim.share();
        state.begin_run();
        self.apply_changes();
        // SIM-6: the first window is one instant.
        let (mut span, mut was_interrupted) = (1, false);
        let (ended, live) = loop {
            let standing = self.standing(&state, was_interrupted);
            if standing.is_interrupted {
                break (Some(Ended::Interrupted), standing.live);
            }
            if standing.is_stopped {
                break (Some(Ended::Stopped), standing.live);
            }
            if !self.step(&state, &standing, span) {
                break (None, standing.live);
            }
            was_interrupted = is_interrupted();
            span = state.clock.lookahead.get();
        };
        match ended {
            None => state.end_run(&[]),
            Some(_) => state.end_run(&self.turns),
        }
        match ended {
            Some(ended) => Ok(ended),
            None if live == 0 => Ok(Ended::Complete),
            None => Err(self.explain()),
        }
    }

    /// Returns what is known before the next window, of all shards together.
    #[inline]
    fn standing(&self, state: &State, is_interrupted: bool) -> Standing {
        let Some(peers) = &self.peers else { return state.standing(is_interrupted) };
        let standing = peers.meet(&|| state.standing(is_interrupted));
        state.clock.latest.set(standing.latest);
        standing
    }

    /// Fires all events of the next window; `false` if no event is left.
    ///
    /// The window is as long as the lookahead. Events for another partition fall after the window (SIM-3), so each
    /// partition runs through the window alone.
    fn step(&mut self, state: &State, standing: &Standing, span: u64) -> bool {
        let mut start = standing.due;
        if standing.paused > 0 {
            start = state.end_pauses(start, standing.paused, standing.events);
        }
        if standing.doze != u64::MAX {
            start = state.end_dozes(start, standing.doze, span);
        }
        if start == u64::MAX {
            return false;
        }
        let end = start.saturating_add(span);
        state.clock.window_end.set(end);
        state.pending.agendas.due_before(end, self.order, &mut self.turns);
        for index in 0..self.turns.len() {
            self.turn(state, self.turns[index]);
        }
        for device in &self.devices {
            device.rest(Time::ps(start));
        }
        true
    }

    /// Fires the events of one partition before the end of the window by time, and after each instant the actions that have
    /// no delay. A process may move the end to the next instant ([`Sim::stop_here`]).
    fn turn(&mut self, state: &State, partition: Partition) {
        state.current.partition.set(partition);
        let agenda = state.pending.agendas.of(partition);
        let (mut time, mut fired) = (0, 0);
        loop {
            match next_action(state, agenda, &mut time, state.clock.window_end.get()) {
                Next::Action(action) => {
                    fired += 1;
                    self.fire(state, action);
                }
                Next::Alarm(until) => {
                    let device = &self.devices[state.registry.alarm_device.get() as usize];
                    device.wake_up(&self.sim, partition, Time::ps(until));
                }
                Next::Nothing => break,
            }
        }
        let clock = &state.clock;
        clock.events.set(clock.events.get() + fired);
        clock.latest.set(clock.latest.get().max(clock.now.get()));
        state.pending.agendas.end_turn(partition);
    }

    #[inline]
    fn fire(&mut self, state: &State, action: Action) {
        match action.device() {
            None => self.resume(state, TaskId::unpack(action.payload())),
            Some(device) => self.devices[device].fire(&self.sim, action.payload()),
        }
        if state.registry.has_changes.get() {
            self.apply_changes();
        }
    }

    /// Polls one process, if it still exists.
    #[inline]
    fn resume(&mut self, state: &State, task: TaskId) {
        let Some(process) = self.processes.get(task) else { return };
        state.current.task.set(task);
        let done = process.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        state.current.task.set(TaskId::NONE);
        if done {
            state.registry.tasks.borrow_mut().remove(task);
            drop(self.processes.remove(task));
        }
    }

    /// Drops every process and event, so that a new run can follow a stopped run or a deadlock. Time does not change.
    pub(crate) fn clear(&mut self) {
        self.drop_processes();
        self.sim.state().clear();
    }

    /// Drops every process, and every process that a destructor starts meanwhile.
    fn drop_processes(&mut self) {
        let state = self.sim.share();
        // Nobody is left to hear an answer, and answering polls processes.
        state.inquiry.questions.borrow_mut().clear();
        self.apply_changes();
        while state.registry.tasks.borrow().live() > 0 {
            // No borrow is held here: destructors may end other processes, and start new ones.
            let tasks = state.registry.tasks.borrow().in_order();
            for (task, ..) in tasks {
                state.registry.tasks.borrow_mut().remove(task);
                drop(self.processes.remove(task));
            }
            self.apply_changes();
        }
    }

    /// Takes over new processes and devices, drops canceled processes (SIM-5) and answers questions, until no change is
    /// left: a destructor may add another change.
    #[cold]
    fn apply_changes(&mut self) {
        let state = self.sim.share();
        let registry = &state.registry;
        while registry.has_changes.replace(false) {
            self.devices.append(&mut registry.new_devices.borrow_mut());
            for (task, process) in registry.new_processes.take() {
                self.processes.put(task, process);
            }
            for task in registry.canceled.take() {
                if registry.tasks.borrow_mut().remove(task) {
                    drop(self.processes.remove(task));
                }
            }
            for question in state.inquiry.questions.take() {
                self.answer(&question);
            }
        }
    }

    /// Polls every unfinished process once more: nothing has changed, so each wait is still pending and describes
    /// itself.
    fn explain(&mut self) -> Deadlock {
        let state = self.sim.share();
        let (current, inquiry) = (&state.current, &state.inquiry);
        let tasks = state.registry.tasks.borrow().in_order();
        let mut waiting = Vec::new();
        for (task, name, partition) in tasks {
            current.partition.set(partition);
            current.task.set(task);
            *inquiry.waits.borrow_mut() = Some(Vec::new());
            inquiry.has_dozed.set(false);
            if let Some(process) = self.processes.get(task) {
                let polled = process.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "SIM-4: `{name}` could go on, but nobody resumed it");
            }
            let waits = inquiry.waits.take().unwrap_or_default();
            if !inquiry.has_dozed.get() {
                waiting.push(Waiting { process: name, partition, waits });
            }
        }
        Deadlock::new(Time::ps(state.clock.latest.get()), waiting)
    }
}

impl Drop for Executor {
    /// Drops unfinished processes before the shared state, which their destructors may use.
    fn drop(&mut self) {
        self.drop_processes();
    }
}

/// The next thing to do in a partition.
enum Next {
    Action(Action),
    /// The alarm; nothing that is not known yet happens before this instant.
    Alarm(u64),
    Nothing,
}

/// Takes the next action of a partition before `end`: the other events of the instant `time`, then the ready actions,
/// then the alarm, then the first event of the next instant, which becomes `time`.
#[inline]
fn next_action(state: &State, agenda: &Agenda, time: &mut u64, end: u64) -> Next {
    let first = agenda.first_event();
    if first > *time {
        if let Some(action) = state.pending.ready.pop() {
            state.current.key.set(Key::LAST);
            return Next::Action(action);
        }
        if let Some(alarm) = agenda.take_alarm(first, end) {
            // Before the first event of a turn, the clock shows the turn of another partition.
            state.clock.now.set(state.clock.now.get().min(alarm.saturating_sub(1)));
            return Next::Alarm(first.min(end - 1));
        }
        if first >= end {
            return Next::Nothing;
        }
    }
    let entry = agenda.pop();
    *time = entry.time;
    state.clock.now.set(entry.time);
    state.current.key.set(entry.key);
    if state.run.watches_ties.get() {
        note_tie(state, agenda, entry.time, entry.key);
    }
    Next::Action(entry.action)
}

/// Notes a tie of an event that fires now and the one that fires after it.
#[cold]
fn note_tie(state: &State, agenda: &Agenda, time: u64, key: Key) {
    if agenda.key_at(time).is_some_and(|next| next.is_tied_with(key)) {
        state.run.note_tie();
    }
}

#[cfg(test)]
mod tests;
