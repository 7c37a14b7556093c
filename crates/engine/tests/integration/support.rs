//! Drivers and shorthands.

use phalanx_engine::*;

/// Numbers without pattern, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    /// One of `of`.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("below a length")]
    }
}

/// An engine whose tasks end when the test says so, in one pool of ready workers.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) pool: PoolId,
    pub(crate) workers: Vec<WorkerId>,
    /// The dispatches that have started and not ended.
    pub(crate) running: Vec<Start>,
    /// The work of all that was started, in order.
    pub(crate) started: Vec<u64>,
    pub(crate) actions: Vec<Action>,
    pub(crate) now: u64,
    buffers: u64,
}

impl Bench {
    pub(crate) fn new(workers: usize) -> Self {
        Self::with(workers, Config::default())
    }

    pub(crate) fn with(workers: usize, config: Config) -> Self {
        let mut engine = Engine::new(config);
        let pool = engine.add_pool();
        let workers: Vec<WorkerId> =
            (0..workers).map(|_| engine.add_worker(Some(pool), 1)).collect();
        for worker in &workers {
            engine.step(Time(0), Event::Ready(*worker));
        }
        let (running, started, actions) = (Vec::new(), Vec::new(), Vec::new());
        Self { engine, pool, workers, running, started, actions, now: 0, buffers: 0 }
    }

    pub(crate) fn begin(&mut self) -> RunId {
        self.begin_with(&RunSpec::new("test"))
    }

    pub(crate) fn begin_with(&mut self, spec: &RunSpec<'_>) -> RunId {
        match self.engine.begin(spec) {
            Begin::Started(run) => run,
            Begin::Blocked { behind } => panic!("blocked behind {behind}"),
        }
    }

    pub(crate) fn buffer(&mut self, bytes: u64) -> BufferId {
        self.buffers += 1;
        let identity = Identity { owner: 1, number: self.buffers, generation: 1 };
        self.engine.register(identity, bytes, Grant::ReadWrite).expect("a new identity")
    }

    /// A task for the pool that must be accepted.
    pub(crate) fn task(&mut self, run: RunId, work: u64, args: &[Arg]) -> TaskId {
        self.spec(run, &TaskSpec::new(Placement::Pool(self.pool)).args(args).work(work))
    }

    pub(crate) fn spec(&mut self, run: RunId, spec: &TaskSpec<'_>) -> TaskId {
        let submit = self.engine.submit(run, spec).expect("a correct task");
        submit.task().expect("there is room")
    }

    /// A task with a slab.
    pub(crate) fn slab(&mut self, run: RunId, work: u64, bytes: u64) -> (TaskId, Slab) {
        let spec = TaskSpec::new(Placement::Pool(self.pool)).bytes(bytes).work(work);
        match self.engine.submit(run, &spec).expect("a correct task") {
            Submit::Accepted { task, slab: Some(slab) } => (task, slab),
            other => panic!("{other:?}"),
        }
    }

    /// Takes notice of all actions.
    pub(crate) fn look(&mut self) {
        let actions: Vec<Action> = self.engine.actions().collect();
        for action in &actions {
            if let Action::Start(start) = action {
                self.running.push(*start);
                self.started.push(start.work);
            }
        }
        self.actions.extend(actions);
    }

    /// The work of what is running.
    pub(crate) fn works(&mut self) -> Vec<u64> {
        self.look();
        self.running.iter().map(|start| start.work).collect()
    }

    /// Ends the oldest started task with this work.
    pub(crate) fn end(&mut self, work: u64, ending: Ending) {
        self.look();
        let at = self.running.iter().position(|start| start.work == work).expect("it is running");
        let Start { worker, dispatch, .. } = self.running.remove(at);
        self.engine.step(Time(self.now), Event::Finished { worker, dispatch, ending, took: 1 });
        self.look();
    }

    pub(crate) fn done(&mut self, work: u64) {
        self.end(work, Ending::Done);
    }

    /// Ends everything well, oldest first, until nothing runs.
    pub(crate) fn finish(&mut self) {
        self.look();
        while !self.running.is_empty() {
            let Start { worker, dispatch, .. } = self.running.remove(0);
            let event = Event::Finished { worker, dispatch, ending: Ending::Done, took: 1 };
            self.engine.step(Time(self.now), event);
            self.look();
        }
    }

    pub(crate) fn seal_and_finish(&mut self, run: RunId) -> Outcome {
        self.engine.seal(run).expect("no scope is open");
        self.finish();
        self.engine.outcome(run).expect("it has finished")
    }

    pub(crate) fn lose(&mut self, worker: WorkerId) {
        self.running.retain(|start| start.worker != worker);
        self.engine.step(Time(self.now), Event::Lost(worker));
        self.look();
    }

    /// That there is nothing left.
    pub(crate) fn assert_empty(&self) {
        let stats = self.engine.stats();
        let left =
            (stats.tasks, stats.accesses, stats.regions, stats.groups, stats.running, stats.queued);
        assert_eq!(left, (0, 0, 0, 0, 0, 0), "{stats:?}");
    }
}

/// All bytes between.
pub(crate) fn view(buffer: BufferId, start: u64, end: u64) -> View {
    View::bytes(buffer, start, end - start).expect("a small view")
}
