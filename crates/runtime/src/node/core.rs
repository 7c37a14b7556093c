//! What moves: the engine, its endpoints, and the bytes between them.

mod losses;
mod outcomes;
mod stalls;

use super::lengths::Lengths;
use crate::clock;
use crate::domain::Allocated;
use crate::endpoint::{Endpoint, Report};
use crate::error::{Lost, RunError, TaskFailure};
use crate::failure::Failure;
use crate::memory::Memory;
use crate::message::{Ended as TaskEnded, Verdict};
use crate::program::Program;
use crate::tensor::Released;
use crate::timeline::{Recorder, TaskSpan};
use phalanx_engine::{
    Action, BufferError, Cause, Ending, Engine, Event, Reason, RunId, RunReport, Start, TaskId,
    Time, WorkerId,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// How many failures of one run keep their words.
const MAX_FAILURES: usize = 16;

/// The bytes of a task, or of each member of a group, until its slot is used again.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) run: Option<RunId>,
    pub(crate) callable: u32,
    /// Whether it may run again if its worker is lost.
    pub(crate) is_idempotent: bool,
    pub(crate) bytes: Vec<u8>,
    /// Where the message of each member ends, if it is a group.
    pub(crate) ends: Vec<usize>,
    /// What each member is called; none if no member has a name of its own.
    pub(crate) names: Vec<Option<Arc<str>>>,
}

impl Job {
    pub(super) fn message(&self, member: u16) -> &[u8] {
        if self.ends.is_empty() {
            return &self.bytes;
        }
        let member = usize::from(member);
        let from = member.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[member]]
    }

    /// What a member is called, if it has a name of its own.
    pub(super) fn name(&self, member: u16) -> Option<Arc<str>> {
        self.names.get(usize::from(member)).cloned().flatten()
    }
}

/// What the node knows of one worker.
pub(crate) struct Lane {
    pub(crate) endpoint: Box<dyn Endpoint>,
    /// The last task it was sent; the engine may have decided on more.
    sent: u64,
    /// Sent and not flushed.
    unflushed: u32,
    /// The last sign of progress.
    progress: u64,
    /// How it was lost, if it is.
    pub(crate) lost: Option<Box<str>>,
    /// The first task it had when somebody last looked for progress.
    first: u64,
    /// Why it was ended, if its end is not proven yet.
    doom: Option<Box<str>>,
}

/// What is kept of a run beside the engine's own record.
#[derive(Default)]
struct Notes {
    failures: Vec<TaskFailure>,
    outcome: Option<Ended>,
    /// Nobody will ask.
    is_abandoned: bool,
    /// Simulated time of its tasks, in picoseconds.
    simulated: u64,
    /// What keeps what the run uses alive until it is over.
    keep: Vec<Box<dyn std::any::Any + Send>>,
}

/// How a run ended, for every waiter the same.
pub(crate) type Ended = Result<Finished, RunError>;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Tasks and durations, in nanoseconds.
    pub report: RunReport,
    /// Simulated time of all its tasks together, in picoseconds.
    pub simulated: u64,
}

/// The engine, its endpoints, and the bytes between them.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) memory: Memory,
    pub(crate) program: &'static Program,
    pub(super) jobs: Vec<Job>,
    runs: BTreeMap<RunId, Notes>,
    reports: Vec<Report>,
    /// What the task that is being sent is behind.
    behind: Vec<u64>,
    released: Vec<Released>,
    pub(crate) last_buffer: u64,
    /// Domains that may be alive, for reports.
    pub(crate) domains: Vec<Weak<Allocated>>,
    /// Workers that were lost and replaced, the last ones.
    replaced: VecDeque<Lost>,
    /// How long tasks of each callable take.
    pub(crate) lengths: Lengths,
    /// Whether a run has finished or room was made since someone last looked.
    pub(crate) has_news: bool,
    /// How many free slots a submitter waits for that found none; 0 if none waits for so many.
    pub(crate) room_wanted: u32,
    /// When the watchdog has looked, and when it looks again.
    pub(super) last_look: Time,
    pub(super) next_look: Time,
    /// Remembers what ran when, if that is asked for.
    pub(crate) recorder: Option<Recorder>,
}

impl Core {
    pub(crate) fn new(engine: Engine, memory: Memory, program: &'static Program) -> Self {
        Self {
            engine,
            lanes: Vec::new(),
            memory,
            program,
            jobs: Vec::new(),
            runs: BTreeMap::new(),
            reports: Vec::new(),
            behind: Vec::new(),
            released: Vec::new(),
            last_buffer: 0,
            domains: Vec::new(),
            replaced: VecDeque::new(),
            lengths: Lengths::new(program.callables().len()),
            has_news: false,
            room_wanted: 0,
            last_look: Time(0),
            next_look: Time(0),
            recorder: None,
        }
    }

    /// A worker behind `endpoint`, which the engine knows by the next number.
    pub(crate) fn add_lane(&mut self, endpoint: Box<dyn Endpoint>) {
        let (sent, unflushed, progress, lost, first, doom) = (0, 0, 0, None, 0, None);
        self.lanes.push(Lane { endpoint, sent, unflushed, progress, lost, first, doom });
    }

    /// The place for the bytes of a task that was just accepted.
    pub(crate) fn job(&mut self, task: TaskId) -> &mut Job {
        let slot = task.slot();
        if slot >= self.jobs.len() {
            self.jobs.resize_with(slot + 1, Job::default);
        }
        let job = &mut self.jobs[slot];
        job.bytes.clear();
        job.ends.clear();
        if !job.names.is_empty() {
            job.names.clear();
        }
        job
    }

    pub(crate) fn begin_notes(&mut self, run: RunId) {
        self.runs.insert(run, Notes::default());
    }

    /// Does what the engine says.
    pub(crate) fn carry_out(&mut self) {
        while let Some(action) = self.engine.actions().next() {
            self.act(&action);
        }
    }

    #[inline]
    pub(super) fn act(&mut self, action: &Action) {
        match action {
            Action::Start(start) => self.start(start),
            Action::Recall { worker, dispatch } => {
                self.lanes[worker.index()].endpoint.recall(*dispatch);
            }
            Action::RoomFreed => self.has_news |= self.room_wanted == 0,
            Action::AdmissionFreed => self.has_news = true,
            Action::RunFinished(run) => self.run_finished(*run),
        }
    }

    #[inline]
    fn start(&mut self, start: &Start) {
        let Start { worker, dispatch, task, member, .. } = *start;
        self.behind.clear();
        if self.engine.is_behind(task) {
            if self.engine.is_doomed(task) {
                return self.skip(start);
            }
            self.engine.behind(task, |dispatch| self.behind.push(dispatch));
        }
        let message = self.jobs[task.slot()].message(member);
        let lane = &mut self.lanes[worker.index()];
        lane.endpoint.send(dispatch, &self.behind, message);
        lane.sent = dispatch;
        lane.unflushed += 1;
        // An idle worker gets its first task at once, a busy one several at a time.
        if lane.unflushed >= 8 || self.engine.in_flight(worker) == 1 {
            lane.unflushed = 0;
            lane.endpoint.flush();
        }
    }

    /// Ends a task that was to be sent behind one that has failed meanwhile.
    #[cold]
    fn skip(&mut self, start: &Start) {
        self.note_skipped(start);
        let (worker, dispatch) = (start.worker, start.dispatch);
        self.engine.step(Time(clock::now()), finished(worker, &TaskEnded::skipped(dispatch)));
    }

    /// Shows workers what they were sent.
    pub(crate) fn flush(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.unflushed > 0) {
            lane.unflushed = 0;
            lane.endpoint.flush();
        }
    }

    /// Takes in what workers say and does what follows; whether anything was said.
    pub(crate) fn pump(&mut self) -> bool {
        let mut clock = None;
        let mut reports = std::mem::take(&mut self.reports);
        let mut is_moved = false;
        for at in 0..self.lanes.len() {
            self.lanes[at].endpoint.poll(&mut reports);
            if reports.is_empty() {
                continue;
            }
            is_moved = true;
            let (now, worker) = (Time(*clock.get_or_insert_with(clock::now)), self.worker(at));
            for report in reports.drain(..) {
                self.take_in(now, worker, report);
            }
        }
        self.reports = reports;
        if is_moved {
            self.carry_out();
            self.has_news |= self.room_wanted > 0 && self.has_room(self.room_wanted);
        }
        self.flush();
        is_moved
    }

    /// Whether so many slots are free, or no worker has a task that could free more.
    pub(crate) fn has_room(&self, slots: u32) -> bool {
        self.engine.free_slots() >= slots || !self.is_busy()
    }

    pub(crate) fn worker(&self, at: usize) -> WorkerId {
        self.engine.workers().nth(at).expect("NODE-1: each lane is a worker")
    }

    fn take_in(&mut self, now: Time, worker: WorkerId, report: Report) {
        match report {
            Report::Ended(ended, mut words) => {
                self.look_at(worker, &ended, &mut words);
                self.engine.step(now, finished(worker, &ended));
            }
            Report::Left => self.has_news = true,
            Report::Dying(words) => self.worker_dying(worker, &words),
            Report::Lost(words) => self.worker_lost(now, worker, &words),
            Report::Replaced(words) => self.worker_replaced(now, worker, &words),
            Report::Again(words) => self.note_replaced(worker, words),
        }
    }

    /// Remembers what is to be remembered of a task that has ended, and that the engine is told of next.
    #[inline]
    pub(super) fn look_at(
        &mut self,
        worker: WorkerId,
        ended: &TaskEnded,
        words: &mut Option<Box<str>>,
    ) {
        if self.lengths.is_sampled(ended.nanoseconds) {
            self.note_length(worker, ended);
        }
        let is_plain = ended.verdict == Verdict::Done && ended.picoseconds == 0;
        if !is_plain || self.recorder.is_some() {
            self.note(worker, ended, words.take());
        }
    }

    /// What is to be remembered of a task that has ended.
    #[inline(never)]
    fn note(&mut self, worker: WorkerId, ended: &TaskEnded, words: Option<Box<str>>) {
        let is_meant = |flight: &Start| flight.dispatch == ended.dispatch;
        let Some(flight) = self.engine.flights(worker).find(is_meant) else { return };
        match ended.verdict {
            Verdict::Done => {}
            Verdict::Failed => self.note_failure(&flight, words.unwrap_or_default()),
            Verdict::Skipped => self.note_skipped(&flight),
        }
        if ended.picoseconds > 0 {
            self.note_simulated(flight.task, ended.picoseconds);
        }
        self.record(&flight, ended);
    }

    fn failure(&self, flight: &Start, words: Box<str>) -> TaskFailure {
        let job = &self.jobs[flight.task.slot()];
        let callables = self.program.callables();
        let callable = callables.get(job.callable as usize).map_or("?", |callable| callable.name());
        let worker = self.lanes[flight.worker.index()].endpoint.name();
        let Start { task, member, .. } = *flight;
        TaskFailure { task, member, name: job.name(member), callable, worker, words }
    }

    /// Remembers a failure, and tells those who may wait for the task in a domain.
    fn note_failure(&mut self, flight: &Start, words: Box<str>) {
        let failure = self.failure(flight, words);
        if !self.domains.is_empty() {
            self.tell_of_failure(flight, &failure.to_string());
        }
        let run = self.jobs[flight.task.slot()].run;
        let notes = run.and_then(|run| self.runs.get_mut(&run));
        if let Some(notes) = notes.filter(|notes| notes.failures.len() < MAX_FAILURES) {
            notes.failures.push(failure);
        }
    }

    /// Tells those who may wait for a task in a domain that it never begins.
    fn note_skipped(&mut self, flight: &Start) {
        if !self.domains.is_empty() {
            let words = "it was not begun, since it was recalled or what it waits for has failed";
            let failure = self.failure(flight, words.into());
            self.tell_of_failure(flight, &failure.to_string());
        }
    }

    /// Remembers when a task ran, if it has and that is asked for.
    fn record(&mut self, flight: &Start, ended: &TaskEnded) {
        let Some(recorder) = self.recorder.as_mut() else { return };
        let job = &self.jobs[flight.task.slot()];
        let Some(run) = job.run.filter(|_| ended.verdict != Verdict::Skipped) else { return };
        let callable = self.program.callables().get(job.callable as usize);
        recorder.task(TaskSpan {
            run,
            task: flight.task,
            member: flight.member,
            name: job.name(flight.member),
            worker: flight.worker.index(),
            callable: callable.map_or("?", |callable| callable.name()),
            begun: ended.begun,
            ended: ended.begun.saturating_add(ended.nanoseconds),
            simulated: ended.picoseconds,
            is_done: ended.verdict == Verdict::Done,
        });
    }

    fn note_simulated(&mut self, task: TaskId, picoseconds: u64) {
        let run = self.jobs[task.slot()].run;
        if let Some(notes) = run.and_then(|run| self.runs.get_mut(&run)) {
            notes.simulated = notes.simulated.saturating_add(picoseconds);
        }
    }

    /// Remembers how long a task took that has just ended and is still known to the engine.
    #[inline(never)]
    fn note_length(&mut self, worker: WorkerId, ended: &TaskEnded) {
        let mut flights = self.engine.flights(worker);
        let flight = flights.find(|flight| flight.dispatch == ended.dispatch);
        let Some(task) = flight.map(|flight| flight.task) else { return };
        drop(flights);
        self.lengths.note(self.jobs[task.slot()].callable, ended.nanoseconds);
    }

    fn run_finished(&mut self, run: RunId) {
        self.has_news = true;
        let Some(outcome) = self.engine.outcome(run) else { return };
        if outcome.error.is_some() {
            self.bring_in_step();
        }
        let ended = self.ended(run, outcome);
        let Some(notes) = self.runs.get_mut(&run) else { return };
        notes.outcome.get_or_insert(ended);
        if let Some(recorder) = &mut self.recorder {
            recorder.ended(run);
        }
        // The last first: it may be made of what came before.
        while notes.keep.pop().is_some() {}
        if notes.is_abandoned {
            self.forget(run);
        }
        self.release_dropped();
    }

    /// How a run ended, if it has.
    pub(crate) fn outcome(&self, run: RunId) -> Option<Ended> {
        self.runs.get(&run)?.outcome.clone()
    }

    /// The run is over for its waiters, whatever its workers still do.
    pub(crate) fn give_up(&mut self, run: RunId, error: RunError) {
        if let Some(notes) = self.runs.get_mut(&run) {
            notes.outcome.get_or_insert(Err(error));
        }
    }

    /// Nobody asks for a run any more.
    pub(crate) fn abandon(&mut self, run: RunId) {
        if let Some(notes) = self.runs.get_mut(&run) {
            notes.is_abandoned = true;
        }
        self.forget(run);
    }

    fn forget(&mut self, run: RunId) {
        if self.engine.forget(run) {
            self.runs.remove(&run);
        }
    }

    /// Keeps something until a run is over.
    pub(crate) fn keep(&mut self, run: RunId, kept: Box<dyn std::any::Any + Send>) {
        if let Some(notes) = self.runs.get_mut(&run) {
            notes.keep.push(kept);
        }
    }

    /// What was kept for a run, which then is not.
    #[cfg(test)]
    pub(crate) fn take_kept(&mut self, run: RunId) -> Vec<Box<dyn std::any::Any + Send>> {
        self.runs.get_mut(&run).map(|notes| std::mem::take(&mut notes.keep)).unwrap_or_default()
    }

    /// Gives back what no handle and no run names any more.
    pub(crate) fn release_dropped(&mut self) {
        let dropped = Arc::clone(&self.memory.dropped);
        if let Ok(mut dropped) = dropped.lock() {
            self.released.append(&mut dropped);
        }
        let mut released = std::mem::take(&mut self.released);
        released.retain(|buffer| match self.engine.release(buffer.id) {
            Err(BufferError::InUse(_)) => true,
            Err(_) => false,
            Ok(()) => {
                self.memory.release(buffer.offset, buffer.bytes);
                false
            }
        });
        self.released = released;
    }

    /// Whether any task is with a worker.
    pub(crate) fn is_busy(&self) -> bool {
        self.engine.workers().any(|worker| self.engine.in_flight(worker) > 0)
    }

    /// Whether the worker at `at` has a task.
    pub(crate) fn has_task(&self, at: usize) -> bool {
        self.engine.in_flight(self.worker(at)) > 0
    }

    /// Tells the engine which workers have moved since the last time.
    pub(crate) fn look_for_progress(&mut self) {
        let now = Time(clock::now());
        for at in 0..self.lanes.len() {
            let Some(first) = self.engine.flights(self.worker(at)).next() else { continue };
            let (first, lane) = (first.dispatch, &mut self.lanes[at]);
            let progress = lane.endpoint.evidence().progress;
            // Another first task is progress: the time before it was sent was not its own.
            let is_another = std::mem::replace(&mut lane.first, first) != first;
            let is_moved = std::mem::replace(&mut lane.progress, progress) != progress;
            // Whoever it waits for has a budget of its own.
            let (worker, is_held_up) = (self.worker(at), self.is_held_up(at));
            self.engine.hold_up(worker, is_held_up);
            if is_moved || is_another || is_held_up {
                self.engine.step(now, Event::Progress(worker));
            }
        }
        self.carry_out();
    }

    /// The code of a graph has ended, well or badly: nothing more comes.
    pub(crate) fn end_graph(&mut self, run: RunId, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            self.cancel_graph(run, failure);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.built(run);
        }
        // A scope is open only if the code has panicked: scopes are closures.
        let _ = self.engine.seal(run);
        self.carry_out();
        self.pump();
    }

    /// The code of a graph failed: what it submitted is cancelled, and its words are the run's error.
    pub(super) fn cancel_graph(&mut self, run: RunId, failure: &Failure) {
        if self.engine.error(run).is_none() {
            let cause = Cause { task: None, member: 0, work: 0, reason: Reason::Cancelled };
            let words = failure.words().to_owned();
            self.give_up(run, RunError::of_graph(cause, self.report_so_far(run), words));
        }
        self.engine.cancel(run);
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_settled(&self) -> bool {
        let stats = self.engine.stats();
        stats.running == 0 && stats.queued == 0 && stats.tasks == 0
    }

    /// Cancels every run.
    pub(crate) fn cancel_all(&mut self) {
        let runs: Vec<RunId> = self.runs.keys().copied().collect();
        for run in runs {
            self.engine.cancel(run);
        }
    }

    /// Asks every worker to leave.
    pub(crate) fn stop_all(&mut self) {
        // A thread that was given up may still come to itself, and then it is to leave.
        for lane in &mut self.lanes {
            if !lane.endpoint.has_left() {
                lane.endpoint.stop();
                lane.endpoint.flush();
            }
        }
    }

    /// Whether every worker has left.
    pub(crate) fn have_all_left(&mut self) -> bool {
        self.lanes.iter_mut().all(|lane| lane.endpoint.has_left())
    }

    /// Ends those who have not left: the names of those who were ended, and of those who cannot be.
    pub(crate) fn end_all(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut killed, mut stuck) = (Vec::new(), Vec::new());
        for lane in &mut self.lanes {
            if !lane.endpoint.has_left() {
                let is_killed = lane.endpoint.kill();
                let names = if is_killed { &mut killed } else { &mut stuck };
                names.push(lane.endpoint.name());
            }
        }
        (killed, stuck)
    }
}

/// The end of a task, as the engine is told.
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
