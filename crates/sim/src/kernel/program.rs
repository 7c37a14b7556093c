//! A running kernel: the accounting of its time, and its critical path.

use super::tile::Tiles;
use super::{Followed, KernelError};
use crate::executor::{Name, Sim, TaskId, Wait};
use crate::machine::{Engine, Transfer, Transfers, World};
use crate::memory::Region;
use crate::record::{Gap, LineMark, LineTotal, Path, Resource, StallSpan};
use crate::stall::Kind;
use crate::time::{Bytes, Capacity, Time};
use crate::topology::PeId;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::task::Poll;

/// One kernel on one PE.
///
/// The fields that every operation uses come first, to fit few cache lines.
#[repr(C)]
pub(crate) struct Program {
    world: Rc<World>,
    pe: PeId,
    /// Index of the PE in its SIP.
    index: usize,
    /// The number of the line of its source, if it says.
    line: Cell<Option<u32>>,
    /// End of the time accounted for: the instant at which the program last ran.
    cursor: Cell<Time>,
    path: Cell<Path>,
    stalls: [Cell<u64>; Kind::COUNT],
    tiles: RefCell<Tiles>,
    scratch: Scratch,
    stores: Stores,
    /// Transfers to use again.
    transfers: RefCell<Transfers>,
    title: Title,
    group: Rc<Group>,
    /// True if the program occupies the PE; otherwise it moves data in the background (HST-3).
    exclusive: bool,
    started: Cell<Time>,
    source: Source,
}

/// The scratch memory of a program: the part in use, and all.
struct Scratch {
    used: Cell<u64>,
    limit: u64,
}

/// The stores of a program that may not have ended.
#[derive(Default)]
struct Stores {
    /// The last store: the store channel keeps order, so that it ends after all others.
    last: RefCell<Option<Rc<Transfer>>>,
    /// With several outstanding stores: the stores before that may not have ended.
    open: RefCell<Vec<Rc<Transfer>>>,
}

/// The names of a program.
struct Title {
    name: Rc<str>,
    /// Its name in traces.
    label: Rc<str>,
    /// Its number in the launch.
    number: usize,
}

/// The lines of the kernel: the line that runs, and the line that failed.
#[derive(Default)]
struct Source {
    /// The last error of an operation, and the line of the kernel that asked for the operation.
    fault: RefCell<Option<(&'static Location<'static>, KernelError)>>,
    refused: RefCell<Option<KernelError>>,
    followed: RefCell<Option<Followed>>,
}

/// The scratch memory that was free when a request for more failed.
#[derive(Clone, Copy)]
pub(super) struct ScratchShortage {
    pub(super) free: Bytes,
    pub(super) capacity: Bytes,
}

impl Program {
    pub(crate) fn new(
        world: Rc<World>,
        pe: PeId,
        name: &str,
        number: usize,
        group: Rc<Group>,
    ) -> Self {
        let scratch_limit = match world.spec.tcm {
            Capacity::Unlimited => u64::MAX,
            Capacity::Limited(Bytes(limit)) => limit,
        };
        let index = world.sips[pe.sip as usize].borrow().index(pe);
        let name: Rc<str> = name.into();
        Self {
            index,
            stalls: Default::default(),
            tiles: RefCell::default(),
            scratch: Scratch { used: Cell::default(), limit: scratch_limit },
            world,
            pe,
            title: Title { label: name.clone(), name, number },
            group,
            exclusive: true,
            started: Cell::default(),
            line: Cell::new(None),
            cursor: Cell::default(),
            path: Cell::default(),
            stores: Stores::default(),
            transfers: RefCell::default(),
            source: Source::default(),
        }
    }

    /// Notes the line of the kernel that asked for an operation that fails.
    #[cold]
    pub(super) fn note_fault(&self, line: &'static Location<'static>, error: &KernelError) {
        self.source.fault.replace(Some((line, error.clone())));
        if matches!(error, KernelError::ReadOnly { .. }) {
            self.source.refused.replace(Some(error.clone()));
        }
    }

    /// Returns the error of a store that was refused, awaited or not (KRN-5).
    pub(crate) fn refused_store(&self) -> Option<KernelError> {
        self.source.refused.take()
    }

    /// Returns the line of the kernel that led to `error`, if the error is one of an operation.
    pub(crate) fn line_of(&self, error: &KernelError) -> Option<&'static Location<'static>> {
        self.source.fault.borrow().as_ref().filter(|(_, own)| own == error).map(|(line, _)| *line)
    }

    /// Returns the same program with another name in traces.
    pub(crate) fn labelled(self, label: &str) -> Self {
        if *self.title.name == *label {
            return self;
        }
        Self { title: Title { label: label.into(), ..self.title }, ..self }
    }

    /// Makes this a background program (HST-3).
    pub(crate) fn in_background(self) -> Self {
        Self { exclusive: false, ..self }
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn shared_world(&self) -> Rc<World> {
        self.world.clone()
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.world.sim
    }

    pub(crate) fn pe(&self) -> PeId {
        self.pe
    }

    pub(crate) fn name(&self) -> &str {
        &self.title.name
    }

    pub(crate) fn number(&self) -> usize {
        self.title.number
    }

    pub(crate) fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// Returns the name of the process: `ring@sip0.cube0.pe0`.
    pub(crate) fn process(&self) -> String {
        format!("{}@{}", self.title.name, self.pe)
    }

    #[inline]
    pub(crate) fn path(&self) -> Path {
        self.path.get()
    }

    /// Returns the paths from which the program may go on.
    pub(crate) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let store = self.stores.last.borrow().as_ref().map(|store| store.path().get());
        let open: Vec<_> =
            self.stores.open.borrow().iter().map(|store| store.path().get()).collect();
        let known = [Some(self.path.get()), Some(self.group.last.get()), store];
        known.into_iter().flatten().chain(open)
    }

    /// Sets the critical path of the launch.
    pub(crate) fn caused_by(&self, path: &Path) {
        self.path.set(*path);
    }

    /// Returns the cell of the critical path, for callers that copy it in place.
    #[inline]
    pub(crate) fn path_cell(&self) -> &Cell<Path> {
        &self.path
    }

    pub(crate) fn start(&self) {
        let now = self.sim().now();
        self.started.set(now);
        self.cursor.set(now);
        let mut path = self.path.get();
        path.advance(now, Gap::Dependency);
        self.path.set(path);
        self.world.sips[self.pe.sip as usize].borrow_mut().pe(self.pe).programs += 1;
    }

    /// Ends a wait: the time since the program last ran counts as `kind`, and `path` becomes the critical path.
    #[inline]
    pub(crate) fn waited(&self, kind: Kind, path: &Path) {
        self.waited_for(&[(self.sim().now(), kind)], path);
    }

    /// Ends a wait for the operation of `engine` that ends at `end`, which is now.
    #[inline]
    pub(crate) fn waited_on(&self, engine: Engine, end: Time) {
        if self.cursor.get() < self.sim().now() {
            let path = self.path_through(engine, end);
            self.waited(engine.kind(), &path);
        }
    }

    /// Returns the critical path to `end`: the path of the engine's last operation, if that is the one. If a later
    /// operation was issued meanwhile, the whole wait is a step of the engine.
    fn path_through(&self, engine: Engine, end: Time) -> Path {
        let sip = &mut *self.world.sips[self.pe.sip as usize].borrow_mut();
        let wire = sip.pes[self.index].engine(engine);
        if wire.free() == end {
            wire.note_turn(&mut sip.record);
            return *wire.last();
        }
        let mut path = self.path.get();
        if end > path.at() {
            sip.record.step(&mut path, end, engine.kind(), engine.resource(self.pe));
        }
        path
    }

    /// Ends a wait that has parts: each part lasts until its instant. Instants before the wait began count nothing.
    #[inline]
    pub(crate) fn waited_for(&self, parts: &[(Time, Kind)], path: &Path) {
        let now = self.sim().now();
        let mut cursor = self.cursor.get();
        if cursor >= now {
            return;
        }
        if self.line.get().is_some() || self.world.options.record {
            self.note_parts(parts, path);
        }
        for &(until, kind) in parts {
            if until > cursor {
                let spent = &self.stalls[kind as usize];
                spent.set(spent.get() + (until - cursor).as_ps());
                cursor = until;
            }
        }
        self.cursor.set(now);
        self.path.set(*path);
    }

    /// Notes the parts of a wait for its line, and for the log.
    #[cold]
    #[inline(never)]
    fn note_parts(&self, parts: &[(Time, Kind)], path: &Path) {
        let mut cursor = self.cursor.get();
        self.on_line(|_, mark| self.mark(path, mark));
        for &(until, kind) in parts {
            if until > cursor {
                self.on_line(|total, _| total.stack.add(kind, until - cursor));
                if self.world.options.record {
                    self.record_stall(kind, cursor, until);
                }
                cursor = until;
            }
        }
    }

    /// Ends a wait for a load or a store that ends now.
    pub(crate) fn waited_for_transfer(&self, transfer: &Transfer) {
        if self.cursor.get() < self.sim().now() {
            let path = transfer.path().get();
            if self.has_lines() {
                self.mark(&path, transfer.line());
            }
            self.waited_for(&transfer.parts(), &path);
        }
    }

    #[cold]
    fn record_stall(&self, kind: Kind, from: Time, to: Time) {
        if self.exclusive {
            let resource = Resource::Program(self.pe);
            let sip = &mut *self.world.sips[self.pe.sip as usize].borrow_mut();
            sip.record.stall(|| StallSpan { resource, kind, from, to });
            if let (Some(line), Some(followed)) = (self.line.get(), &*self.source.followed.borrow())
            {
                sip.record.at_line(followed.table, line, (from, to), self.pe);
            }
        }
    }

    /// Accounts for the time by lines from now on.
    pub(super) fn follow(&self, followed: Followed) {
        self.mark(&self.path.get(), LineMark::OUTSIDE);
        self.line.set(Some(0));
        self.source.followed.replace(Some(followed));
    }

    /// True if the program accounts by lines.
    #[inline]
    pub(super) fn has_lines(&self) -> bool {
        self.line.get().is_some()
    }

    /// Marks the end of a path with a line, unless it has a mark (LIN-3).
    #[cold]
    fn mark(&self, path: &Path, line: LineMark) {
        let sip = &mut *self.world.sips[self.pe.sip as usize].borrow_mut();
        sip.record.mark(path, line);
    }

    /// Sets the line, if the program accounts by lines.
    #[inline]
    pub(super) fn set_line(&self, line: u32) {
        if self.line.get().is_some() {
            self.line.set(Some(line));
        }
    }

    /// Changes the totals of the current line, if the program has lines.
    pub(super) fn on_line(&self, change: impl FnOnce(&mut LineTotal, LineMark)) {
        if let Some(line) = self.line.get()
            && let Some(followed) = &*self.source.followed.borrow()
            && let Some(total) = followed.totals.borrow_mut().get_mut(line as usize)
        {
            change(total, LineMark::new(followed.table, line));
        }
    }

    /// Takes scratch memory.
    #[inline]
    pub(super) fn take_scratch(&self, bytes: u64) -> Result<(), ScratchShortage> {
        let used = self.scratch.used.get().saturating_add(bytes);
        if used > self.scratch.limit {
            let free = Bytes(self.scratch.limit - self.scratch.used.get());
            return Err(ScratchShortage { free, capacity: Bytes(self.scratch.limit) });
        }
        self.scratch.used.set(used);
        Ok(())
    }

    #[inline]
    pub(crate) fn give_scratch(&self, bytes: u64) {
        self.scratch.used.set(self.scratch.used.get() - bytes);
    }

    /// Returns a new transfer of the program.
    #[inline]
    pub(super) fn transfer(&self, bytes: u64, pieces: u8) -> Rc<Transfer> {
        self.transfers.borrow_mut().next(self.pe, bytes, pieces)
    }

    /// Sets the last store.
    pub(crate) fn set_last_store(&self, store: Rc<Transfer>) {
        let before = self.stores.last.replace(Some(store));
        if self.world.spec.dma.outstanding > 1
            && let Some(before) = before
        {
            let mut open = self.stores.open.borrow_mut();
            open.retain(|store| !store.has_ended(self.sim()));
            open.push(before);
        }
    }

    /// Waits until all stores have ended.
    pub(crate) async fn drain(&self) {
        if let Some(store) = self.stores.last.take() {
            store.wait(self.sim()).await;
            self.waited_for_transfer(&store);
        }
        while let Some(store) = self.next_open_store() {
            store.wait(self.sim()).await;
            self.waited_for_transfer(&store);
        }
    }

    fn next_open_store(&self) -> Option<Rc<Transfer>> {
        self.stores.open.borrow_mut().pop()
    }

    /// Ends the program after its kernel has returned; returns the critical path.
    pub(crate) fn end(&self) -> Path {
        let (now, pe) = (self.sim().now(), self.pe);
        let mut path = self.path.get();
        path.advance(now, Gap::Dependency);
        let mut last = self.world.launched.last.borrow_mut();
        // The latest program, the lowest PE among equals: independent of the order of calls.
        if last.is_none_or(|(time, other, _)| (now, other) > (time, pe)) {
            *last = Some((now, pe, path));
        }
        drop(last);
        let sip = &mut *self.world.sips[pe.sip as usize].borrow_mut();
        sip.record.cause(&path);
        if !self.exclusive {
            return path;
        }
        sip.record.kernel(&self.title.label, (self.started.get(), now), pe);
        for (kind, spent) in Kind::ALL.into_iter().zip(&self.stalls) {
            sip.pes[self.index].stalls.add(kind, Time::ps(spent.take()));
        }
        path
    }

    pub(super) fn tiles(&self) -> &RefCell<Tiles> {
        &self.tiles
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Waits for the other programs of the launch.
    pub(crate) async fn barrier(&self) {
        let group = &*self.group;
        let round = group.round.get();
        group.arrive(self);
        std::future::poll_fn(|_| {
            if group.round.get() != round {
                return Poll::Ready(());
            }
            group.wait(self.sim());
            Poll::Pending
        })
        .await;
        self.waited(Kind::Dependency, &group.last.get());
    }
}

/// The programs of one launch, which share a barrier.
pub(crate) struct Group {
    name: String,
    size: usize,
    arrived: RefCell<Vec<PeId>>,
    waiting: RefCell<Vec<TaskId>>,
    round: Cell<u64>,
    last: Cell<Path>,
    /// Its PEs, for messages.
    members: Vec<PeId>,
    /// The number of programs along each axis.
    axes: [usize; 3],
    read_only: Rc<[ReadOnly]>,
}

/// The programs of a launch, and the memory that they only read.
#[derive(Clone, Debug)]
pub struct GridShape {
    /// The number of programs along each axis, the first axis fastest.
    pub axes: [usize; 3],
    /// The arguments that the launch declares as read.
    pub read_only: Rc<[ReadOnly]>,
}

impl GridShape {
    /// Returns a row of `count` programs without declared arguments.
    pub fn row(count: usize) -> Self {
        Self { axes: [count, 1, 1], read_only: Rc::new([]) }
    }
}

/// Memory of an argument that a launch declares as read.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    /// Number of the argument.
    pub argument: usize,
    /// The memory.
    pub region: Region,
}

impl Group {
    pub(crate) fn new(name: &str, shape: &GridShape, pes: &[PeId]) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            size: shape.axes.iter().product(),
            arrived: RefCell::default(),
            waiting: RefCell::default(),
            round: Cell::default(),
            last: Cell::default(),
            members: pes.to_vec(),
            axes: shape.axes,
            read_only: shape.read_only.clone(),
        })
    }

    /// Returns the name of the process that runs its programs on a PE.
    pub(crate) fn name_on(self: &Rc<Self>, pe: PeId) -> Name {
        let group = self.clone();
        Name::later(move || format!("{}@{pe}", group.name))
    }

    /// Refuses a store to `address` if the launch declares the memory there as read (KRN-5).
    #[inline]
    pub(super) fn check_store(&self, address: u64) -> Result<(), Box<KernelError>> {
        if self.read_only.is_empty() { Ok(()) } else { self.check_writable(address) }
    }

    fn check_writable(&self, address: u64) -> Result<(), Box<KernelError>> {
        let holds =
            |region: &Region| (region.address..region.address + region.bytes()).contains(&address);
        let found = self.read_only.iter().find(|memory| holds(&memory.region));
        found.map_or(Ok(()), |memory| {
            Err(Box::new(KernelError::ReadOnly { address, argument: memory.argument }))
        })
    }

    /// Returns the number of programs along each axis.
    pub(crate) fn axes(&self) -> [usize; 3] {
        self.axes
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn arrive(&self, program: &Program) {
        let mut arrived = self.arrived.borrow_mut();
        arrived.push(program.pe);
        if arrived.len() < self.size {
            return;
        }
        arrived.clear();
        self.round.set(self.round.get() + 1);
        self.last.set(program.path());
        for task in self.waiting.take() {
            program.sim().wake(task);
        }
    }

    fn wait(&self, sim: &Sim) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.contains(&sim.task()) {
            waiting.push(sim.task());
        }
        sim.waiting(|| self.describe());
    }

    fn describe(&self) -> Wait {
        let arrived = self.arrived.borrow();
        let missing =
            self.members.iter().filter(|pe| !arrived.contains(pe)).copied().collect::<Vec<_>>();
        let few = if self.members.len() < self.size {
            format!(", and the launch has {} PEs only", self.members.len())
        } else {
            String::new()
        };
        let what = format!(
            "a barrier of `{}` that {} of {} programs have reached{few}",
            self.name,
            arrived.len(),
            self.size
        );
        Wait { what, providers: missing.iter().map(|pe| format!("{}@{pe}", self.name)).collect() }
    }
}
