//! The state that the executor shares with processes and devices.

use super::action::{Action, Key};
use super::agenda::{Agendas, Entry};
use super::task::Slab;
use super::watch::{DozingProcess, Question};
use super::{Device, Partition, Process, TaskId, Wait};
use crate::exchange::Standing;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// All shared state of one simulation.
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) current: Current,
    pub(super) run: RunStatus,
    pub(super) pending: Pending,
    pub(super) registry: Registry,
    pub(super) watchers: Watchers,
    pub(super) inquiry: Inquiry,
}

/// Simulated time, in picoseconds.
pub(super) struct Clock {
    pub(super) now: Cell<u64>,
    /// The latest instant that any partition has reached.
    pub(super) latest: Cell<u64>,
    /// The shortest delay of an event for another partition.
    pub(super) lookahead: Cell<u64>,
    /// The end of the window in which partitions take their turns.
    pub(super) window_end: Cell<u64>,
    /// The number of events fired, without those of the current turn.
    pub(super) events: Cell<u64>,
}

/// The event that is firing.
pub(super) struct Current {
    pub(super) partition: Cell<Partition>,
    pub(super) task: Cell<TaskId>,
    pub(super) key: Cell<Key>,
}

/// The stage of a run.
#[derive(Default)]
pub(super) struct RunStatus {
    /// True during [`super::Executor::run`]. Before a run, any code may schedule events for every partition.
    pub(super) is_running: Cell<bool>,
    pub(super) is_stopped: Cell<bool>,
    /// True if other shards have a part of the partitions (SIM-10).
    pub(super) is_shared: Cell<bool>,
    /// True if ties are looked for, and true if there was one: two events whose order the numbers of partitions decided.
    pub(super) watches_ties: Cell<bool>,
    pub(super) has_ties: Cell<bool>,
    /// True if an event was scheduled after the end of time.
    pub(super) has_overflowed: Cell<bool>,
    /// The partitions that ended the current window early, and the new ends ([`super::Sim::stop_here`]).
    pub(super) cuts: RefCell<Vec<(Partition, u64)>>,
    /// The end of the window before the first cut.
    pub(super) uncut_end: Cell<u64>,
    /// Between two runs: the instants up to which partitions are ahead, with nothing before them to change (SIM-9).
    pub(super) settled: RefCell<Vec<(Partition, u64)>>,
}

impl RunStatus {
    /// Ends the run: there was a tie.
    pub(super) fn note_tie(&self) {
        self.has_ties.set(true);
        self.is_stopped.set(true);
    }
}

/// The actions that have not fired.
pub(super) struct Pending {
    pub(super) agendas: Agendas,
    /// The actions without delay of the partition that has its turn.
    pub(super) ready: Ready,
}

/// A queue of actions. There is rarely more than one: the first has a place of its own.
pub(super) struct Ready {
    len: Cell<usize>,
    first: Cell<Action>,
    others: RefCell<VecDeque<Action>>,
}

impl Ready {
    fn new() -> Self {
        let (len, first) = (Cell::new(0), Cell::new(Action::NONE));
        Self { len, first, others: RefCell::default() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// Adds an action at the end.
    #[inline]
    pub(super) fn push(&self, action: Action) {
        let len = self.len.get();
        self.len.set(len + 1);
        if len == 0 {
            return self.first.set(action);
        }
        self.others.borrow_mut().push_back(action);
    }

    /// Takes the first action.
    #[inline]
    pub(super) fn pop(&self) -> Option<Action> {
        let left = self.len.get().checked_sub(1)?;
        self.len.set(left);
        let first = self.first.get();
        if left > 0
            && let Some(next) = self.others.borrow_mut().pop_front()
        {
            self.first.set(next);
        }
        Some(first)
    }
}

/// The names of processes, the number of devices, and the changes that the executor applies after the current action.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) tasks: RefCell<Slab>,
    pub(super) device_count: Cell<u32>,
    /// The device that handles alarms.
    pub(super) alarm_device: Cell<u32>,
    /// True if one of the lists below, or [`Inquiry::questions`], is not empty.
    pub(super) has_changes: Cell<bool>,
    pub(super) new_processes: RefCell<Vec<(TaskId, Process)>>,
    pub(super) new_devices: RefCell<Vec<Box<dyn Device>>>,
    pub(super) canceled: RefCell<Vec<TaskId>>,
}

/// The processes that wait for the progress of others.
#[derive(Default)]
pub(super) struct Watchers {
    /// The processes in [`super::Sim::pause`] (SIM-7).
    pub(super) paused: RefCell<Vec<(Partition, TaskId)>>,
    /// Number of events, of all partitions, after the paused processes were resumed last.
    pub(super) events_after_pauses: Cell<u64>,
    /// The processes in [`super::Sim::doze_until`] (SIM-8).
    pub(super) dozing: RefCell<Vec<DozingProcess>>,
}

/// The collection of wait descriptions, for deadlocks and [`super::Sim::look_at`].
#[derive(Default)]
pub(super) struct Inquiry {
    /// True while no descriptions are collected.
    pub(super) is_quiet: Cell<bool>,
    /// The waits of the process that was polled last; `None` if no descriptions are collected.
    pub(super) waits: RefCell<Option<Vec<Wait>>>,
    /// True if the process that was polled last dozes.
    pub(super) has_dozed: Cell<bool>,
    pub(super) questions: RefCell<Vec<Rc<Question>>>,
}

impl State {
    pub(super) fn new(partitions: u32) -> Self {
        Self {
            clock: Clock {
                now: Cell::new(0),
                latest: Cell::new(0),
                lookahead: Cell::new(1),
                window_end: Cell::new(0),
                events: Cell::new(0),
            },
            current: Current {
                partition: Cell::new(Partition(0)),
                task: Cell::new(TaskId::NONE),
                key: Cell::new(Key::LAST),
            },
            run: RunStatus::default(),
            pending: Pending { agendas: Agendas::new(partitions), ready: Ready::new() },
            registry: Registry::default(),
            watchers: Watchers::default(),
            inquiry: Inquiry::default(),
        }
    }

    /// Begins or continues a run: wake-ups since the last run become events.
    pub(super) fn begin_run(&self) {
        self.run.is_stopped.set(self.run.has_overflowed.get());
        while let Some(action) = self.pending.ready.pop() {
            let task = TaskId::unpack(action.payload());
            let partition = self.registry.tasks.borrow().partition_of(task);
            if let Some(partition) = partition {
                let time = self.settled_after(self.clock.now.get(), partition);
                self.resume_at(time, partition, task);
            }
        }
        self.run.cuts.borrow_mut().clear();
        self.run.settled.borrow_mut().clear();
        self.run.is_running.set(true);
        self.inquiry.is_quiet.set(true);
    }

    /// Returns what is known between two windows.
    #[inline]
    pub(super) fn standing(&self, is_interrupted: bool) -> Standing {
        let watchers = &self.watchers;
        let is_dozing = !watchers.dozing.borrow().is_empty();
        Standing {
            due: self.pending.agendas.first_due(),
            unsure: u64::MAX,
            doze: if is_dozing { self.first_doze() } else { u64::MAX },
            paused: watchers.paused.borrow().len() as u64,
            events: self.clock.events.get(),
            latest: self.clock.latest.get(),
            live: self.registry.tasks.borrow().live() as u64,
            steps: 0,
            is_stopped: self.run.is_stopped.get(),
            is_interrupted,
        }
    }

    /// Ends a run. `turns` are the partitions of the last window of a run that can be continued.
    pub(super) fn end_run(&self, turns: &[Partition]) {
        let (clock, run) = (&self.clock, &self.run);
        run.is_running.set(false);
        self.inquiry.is_quiet.set(false);
        clock.now.set(clock.latest.get());
        let cuts = run.cuts.borrow();
        let mut end = clock.window_end.get();
        if !cuts.is_empty() && !turns.is_empty() {
            clock.now.set(end - 1);
            end = run.uncut_end.get();
        }
        let mut settled = run.settled.borrow_mut();
        for partition in turns {
            if let Some((_, cut)) = cuts.iter().rev().find(|(own, _)| own == partition) {
                end = *cut;
            }
            settled.push((*partition, end.saturating_sub(1)));
        }
    }

    /// Returns `time`, or the later instant up to which a partition is ahead.
    pub(super) fn settled_after(&self, time: u64, partition: Partition) -> u64 {
        let settled = self.run.settled.borrow();
        let own = settled.iter().find(|(other, _)| *other == partition);
        own.map_or(time, |(_, until)| time.max(*until))
    }

    /// Forgets the events and waits of a run that is over. Time does not change.
    pub(super) fn clear(&self) {
        self.clock.now.set(self.clock.latest.get());
        self.run.is_stopped.set(false);
        self.run.has_overflowed.set(false);
        self.run.cuts.borrow_mut().clear();
        self.run.settled.borrow_mut().clear();
        self.watchers.paused.borrow_mut().clear();
        self.watchers.dozing.borrow_mut().clear();
        self.inquiry.questions.borrow_mut().clear();
        while self.pending.ready.pop().is_some() {}
        self.pending.agendas.clear();
    }

    /// Resumes the paused processes at `due`, the time of the next event. If no event is left, resumes them now if
    /// another event has fired since they were resumed last (SIM-7). Returns the time of the next event, `u64::MAX` if
    /// there is none. `paused` and `events` count processes and events of all partitions.
    #[cold]
    pub(super) fn end_pauses(&self, due: u64, paused: u64, events: u64) -> u64 {
        let (clock, watchers) = (&self.clock, &self.watchers);
        if due == u64::MAX && events <= watchers.events_after_pauses.get() {
            return due;
        }
        let time = if due == u64::MAX { clock.latest.get() } else { due };
        let mut resumed = watchers.paused.take();
        // Equals keep the order in which they paused, which their partition knows alone (PAR-2).
        resumed.sort_by_key(|(partition, _)| *partition);
        watchers.events_after_pauses.set(events + paused);
        for (partition, task) in resumed {
            self.resume_at(time, partition, task);
        }
        time
    }

    /// Schedules the resumption of a process, as an event that its own partition creates.
    pub(super) fn resume_at(&self, time: u64, partition: Partition, task: TaskId) {
        let agendas = &self.pending.agendas;
        let key = agendas.next_key(time, partition);
        agendas.push(partition, Entry { time, key, action: Action::resume(task.pack()) });
    }
}
