//! Processes: their ids, names and partitions; sleeping, spawning, joining and cancelling.

use super::action::Action;
use super::{Name, Partition, Process, Sim, Wait};
use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The id of a process; ids are not reused, so a late wake-up cannot reach another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    pub(super) const NONE: Self = Self { index: u32::MAX, generation: u32::MAX };

    pub(super) fn index(self) -> usize {
        self.index as usize
    }

    /// Packs index and generation into 56 bits.
    #[inline]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.generation & GENERATIONS) << 32 | u64::from(self.index)
    }

    #[inline]
    pub(super) fn unpack(packed: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of a packed number")]
        Self { index: packed as u32, generation: (packed >> 32) as u32 }
    }
}

/// Generations count modulo 2^24: a wake-up reaches the wrong process only after 2^24 processes in the same slot.
const GENERATIONS: u32 = (1 << 24) - 1;

/// The futures of the processes, by index.
#[derive(Default)]
pub(super) struct Processes(Vec<(u32, Option<Process>)>);

impl Processes {
    /// Returns a process, if it still exists.
    #[inline]
    pub(super) fn get(&mut self, task: TaskId) -> Option<&mut Process> {
        let (generation, process) = self.0.get_mut(task.index())?;
        if *generation == task.generation { process.as_mut() } else { None }
    }

    /// Removes and returns a process.
    pub(super) fn remove(&mut self, task: TaskId) -> Option<Process> {
        let (generation, process) = self.0.get_mut(task.index())?;
        if *generation == task.generation { process.take() } else { None }
    }

    pub(super) fn put(&mut self, task: TaskId, process: Process) {
        if self.0.len() <= task.index() {
            self.0.resize_with(task.index() + 1, || (0, None));
        }
        self.0[task.index()] = (task.generation, Some(process));
    }
}

/// The names and partitions of the processes, by index.
#[derive(Default)]
pub(super) struct Slab {
    slots: Vec<SlotState>,
    free: Vec<u32>,
    live: usize,
    started: u64,
}

struct SlotState {
    generation: u32,
    process: Option<ProcessName>,
}

/// The name of a process, and where it runs.
struct ProcessName {
    name: Name,
    partition: Partition,
    /// Number of processes that were started before. Only the order of processes of one partition means something.
    started: u64,
}

impl Slab {
    fn insert(&mut self, name: Name, partition: Partition) -> TaskId {
        self.live += 1;
        let process = Some(ProcessName { name, partition, started: self.started });
        self.started += 1;
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.process = process;
            return TaskId { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 processes");
        self.slots.push(SlotState { generation: 0, process });
        TaskId { index, generation: 0 }
    }

    /// Removes a process; `false` if it was already removed.
    pub(super) fn remove(&mut self, task: TaskId) -> bool {
        if !self.is_live(task) {
            return false;
        }
        let slot = &mut self.slots[task.index()];
        slot.process = None;
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.free.push(task.index);
        self.live -= 1;
        true
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn is_live(&self, task: TaskId) -> bool {
        self.slots
            .get(task.index())
            .is_some_and(|slot| slot.generation == task.generation && slot.process.is_some())
    }

    fn get(&self, task: TaskId) -> Option<&ProcessName> {
        self.slots
            .get(task.index())
            .filter(|slot| slot.generation == task.generation)?
            .process
            .as_ref()
    }

    pub(super) fn partition_of(&self, task: TaskId) -> Option<Partition> {
        self.get(task).map(|process| process.partition)
    }

    pub(super) fn name_of(&self, task: TaskId) -> Option<String> {
        self.get(task).map(|process| process.name.to_string())
    }

    /// Returns the processes in the order in which they were started, which for the processes of one partition does not
    /// depend on those of others.
    pub(super) fn in_order(&self) -> Vec<(TaskId, String, Partition)> {
        let mut processes: Vec<_> = (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| {
                let process = slot.process.as_ref()?;
                Some((process, TaskId { index, generation: slot.generation }))
            })
            .collect();
        processes.sort_unstable_by_key(|(process, _)| process.started);
        let named = |(process, task): (&ProcessName, _)| {
            (task, process.name.to_string(), process.partition)
        };
        processes.into_iter().map(named).collect()
    }
}

/// A wait for a point in time; see [`Sim::sleep`].
pub struct Sleep {
    sim: Sim,
    deadline: Time,
    scheduled: bool,
}

impl Sleep {
    pub(super) fn new(sim: Sim, deadline: Time) -> Self {
        Self { sim, deadline, scheduled: false }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.sim.now() >= self.deadline {
            return Poll::Ready(());
        }
        if !self.scheduled {
            self.scheduled = true;
            self.sim.resume_at(self.deadline);
        }
        Poll::Pending
    }
}

/// A wait for another event; see [`Sim::pause`].
#[must_use = "does nothing unless awaited"]
pub struct Pause<D> {
    sim: Sim,
    describe: D,
    registered: bool,
}

impl<D> Pause<D> {
    pub(super) fn new(sim: Sim, describe: D) -> Self {
        Self { sim, describe, registered: false }
    }
}

impl<D: Fn() -> Wait + Unpin> Future for Pause<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.registered && self.sim.state().run.is_running.get() {
            return Poll::Ready(());
        }
        if !self.registered {
            self.registered = true;
            let process = (self.sim.partition(), self.sim.task());
            self.sim.state().watchers.paused.borrow_mut().push(process);
        }
        self.sim.waiting(&self.describe);
        Poll::Pending
    }
}

/// The error of joining a process that was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process was cancelled")]
pub struct Canceled;

/// A handle of a process: await it for the result, drop it to cancel the process, or [`JoinHandle::detach`] it.
#[must_use = "dropping a handle cancels its process"]
pub struct JoinHandle<T> {
    sim: Sim,
    task: TaskId,
    shared: Rc<Shared<T>>,
    detached: bool,
}

struct Shared<T> {
    result: RefCell<Option<T>>,
    finished: Cell<bool>,
    joiner: Cell<Option<TaskId>>,
}

pub(super) fn spawn<T: 'static>(
    sim: &Sim,
    partition: Partition,
    name: Name,
    process: impl Future<Output = T> + 'static,
) -> JoinHandle<T> {
    let registry = &sim.state().registry;
    let task = registry.tasks.borrow_mut().insert(name, partition);
    let shared = Rc::new(Shared {
        result: RefCell::new(None),
        finished: Cell::new(false),
        joiner: Cell::new(None),
    });
    let wrapped = finish(sim.clone(), shared.clone(), process);
    registry.new_processes.borrow_mut().push((task, Box::pin(wrapped)));
    registry.has_changes.set(true);
    sim.act_at(sim.now(), partition, Action::resume(task.pack()));
    JoinHandle { sim: sim.clone(), task, shared, detached: false }
}

async fn finish<T>(sim: Sim, shared: Rc<Shared<T>>, process: impl Future<Output = T>) {
    let result = process.await;
    shared.result.replace(Some(result));
    shared.finished.set(true);
    if let Some(joiner) = shared.joiner.take() {
        sim.wake(joiner);
    }
}

impl<T> JoinHandle<T> {
    /// Lets the process continue without a handle.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Takes the result, if the process has finished and the result was not taken before.
    pub fn take(&self) -> Option<T> {
        self.shared.result.take()
    }

    /// True if the process has finished.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.get()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Canceled>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_finished() {
            return Poll::Ready(self.take().ok_or(Canceled));
        }
        if !self.sim.state().registry.tasks.borrow().is_live(self.task) {
            return Poll::Ready(Err(Canceled));
        }
        self.shared.joiner.set(Some(self.sim.task()));
        self.sim.waiting(|| {
            let name = self.sim.name_of(self.task).unwrap_or_default();
            Wait { what: format!("the end of `{name}`"), providers: vec![name] }
        });
        Poll::Pending
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if !self.detached && !self.is_finished() {
            let registry = &self.sim.state().registry;
            registry.canceled.borrow_mut().push(self.task);
            registry.has_changes.set(true);
        }
    }
}
