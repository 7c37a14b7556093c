//! A simulated machine: hardware, memory and queues over one executor, and the kernels launched on it.
//!
//! - **MCH-1 (credits home).** A run that ends with an unread message or a missing credit is an error (IPC-3).
//! - **MCH-2 (first failure).** A failing kernel ends the run at that instant; the error names the kernel.
//! - **MCH-3 (same time without data).** Simulated times are the same with and without data.

mod cache;
mod cached;
mod channel;
mod credits;
mod exits;
mod fabric;
mod flights;
mod grid;
mod host;
mod in_switch;
mod launching;
mod noc;
mod packet;
mod range;
mod roots;
mod selection;
mod shards;
mod sip;
mod transfer;

pub(crate) use cache::BlockKey;
pub(crate) use channel::{Ask, Piece};
pub use host::{Cause, Host, Launch, Request};
pub(crate) use noc::Route;
pub use range::HostRange;
pub use selection::Selection;
pub(crate) use shards::Crossing;
#[cfg(test)]
pub(crate) use shards::SipNotes;
use sip::NewNode;
pub(crate) use sip::{Engine, Sip};
pub(crate) use transfer::{Transfer, Transfers};

use crate::credit::Semaphore;
use crate::exchange::Exchange;
use crate::executor::{Deadlock, DeviceId, Ended, Executor, Partition, PartitionOrder, Sim};
use crate::ipcq::{EdgeName, Edges};
use crate::kernel::{GridShape, Group, KernelError, Program, SourceLine, Tl};
use crate::memory::{MemoryError, Region};
use crate::record::{Path, Room};
use crate::report::Report;
use crate::spec::{MachineSpec, WireSpec};
use crate::time::{Bytes, Rate, Time};
use crate::topology::{Network, PeId};
use crate::value::{DType, Evaluator, Inline, Value};
use crate::wire::is_free;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// The options of a run.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "four settings that do not depend on each other")]
pub struct Options {
    /// True if the run computes data; a run without data gives the same times.
    pub data: bool,
    /// True if reading unwritten memory is an error; otherwise unwritten memory reads as NaN.
    pub strict: bool,
    /// True if every operation is written to the op log.
    pub record: bool,
    /// True if the report tells of the critical path, as that of a recorded run always does. A run keeps no steps for it
    /// unless it is asked to: that takes time and memory, the more the larger the machine (REC-5).
    pub critical_path: bool,
    /// Number of steps after which steps of the critical path are folded, unless the run is recorded. It changes the
    /// memory that a run takes, and no report.
    pub steps: usize,
    /// Evaluator of the data.
    pub evaluator: Arc<dyn Evaluator>,
    /// Order in which partitions take their turns; every order gives the same run.
    pub partition_order: PartitionOrder,
    /// A question that is asked after every window of simulated time: a run ends with [`RunError::Interrupted`] when the
    /// answer is true.
    pub interrupt: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// The way to the other shards, if the run has several: see [`exchange`](crate::exchange).
    pub exchange: Option<Arc<dyn Exchange>>,
}

/// Steps of the critical path that take 32 MiB. A fold of many SIPs costs some tenths of the time that its steps took, so
/// that common runs end before the first one.
const STEPS: usize = 1 << 20;

impl Default for Options {
    fn default() -> Self {
        Self {
            data: true,
            strict: true,
            record: false,
            critical_path: false,
            steps: STEPS,
            evaluator: Arc::new(Inline),
            partition_order: PartitionOrder::Queued,
            interrupt: None,
            exchange: None,
        }
    }
}

impl Options {
    /// Computes values now; false if the run is interrupted meanwhile.
    pub(crate) fn force(&self, values: &[Value]) -> bool {
        match &self.interrupt {
            None => self.evaluator.force_while(values, &|| true),
            Some(interrupt) => self.evaluator.force_while(values, &|| !interrupt()),
        }
    }

    /// True if the run must end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt())
    }

    /// True if the run keeps the steps of its critical path.
    pub(crate) fn has_critical_path(&self) -> bool {
        self.critical_path || self.record
    }
}

/// The failure of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No event is left, and processes are unfinished.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// A kernel failed.
    #[error("kernel `{kernel}` on {pe} failed at {time}: {error}{}", place(line.as_deref()))]
    Kernel {
        /// Name of the kernel.
        kernel: String,
        /// PE of the failing program.
        pe: PeId,
        /// Time of the failure.
        time: Time,
        /// Cause of the failure.
        error: KernelError,
        /// The line of the kernel that asked for the operation that failed (KRN-6).
        line: Option<Box<SourceLine>>,
    },
    /// Simulated time ended before the run did.
    #[error("the run takes more than {} days of simulated time, which is all there is", Time::MAX.as_ps() / PS_PER_DAY)]
    TooLong,
    /// [`Options::interrupt`] ended the run.
    #[error("the run was interrupted at {0}")]
    Interrupted(Time),
    /// A message is unread, or a credit is missing, at the end of the run (MCH-1).
    #[error("{} left unread on {edge} ({away} of {slots} credits not home)", messages(*unread))]
    CreditsAway {
        /// The edge.
        edge: EdgeName,
        /// Number of unread messages.
        unread: usize,
        /// Number of missing credits.
        away: u32,
        /// Number of all credits.
        slots: u32,
        /// Topic of the sender's last message.
        about: Option<String>,
    },
}

crate::portable!(enum RunError {
    0 => Deadlock(deadlock),
    1 => Kernel { kernel, pe, time, error, line },
    2 => TooLong,
    3 => Interrupted(time),
    4 => CreditsAway { edge, unread, away, slots, about },
});

/// Picoseconds in a day.
const PS_PER_DAY: u64 = 86_400 * 1_000_000_000_000;

/// A place in a program, in words.
fn place(line: Option<&SourceLine>) -> String {
    line.map_or_else(String::new, |line| format!(" ({}:{})", line.file(), line.line()))
}

fn messages(count: usize) -> String {
    if count == 1 { "1 message".into() } else { format!("{count} messages") }
}

/// The state of a machine, shared by all programs and devices.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) spec: MachineSpec,
    pub(crate) network: Network,
    pub(crate) options: Options,
    /// The SIPs, and behind them the stations of the network, which have no cubes.
    pub(crate) sips: Vec<RefCell<Sip>>,
    pub(crate) edges: RefCell<Edges>,
    /// The ways of messages out of their SIPs, by the number of their edge.
    exits: RefCell<Vec<exits::Exit>>,
    packets: RefCell<packet::Packets>,
    /// The edges of each multicast and of each reduction.
    groups: RefCell<Vec<in_switch::EdgeGroup>>,
    fabric: Cell<Option<DeviceId>>,
    pub(crate) launched: Launched,
    early: Early,
    pub(crate) costs: Costs,
    pub(crate) room: Rc<Room>,
    /// The part of the run that this machine has, if there are others.
    shards: Option<Box<shards::Shards>>,
}

/// The programs that were launched on a machine.
#[derive(Default)]
pub(crate) struct Launched {
    pub(crate) programs: RefCell<roots::Programs>,
    /// A semaphore for each used PE, which runs one program at a time.
    turns: RefCell<BTreeMap<PeId, Semaphore>>,
    failures: RefCell<Vec<Failure>>,
    /// The program that ended last, and its critical path.
    pub(crate) last: RefCell<Option<(Time, PeId, Path)>>,
}

/// Permissions to do work before time has moved to it (WIR-5).
struct Early {
    /// True if memories may serve flights before their arrival.
    serves: Cell<bool>,
    /// True if messages may leave before their arrival at the port: nothing else takes ports.
    departs: Cell<bool>,
}

/// Costs of the machine, in the form that its parts use.
pub(crate) struct Costs {
    pub(crate) zero: ZeroCost,
    /// The memory of a cube as data sees it.
    hbm: WireSpec,
    /// The rate of the matrix engine for each type of [`DType::ALL`].
    pub(crate) products: [Rate; DType::ALL.len()],
}

/// A failed program.
#[derive(Clone)]
struct Failure {
    time: Time,
    pe: PeId,
    error: RunError,
}

crate::portable!(struct Failure { time, pe, error });

/// The parts of the machine that take no time.
pub(crate) struct ZeroCost {
    /// The path of a message from scratch to the link.
    send: bool,
    /// The path of a message from the link to scratch.
    receive: bool,
    /// Loads and stores; they are then not logged.
    pub(crate) memory: bool,
}

impl ZeroCost {
    fn new(spec: &MachineSpec) -> Self {
        let mesh = is_free(&spec.pes.link) && is_free(&spec.cubes.link);
        let dma = is_free(&spec.dma.wire());
        let cache = spec.cache.is_none_or(|cache| is_free(&cache.wire()));
        let memory = mesh && dma && cache && is_free(&spec.hbm.wire());
        Self { send: mesh && dma, receive: mesh, memory }
    }
}

/// A simulated machine.
///
/// ```
/// use phalanx_sim::{MachineSpec, machine::{Machine, Options}, Time};
/// let bare = MachineSpec::preset("bare").unwrap();
/// let mut machine = Machine::new(bare, Options::default());
/// machine.launch(0, "nap", &machine.pes(0), |tl| async move {
///     tl.compute(Time::ns(5)).await;
///     Ok(())
/// });
/// assert_eq!(machine.run().unwrap().simulated, Time::ns(5));
/// ```
pub struct Machine {
    executor: Executor,
    world: Rc<World>,
}

impl Machine {
    /// Builds a machine.
    pub fn new(spec: MachineSpec, options: Options) -> Self {
        let network = Network::new(&spec);
        let nodes = network.nodes();
        let mut executor = Executor::new(nodes);
        executor.set_partition_order(options.partition_order);
        if let Some(latency) = network.lookahead() {
            executor.set_lookahead(latency);
        }
        let has_path = options.has_critical_path();
        let room = if has_path { Room::new(options.steps, nodes) } else { Room::none() };
        let room = Rc::new(room);
        let others = options.exchange.as_ref().filter(|exchange| exchange.shards() > 1);
        let shards = others.map(|exchange| shards::Shards::new(exchange, spec.devices(), nodes));
        let is_mirror = others.is_some_and(|exchange| exchange.is_mirror());
        // Nothing happens inside the SIPs that a mirror stands for.
        let is_hollow = |sip| is_mirror && shards.as_ref().is_some_and(|shards| !shards.owns(sip));
        let sips = (0..nodes)
            .map(|number| {
                let node = NewNode { number, nodes, is_hollow: is_hollow(number) };
                RefCell::new(Sip::new(node, &spec, &options, &room))
            })
            .collect();
        if is_mirror {
            executor.watch_ties();
        }
        let world = Rc::new(World {
            sim: executor.sim(),
            network,
            sips,
            edges: RefCell::default(),
            exits: RefCell::default(),
            packets: RefCell::default(),
            groups: RefCell::default(),
            fabric: Cell::new(None),
            launched: Launched::default(),
            early: Early {
                // Data of the host crosses the host link first, which takes no less than the DMA. A log has the order of arrival.
                serves: Cell::new(spec.host.latency >= spec.dma.latency && !options.record),
                departs: Cell::new(shards.is_none() && !options.record),
            },
            costs: Costs {
                zero: ZeroCost::new(&spec),
                hbm: spec.hbm.wire(),
                products: DType::ALL.map(|dtype| spec.gemm.rate_of(dtype)),
            },
            room,
            shards: shards.map(Box::new),
            options,
            spec,
        });
        world.fabric.set(Some(executor.sim().register(world.clone())));
        if world.shards.is_some() {
            executor.set_peers(world.clone());
        }
        Self { executor, world }
    }

    /// Returns the specification of the machine.
    pub fn spec(&self) -> &MachineSpec {
        &self.world.spec
    }

    /// Returns all PEs of a SIP.
    pub fn pes(&self, sip: u32) -> Vec<PeId> {
        let sip_state = self.world.sips[sip as usize].borrow();
        (0..sip_state.pes.len()).map(|index| sip_state.pe_id(sip, index)).collect()
    }

    /// Maps unwritten memory in a cube's HBM.
    pub fn empty(
        &self,
        sip: u32,
        cube: u16,
        dtype: DType,
        elements: usize,
    ) -> Result<Region, MemoryError> {
        let sip = &mut *self.world.sips[sip as usize].borrow_mut();
        sip.mmu.map(&mut sip.cubes[cube as usize].memory, cube, dtype, elements)
    }

    /// Maps zeroed memory in a cube's HBM.
    pub fn zeros(
        &self,
        sip: u32,
        cube: u16,
        dtype: DType,
        elements: usize,
    ) -> Result<Region, MemoryError> {
        self.resident(sip, cube, Value::zeros(dtype, elements))
    }

    /// Maps memory that holds `value` when the run begins.
    pub fn resident(&self, sip: u32, cube: u16, value: Value) -> Result<Region, MemoryError> {
        let region = self.empty(sip, cube, value.dtype(), value.len())?;
        if self.world.options.data {
            let mmu = &mut self.world.sips[sip as usize].borrow_mut().mmu;
            let start = mmu.start_of(&region).map_err(|error| *error)?;
            mmu.write(start, 0, value);
        }
        Ok(region)
    }

    /// Unmaps a region and drops its content.
    pub fn free(&self, region: &Region) {
        let sip = &mut *self.world.sips[region.sip as usize].borrow_mut();
        sip.mmu.unmap(&mut sip.cubes[region.cube as usize].memory, region);
        if let Some(cache) = &mut sip.cache {
            cache.blocks.forget(region.address, region.address + region.bytes());
        }
    }

    /// Returns the content of a region of an own SIP; `None` without data.
    pub fn read(&self, region: &Region) -> Result<Option<Value>, MemoryError> {
        if !self.world.options.data {
            return Ok(None);
        }
        let mmu = &self.world.sips[region.sip as usize].borrow().mmu;
        let start = mmu.start_of(region).map_err(|error| *error)?;
        mmu.read(start, 0, region.elements).map(Some)
    }

    /// Launches `kernel` on each of `pes`, all of one SIP, as programs 0, 1, ... (SPMD). The launch command crosses the
    /// host link first. A PE runs one program at a time. The shard of the SIP launches; the others do nothing.
    pub fn launch<K, F>(&mut self, sip: u32, name: &str, pes: &[PeId], kernel: K)
    where
        K: Fn(Tl) -> F + 'static,
        F: Future<Output = Result<(), KernelError>> + 'static,
    {
        assert!(pes.iter().all(|pe| pe.sip == sip), "a launch stays within its SIP (PAR-1)");
        if !self.owns(sip) {
            return;
        }
        let (world, name, pes) = (self.world.clone(), name.to_owned(), pes.to_vec());
        let host = format!("host{sip}");
        self.executor
            .spawn(Partition(sip), host, async move {
                let host = Host { world: world.clone(), sip };
                let cause = host.command("command", Cause::default()).await;
                let group = Group::new(&name, &GridShape::row(pes.len()), &pes);
                for (number, pe) in pes.into_iter().enumerate() {
                    let program = Program::new(world.clone(), pe, &name, number, group.clone());
                    program.caused_by(&cause.path());
                    let tl = Tl::new(program);
                    let life = run_program(world.clone(), pe, tl.clone(), Box::pin(kernel(tl)));
                    let of_all = world.clone();
                    let program = async move {
                        if let Err(error) = life.await {
                            of_all.fail(pe, error);
                        }
                    };
                    world.sim.spawn(group.name_on(pe), program).detach();
                }
            })
            .detach();
    }

    /// Runs all launched kernels to their end and returns the report.
    pub fn run(&mut self) -> Result<Report, RunError> {
        self.drive()?;
        Ok(self.report())
    }

    /// Returns a report of the run so far. A second call without a run between returns the same (REC-4).
    pub fn report(&self) -> Report {
        Report::new(&self.world)
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Time {
        self.world.sim.now()
    }

    /// True if the numbers of SIPs have decided the order of two events of one instant: then a run with a
    /// [`Mirror`](crate::exchange::Mirror) is not that of all (MIR-1). Only such a run looks for it.
    pub fn has_ties(&self) -> bool {
        self.executor.has_ties()
    }

    /// Returns the busy time of the busiest engine, wire or memory so far.
    pub fn busiest(&self) -> Time {
        let busiest = |(number, sip): (u32, &RefCell<Sip>)| {
            sip.borrow().wires(number).iter().map(|(_, wire)| wire.busy).max()
        };
        (0..).zip(&self.world.sips).filter_map(busiest).max().unwrap_or_default()
    }

    /// Runs until no event is left, without a report.
    pub fn drive(&mut self) -> Result<(), RunError> {
        let is_complete = self.advance()?;
        if is_complete { self.world.check_credits_together() } else { Ok(()) }
    }

    /// Runs until no event is left, a process stops the run ([`Sim::stop`], [`Sim::stop_here`]) or the run is interrupted.
    /// The next call continues. Returns true if no event is left.
    pub fn advance(&mut self) -> Result<bool, RunError> {
        let ended = match &self.world.options.interrupt {
            None => self.executor.run(|| false),
            Some(interrupt) => self.executor.run(&**interrupt),
        };
        match self.checked(ended)? {
            Ended::Complete => Ok(true),
            Ended::Stopped => Ok(false),
            Ended::Interrupted => Err(RunError::Interrupted(self.now())),
        }
    }

    /// Runs while `goes_on` returns true for the simulated time; it is asked after every window, in place of [`Options::interrupt`].
    /// Returns true if no event is left.
    pub fn advance_while(&mut self, goes_on: impl Fn(Time) -> bool) -> Result<bool, RunError> {
        let sim = self.world.sim.clone();
        let ended = self.executor.run(|| !goes_on(sim.now()));
        Ok(matches!(self.checked(ended)?, Ended::Complete))
    }

    /// The end of a run, or the first failure in it.
    fn checked(&mut self, ended: Result<Ended, Deadlock>) -> Result<Ended, RunError> {
        let (ended, deadlock) = match ended {
            Ok(ended) => (ended, self.end_together(None)),
            Err(deadlock) => (Ended::Complete, self.end_together(Some(deadlock))),
        };
        if self.world.sim.has_overflowed() {
            return Err(RunError::TooLong);
        }
        if let Some(failure) = self.world.first_failure() {
            return Err(failure.error);
        }
        if let Some(deadlock) = deadlock {
            return Err(deadlock.into());
        }
        Ok(ended)
    }
}

/// Size of a launch command.
const COMMAND: Bytes = Bytes(64);

impl World {
    pub(crate) fn partition(sip: u32) -> Partition {
        Partition(sip)
    }

    fn turn_on(&self, pe: PeId) -> Semaphore {
        let mut turns = self.launched.turns.borrow_mut();
        turns.entry(pe).or_insert_with(|| Semaphore::new(&self.sim, pe.to_string(), 1)).clone()
    }

    /// Ends the run after the failure of a program on `pe` (MCH-2).
    fn fail(&self, pe: PeId, error: RunError) {
        self.launched.failures.borrow_mut().push(Failure { time: self.sim.now(), pe, error });
        self.sim.stop();
    }

    fn first_failure(&self) -> Option<Failure> {
        let failures = self.launched.failures.borrow();
        failures.iter().min_by_key(|failure| (failure.time, failure.pe)).cloned()
    }

    fn check_credits(&self) -> Result<(), RunError> {
        let edges = self.edges.borrow();
        let Some(edge) = edges.sorted().find(|edge| !edge.is_home()) else { return Ok(()) };
        Err(RunError::CreditsAway {
            edge: edge.name,
            unread: edge.messages.len(),
            away: edge.away(),
            slots: edge.spec.n_slots,
            about: edge.last_topic().map(ToString::to_string),
        })
    }
}

/// Runs one program: waits for the PE, runs the kernel, and waits for its stores.
///
/// The kernel is boxed: a future that holds another by value holds it twice, before and while it is awaited.
async fn run_program(
    world: Rc<World>,
    pe: PeId,
    tl: Tl,
    kernel: Pin<Box<impl Future<Output = Result<(), KernelError>>>>,
) -> Result<Path, RunError> {
    let semaphore = tl.program().is_exclusive().then(|| world.turn_on(pe));
    let _turn = match &semaphore {
        Some(semaphore) => Some(semaphore.acquire().await),
        None => None,
    };
    run_kernel(world, pe, tl, kernel).await
}

/// Runs the kernel of a program whose turn it is on the PE, and waits for its stores.
async fn run_kernel(
    world: Rc<World>,
    pe: PeId,
    tl: Tl,
    kernel: Pin<Box<impl Future<Output = Result<(), KernelError>>>>,
) -> Result<Path, RunError> {
    let program = tl.program().clone();
    drop(tl);
    program.start();
    match kernel.await.and_then(|()| program.refused_store().map_or(Ok(()), Err)) {
        Ok(()) => {
            program.drain().await;
            Ok(program.end())
        }
        Err(error) => {
            let (kernel, time) = (program.name().to_owned(), world.sim.now());
            let line = program.line_of(&error).map(|line| Box::new(SourceLine::from(line)));
            Err(RunError::Kernel { kernel, pe, time, error, line })
        }
    }
}
