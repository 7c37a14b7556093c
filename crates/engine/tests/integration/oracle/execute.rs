//! Drives the engine through a program in virtual time: every step interleaves, delays, fails or kills something.

use super::program::{Argument, BUFFERS, BYTES, Base, Op, Program, Task, Where};
use crate::support::Random;
use phalanx_engine::*;
use std::collections::{BTreeMap, VecDeque};

const WORKERS: usize = 3;
const CAPACITY: u64 = 4096;

/// A member that has begun: what it read, and what was there before it scribbled.
struct Body {
    digest: u64,
    undo: Vec<(usize, u8)>,
}

struct Flight {
    start: Start,
    /// The dispatch that it was sent behind.
    behind: Vec<u64>,
    body: Option<Body>,
    is_recalled: bool,
}

#[derive(Default)]
struct Worker {
    is_alive: bool,
    flights: VecDeque<Flight>,
    /// The dispatches that did not end well here.
    failed: Vec<u64>,
}

/// The state of one operation.
#[derive(Clone, Default)]
struct Known {
    task: Option<TaskId>,
    slab: Option<Slab>,
    begun: bool,
    /// The digest of each member that has ended well.
    done: BTreeMap<u16, u64>,
}

pub(crate) struct Execution<'a> {
    program: &'a Program,
    random: Random,
    engine: Engine,
    pool: PoolId,
    buffers: Vec<BufferId>,
    /// Buffers first, then the bytes of the ring.
    memory: Vec<u8>,
    workers: Vec<Worker>,
    deferred: Vec<(TaskId, Flight)>,
    known: Vec<Known>,
    run: Option<RunId>,
    runs: Vec<RunId>,
    scopes: Vec<Option<Scope>>,
    is_blocked: bool,
    has_disturbance: bool,
    /// True if workers keep order, and are sent tasks behind others.
    keeps_order: bool,
    at: usize,
    trace: u64,
    now: u64,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(program: &'a Program, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let slots = 2 + u32::try_from(random.below(12)).unwrap_or_default();
        let depth = 1 + usize::try_from(random.below(3)).unwrap_or_default();
        let mut engine =
            Engine::new(Config { slots, bytes: CAPACITY, depth, is_recording: seed & 64 == 0 });
        let pool = engine.add_pool();
        let keeps_order = seed & 128 == 0;
        let most = if keeps_order { 5 } else { 2 };
        let depth = 1 + usize::try_from(random.below(most)).unwrap_or_default();
        for _ in 0..WORKERS {
            let worker = engine.add_worker(Some(pool), depth);
            if keeps_order {
                engine.keeps_order(worker);
            }
        }
        let identity = |number| Identity { owner: 7, number, generation: 1 };
        let register = |number| {
            engine.register(identity(number), BYTES as u64, Grant::ReadWrite).expect("new")
        };
        let buffers = (0..BUFFERS as u64).map(register).collect();
        Self {
            program,
            random,
            engine,
            pool,
            buffers,
            memory: vec![0; BUFFERS * BYTES + usize::try_from(CAPACITY).unwrap_or_default()],
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            deferred: Vec::new(),
            known: vec![Known::default(); program.ops.len()],
            run: None,
            runs: Vec::new(),
            scopes: Vec::new(),
            is_blocked: false,
            has_disturbance: (seed >> 2).is_multiple_of(4),
            keeps_order,
            at: 0,
            trace: 0,
            now: 0,
        }
    }

    /// Runs the program and checks everything; the hash of all actions.
    pub(crate) fn run(mut self) -> Result<u64, String> {
        let mut idle = 0;
        while self.at <= self.program.ops.len() || self.is_busy() {
            self.now += self.random.below(5);
            self.take_actions();
            let moved = match self.random.below(8) {
                0..3 if !self.is_blocked && self.at <= self.program.ops.len() => {
                    self.submit_next()?
                }
                3..7 => self.end_something()?,
                _ => self.disturb(),
            };
            idle = if moved { 0 } else { idle + 1 };
            if idle > 400 {
                return Err(format!(
                    "nothing moves at operation {}: {:?}",
                    self.at,
                    self.engine.stats()
                ));
            }
        }
        self.take_actions();
        self.check()?;
        Ok(self.trace)
    }

    fn is_busy(&self) -> bool {
        let stats = self.engine.stats();
        stats.tasks > 0 || !self.deferred.is_empty()
    }

    fn take_actions(&mut self) {
        let actions: Vec<Action> = self.engine.actions().collect();
        for action in actions {
            self.trace = self.trace.wrapping_mul(31).wrapping_add(fingerprint(&action));
            match action {
                Action::Start(start) => self.send(start),
                Action::Recall { worker, dispatch } => {
                    let flights = &mut self.workers[worker.index()].flights;
                    let mut flights = flights.iter_mut();
                    let flight = flights.find(|flight| flight.start.dispatch == dispatch);
                    // A task behind a failed one was not sent, and so is not under way.
                    assert!(
                        flight.is_some() || self.keeps_order,
                        "only what is under way is recalled"
                    );
                    if let Some(flight) = flight {
                        flight.is_recalled = true;
                    }
                }
                Action::RoomFreed | Action::AdmissionFreed => self.is_blocked = false,
                Action::RunFinished(_) => {}
            }
        }
        for worker in 0..WORKERS {
            if self.random.below(2) == 0 {
                self.begin(worker);
            }
        }
    }

    /// Sends a task, unless what it is behind has failed since.
    fn send(&mut self, start: Start) {
        let Start { worker, dispatch, task, .. } = start;
        if self.engine.is_doomed(task) {
            self.workers[worker.index()].failed.push(dispatch);
            let ending = Ending::Skipped;
            self.engine.step(Time(self.now), Event::Finished { worker, dispatch, ending, took: 0 });
            return;
        }
        let mut behind = Vec::new();
        self.engine.behind(task, |dispatch| behind.push(dispatch));
        assert!(self.keeps_order || behind.is_empty(), "QUE-5: nobody keeps order");
        let is_here = |one: &u64| {
            let mut flights = self.workers[worker.index()].flights.iter();
            flights.any(|flight| flight.start.dispatch == *one)
        };
        assert!(behind.iter().all(is_here), "QUE-5: it is behind what its worker has");
        let flight = Flight { start, behind, body: None, is_recalled: false };
        self.workers[worker.index()].flights.push_back(flight);
    }

    /// True if the first task of a worker is behind one that did not end well.
    fn is_in_vain(&self, worker: usize) -> bool {
        let Worker { flights, failed, .. } = &self.workers[worker];
        let behind = flights.front().into_iter().flat_map(|flight| &flight.behind);
        behind.into_iter().any(|one| failed.contains(one))
    }

    /// The first task of a worker begins, if it has not.
    fn begin(&mut self, worker: usize) {
        let Some(flight) =
            self.workers[worker].flights.front().filter(|flight| flight.body.is_none())
        else {
            return;
        };
        let start = flight.start;
        if self.is_in_vain(worker) {
            return;
        }
        let (op, task) = self.op_of(start);
        self.known[op].begun = true;
        let digest = self.read(op, start.member);
        let mut undo = Vec::new();
        if !fails(task, start.member) {
            for at in self.written(op, start.member) {
                undo.push((at, self.memory[at]));
                self.memory[at] = 0xee;
            }
        }
        if let Some(flight) = self.workers[worker].flights.front_mut() {
            flight.body = Some(Body { digest, undo });
        }
    }

    fn op_of(&self, start: Start) -> (usize, &'a Task) {
        let op = usize::try_from(start.work).unwrap_or_default();
        (op, self.program.task(op).expect("only tasks start"))
    }

    fn place(&self, base: Base) -> usize {
        match base {
            Base::Buffer(buffer) => buffer * BYTES,
            Base::Slab(op) => slab_start(self.known[op].slab),
        }
    }

    fn read(&self, op: usize, member: u16) -> u64 {
        let task = self.program.task(op).expect("a task");
        let args = &task.members[usize::from(member)];
        let places = args.iter().map(|arg| self.place(arg.base));
        digest(op, member, args.iter().zip(places).filter(|(arg, _)| arg.reads()), &self.memory)
    }

    /// Returns the places where a member writes, in the order of [`values`].
    fn written(&self, op: usize, member: u16) -> Vec<usize> {
        let task = self.program.task(op).expect("a task");
        let args = task.members[usize::from(member)].iter();
        let mut places: Vec<usize> = args
            .flat_map(|arg| bits(arg.written()).map(|byte| self.place(arg.base) + byte))
            .collect();
        if task.has_slab && member == 0 {
            places.extend((0..BYTES).map(|byte| slab_start(self.known[op].slab) + byte));
        }
        places
    }

    /// Ends the first task of some worker, or a deferred one.
    fn end_something(&mut self) -> Result<bool, String> {
        if !self.deferred.is_empty() && self.random.below(4) == 0 {
            let at =
                usize::try_from(self.random.below(self.deferred.len() as u64)).unwrap_or_default();
            let (task, mut flight) = self.deferred.swap_remove(at);
            let ending = self.finish(&mut flight)?;
            self.engine.step(Time(self.now), Event::Resolved { task, ending });
            return Ok(true);
        }
        let worker = usize::try_from(self.random.below(WORKERS as u64)).unwrap_or_default();
        let Some(first) = self.workers[worker].flights.front() else { return Ok(false) };
        let skips = self.is_in_vain(worker)
            || first.is_recalled && first.body.is_none() && self.random.below(2) == 0;
        if !skips {
            self.begin(worker);
        }
        let Some(mut flight) = self.workers[worker].flights.pop_front() else { return Ok(false) };
        let Start { worker, dispatch, task, .. } = flight.start;
        let ending = if skips {
            Ending::Skipped
        } else if !self.keeps_order && self.random.below(16) == 0 {
            self.deferred.push((task, flight));
            Ending::Deferred
        } else {
            self.finish(&mut flight)?
        };
        if ending != Ending::Done {
            self.workers[worker.index()].failed.push(dispatch);
        }
        let took = self.random.below(9);
        let event = Event::Finished { worker, dispatch, ending, took };
        self.engine.step(Time(self.now), event);
        if self.random.below(8) == 0 {
            // Said twice: once counts.
            self.engine.step(Time(self.now), event);
        }
        Ok(true)
    }

    fn finish(&mut self, flight: &mut Flight) -> Result<Ending, String> {
        let start = flight.start;
        let (op, task) = self.op_of(start);
        let body = flight.body.take().expect("it has begun");
        for (at, byte) in &body.undo {
            if self.memory[*at] != 0xee {
                return Err(format!("operation {op} was written to while it wrote"));
            }
            self.memory[*at] = *byte;
        }
        if self.read(op, start.member) != body.digest {
            return Err(format!("operation {op} was written to while it read"));
        }
        if fails(task, start.member) {
            return Ok(Ending::Failed(9));
        }
        for (at, value) in self.written(op, start.member).into_iter().zip(values(body.digest)) {
            self.memory[at] = value;
        }
        self.known[op].done.insert(start.member, body.digest);
        Ok(Ending::Done)
    }

    /// Starts workers, and in some programs kills them and cancels runs.
    fn disturb(&mut self) -> bool {
        let at = usize::try_from(self.random.below(WORKERS as u64)).unwrap_or_default();
        let worker = WorkerHandle::nth(&self.engine, at);
        let is_alive = self.workers[at].is_alive;
        match self.random.below(24) {
            0..8 if !is_alive => {
                self.workers[at].is_alive = true;
                self.engine.step(Time(self.now), Event::Ready(worker));
                true
            }
            8 if self.has_disturbance && is_alive => {
                self.workers[at].is_alive = false;
                for flight in std::mem::take(&mut self.workers[at].flights) {
                    for (at, byte) in flight.body.into_iter().flat_map(|body| body.undo) {
                        self.memory[at] = byte;
                    }
                }
                self.engine.step(Time(self.now), Event::Lost(worker));
                // Endings of earlier tasks that nobody has seen yet are lost as well.
                self.workers[at].flights.clear();
                true
            }
            9 if self.has_disturbance => self.run.is_some_and(|run| self.engine.cancel(run)),
            10 => {
                self.engine.step(Time(self.now), Event::Progress(worker));
                false
            }
            _ => false,
        }
    }

    fn submit_next(&mut self) -> Result<bool, String> {
        if self.run.is_none() {
            match self.engine.begin(&RunSpec::new("program")) {
                Begin::Started(run) => {
                    self.run = Some(run);
                    self.runs.push(run);
                }
                Begin::Blocked { .. } => {
                    self.is_blocked = true;
                    return Ok(true);
                }
            }
        }
        let run = self.run.expect("it has begun");
        let Some(op) = self.program.ops.get(self.at) else {
            while let Some(scope) = self.scopes.pop() {
                scope.map(|scope| self.engine.close(scope));
            }
            let _ = self.engine.seal(run);
            self.at += 1;
            return Ok(true);
        };
        match op {
            Op::Open(mode) => self.scopes.push(self.engine.open(run, "inner", *mode).ok()),
            Op::Close => {
                if let Some(scope) = self.scopes.pop().flatten() {
                    let _ = self.engine.close(scope);
                }
            }
            Op::NextRun => {
                let _ = self.engine.seal(run);
                self.run = None;
            }
            Op::Task(task) => {
                if !self.submit_task(run, task)? {
                    return Ok(true);
                }
            }
        }
        self.at += 1;
        Ok(true)
    }

    /// True if the operation is over, in one way or another.
    fn submit_task(&mut self, run: RunId, task: &Task) -> Result<bool, String> {
        let bases = task.members.iter().flatten().map(|arg| arg.base);
        if bases.clone().any(|base| matches!(base, Base::Slab(op) if self.known[op].slab.is_none()))
        {
            return Ok(true);
        }
        let args: Vec<Vec<Arg>> = task
            .members
            .iter()
            .map(|args| args.iter().map(|arg| self.arg(arg)).collect())
            .collect();
        let after: Vec<TaskId> = self.program.needs[self.at]
            .iter()
            .filter(|(_, is_said)| *is_said)
            .filter_map(|(op, _)| self.known[*op].task)
            .collect();
        let members: Vec<&[Arg]> = args.iter().map(Vec::as_slice).collect();
        let directed: Vec<(WorkerId, &[Arg])> = (0..)
            .zip(&members)
            .map(|(at, args)| (WorkerHandle::nth(&self.engine, at), *args))
            .collect();
        let (placement, args) = match task.place {
            Where::Pool => (Placement::Pool(self.pool), members[0]),
            Where::Worker(worker) => {
                (Placement::Worker(WorkerHandle::nth(&self.engine, worker)), members[0])
            }
            Where::Group => (Placement::Group(&directed), &[] as &[Arg]),
            Where::PoolGroup => (Placement::PoolGroup(self.pool, &members), &[] as &[Arg]),
        };
        let mut spec = TaskSpec::new(placement)
            .args(args)
            .after(&after)
            .work(self.at as u64)
            .priority(task.priority)
            .alone(task.priority % 2 == 1);
        spec.bytes = if task.has_slab { BYTES as u64 } else { 0 };
        spec.is_unordered = task.is_unordered;
        match self.engine.submit(run, &spec) {
            Ok(Submit::Accepted { task, slab }) => {
                (self.known[self.at].task, self.known[self.at].slab) = (Some(task), slab);
                Ok(true)
            }
            Ok(Submit::Blocked { .. }) => {
                self.is_blocked = true;
                Ok(false)
            }
            Err(SubmitError::RunFailed(_) | SubmitError::ScopePinned { .. }) => Ok(true),
            Err(SubmitError::WorkerLost(_) | SubmitError::GroupTooLarge { .. })
                if self.has_disturbance =>
            {
                Ok(true)
            }
            Err(error) => Err(format!("operation {}: {error}", self.at)),
        }
    }

    fn arg(&self, arg: &Argument) -> Arg {
        let buffer = match arg.base {
            Base::Buffer(buffer) => self.buffers[buffer],
            Base::Slab(op) => self.known[op].slab.expect("looked at before").buffer,
        };
        let shape = &arg.shape;
        let view = View::strided(buffer, shape.offset, &shape.shape, &shape.strides, 1)
            .expect("a small view");
        Arg { view, tag: arg.tag }
    }

    /// The bytes are those of one task after the other, nothing is left, and only who had to has not run.
    fn check(&self) -> Result<(), String> {
        self.check_bytes()?;
        let stats = self.engine.stats();
        let left =
            (stats.tasks, stats.accesses, stats.regions, stats.groups, stats.running, stats.queued);
        if left != (0, 0, 0, 0, 0, 0) || stats.free_bytes != CAPACITY || stats.buffers != BUFFERS {
            return Err(format!("something is left: {stats:?}"));
        }
        if let Some(run) = self.runs.iter().find(|run| self.engine.outcome(**run).is_none()) {
            return Err(format!("run {run} has not finished"));
        }
        self.check_order()
    }

    fn check_bytes(&self) -> Result<(), String> {
        let mut memory = vec![0u8; BUFFERS * BYTES];
        let mut slabs: BTreeMap<usize, usize> = BTreeMap::new();
        for (op, known) in self.known.iter().enumerate() {
            let Some(task) = self.program.task(op) else { continue };
            if task.has_slab {
                slabs.insert(op, memory.len());
                memory.extend([0; BYTES]);
            }
            for (member, found) in &known.done {
                let args = &task.members[usize::from(*member)];
                let place = |base| match base {
                    Base::Buffer(buffer) => buffer * BYTES,
                    Base::Slab(op) => slabs[&op],
                };
                let read =
                    args.iter().map(|arg| (arg, place(arg.base))).filter(|(arg, _)| arg.reads());
                let expected = digest(op, *member, read, &memory);
                if expected != *found {
                    return Err(format!(
                        "operation {op}, member {member}: read other bytes than in sequence"
                    ));
                }
                let mut written: Vec<usize> = args
                    .iter()
                    .flat_map(|arg| bits(arg.written()).map(move |byte| place(arg.base) + byte))
                    .collect();
                if task.has_slab && *member == 0 {
                    written.extend((0..BYTES).map(|byte| slabs[&op] + byte));
                }
                for (at, value) in written.into_iter().zip(values(expected)) {
                    memory[at] = value;
                }
            }
        }
        let buffers = ..BUFFERS * BYTES;
        if memory[buffers] == self.memory[buffers] {
            Ok(())
        } else {
            Err("the buffers end with other bytes".into())
        }
    }

    fn check_order(&self) -> Result<(), String> {
        let is_done = |op: usize| {
            self.program
                .task(op)
                .is_some_and(|task| self.known[op].done.len() == task.members.len())
        };
        let mut is_poisoned = vec![false; self.known.len()];
        for (op, known) in self.known.iter().enumerate().filter(|(_, known)| known.task.is_some()) {
            let task = self.program.task(op).expect("only tasks are submitted");
            let needs = || {
                self.program.needs[op]
                    .iter()
                    .map(|(need, _)| *need)
                    .filter(|need| self.known[*need].task.is_some())
            };
            if known.begun && needs().any(|need| !is_done(need)) {
                return Err(format!("operation {op} began, but not all it needs was done"));
            }
            is_poisoned[op] = task.fails || needs().any(|need| is_poisoned[need]);
            if !self.has_disturbance && is_done(op) == is_poisoned[op] {
                return Err(format!(
                    "operation {op}: done {}, poisoned {}",
                    is_done(op),
                    is_poisoned[op]
                ));
            }
        }
        Ok(())
    }
}

/// Names workers by their place.
struct WorkerHandle;

impl WorkerHandle {
    fn nth(engine: &Engine, at: usize) -> WorkerId {
        engine.workers().nth(at).expect("there are three")
    }
}

/// The last member of a task that fails does.
fn fails(task: &Task, member: u16) -> bool {
    task.fails && usize::from(member) + 1 == task.members.len()
}

fn slab_start(slab: Option<Slab>) -> usize {
    BUFFERS * BYTES + usize::try_from(slab.expect("it was accepted").offset).unwrap_or_default()
}

fn bits(set: u32) -> impl Iterator<Item = usize> {
    (0..BYTES).filter(move |bit| set >> bit & 1 == 1)
}

fn digest<'a>(
    op: usize,
    member: u16,
    read: impl Iterator<Item = (&'a Argument, usize)>,
    memory: &[u8],
) -> u64 {
    let mut hash = op as u64 * 31 + u64::from(member) + 1;
    for (arg, place) in read {
        for byte in bits(arg.touched) {
            hash = (hash ^ u64::from(memory[place + byte]))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(5);
        }
    }
    hash
}

/// Returns the numbers that a member with this digest writes.
fn values(digest: u64) -> impl Iterator<Item = u8> {
    let mut random = Random::new(digest);
    std::iter::from_fn(move || u8::try_from(random.below(0xee)).ok())
}

fn fingerprint(action: &Action) -> u64 {
    match action {
        Action::Start(start) => {
            start.dispatch * 64
                + start.work * 8
                + start.worker.index() as u64
                + u64::from(start.member)
        }
        Action::Recall { worker, dispatch } => 1_000_003 + dispatch * 8 + worker.index() as u64,
        Action::RoomFreed => 1_000_033,
        Action::AdmissionFreed => 1_000_037,
        Action::RunFinished(_) => 1_000_039,
    }
}
