//! The driver: carries out the actions of the engine and reports events to it, in simulated time.

use super::failure::TaskError;
use super::lease::Lease;
use super::outcome::Outcome;
use super::task::{Kernel, TaskId, named};
use super::{Dispatch, GraphOptions, Pools};
use phalanx_engine::{
    Action, Begin, Config, Ending, Engine, Event, PoolId, RunId, RunSpec, Start, Time as Reading,
    WorkerId,
};
use phalanx_sim::Time;
use phalanx_sim::executor::{JoinHandle, Sim, TaskId as ProcessId, Wait};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::{Cause, Launch};
use phalanx_sim::topology::PeId;
use phalanx_torch::Args;
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::driver::{Caught, Drive};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A graph and its state.
pub(super) struct Graph {
    pub(super) rank: Rank,
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) dispatch: Dispatch,
    pub(super) budget: Option<Time>,
    /// The PE of each worker.
    pub(super) pes: Vec<PeId>,
    /// The pool of each cube, or the pool of all PEs under `None`.
    pub(super) pools: BTreeMap<Option<u16>, PoolId>,
    pub(super) workers: Vec<WorkerId>,
    pub(super) began: Time,
    pub(super) state: RefCell<GraphState>,
}

pub(super) struct GraphState {
    pub(super) engine: Engine,
    pub(super) run: RunId,
    pub(super) tasks: Vec<Entry>,
    /// Tasks on their PEs, by number.
    pub(super) running: BTreeMap<usize, RunningTask>,
    /// Leases, by the number of the storage.
    pub(super) leases: BTreeMap<u64, Lease>,
    /// Processes that wait for a free slot or for the end.
    waiting: Vec<ProcessId>,
    /// Number of times that a slot was freed.
    pub(super) room: u64,
    is_over: bool,
    is_closed: bool,
    /// The cause of the last end of a task.
    pub(super) cause: Cause,
    pub(super) watchdog: Option<JoinHandle<()>>,
    /// The reason why the watchdog gave up the whole graph.
    pub(super) stall: Option<String>,
}

/// The record of a task until the graph is over.
pub(super) struct Entry {
    pub(super) kernel_name: String,
    pub(super) label: String,
    /// `None` if the graph had failed before the task was submitted.
    pub(super) task: Option<phalanx_engine::TaskId>,
    pub(super) work: Option<Work>,
    /// The storages it writes.
    pub(super) writes: Vec<u64>,
    pub(super) pes: Vec<PeId>,
    pub(super) submitted: Time,
    pub(super) dispatched: Option<Time>,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) error: Option<(PeId, TaskError)>,
}

/// Kernel and tensors of a task that has not started.
pub(super) struct Work {
    pub(super) kernel: Kernel,
    /// The tensors of each member.
    pub(super) tensors: Vec<Vec<phalanx_torch::Tensor>>,
}

/// A task on its PEs.
pub(super) struct RunningTask {
    process: JoinHandle<()>,
    pub(super) members: Vec<RunningMember>,
    pub(super) activities: Rc<[Activity]>,
}

/// A member of a task on its worker.
#[derive(Clone, Copy)]
pub(super) struct RunningMember {
    pub(super) worker: WorkerId,
    /// The number of the dispatch, for the engine.
    dispatch: u64,
}

/// The activity of one kernel.
#[derive(Default)]
pub(super) struct Activity {
    pub(super) started: Cell<Option<Time>>,
    /// Time of the last poll.
    pub(super) moved: Cell<Time>,
    /// The part of `moved` that the engine knows.
    pub(super) told: Cell<Time>,
}

impl Entry {
    pub(super) fn name(&self) -> String {
        named(&self.kernel_name, &self.label)
    }
}

/// Simulated time as a reading of the engine: picoseconds.
pub(super) fn reading(time: Time) -> Reading {
    Reading(time.as_ps())
}

impl Graph {
    pub(super) fn new(rank: &Rank, name: &str, options: &GraphOptions) -> Result<Rc<Self>, Error> {
        let refuse = |what: &str| Err(Error::argument(format!("graph `{name}`: {what}")));
        if options.slots == 0 || options.depth == 0 {
            return refuse("`slots` and `depth` are at least 1");
        }
        let pes = options.pes.pes(rank)?;
        let config = Config { slots: options.slots, bytes: 0, depth: 1, is_recording: true };
        let mut engine = Engine::new(config);
        let mut pools = BTreeMap::new();
        let mut workers = Vec::new();
        for pe in &pes {
            let cube = (options.pools == Pools::Cubes).then_some(pe.cube);
            let pool = *pools.entry(cube).or_insert_with(|| engine.add_pool());
            workers.push(engine.add_worker(Some(pool), options.depth));
        }
        let now = rank.now();
        for worker in &workers {
            engine.step(reading(now), Event::Ready(*worker));
        }
        let Begin::Started(run) = engine.begin(&RunSpec::new("graph")) else {
            return refuse("a new engine has another run");
        };
        let graph = Rc::new(Self {
            rank: rank.clone(),
            number: rank.next_request(),
            name: name.to_owned(),
            dispatch: options.dispatch,
            budget: options.budget,
            pes,
            pools,
            workers,
            began: now,
            state: RefCell::new(GraphState::new(engine, run, rank.cause())),
        });
        graph.start_watching()?;
        Ok(graph)
    }

    pub(super) fn sim(&self) -> &Sim {
        self.rank.host().sim()
    }

    pub(super) fn id(&self, number: usize) -> TaskId {
        TaskId { graph: self.number, number }
    }

    pub(super) fn pe_of(&self, worker: WorkerId) -> PeId {
        self.pes[worker.index()]
    }

    /// Carries out the actions of the engine; `cause` led to them.
    pub(super) fn carry_out(self: &Rc<Self>, cause: Cause) {
        let actions: Vec<Action> = self.state.borrow_mut().engine.actions().collect();
        let mut starts = Vec::new();
        for action in actions {
            match action {
                Action::Start(start) => starts.push(start),
                Action::RoomFreed => {
                    self.state.borrow_mut().room += 1;
                    self.wake();
                }
                Action::RunFinished(_) => {
                    self.state.borrow_mut().is_over = true;
                    self.wake();
                }
                // A launch ends as a whole, and the engine has one run.
                Action::Recall { .. } | Action::AdmissionFreed => {}
            }
        }
        for together in starts.chunk_by(|one, other| one.task == other.task) {
            self.start(together, cause);
        }
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut self.state.borrow_mut().waiting);
        for process in waiting {
            self.sim().wake(process);
        }
    }

    /// Starts a task, all members of a group together.
    fn start(self: &Rc<Self>, starts: &[Start], cause: Cause) {
        let state = &mut *self.state.borrow_mut();
        let number = usize::try_from(starts[0].work).unwrap_or(usize::MAX);
        let entry = &mut state.tasks[number];
        let Some(work) = entry.work.take() else { return };
        entry.dispatched = Some(self.rank.now());
        entry.pes = starts.iter().map(|start| self.pe_of(start.worker)).collect();
        let activities: Rc<[Activity]> = starts.iter().map(|_| Activity::default()).collect();
        let process = format!("rank{} graph {} #{number}", self.rank.rank(), self.name);
        let body = self.clone().run(number, entry, work, activities.clone(), cause);
        let process = self.sim().spawn(process, body);
        let member =
            |start: &Start| RunningMember { worker: start.worker, dispatch: start.dispatch };
        let members = starts.iter().map(member).collect();
        state.running.insert(number, RunningTask { process, members, activities });
    }

    /// Runs a task on its PEs: dispatch, kernels, end.
    fn run(
        self: Rc<Self>,
        number: usize,
        entry: &Entry,
        work: Work,
        activities: Rc<[Activity]>,
        cause: Cause,
    ) -> impl Future<Output = ()> + 'static {
        let (name, pes) = (entry.kernel_name.clone(), entry.pes.clone());
        let shared: Rc<[PeId]> = pes.clone().into();
        let args: Vec<Args> =
            work.tensors.into_iter().map(|tensors| Args::new(tensors, shared.clone())).collect();
        async move {
            let host = self.rank.host().clone();
            let cause = match self.dispatch {
                Dispatch::Command => host.command("launch", cause).await,
                Dispatch::OnChip(span) => {
                    host.sim().sleep(span).await;
                    cause
                }
            };
            let launch = Launch { name: &name, label: None, pes: &pes, exclusive: true, cause };
            let drop_panic = self.rank.drop_panic().clone();
            let made = |tl: Tl| {
                let member = tl.program_id();
                let (args, sim) = (args[member].clone(), host.sim().clone());
                let inner = Caught::new(&drop_panic, || (work.kernel)(tl, args));
                Tracked { inner, sim, activities: activities.clone(), member }
            };
            let result = host.run(launch, made).await;
            drop(args);
            self.ended(number, result.map_err(|error| TaskError::of(error, pes[0])));
        }
    }

    /// Ends a task: its kernels are over, or the watchdog gave it up.
    pub(super) fn ended(self: &Rc<Self>, number: usize, result: Result<Cause, (PeId, TaskError)>) {
        let Some(task) = self.state.borrow_mut().running.remove(&number) else { return };
        let cause = self.report_end(number, &task, result);
        // The process of a stalled task is dropped with its handle; any other process has just returned.
        if self.state.borrow().tasks[number].is_stalled() {
            drop(task.process);
        } else {
            task.process.detach();
        }
        self.carry_out(cause);
    }

    /// Tells the engine that a task has ended; returns the cause.
    fn report_end(
        &self,
        number: usize,
        task: &RunningTask,
        result: Result<Cause, (PeId, TaskError)>,
    ) -> Cause {
        let now = self.rank.now();
        let state = &mut *self.state.borrow_mut();
        let entry = &mut state.tasks[number];
        let took = now.saturating_sub(entry.dispatched.unwrap_or(now)).as_ps();
        entry.started = task.activities.iter().filter_map(|activity| activity.started.get()).min();
        entry.ended = Some(now);
        let failed = result.as_ref().err().map(|(pe, _)| *pe);
        // The failed member comes first: it is the root cause.
        let mut members = task.members.clone();
        members.sort_by_key(|member| failed.is_some_and(|pe| self.pe_of(member.worker) != pe));
        let events = (0..).zip(members).map(|(at, RunningMember { worker, dispatch })| {
            let ending = match (failed, at) {
                (None, _) => Ending::Done,
                (Some(_), 0) => Ending::Failed(0),
                (Some(_), _) => Ending::Skipped,
            };
            Event::Finished { worker, dispatch, ending, took }
        });
        state.engine.step_all(reading(now), events);
        match result {
            Ok(cause) => {
                state.cause = state.cause.later(cause);
                cause
            }
            Err(error) => {
                self.rank.host().give_up_edges(&entry.pes);
                entry.error = Some(error);
                state.cause
            }
        }
    }

    /// Waits until `is_there`; `describe` describes the wait in reports.
    pub(super) async fn until(
        &self,
        is_there: impl Fn(&GraphState) -> bool,
        describe: impl Fn(&Self) -> Wait,
    ) {
        poll_fn(|_| {
            let mut state = self.state.borrow_mut();
            if is_there(&state) {
                return Poll::Ready(());
            }
            state.waiting.push(self.sim().task());
            drop(state);
            self.sim().waiting(|| describe(self));
            Poll::Pending
        })
        .await;
    }

    /// A wait for the running tasks, for reports.
    pub(super) fn at_work(&self, what: &str) -> Wait {
        let state = self.state.borrow();
        let mut running = Vec::new();
        let mut providers = Vec::new();
        for number in state.running.keys() {
            let entry = &state.tasks[*number];
            let pes: Vec<String> = entry.pes.iter().map(ToString::to_string).collect();
            running.push(format!("{} `{}` on {}", self.id(*number), entry.name(), pes.join(", ")));
            providers.extend(pes.iter().map(|pe| format!("{}@{pe}", entry.kernel_name)));
        }
        let is_behind = |entry: &&Entry| entry.dispatched.is_none() && entry.task.is_some();
        let behind = state.tasks.iter().filter(is_behind).count();
        let what =
            format!("{what} `{}`: running {}; {behind} behind", self.name, running.join("; "));
        Wait { what, providers }
    }

    pub(super) async fn finish(self: &Rc<Self>) -> Result<Outcome, Error> {
        let sealed = {
            let state = &mut *self.state.borrow_mut();
            state.engine.seal(state.run)
        };
        self.carry_out(self.rank.cause());
        self.until(|state| state.is_over, |graph| graph.at_work("the end of graph")).await;
        let result = self.conclude();
        self.close(&result);
        let leases: Vec<Lease> = self.state.borrow().leases.values().cloned().collect();
        for lease in leases {
            lease.settle().await;
        }
        self.rank.resumed_by(self.state.borrow().cause);
        sealed.map_err(|error| Error::argument(format!("graph `{}`: {error}", self.name)))?;
        result
    }

    /// Ends all leases; no task runs any more.
    fn close(&self, result: &Result<Outcome, Error>) {
        let state = &mut *self.state.borrow_mut();
        state.is_closed = true;
        state.watchdog = None;
        let is_bad = |entry: &&Entry| entry.error.is_some() || entry.dispatched.is_none();
        let bad: Vec<u64> =
            state.tasks.iter().filter(is_bad).flat_map(|entry| entry.writes.clone()).collect();
        for (number, lease) in &state.leases {
            match result {
                Err(error) if bad.contains(number) => lease.end(Err(error.clone())),
                _ => lease.end(Ok(state.cause)),
            }
        }
    }

    /// Cancels a graph that the program dropped before its end.
    pub(super) fn abandon(&self) {
        let state = &mut *self.state.borrow_mut();
        if std::mem::replace(&mut state.is_closed, true) {
            return;
        }
        state.watchdog = None;
        let running = std::mem::take(&mut state.running);
        for number in running.keys() {
            self.rank.host().give_up_edges(&state.tasks[*number].pes);
        }
        drop(running);
        state.tasks.iter_mut().for_each(|entry| entry.work = None);
        let text = format!("graph `{}` was dropped before it was over; await `finish`", self.name);
        state.leases.values().for_each(|lease| lease.end(Err(Error::Other(text.clone()))));
    }
}

impl GraphState {
    fn new(engine: Engine, run: RunId, cause: Cause) -> Self {
        Self {
            engine,
            run,
            tasks: Vec::new(),
            running: BTreeMap::new(),
            leases: BTreeMap::new(),
            waiting: Vec::new(),
            room: 0,
            is_over: false,
            is_closed: false,
            cause,
            watchdog: None,
            stall: None,
        }
    }
}

impl Entry {
    fn is_stalled(&self) -> bool {
        matches!(self.error, Some((_, TaskError::Stalled { .. })))
    }
}

/// A kernel that records its activity.
struct Tracked<F> {
    inner: Caught<F>,
    sim: Sim,
    activities: Rc<[Activity]>,
    member: usize,
}

impl<F: Future<Output = Result<(), KernelError>>> Future for Tracked<F> {
    type Output = Result<(), KernelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (now, activity) = (self.sim.now(), &self.activities[self.member]);
        activity.moved.set(now);
        if activity.started.get().is_none() {
            activity.started.set(Some(now));
        }
        Pin::new(&mut self.inner).poll(context)
    }
}
