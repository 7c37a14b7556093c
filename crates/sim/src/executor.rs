//! The executor: the only module that moves simulated time.
//!
//! ```text
//!   processes (async)  ── sleep, wait ──►  event queue  ──► devices (scheduled actions)
//!          ▲                                   │                     │
//!          └────────────── resume ◄────────────┴──────── wake ◄──────┘
//! ```
//!
//! Everything happens at a *partition*: the part of the machine that could one day run alone (a SIP). Processes are
//! plain futures kept in a slab and polled by id; no waker, no lock, no thread. Hardware is not a process but a
//! [`Device`]: it computes when something will be over and schedules one action for that instant.
//!
//! - **SIM-1 (monotone).** Time never goes backwards, and only [`Executor::run`] moves it: a process holds a
//!   [`Sim`], which can read time and wait, but has no way to advance it.
//! - **SIM-2 (local order).** Events of one partition and instant fire in the order of (time of creation, creating
//!   partition, that partition's own counter). No global counter takes part, so the order in which partitions take their
//!   turn cannot change anything (PAR-2).
//! - **SIM-3 (no shared state).** A partition touches another only by an event that lies at least the lookahead ahead;
//!   waking or resuming a process of another partition, or an event for it sooner, is a bug and panics (PAR-1). So each
//!   partition goes through one lookahead of time alone, and the next partition after it.
//! - **SIM-4 (deadlock is a result).** When no event is left and processes are not finished, `run` returns who
//!   waits for what and who could provide it.
//! - **SIM-5 (structured).** Dropping a [`JoinHandle`] cancels the process and runs its destructors.
//! - **SIM-6 (all begin together).** Everything that is due when a run begins happens, at every partition, before time
//!   moves.
//! - **SIM-7 (looking is not doing).** A process that only looks again and again ([`Sim::pause`]) goes on as long as
//!   others do something, and does not keep a run alive.

mod action;
mod agenda;
mod deadlock;
mod task;
mod watch;

pub use deadlock::{Deadlock, Wait, Waiting};
pub use task::{Canceled, JoinHandle, Pause, Sleep, TaskId};
pub use watch::{Doze, Look};

use crate::time::Time;
use action::Action;
pub(crate) use action::Key;
use agenda::{Agendas, Entry};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use task::{Processes, Slab};

/// The number of a partition: what advances through time together, one SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

/// The number of a registered [`Device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(u32);

/// Hardware: something to which scheduled actions happen.
pub trait Device {
    /// The action that was scheduled with `payload` happens now.
    fn fire(&self, sim: &Sim, payload: u64);
}

/// In which order the partitions with something to do within one window take their turn.
///
/// It changes nothing that can be observed (SIM-2); a run with a shuffled order shows that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionOrder {
    /// By their numbers.
    #[default]
    Queued,
    /// By a hash of this seed, the time and the number.
    Shuffled(u64),
}

type Process = Pin<Box<dyn Future<Output = ()>>>;

/// Owns the processes and drives them through time.
///
/// ```
/// use phalanx_sim::{executor::{Executor, Partition}, Time};
/// let mut executor = Executor::new(1);
/// let sim = executor.sim();
/// let worker = executor.spawn(Partition(0), "worker", async move {
///     sim.sleep(Time::ns(5)).await;
///     sim.now()
/// });
/// executor.run().unwrap();
/// assert_eq!(worker.take(), Some(Time::ns(5)));
/// ```
pub struct Executor {
    sim: Sim,
    devices: Vec<Rc<dyn Device>>,
    processes: Processes,
    order: PartitionOrder,
    /// The partitions that have something to do in the current window.
    turns: Vec<Partition>,
}

/// What a process or a device knows of the simulation: the time, and how to wait.
#[derive(Clone)]
pub struct Sim(Rc<Core>);

struct Core {
    now: Cell<u64>,
    partition: Cell<Partition>,
    task: Cell<TaskId>,
    /// The key of the event that happens now.
    key: Cell<Key>,
    /// Whether [`Executor::run`] is at work: before it, every partition may be prepared.
    running: Cell<bool>,
    stopped: Cell<bool>,
    /// Whether something was to happen after the end of time.
    overflowed: Cell<bool>,
    /// The latest instant that any partition has reached.
    latest: Cell<u64>,
    /// How long before its effect an event for another partition is created at least.
    lookahead: Cell<u64>,
    /// Where the window ends in which the current partition acts.
    horizon: Cell<u64>,
    events: Cell<u64>,
    agendas: RefCell<Agendas>,
    /// What the partition whose turn it is does next, without delay.
    ready: RefCell<VecDeque<Action>>,
    tasks: RefCell<Slab>,
    newcomers: RefCell<Vec<(TaskId, Process)>>,
    canceled: RefCell<Vec<TaskId>>,
    new_devices: RefCell<Vec<Rc<dyn Device>>>,
    device_count: Cell<u32>,
    /// Whether any of the lists above is not empty.
    chores: Cell<bool>,
    /// The processes that look again when something has happened, wherever they are.
    pausing: RefCell<Vec<(Partition, TaskId)>>,
    /// How many events there will have been when they have looked.
    looked: Cell<u64>,
    explained: RefCell<Option<Vec<Wait>>>,
    /// Whether waits need not say what for.
    is_quiet: Cell<bool>,
    /// Who wakes up when, if anything else happens then or later (SIM-8).
    dozing: RefCell<Vec<(u64, Partition, TaskId)>>,
    /// Whether the process that was polled last dozes.
    has_dozed: Cell<bool>,
    questions: RefCell<Vec<Rc<watch::Question>>>,
}

impl Executor {
    /// An executor for `partitions` partitions.
    pub fn new(partitions: u32) -> Self {
        let core = Core {
            now: Cell::new(0),
            partition: Cell::new(Partition(0)),
            task: Cell::new(TaskId::NONE),
            key: Cell::new(Key::LAST),
            running: Cell::new(false),
            stopped: Cell::new(false),
            overflowed: Cell::new(false),
            latest: Cell::new(0),
            lookahead: Cell::new(1),
            horizon: Cell::new(0),
            events: Cell::new(0),
            agendas: RefCell::new(Agendas::new(partitions)),
            ready: RefCell::default(),
            tasks: RefCell::default(),
            newcomers: RefCell::default(),
            canceled: RefCell::default(),
            new_devices: RefCell::default(),
            device_count: Cell::new(0),
            chores: Cell::new(false),
            pausing: RefCell::default(),
            looked: Cell::new(0),
            explained: RefCell::new(None),
            is_quiet: Cell::new(false),
            dozing: RefCell::default(),
            has_dozed: Cell::new(false),
            questions: RefCell::default(),
        };
        Self {
            sim: Sim(Rc::new(core)),
            devices: Vec::new(),
            processes: Processes::default(),
            order: PartitionOrder::Queued,
            turns: Vec::new(),
        }
    }

    /// Lets partitions take their turns in another order; see [`PartitionOrder`].
    pub fn set_partition_order(&mut self, order: PartitionOrder) {
        self.order = order;
    }

    /// Promises that no partition acts on another sooner than `span` later: then each partition may go through that much
    /// time alone, which keeps what it works on close at hand. Without a promise it is one picosecond.
    pub fn set_lookahead(&mut self, span: Time) {
        self.sim.0.lookahead.set(span.as_ps().max(1));
    }

    /// A handle for processes and devices.
    pub fn sim(&self) -> Sim {
        self.sim.clone()
    }

    /// Starts a process at `partition` when the run begins (or goes on).
    pub fn spawn<T: 'static>(
        &mut self,
        partition: Partition,
        name: impl Into<String>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        task::spawn(&self.sim, partition, name.into(), process)
    }

    /// Runs until nothing is left to do.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if processes remain that nothing can resume (SIM-4). They are dropped with the executor.
    pub fn run(&mut self) -> Result<(), Deadlock> {
        let core = self.sim.0.clone();
        core.running.set(true);
        core.is_quiet.set(true);
        self.do_chores();
        // SIM-6: the first window is one instant.
        let mut span = 1;
        while !core.stopped.get() && self.step(&core, span) {
            span = core.lookahead.get();
        }
        core.running.set(false);
        core.is_quiet.set(false);
        core.now.set(core.latest.get());
        if core.stopped.get() || core.tasks.borrow().live() == 0 {
            return Ok(());
        }
        Err(self.explain())
    }

    /// Fires everything that happens within the next window; `false` if there is nothing left.
    ///
    /// The window is as long as the lookahead: what a partition does within it reaches others only after it, so that
    /// each can go through it alone.
    fn step(&mut self, core: &Core, span: u64) -> bool {
        let mut start = core.agendas.borrow_mut().first_due();
        if !core.pausing.borrow().is_empty() {
            start = core.end_pauses(start);
        }
        if !core.dozing.borrow().is_empty() {
            start = core.end_dozes(start, span);
        }
        if start == u64::MAX {
            return false;
        }
        let end = start.saturating_add(span);
        core.horizon.set(end);
        core.agendas.borrow().line_up(end, self.order, &mut self.turns);
        for index in 0..self.turns.len() {
            self.turn(core, self.turns[index], end);
        }
        true
    }

    /// One partition's turn: its events before `end` by time, and at each instant what they cause without delay.
    fn turn(&mut self, core: &Core, partition: Partition, end: u64) {
        core.partition.set(partition);
        let (mut time, mut fired) = (0, 0);
        while let Some(action) = next_action(core, partition, &mut time, end) {
            fired += 1;
            self.fire(core, action);
        }
        core.events.set(core.events.get() + fired);
        core.latest.set(core.latest.get().max(core.now.get()));
        core.agendas.borrow_mut().end_turn(partition);
    }

    #[inline]
    fn fire(&mut self, core: &Core, action: Action) {
        match action.device() {
            None => self.resume(core, TaskId::unpack(action.payload())),
            Some(device) => self.devices[device].fire(&self.sim, action.payload()),
        }
        if core.chores.get() {
            self.do_chores();
        }
    }

    /// Polls one process, if it still exists.
    #[inline]
    fn resume(&mut self, core: &Core, task: TaskId) {
        let Some(process) = self.processes.get(task) else { return };
        core.task.set(task);
        let done = process.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        core.task.set(TaskId::NONE);
        if done {
            core.tasks.borrow_mut().remove(task);
            drop(self.processes.remove(task));
        }
    }

    /// Drops every process and event, so that a run that was stopped, or that got stuck, can be followed by another.
    /// Time stays where it is.
    pub fn clear(&mut self) {
        let core = self.sim.0.clone();
        self.do_chores();
        // Not under a borrow: destructors may end other processes.
        let tasks: Vec<_> = core.tasks.borrow().iter().collect();
        for (task, ..) in tasks {
            core.tasks.borrow_mut().remove(task);
            drop(self.processes.remove(task));
        }
        self.do_chores();
        core.now.set(core.latest.get());
        core.stopped.set(false);
        core.overflowed.set(false);
        core.pausing.borrow_mut().clear();
        core.dozing.borrow_mut().clear();
        core.questions.borrow_mut().clear();
        core.ready.borrow_mut().clear();
        core.agendas.borrow_mut().clear();
    }

    /// Takes over new processes and devices, and drops the processes whose handles are gone (SIM-5), which may leave
    /// more to do.
    #[cold]
    fn do_chores(&mut self) {
        let core = self.sim.0.clone();
        while core.chores.replace(false) {
            self.devices.append(&mut core.new_devices.borrow_mut());
            for (task, process) in core.newcomers.take() {
                self.processes.put(task, process);
            }
            for task in core.canceled.take() {
                if core.tasks.borrow_mut().remove(task) {
                    drop(self.processes.remove(task));
                }
            }
            for question in core.questions.take() {
                self.answer(&question);
            }
        }
    }

    /// Asks every unfinished process what it waits for, by polling it once more: nothing has changed, so each
    /// wait is still pending and describes itself.
    fn explain(&mut self) -> Deadlock {
        let core = self.sim.0.clone();
        let tasks: Vec<_> = core.tasks.borrow().iter().collect();
        let mut waiting = Vec::new();
        for (task, name, partition) in tasks {
            core.partition.set(partition);
            core.task.set(task);
            *core.explained.borrow_mut() = Some(Vec::new());
            core.has_dozed.set(false);
            if let Some(process) = self.processes.get(task) {
                let polled = process.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "SIM-4: `{name}` could go on, but nobody resumed it");
            }
            let waits = core.explained.take().unwrap_or_default();
            if !core.has_dozed.get() {
                waiting.push(Waiting { process: name, partition, waits });
            }
        }
        Deadlock::new(Time::ps(core.latest.get()), waiting)
    }
}

impl Drop for Executor {
    /// Unfinished processes go before the core, so that their destructors may still use it.
    fn drop(&mut self) {
        self.do_chores();
        self.processes.clear();
        self.do_chores();
    }
}

impl Core {
    /// Resumes those who pause, when something else happens too: at `due`, or now if nothing is due and something has
    /// happened since they looked (SIM-7). When that is; never, if nothing did.
    #[cold]
    fn end_pauses(&self, due: u64) -> u64 {
        if due == u64::MAX && self.events.get() <= self.looked.get() {
            return due;
        }
        let time = if due == u64::MAX { self.latest.get() } else { due };
        let mut pausing = self.pausing.take();
        pausing.sort_unstable();
        self.looked.set(self.events.get() + pausing.len() as u64);
        let mut agendas = self.agendas.borrow_mut();
        for (partition, task) in pausing {
            let (key, action) = (agendas.next_key(time, partition), Action::resume(task.pack()));
            agendas.push(partition, Entry { time, key, action });
        }
        time
    }
}

/// What a partition does next before `end`: its other events of the instant `time`, then what is ready, then the first event
/// of the next instant, which `time` becomes.
#[inline]
fn next_action(core: &Core, partition: Partition, time: &mut u64, end: u64) -> Option<Action> {
    let mut agendas = core.agendas.borrow_mut();
    let agenda = agendas.of(partition);
    let entry = if let Some(entry) = agenda.pop_before(*time + 1) {
        entry
    } else {
        if let Some(action) = core.ready.borrow_mut().pop_front() {
            core.key.set(Key::LAST);
            return Some(action);
        }
        agenda.pop_before(end)?
    };
    *time = entry.time;
    core.now.set(entry.time);
    core.key.set(entry.key);
    Some(entry.action)
}

impl Sim {
    /// The current time.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ps(self.0.now.get())
    }

    /// The partition whose turn it is.
    #[inline]
    pub fn partition(&self) -> Partition {
        self.0.partition.get()
    }

    /// The process that is running.
    #[inline]
    pub fn task(&self) -> TaskId {
        self.0.task.get()
    }

    /// How many events have fired, those of the current turn not counted.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// Ends the run after the current window; unfinished processes are dropped with the executor.
    pub fn stop(&self) {
        self.0.stopped.set(true);
    }

    /// Registers a device; its actions can be scheduled with the number returned.
    pub fn register(&self, device: Rc<dyn Device>) -> DeviceId {
        let id = self.0.device_count.get();
        self.0.device_count.set(id + 1);
        self.0.new_devices.borrow_mut().push(device);
        self.0.chores.set(true);
        DeviceId(id)
    }

    /// Schedules an action of `device` at `partition`.
    ///
    /// # Panics
    ///
    /// If `time` is in the past, or is now and `partition` is another one (SIM-1, SIM-3): bugs of a model.
    #[inline]
    pub fn schedule(&self, time: Time, partition: Partition, device: DeviceId, payload: u64) {
        self.act_at(time, partition, Action::of(device, payload));
    }

    #[inline(never)]
    fn act_at(&self, time: Time, partition: Partition, action: Action) {
        let core = &*self.0;
        let now = core.now.get();
        if time == Time::MAX {
            return self.overflow();
        }
        if !core.running.get() {
            return self.prepare(time, partition, action);
        }
        let origin = core.partition.get();
        if time.as_ps() <= now {
            return self.act_now(time, partition, action);
        }
        assert!(
            partition == origin || time.as_ps() >= core.horizon.get(),
            "SIM-3: {origin:?} acts on {partition:?} within the lookahead"
        );
        let mut agendas = core.agendas.borrow_mut();
        let key = agendas.next_key(now, origin);
        agendas.push(partition, Entry { time: time.as_ps(), key, action });
    }

    /// The key of an event at `time`, for an event that may turn out not to be needed: [`Sim::schedule_as`] schedules it
    /// as if that had been done now.
    #[inline]
    pub(crate) fn reserve(&self, time: Time) -> Key {
        let core = &*self.0;
        core.latest.set(core.latest.get().max(time.as_ps()));
        core.agendas.borrow_mut().next_key(core.now.get(), core.partition.get())
    }

    /// Whether an event of the current partition at `time` with this key has happened, or would have.
    #[inline]
    pub(crate) fn has_passed(&self, time: Time, key: Key) -> bool {
        let now = self.now();
        time < now || (time == now && key < self.0.key.get())
    }

    /// Schedules an action that has not passed, by a key that was reserved for it.
    #[inline(never)]
    pub(crate) fn schedule_as(
        &self,
        key: Key,
        time: Time,
        partition: Partition,
        device: DeviceId,
        payload: u64,
    ) {
        if time == Time::MAX {
            return self.overflow();
        }
        let action = Action::of(device, payload);
        self.0.agendas.borrow_mut().push(partition, Entry { time: time.as_ps(), key, action });
    }

    /// Has something happen without delay.
    fn act_now(&self, time: Time, partition: Partition, action: Action) {
        let (now, origin) = (self.now(), self.partition());
        assert!(time == now, "SIM-1: {origin:?} acts at {time}, before {now}");
        assert!(partition == origin, "SIM-3: {origin:?} acts on {partition:?} without delay");
        self.0.ready.borrow_mut().push_back(action);
    }

    /// Ends the run: something would happen later than time can tell.
    #[cold]
    fn overflow(&self) {
        self.0.overflowed.set(true);
        self.stop();
    }

    /// Whether the run ended because simulated time ran out.
    pub fn has_overflowed(&self) -> bool {
        self.0.overflowed.get()
    }

    /// Before the run each partition creates its own events.
    #[cold]
    fn prepare(&self, time: Time, partition: Partition, action: Action) {
        let core = &*self.0;
        let mut agendas = core.agendas.borrow_mut();
        let key = agendas.next_key(core.now.get(), partition);
        agendas.push(partition, Entry { time: time.as_ps(), key, action });
    }

    /// Resumes a process of the current partition after what is already due.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        debug_assert!(
            !self.0.running.get()
                || self
                    .0
                    .tasks
                    .borrow()
                    .partition_of(task)
                    .is_none_or(|partition| partition == self.partition()),
            "SIM-3: {:?} wakes a process of another partition",
            self.partition()
        );
        self.0.ready.borrow_mut().push_back(Action::resume(task.pack()));
    }

    /// Resumes the running process at `time`.
    #[inline]
    pub(crate) fn resume_at(&self, time: Time) {
        self.act_at(time, self.partition(), Action::resume(self.task().pack()));
    }

    /// Waits for `span` of simulated time.
    pub fn sleep(&self, span: Time) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Waits until `deadline`; returns at once where that has passed.
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep::new(self.clone(), deadline)
    }

    /// Waits until something else has happened (SIM-7); `describe` says what is looked for, should nothing happen.
    pub fn pause<D: Fn() -> Wait>(&self, describe: D) -> Pause<D> {
        Pause::new(self.clone(), describe)
    }

    /// Starts a process at the current partition.
    pub fn spawn<T: 'static>(
        &self,
        name: impl Into<String>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        task::spawn(self, self.partition(), name.into(), process)
    }

    /// Called by every wait that has to go on waiting: says what for, if a deadlock is being explained.
    #[inline]
    pub fn waiting(&self, describe: impl FnOnce() -> Wait) {
        // `task` is set by `explain` too, so the cheap test comes first in a run.
        if self.0.is_quiet.get() {
            return;
        }
        if let Some(waits) = &mut *self.0.explained.borrow_mut() {
            waits.push(describe());
        }
    }

    /// The name of a process, for messages.
    pub fn name_of(&self, task: TaskId) -> Option<String> {
        self.0.tasks.borrow().name_of(task)
    }
}

#[cfg(test)]
mod tests;
