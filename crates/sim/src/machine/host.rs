//! The host of a SIP: the requests of a rank's program to its SIP, over the host link.
//!
//! Commands and data share the wire to the SIP and arrive in order; data that is read returns on a second wire. The host
//! learns of the end of an operation at once, by a side-band signal.
//!
//! - **HST-1 (own SIP).** A host accesses its own SIP only (PAR-1).
//! - **HST-2 (first failure).** A launch ends with its last program, or with the first program that fails. Then the other
//!   programs are dropped, and the error names the failed program.
//! - **HST-3 (in the background).** A launch that is not exclusive only moves data. Its programs share the PE's engines
//!   with the exclusive program, do not wait for the PE and do not occupy it. Reports do not count their time for the PE,
//!   and their scratch memory (up to the size of the PE's) is not taken from the exclusive program.

use super::flights::{Journey, Purpose};
use super::noc::{Route, Stage};
use super::transfer::Transfer;
use super::{COMMAND, Machine, RunError, Selection, World, run_program};
use crate::executor::{JoinHandle, Name, Partition, Sim, Wait};
use crate::ipcq::EdgeName;
use crate::kernel::{GridShape, Group, KernelError, Program, Tl};
use crate::memory::{MemoryError, Region};
use crate::record::{Gap, Path, Resource, Use};
use crate::signal::Signal;
use crate::spec::MachineSpec;
use crate::stall::Kind;
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use crate::value::{DType, Value};
use crate::wire::Flight;
use std::cell::Cell;
use std::rc::Rc;

/// The critical path to an instant, passed from one operation to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cause(Path);

impl Cause {
    pub(super) fn path(self) -> Path {
        self.0
    }

    pub(super) fn of(path: Path) -> Self {
        Self(path)
    }

    /// Returns the later of two causes.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.0.at() > self.0.at() { other } else { self }
    }
}

/// The parameters of a kernel launch.
pub struct Launch<'a> {
    /// Name of the kernel.
    pub name: &'a str,
    /// Name in traces, if it differs.
    pub label: Option<&'a str>,
    /// PEs, one for each program, in the order of program numbers.
    pub pes: &'a [PeId],
    /// True if each program occupies its PE (HST-3).
    pub exclusive: bool,
    /// Cause of the launch.
    pub cause: Cause,
}

/// The host's view of a SIP.
#[derive(Clone)]
pub struct Host {
    pub(super) world: Rc<World>,
    pub(super) sip: u32,
}

impl Machine {
    /// Returns the host of a SIP.
    pub fn host(&self, sip: u32) -> Host {
        Host { world: self.world.clone(), sip }
    }

    /// Starts a host program of a SIP when the machine runs. The SIP must be an own one ([`Machine::owns`]).
    pub fn spawn<T: 'static>(
        &mut self,
        sip: u32,
        name: impl Into<Name>,
        program: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.executor.spawn(Partition(sip), name, program)
    }

    /// Drops all programs, messages and queues, so that a machine can be used again after a failed run. Memory and time
    /// do not change.
    pub fn clear(&mut self) {
        self.executor.clear();
        *self.world.edges.borrow_mut() = crate::ipcq::Edges::default();
        self.world.exits.borrow_mut().clear();
        *self.world.packets.borrow_mut() = super::packet::Packets::default();
        self.world.groups.borrow_mut().clear();
        if let Some(shards) = &self.world.shards {
            shards.clear();
        }
        for sip in &self.world.sips {
            sip.borrow_mut().clear();
        }
        self.world.launched.turns.borrow_mut().clear();
        self.world.launched.failures.borrow_mut().clear();
    }
}

impl Host {
    /// Returns the number of the SIP.
    pub fn sip(&self) -> u32 {
        self.sip
    }

    /// Returns the handle of the simulation.
    pub fn sim(&self) -> &Sim {
        &self.world.sim
    }

    /// Starts a process of this SIP: in its own run, or between two runs.
    pub fn spawn<T: 'static>(
        &self,
        name: impl Into<Name>,
        process: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.sim().spawn_in(Partition(self.sip), name, process)
    }

    /// Does work that is best done once and kept: while no other shard of this process does such work.
    pub fn by_turns(&self, work: &mut dyn FnMut()) {
        match &self.world.options.exchange {
            Some(exchange) => exchange.by_turns(work),
            None => work(),
        }
    }

    /// True if a process of this SIP has its turn, or none has: then this host may be used (HST-1).
    pub fn is_here(&self) -> bool {
        !self.sim().is_running() || self.sim().partition() == Partition(self.sip)
    }

    /// Returns the specification of the machine.
    pub fn spec(&self) -> &MachineSpec {
        &self.world.spec
    }

    /// True if this run computes data.
    pub fn has_data(&self) -> bool {
        self.world.options.data
    }

    /// Computes values now.
    ///
    /// # Errors
    ///
    /// [`RunError::Interrupted`] if [`Options::interrupt`](super::Options::interrupt) ends the computation.
    pub fn force(&self, values: &[Value]) -> Result<(), RunError> {
        if self.world.options.force(values) {
            return Ok(());
        }
        Err(RunError::Interrupted(self.sim().now()))
    }

    /// Returns the PEs of the SIP.
    pub fn pes(&self) -> Vec<PeId> {
        self.first_pes(usize::MAX)
    }

    /// Returns the first PEs of the SIP, at most `most`.
    pub fn first_pes(&self, most: usize) -> Vec<PeId> {
        let sip = self.world.sips[self.sip as usize].borrow();
        (0..sip.pes.len().min(most)).map(|index| sip.pe_id(self.sip, index)).collect()
    }

    /// Maps memory in a cube's HBM; the driver allocates without a command to the SIP.
    pub fn reserve(&self, cube: u16, dtype: DType, elements: usize) -> Result<Region, MemoryError> {
        let sip = &mut *self.world.sips[self.sip as usize].borrow_mut();
        sip.mmu.map(&mut sip.cubes[cube as usize].memory, cube, dtype, elements)
    }

    /// Unmaps a region and drops its content.
    pub fn free(&self, region: &Region) {
        debug_assert_eq!(region.sip, self.sip, "HST-1");
        let sip = &mut *self.world.sips[self.sip as usize].borrow_mut();
        sip.mmu.unmap(&mut sip.cubes[region.cube as usize].memory, region);
    }

    /// Writes a value to a region in no time, as initial content.
    pub fn place(&self, region: &Region, value: Value) -> Result<(), MemoryError> {
        self.put(region, 0, Some(value))
    }

    /// Returns the elements of a region as they are now, in no time; `None` without data.
    pub fn peek(&self, region: &Region) -> Result<Option<Value>, MemoryError> {
        self.get(region, &[Selection::dense(0, region.elements)])
    }

    /// Sends a command over the host link.
    pub async fn command(&self, label: &'static str, cause: Cause) -> Cause {
        self.fly(COMMAND, Route::default().then(Stage::Host), label, cause).await
    }

    /// Writes `value` to a region from element `start`: over the host link, into HBM.
    pub async fn write(
        &self,
        region: &Region,
        start: usize,
        value: Option<Value>,
        elements: usize,
        cause: Cause,
    ) -> Result<Cause, MemoryError> {
        let bytes = Bytes((elements * region.dtype.size()) as u64);
        let route = Route::default().then(Stage::Host).then(Stage::Hbm(region.cube));
        let cause = self.fly(bytes, route, "write", cause).await;
        self.put(region, start, value)?;
        Ok(cause)
    }

    /// Fills a region with `value`; only a command crosses the host link.
    pub async fn fill(
        &self,
        region: &Region,
        value: Option<Value>,
        cause: Cause,
    ) -> Result<Cause, MemoryError> {
        let cause = self.command("fill", cause).await;
        let route = Route::default().then(Stage::Hbm(region.cube));
        let cause = self.fly(Bytes(region.bytes()), route, "write", cause).await;
        self.put(region, 0, value)?;
        Ok(cause)
    }

    /// Reads elements of a region from HBM over the host link; `None` without data.
    pub async fn read(
        &self,
        region: &Region,
        start: usize,
        elements: usize,
        cause: Cause,
    ) -> Result<(Option<Value>, Cause), MemoryError> {
        self.read_all(region, &[Selection::dense(start, elements)], cause).await
    }

    /// Reads the selected elements of a region, one selection after another, as one transfer of their bytes.
    pub async fn read_all(
        &self,
        region: &Region,
        selected: &[Selection],
        cause: Cause,
    ) -> Result<(Option<Value>, Cause), MemoryError> {
        let cause = self.command("read", cause).await;
        let value = self.get(region, selected)?;
        let elements: usize = selected.iter().map(Selection::elements).sum();
        let bytes = Bytes((elements * region.dtype.size()) as u64);
        let route = Route::default().then(Stage::Hbm(region.cube)).then(Stage::Upload);
        let cause = self.fly(bytes, route, "read", cause).await;
        Ok((value, cause))
    }

    /// Runs `kernel` on each PE of `launch`, as programs 0, 1, ... (SPMD), and waits for their end (HST-2). The caller has
    /// sent the launch command before.
    pub async fn run<K, F>(&self, launch: Launch<'_>, kernel: K) -> Result<Cause, RunError>
    where
        K: Fn(Tl) -> F,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let shape = GridShape::row(launch.pes.len());
        self.run_each(launch, &shape, kernel).await
    }

    /// Runs one program on each PE, in a grid of this shape.
    pub(super) async fn run_each<K, F>(
        &self,
        launch: Launch<'_>,
        shape: &GridShape,
        kernel: K,
    ) -> Result<Cause, RunError>
    where
        K: Fn(Tl) -> F,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let Launch { name, label, pes, cause, exclusive } = launch;
        assert!(pes.iter().all(|pe| pe.sip == self.sip), "HST-1: a launch stays within its SIP");
        let group = Group::new(name, shape, pes);
        if pes.is_empty() {
            return Ok(cause);
        }
        let ended = the_end_of(self.sim(), name, pes);
        let left = Rc::new(Cell::new((pes.len(), cause)));
        let mut programs = Vec::new();
        for (number, pe) in pes.iter().enumerate() {
            let program = Program::new(self.world.clone(), *pe, name, number, group.clone());
            let program = program.labelled(label.unwrap_or(name));
            program.caused_by(&cause.0);
            let program = if exclusive { program } else { program.in_background() };
            let tl = Tl::new(program);
            let body = run_program(self.world.clone(), *pe, tl.clone(), Box::pin(kernel(tl)));
            let (ended, left) = (ended.clone(), left.clone());
            let life = async move {
                let result = body.await;
                let (before, cause) = left.get();
                let later = result.as_ref().map_or(cause, |path| cause.later(Cause(*path)));
                left.set((before - 1, later));
                if !ended.is_set() && (result.is_err() || before == 1) {
                    ended.set(result.map(|_| later));
                }
            };
            programs.push(self.sim().spawn(group.name_on(*pe), life));
        }
        ended.wait().await
    }

    /// Discards the queues between failed programs on `pes` and other PEs of this SIP, so that the next programs start
    /// with empty queues.
    pub fn give_up_edges(&self, pes: &[PeId]) {
        let is_over = |name: &EdgeName| {
            let is_inside = [name.from, name.to].iter().all(|pe| pe.sip == self.sip);
            is_inside && (pes.contains(&name.from) || pes.contains(&name.to))
        };
        self.world.edges.borrow_mut().give_up(is_over);
    }

    /// Moves bytes over a route, and waits for the arrival of the last byte.
    async fn fly(&self, bytes: Bytes, route: Route, label: &'static str, cause: Cause) -> Cause {
        let now = self.sim().now();
        let mut path = cause.0;
        path.advance(now, Gap::Dependency);
        let after = Use::new(Resource::Host(self.sip), Kind::Link);
        let flight = Flight::new(bytes.0, now, path, after);
        let transfer = Rc::new(Transfer::new(PeId::first(self.sip), bytes.0, 1));
        let purpose = Purpose::Host(transfer.clone());
        {
            let sip = &mut *self.sip_mut();
            let number = sip.flights.issue(1);
            self.world.fly(sip, number, Journey { flight, route, purpose, label });
        }
        transfer.wait(self.sim()).await;
        Cause(transfer.path().get())
    }

    fn sip_mut(&self) -> std::cell::RefMut<'_, super::Sip> {
        self.world.sips[self.sip as usize].borrow_mut()
    }

    /// Writes a value to memory, now.
    fn put(&self, region: &Region, start: usize, value: Option<Value>) -> Result<(), MemoryError> {
        let Some(value) = value.filter(|_| self.has_data()) else { return Ok(()) };
        let mmu = &mut self.sip_mut().mmu;
        let translation = mmu.start_of(region).map_err(|error| *error)?;
        mmu.write(translation, start, value);
        Ok(())
    }

    /// Reads memory, now; `None` without data.
    fn get(&self, region: &Region, selected: &[Selection]) -> Result<Option<Value>, MemoryError> {
        if !self.has_data() {
            return Ok(None);
        }
        let mmu = &self.sip_mut().mmu;
        let mut pieces = vec![Value::zeros(region.dtype, 0)];
        for selection in selected {
            pieces.push(selection.read(mmu, region)?);
        }
        Ok(Some(Value::concat(&pieces)))
    }
}

/// A log entry: one request of a host to its SIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The SIP.
    pub sip: u32,
    /// Number of the request among those of its host.
    pub handle: u64,
    /// Kind of the request: `map`, `write`, `launch`, ...
    pub what: &'static str,
    /// Subject of the request: a tensor or a kernel.
    pub subject: String,
    /// Start time.
    pub asked: Time,
    /// End time.
    pub over: Time,
}

crate::portable!(struct Request { sip, handle, what, subject, asked, over });

impl Host {
    /// Logs a finished request, if the run records operations.
    pub fn log(&self, request: impl FnOnce() -> Request) {
        self.sip_mut().record.request(request);
    }
}

/// Returns the signal of the end of a kernel's programs.
pub(super) fn the_end_of<T: Clone>(sim: &Sim, name: &str, pes: &[PeId]) -> Signal<T> {
    let (name, pes): (Rc<str>, Rc<[PeId]>) = (name.into(), pes.into());
    Signal::explained(sim, move || Wait {
        what: format!("the end of `{name}`"),
        providers: pes.iter().map(|pe| format!("{name}@{pe}")).collect(),
    })
}
