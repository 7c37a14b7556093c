//! The host of a SIP: what a rank's program asks of its SIP, over its own host link.
//!
//! Commands and data share the wire to the SIP and come in order; what is read comes back on a wire of its own. That
//! an operation is over is known to the host at once: it is a side-band signal.
//!
//! - **HST-1 (own SIP).** A host touches its own SIP only (PAR-1).
//! - **HST-2 (first failure).** A launch ends when all of its programs have, or when the first of them fails; then
//!   the others are dropped, and the error names the one that failed.
//! - **HST-3 (in the background).** A launch that is not exclusive only moves data: its programs share the PE's engines
//!   with the one whose turn it is, wait for nobody's turn and hold up nobody's. The PE's time is not put down to them, and the
//!   scratch memory they take (up to what a PE has) is not taken from the program whose turn it is.

use super::{COMMAND, Machine, RunError, World, run_program};
use crate::executor::{JoinHandle, Partition, Sim};
use crate::ipcq::EdgeName;
use crate::kernel::{Group, KernelError, Program, Tl};
use crate::memory::{MemoryError, Region};
use crate::record::{Path, Resource};
use crate::signal::Signal;
use crate::spec::MachineSpec;
use crate::stall::Kind;
use crate::time::{Bytes, Time};
use crate::topology::PeId;
use crate::value::{DType, Evaluator, Value};
use crate::wire::{Flight, Turn};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// What led to an instant: handed from one operation to the next, it becomes the critical path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cause(Path);

impl Cause {
    pub(super) fn path(self) -> Path {
        self.0
    }

    /// The one of two that came later.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.0.at() > self.0.at() { other } else { self }
    }
}

/// A kernel to be launched: its name, where, and after what.
pub struct Launch<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its name in traces, if that is another.
    pub label: Option<&'a str>,
    /// One program on each of these, numbered in this order.
    pub pes: &'a [PeId],
    /// Whether each takes its PE's turn (HST-3).
    pub exclusive: bool,
    /// What led to it.
    pub cause: Cause,
}

/// A SIP as its host sees it.
#[derive(Clone)]
pub struct Host {
    pub(super) world: Rc<World>,
    pub(super) sip: u32,
}

impl Machine {
    /// The host of a SIP.
    pub fn host(&self, sip: u32) -> Host {
        Host { world: self.world.clone(), sip }
    }

    /// Starts a program on the host of a SIP when the machine runs.
    pub fn spawn<T: 'static>(
        &mut self,
        sip: u32,
        name: impl Into<String>,
        program: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.executor.spawn(Partition(sip), name, program)
    }

    /// Drops everything that is under way, so that a machine whose run failed can be used again: programs, messages
    /// and queues. Memory keeps what it holds, and time stays where it is.
    pub fn clear(&mut self) {
        self.executor.clear();
        *self.world.edges.borrow_mut() = crate::ipcq::Edges::default();
        *self.world.parcels.borrow_mut() = super::fabric::Parcels::default();
        self.world.turns.borrow_mut().clear();
        self.world.failures.borrow_mut().clear();
    }
}

impl Host {
    /// Which SIP.
    pub fn sip(&self) -> u32 {
        self.sip
    }

    /// The simulation it is part of.
    pub fn sim(&self) -> &Sim {
        &self.world.sim
    }

    /// The machine.
    pub fn spec(&self) -> &MachineSpec {
        &self.world.spec
    }

    /// Whether numbers are computed in this run.
    pub fn has_data(&self) -> bool {
        self.world.options.data
    }

    /// Who computes the numbers.
    pub fn evaluator(&self) -> &Arc<dyn Evaluator> {
        &self.world.options.evaluator
    }

    /// The PEs of its SIP.
    pub fn pes(&self) -> Vec<PeId> {
        let sip = self.world.sips[self.sip as usize].borrow();
        (0..sip.pes.len()).map(|index| sip.pe_id(self.sip, index)).collect()
    }

    /// Sets memory aside in a cube's HBM; the driver knows where without asking.
    pub fn reserve(&self, cube: u16, dtype: DType, elements: usize) -> Result<Region, MemoryError> {
        let sip = &mut *self.world.sips[self.sip as usize].borrow_mut();
        sip.mmu.map(&mut sip.cubes[cube as usize].memory, cube, dtype, elements)
    }

    /// Unmaps a region and releases what stood in it.
    pub fn free(&self, region: &Region) {
        debug_assert_eq!(region.sip, self.sip, "HST-1");
        let sip = &mut *self.world.sips[self.sip as usize].borrow_mut();
        sip.mmu.unmap(&mut sip.cubes[region.cube as usize].memory, region);
    }

    /// Puts a value into a region, as what stood there before the run began: it takes no time.
    pub fn place(&self, region: &Region, value: Value) -> Result<(), MemoryError> {
        self.put(region, 0, Some(value))
    }

    /// A command crosses the host link.
    pub async fn command(&self, label: &'static str, cause: Cause) -> Cause {
        let mut flight = self.flight(COMMAND, cause);
        self.down(&mut flight, label);
        self.arrive(flight).await
    }

    /// Writes `value` to a region from element `start` on: over the host link, into HBM.
    pub async fn write(
        &self,
        region: &Region,
        start: usize,
        value: Option<Value>,
        elements: usize,
        cause: Cause,
    ) -> Result<Cause, MemoryError> {
        let mut flight = self.flight(Bytes((elements * region.dtype.size()) as u64), cause);
        self.down(&mut flight, "write");
        self.memory(&mut flight, region.cube, "write");
        let cause = self.arrive(flight).await;
        self.put(region, start, value)?;
        Ok(cause)
    }

    /// Fills a region with `value`, which only a command has to cross the host link for.
    pub async fn fill(
        &self,
        region: &Region,
        value: Option<Value>,
        cause: Cause,
    ) -> Result<Cause, MemoryError> {
        let cause = self.command("fill", cause).await;
        let mut flight = self.flight(Bytes(region.bytes()), cause);
        self.memory(&mut flight, region.cube, "write");
        let cause = self.arrive(flight).await;
        self.put(region, 0, value)?;
        Ok(cause)
    }

    /// Reads elements of a region: from HBM, over the host link. `None` without data.
    pub async fn read(
        &self,
        region: &Region,
        start: usize,
        elements: usize,
        cause: Cause,
    ) -> Result<(Option<Value>, Cause), MemoryError> {
        let cause = self.command("read", cause).await;
        let value = self.get(region, start, elements)?;
        let mut flight = self.flight(Bytes((elements * region.dtype.size()) as u64), cause);
        self.memory(&mut flight, region.cube, "read");
        self.up(&mut flight, "read");
        let cause = self.arrive(flight).await;
        Ok((value, cause))
    }

    /// Runs `kernel` once on each PE of `launch`, as programs 0, 1, ... (SPMD), and waits for their end (HST-2). The
    /// command that starts them has crossed the host link before.
    pub async fn run<K, F>(&self, launch: Launch<'_>, kernel: K) -> Result<Cause, RunError>
    where
        K: Fn(Tl) -> F,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        let Launch { name, label, pes, cause, exclusive } = launch;
        assert!(pes.iter().all(|pe| pe.sip == self.sip), "HST-1: a launch stays within its SIP");
        let group = Group::new(name, pes.len());
        for pe in pes {
            group.join(*pe);
        }
        let names = pes.iter().map(|pe| format!("{name}@{pe}")).collect();
        let ended = Signal::described(self.sim(), format!("the end of `{name}`"), names);
        if pes.is_empty() {
            return Ok(cause);
        }
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
            programs.push(self.sim().spawn(format!("{name}@{pe}"), life));
        }
        ended.wait().await
    }

    /// Gives up what programs on `pes` that failed have left in the queues between them and other PEs of this SIP, so
    /// that whoever comes next finds these empty.
    pub fn give_up_edges(&self, pes: &[PeId]) {
        let is_over = |name: &EdgeName| {
            let is_inside = [name.from, name.to].iter().all(|pe| pe.sip == self.sip);
            is_inside && (pes.contains(&name.from) || pes.contains(&name.to))
        };
        self.world.edges.borrow_mut().give_up(is_over);
    }

    fn flight(&self, bytes: Bytes, cause: Cause) -> Flight {
        let now = self.sim().now();
        let mut path = cause.0;
        path.advance(now, Kind::Dependency);
        Flight::new(bytes.0, now, path)
    }

    /// Over the wire to the SIP.
    fn down(&self, flight: &mut Flight, label: &'static str) {
        let (spec, sip) = (self.world.spec.host, &mut *self.sip_mut());
        let turn = flight.pass(&mut sip.host, spec.bandwidth, spec.latency, Kind::Link);
        note(sip, turn, flight, Resource::Host(self.sip), label);
    }

    /// Over the wire back.
    fn up(&self, flight: &mut Flight, label: &'static str) {
        let (spec, sip) = (self.world.spec.host, &mut *self.sip_mut());
        let turn = flight.pass(&mut sip.upload, spec.bandwidth, spec.latency, Kind::Link);
        note(sip, turn, flight, Resource::Upload(self.sip), label);
    }

    /// Through a cube's HBM.
    fn memory(&self, flight: &mut Flight, cube: u16, label: &'static str) {
        let (spec, sip) = (self.world.spec.hbm, &mut *self.sip_mut());
        let wire = &mut sip.cubes[cube as usize].hbm;
        let turn = flight.pass(wire, spec.bandwidth, spec.latency, Kind::Dma);
        note(sip, turn, flight, Resource::Hbm(PeId { sip: self.sip, cube, pe: 0 }), label);
    }

    fn sip_mut(&self) -> std::cell::RefMut<'_, super::Sip> {
        self.world.sips[self.sip as usize].borrow_mut()
    }

    /// Waits until the last byte is there.
    async fn arrive(&self, flight: Flight) -> Cause {
        self.sim().sleep_until(flight.tail).await;
        let mut path = flight.path;
        path.advance(flight.tail, Kind::Link);
        Cause(path)
    }

    /// Puts a value into memory, now.
    fn put(&self, region: &Region, start: usize, value: Option<Value>) -> Result<(), MemoryError> {
        let Some(value) = value.filter(|_| self.has_data()) else { return Ok(()) };
        let mmu = &mut self.sip_mut().mmu;
        let translation = mmu.start_of(region).map_err(|error| *error)?;
        mmu.write(translation, start, value);
        Ok(())
    }

    /// What stands in memory, now; `None` without data.
    fn get(
        &self,
        region: &Region,
        start: usize,
        elements: usize,
    ) -> Result<Option<Value>, MemoryError> {
        if !self.has_data() {
            return Ok(None);
        }
        let mmu = &self.sip_mut().mmu;
        let translation = mmu.start_of(region).map_err(|error| *error)?;
        mmu.read(translation, start, elements).map(Some)
    }
}

/// Logs a turn and makes it part of what led here.
fn note(
    sip: &mut super::Sip,
    turn: Turn,
    flight: &mut Flight,
    resource: Resource,
    label: &'static str,
) {
    if turn.taken && turn.end >= flight.path.at() {
        let kind = if matches!(resource, Resource::Hbm(_)) { Kind::Dma } else { Kind::Link };
        sip.record.step(&mut flight.path, turn.end, kind, resource);
    }
    sip.log(turn, resource, label, flight.bytes);
}

/// One request of a host to its SIP, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The SIP.
    pub sip: u32,
    /// Its number among those of its host.
    pub handle: u64,
    /// What was asked for: `map`, `write`, `launch`, ...
    pub what: &'static str,
    /// Of what: a tensor, a kernel.
    pub subject: String,
    /// When the host asked.
    pub asked: Time,
    /// When it was over.
    pub over: Time,
}

impl Host {
    /// Notes a request that is over, if somebody wants the log.
    pub fn log(&self, request: impl FnOnce() -> Request) {
        self.sip_mut().record.request(request);
    }
}
