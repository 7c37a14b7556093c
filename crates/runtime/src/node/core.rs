//! The engine, its endpoints, and the messages between them.

mod job;
mod link;
mod losses;
mod notes;
mod runs;
mod stalls;

pub(crate) use job::Job;
pub(crate) use link::WorkerLink;
pub use runs::Finished;
pub(crate) use runs::RunRecords;

use super::lengths::Lengths;
use super::watch::LookTimes;
use crate::clock;
use crate::domain::Allocated;
use crate::endpoint::{Endpoint, WorkerEvent};
use crate::error::Lost;
use crate::memory::Arena;
use crate::message::{Ended as TaskEnded, Verdict};
use crate::program::Program;
use crate::timeline::Recorder;
use phalanx_engine::{
    Action, BufferError, Ending, Engine, Event, RunId, Start, TaskId, Time, WorkerId,
};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The engine, its endpoints, and the messages between them.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) links: Vec<WorkerLink>,
    pub(crate) program: &'static Program,
    /// Messages of tasks, by slot.
    pub(super) jobs: Vec<Job>,
    pub(crate) runs: RunRecords,
    pub(crate) arena: Arena,
    /// Domains that may be alive, for reports.
    pub(crate) domains: Vec<Weak<Allocated>>,
    /// Workers that were lost and replaced, the last first.
    replaced: VecDeque<Lost>,
    /// Measured lengths of tasks.
    pub(crate) lengths: Lengths,
    pub(crate) news: News,
    /// Looks of the watchdog.
    pub(super) looks: LookTimes,
    scratch: Scratch,
}

/// News for threads that wait.
#[derive(Default)]
pub(crate) struct News {
    /// True if something happened that a thread may wait for, and that was not announced.
    pub(crate) is_pending: bool,
    /// Number of free slots that a submitter waits for after it found none; 0 if none waits for so many.
    pub(crate) room_wanted: u32,
}

/// Names of workers that did not leave when told to.
#[derive(Default)]
pub(crate) struct Remaining {
    /// Workers that were killed.
    pub(crate) killed: Vec<String>,
    /// Workers that cannot be killed.
    pub(crate) stuck: Vec<String>,
}

/// Memory that is used again and again.
#[derive(Default)]
struct Scratch {
    /// Events of one worker.
    events: Vec<WorkerEvent>,
    /// Dispatches that the task to be sent is behind.
    behind: Vec<u64>,
}

impl Core {
    pub(crate) fn new(
        engine: Engine,
        arena: Arena,
        program: &'static Program,
        recorder: Option<Recorder>,
    ) -> Self {
        Self {
            engine,
            links: Vec::new(),
            program,
            jobs: Vec::new(),
            runs: RunRecords::new(recorder),
            arena,
            domains: Vec::new(),
            replaced: VecDeque::new(),
            lengths: Lengths::new(program.callables().len()),
            news: News::default(),
            looks: LookTimes::default(),
            scratch: Scratch::default(),
        }
    }

    /// Adds a worker behind `endpoint`, which the engine knows by the next number.
    pub(crate) fn add_link(&mut self, endpoint: Box<dyn Endpoint>) {
        self.links.push(WorkerLink::new(endpoint));
    }

    /// Returns the job of a task that was just accepted, cleared.
    pub(crate) fn job(&mut self, task: TaskId) -> &mut Job {
        let slot = task.slot();
        if slot >= self.jobs.len() {
            self.jobs.resize_with(slot + 1, Job::default);
        }
        let job = &mut self.jobs[slot];
        job.bytes.clear();
        job.rare = None;
        job
    }

    /// Carries out the actions of the engine.
    pub(crate) fn carry_out(&mut self) {
        while let Some(action) = self.engine.actions().first() {
            if let Action::Start(Start { worker, dispatch, task, member, .. }) = *action {
                self.engine.actions().next();
                self.start(worker, dispatch, task, member);
            } else if let Some(action) = self.engine.actions().next() {
                self.act(action);
            }
        }
    }

    #[inline(never)]
    fn act(&mut self, action: Action) {
        match action {
            // `carry_out` takes starts itself.
            Action::Start(_) => {}
            Action::Recall { worker, dispatch } => {
                self.links[worker.index()].endpoint.recall(dispatch);
            }
            Action::RoomFreed => self.news.is_pending |= self.news.room_wanted == 0,
            Action::AdmissionFreed => self.news.is_pending = true,
            Action::RunFinished(run) => self.run_finished(run),
        }
    }

    #[inline]
    fn start(&mut self, worker: WorkerId, dispatch: u64, task: TaskId, member: u16) {
        self.scratch.behind.clear();
        if self.engine.is_behind(task) {
            if self.engine.is_doomed(task) {
                return self.skip(worker, dispatch);
            }
            self.engine.behind(task, |dispatch| self.scratch.behind.push(dispatch));
        }
        let message = self.jobs[task.slot()].message(member);
        let link = &mut self.links[worker.index()];
        link.endpoint.send(dispatch, &self.scratch.behind, message);
        link.sent = dispatch;
        link.unflushed += 1;
        // An idle worker gets its first task at once, a busy one several at a time.
        if link.unflushed >= 8 || self.engine.in_flight(worker) == 1 {
            link.unflushed = 0;
            link.endpoint.flush();
        }
    }

    /// Ends a task that was to be sent behind one that has failed meanwhile.
    #[cold]
    fn skip(&mut self, worker: WorkerId, dispatch: u64) {
        let mut flights = self.engine.flights(worker);
        let flight = flights.find(|flight| flight.dispatch == dispatch);
        drop(flights);
        if let Some(flight) = flight {
            self.note_skipped(&flight);
        }
        self.engine.step(Time(clock::now()), finished(worker, &TaskEnded::skipped(dispatch)));
    }

    /// Flushes messages to workers.
    pub(crate) fn flush(&mut self) {
        for link in self.links.iter_mut().filter(|link| link.unflushed > 0) {
            link.unflushed = 0;
            link.endpoint.flush();
        }
    }

    /// Takes in the events of all workers and carries out the actions that follow. Returns true if there was an event.
    pub(crate) fn pump(&mut self) -> bool {
        let mut clock = None;
        let mut events = std::mem::take(&mut self.scratch.events);
        let mut is_moved = false;
        for at in 0..self.links.len() {
            self.links[at].endpoint.poll(&mut events);
            if events.is_empty() {
                continue;
            }
            is_moved = true;
            let (now, worker) = (Time(*clock.get_or_insert_with(clock::now)), self.worker(at));
            for event in events.drain(..) {
                self.take_in(now, worker, event);
            }
        }
        self.scratch.events = events;
        if is_moved {
            self.carry_out();
            self.news.is_pending |=
                self.news.room_wanted > 0 && self.has_room(self.news.room_wanted);
        }
        self.flush();
        is_moved
    }

    /// True if so many slots are free, or no worker has a task that could free more.
    pub(crate) fn has_room(&self, slots: u32) -> bool {
        self.engine.free_slots() >= slots || !self.is_busy()
    }

    pub(crate) fn worker(&self, at: usize) -> WorkerId {
        self.engine.workers().nth(at).expect("NODE-1: each link is a worker")
    }

    fn take_in(&mut self, now: Time, worker: WorkerId, event: WorkerEvent) {
        match event {
            WorkerEvent::Ended(ended, mut words) => {
                self.look_at(worker, &ended, &mut words);
                self.engine.step(now, finished(worker, &ended));
            }
            WorkerEvent::Left => self.news.is_pending = true,
            WorkerEvent::Dying(words) => self.worker_dying(worker, &words),
            WorkerEvent::Lost(words) => self.worker_lost(now, worker, &words),
            WorkerEvent::Replaced(words) => self.worker_replaced(now, worker, &words),
            WorkerEvent::Again(words) => self.note_replaced(worker, words),
        }
    }

    /// Gives back what no handle and no run names any more.
    pub(crate) fn release_dropped(&mut self) {
        let dropped = Arc::clone(&self.arena.dropped);
        if let Ok(mut dropped) = dropped.lock() {
            self.arena.released.append(&mut dropped);
        }
        let mut released = std::mem::take(&mut self.arena.released);
        released.retain(|buffer| match self.engine.release(buffer.id) {
            Err(BufferError::InUse(_)) => true,
            Err(_) => false,
            Ok(()) => {
                self.arena.release(buffer.offset, buffer.bytes);
                false
            }
        });
        self.arena.released = released;
    }

    /// True if any task is with a worker.
    pub(crate) fn is_busy(&self) -> bool {
        self.engine.workers().any(|worker| self.engine.in_flight(worker) > 0)
    }

    /// True if the worker at `at` has a task.
    pub(crate) fn has_task(&self, at: usize) -> bool {
        self.engine.in_flight(self.worker(at)) > 0
    }

    /// Tells the engine which workers have moved since the last time.
    pub(crate) fn look_for_progress(&mut self) {
        let now = Time(clock::now());
        for at in 0..self.links.len() {
            let Some(first) = self.engine.flights(self.worker(at)).next() else { continue };
            let (first, link) = (first.dispatch, &mut self.links[at]);
            let progress = link.endpoint.evidence().progress;
            // Another first task is progress: the time before it was sent was not its own.
            let is_another = std::mem::replace(&mut link.first, first) != first;
            let is_moved = std::mem::replace(&mut link.progress, progress) != progress;
            // The worker that it waits for has a budget of its own.
            let (worker, is_held_up) = (self.worker(at), self.is_held_up(at));
            self.engine.hold_up(worker, is_held_up);
            if is_moved || is_another || is_held_up {
                self.engine.step(now, Event::Progress(worker));
            }
        }
        self.carry_out();
    }

    /// True if nothing is left to do.
    pub(crate) fn is_settled(&self) -> bool {
        let stats = self.engine.stats();
        stats.running == 0 && stats.queued == 0 && stats.tasks == 0
    }

    /// Cancels every run.
    pub(crate) fn cancel_all(&mut self) {
        let runs: Vec<RunId> = self.runs.by_id.keys().copied().collect();
        for run in runs {
            self.engine.cancel(run);
        }
    }

    /// Asks every worker to leave.
    pub(crate) fn stop_all(&mut self) {
        // Those that seem to be gone are told as well: a thread that was given up may still come to itself, and a process whose death
        // nobody has taken in yet would be started again (NODE-4).
        for link in &mut self.links {
            link.endpoint.stop();
            link.endpoint.flush();
        }
    }

    /// True if every worker has left.
    pub(crate) fn have_all_left(&mut self) -> bool {
        self.links.iter_mut().all(|link| link.endpoint.has_left())
    }

    /// Kills workers that have not left.
    pub(crate) fn end_all(&mut self) -> Remaining {
        let mut remaining = Remaining::default();
        for link in &mut self.links {
            if !link.endpoint.has_left() {
                let is_killed = link.endpoint.kill();
                let names = if is_killed { &mut remaining.killed } else { &mut remaining.stuck };
                names.push(link.endpoint.name());
            }
        }
        remaining
    }
}

/// Returns the end of a task, as the engine is told.
#[inline]
pub(super) fn finished(worker: WorkerId, ended: &TaskEnded) -> Event {
    let ending = match ended.verdict {
        Verdict::Done => Ending::Done,
        Verdict::Skipped => Ending::Skipped,
        Verdict::Failed => Ending::Failed(1),
    };
    let (dispatch, took) = (ended.dispatch, ended.nanoseconds);
    Event::Finished { worker, dispatch, ending, took }
}
