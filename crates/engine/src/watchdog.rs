//! The watchdog: a function of the engine and a reading of the clock that says when nothing moves any more.
//!
//! It holds no state and counts nothing but time; how often it is called makes no difference.
//!
//! - **DOG-1 (evidence).** A stall is reported only if the worker of a running task has shown no progress for its budget,
//!   or if nobody runs anything, unfinished tasks exist or a submitter waits for room, and nothing has changed for the
//!   budget. A slow peer of a group, a worker that waits for another one, a worker that is starting, a busy sibling and an
//!   idle submitter for whom nobody waits are no evidence.
//! - **DOG-2 (classes).** Running and stuck comes before ready but idle, that before waiting for each other, that before
//!   waiting for a submitter; the report names the task, the worker and the counts.
//! - **DOG-3 (ladder).** Budgets that would let an outer limit fire before an inner one cannot be built, and the error
//!   names the two.
//! - **DOG-4 (forgiven).** Time that the driver forgives, because nobody could run in it, is part of no budget.

use crate::engine::Engine;
use crate::run::RunId;
use crate::task::{Extra, Slot, State, TaskId, Time};
use crate::worker::{Health, WorkerId};
use std::fmt;

/// Time limits in the driver's unit; [`Ladder::build`] checks that inner limits fire first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Nothing runs and nothing changes.
    pub progress: Time,
    /// A worker has a task and says nothing.
    pub operation: Time,
    /// Somebody waits for a run.
    pub wait: Time,
    /// Workers get ready.
    pub startup: Time,
    /// The program that started the workers gives up.
    pub harness: Time,
    /// By how much `wait` must exceed `progress`.
    pub guard: Time,
}

/// Ten seconds, 45, 50, 300 and 600 with a guard of 1.5, in nanoseconds.
impl Default for Ladder {
    fn default() -> Self {
        let seconds = |seconds: u64| Time(seconds * 1_000_000_000);
        Self {
            progress: seconds(10),
            operation: seconds(45),
            wait: seconds(50),
            startup: seconds(300),
            harness: seconds(600),
            guard: Time(1_500_000_000),
        }
    }
}

/// A ladder that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets(Ladder);

/// Two budgets of which the outer would fire first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inverted {
    /// The one that must be shorter.
    pub inner: (&'static str, Time),
    /// The one that must be longer.
    pub outer: (&'static str, Time),
}

impl fmt::Display for Inverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((inner, shorter), (outer, longer)) = (self.inner, self.outer);
        write!(f, "`{inner}` must fire before `{outer}`: {} is not below {}", shorter.0, longer.0)
    }
}

impl std::error::Error for Inverted {}

impl Ladder {
    /// Checks the ladder, and returns the budgets if each limit fires before those around it.
    pub fn build(self) -> Result<Budgets, Inverted> {
        let guarded = Time(self.progress.0.saturating_add(self.guard.0));
        let rungs = [
            (("progress", self.progress), ("operation", self.operation)),
            (("operation", self.operation), ("wait", self.wait)),
            (("progress + guard", guarded), ("wait", self.wait)),
            (("wait", self.wait), ("startup", self.startup)),
            (("startup", self.startup), ("harness", self.harness)),
            (("nothing", Time(0)), ("progress", self.progress)),
        ];
        let inverted = rungs.into_iter().find(|(inner, outer)| inner.1 >= outer.1);
        inverted.map_or(Ok(Budgets(self)), |(inner, outer)| Err(Inverted { inner, outer }))
    }
}

impl Budgets {
    /// Returns the ladder they were built from.
    pub fn ladder(&self) -> Ladder {
        self.0
    }
}

/// A kind of stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A worker has a task and shows no progress.
    RunningStalled,
    /// Tasks are ready, and nobody takes them.
    ReadyButIdle,
    /// Tasks wait for tasks, and none of them runs.
    DependencyDeadlock,
    /// A submitter waits for room that only the submitter of another run can free, and that one does nothing.
    SubmitterStarved,
}

/// A stall and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The kind.
    pub class: Class,
    /// Since when.
    pub since: Time,
    /// The task that is stuck.
    pub task: Option<TaskId>,
    /// The worker that is stuck.
    pub worker: Option<WorkerId>,
    /// The run whose submitter is waited for.
    pub run: Option<RunId>,
    /// From the task that waits to the one that all wait for.
    pub chain: Vec<TaskId>,
    /// Tasks with workers, ready, pending, and deferred.
    pub counts: Counts,
}

/// Numbers of unfinished tasks in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// With a worker.
    pub running: usize,
    /// Ready.
    pub ready: usize,
    /// Waiting for others.
    pub pending: usize,
    /// Returned, but not ended.
    pub deferred: usize,
}

/// The judgement of the watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to wait for.
    Idle,
    /// Something may still move; there is no need to look again before this.
    Busy(Time),
    /// Nothing will.
    Stalled(Box<Stall>),
}

impl Engine {
    /// Removes `time` from all budgets, because no worker could run for so long before `now`.
    pub fn forgive(&mut self, now: Time, time: Time) {
        // A mark that was set since then does not move into the future.
        let later = |since: Time| Time(since.0.saturating_add(time.0).min(now.0).max(since.0));
        self.clock.progress = later(self.clock.progress);
        for state in &mut self.workers {
            state.progress = later(state.progress);
        }
    }
}

/// Judges `engine` at `now`: idle, busy or stalled.
pub fn watch(engine: &Engine, now: Time, budgets: &Budgets) -> Verdict {
    let counts = counts(engine);
    if counts == Counts::default() {
        return watch_submitters(engine, now, budgets);
    }
    let mut next = Time(u64::MAX);
    let mut worst: Option<(Time, Stall)> = None;
    for (worker, until, since, task) in flights(engine, budgets) {
        next = next.min(until);
        if until <= now && worst.as_ref().is_none_or(|(longest, _)| since < *longest) {
            let stall = Stall {
                class: Class::RunningStalled,
                since,
                task: Some(task),
                worker: Some(worker),
                run: None,
                chain: vec![task],
                counts,
            };
            worst = Some((since, stall));
        }
    }
    if let Some((_, stall)) = worst {
        return Verdict::Stalled(Box::new(stall));
    }
    if counts.running > 0 {
        return Verdict::Busy(next);
    }
    let is_starting = engine.workers.iter().any(|state| state.health == Health::Starting);
    let budget = if is_starting { budgets.0.startup } else { budgets.0.progress };
    let until = Time(engine.clock.progress.0.saturating_add(budget.0));
    if now < until {
        Verdict::Busy(until)
    } else {
        Verdict::Stalled(Box::new(classify(engine, counts)))
    }
}

/// Judges the submitters when no task is unfinished.
fn watch_submitters(engine: &Engine, now: Time, budgets: &Budgets) -> Verdict {
    let mut runs = engine.lists.unfinished.iter().map(|at| &engine.runs[*at as usize]);
    let is_waiting = engine.wants.room && runs.clone().any(|run| run.is_blocked);
    let holder = runs.find(|run| !run.is_blocked && run.scoped > 0);
    let (true, Some(holder)) = (is_waiting, holder) else { return Verdict::Idle };
    let since = engine.clock.progress;
    let until = Time(since.0.saturating_add(budgets.0.progress.0));
    if now < until {
        return Verdict::Busy(until);
    }
    let (class, run) = (Class::SubmitterStarved, Some(holder.id));
    let (task, worker, chain, counts) = (None, None, Vec::new(), Counts::default());
    Verdict::Stalled(Box::new(Stall { class, since, task, worker, run, chain, counts }))
}

fn counts(engine: &Engine) -> Counts {
    let mut counts = Counts::default();
    for (_, slot, extra) in engine.ring.tasks() {
        match slot.state {
            State::Running if extra.deferred > 0 => counts.deferred += 1,
            State::Running => counts.running += 1,
            State::Ready => counts.ready += 1,
            State::Pending => counts.pending += 1,
            State::Completed | State::Failed | State::Consumed => {}
        }
    }
    counts
}

/// Returns the first task of each worker: the end of its budget, and the time of its last progress.
fn flights(
    engine: &Engine,
    budgets: &Budgets,
) -> impl Iterator<Item = (WorkerId, Time, Time, TaskId)> {
    let quiet = move |slot: u32| {
        // Members of a group wait for each other: the last to move speaks for all, unless it only waits for another.
        let workers = engine
            .workers
            .iter()
            .filter(|state| !state.is_held_up)
            .filter_map(move |state| state.flights.front().map(|flight| (state, flight)));
        let same = workers.filter(move |(_, flight)| flight.slot == slot);
        same.map(|(state, _)| state.progress).max().unwrap_or_default()
    };
    let operation = budgets.0.operation.0;
    let judged = (0..).map(WorkerId).zip(&engine.workers).filter(|(_, state)| !state.is_held_up);
    judged.filter_map(move |(worker, state)| {
        let slot = state.flights.front()?.slot;
        let since = quiet(slot);
        let budget = operation.max(engine.ring.extra(slot).expected);
        Some((worker, Time(since.0.saturating_add(budget)), since, engine.ring.id(slot)))
    })
}

fn classify(engine: &Engine, counts: Counts) -> Stall {
    let is_active = |slot: &Slot| engine.runs[slot.run as usize].is_active;
    let oldest = |wanted: &dyn Fn(&Slot, &Extra) -> bool| {
        let tasks = engine.ring.tasks().filter(|(_, slot, extra)| wanted(slot, extra));
        tasks.min_by_key(|(_, _, extra)| extra.sequence).map(|(at, _, _)| engine.ring.id(at))
    };
    let ready = oldest(&|slot, _| slot.state == State::Ready && is_active(slot));
    let pending = oldest(&|slot, _| slot.state == State::Pending && is_active(slot));
    let deferred = oldest(&|_, extra| extra.deferred > 0);
    // Of runs that share a worker the first is active, and it is unfinished because tasks of its own are.
    let (class, task) = if ready.is_some() {
        (Class::ReadyButIdle, ready)
    } else {
        (Class::DependencyDeadlock, pending.or(deferred))
    };
    let chain = task.map(|task| chain(engine, task)).unwrap_or_default();
    Stall { class, since: engine.clock.progress, task, worker: None, run: None, chain, counts }
}

/// From `task` along tasks that have not ended to one that waits for no task.
fn chain(engine: &Engine, task: TaskId) -> Vec<TaskId> {
    let mut chain = vec![task];
    let mut at = task;
    while let Some(next) = engine.waits_of(at).first() {
        chain.push(*next);
        at = *next;
    }
    chain
}
