//! Messages that a switch copies to several receivers, or combines on their way to one (`system.sips.multicast` and `reduction`,
//! or those of a level).
//!
//! ```
//! use phalanx_sim::ipcq::EdgeSpec;
//! use phalanx_sim::kernel::{KernelError, Tl};
//! use phalanx_sim::topology::PeId;
//! use phalanx_sim::value::{Binary, DType};
//! /// Sums a number of every other SIP on `SIP 0`, and sends the sum to all.
//! async fn sum(tl: Tl) -> Result<(), KernelError> {
//!     let spec = EdgeSpec::default();
//!     let root = PeId::first(0);
//!     if tl.pe() == root {
//!         let others: Vec<PeId> = (1..tl.machine().devices()).map(PeId::first).collect();
//!         let reducer = tl.reducer(&others, 0, spec)?;
//!         let sum = tl.recv_reduced(&reducer, Binary::Add, DType::F32, 1).await?;
//!         tl.multicast(&tl.multicaster(&others, 0, spec)?, &sum).await;
//!     } else {
//!         let tile = tl.full(DType::F32, 1, 2.0)?;
//!         tl.send(&tl.contributor(root, 0, spec)?, &tile).await;
//!         let sum = tl.recv(&tl.multicast_receiver(root, 0, spec)?, DType::F32, 1).await?;
//!         assert_eq!(tl.item(&sum, 0)?, 6.0);
//!     }
//!     Ok(())
//! }
//! # use phalanx_sim::MachineSpec;
//! # use phalanx_sim::machine::{Machine, Options};
//! # let switch = ["system.sips.topology=switch", "system.sips.multicast={}", "system.sips.reduction={}"];
//! # let spec = MachineSpec::preset("bare")?.with_all(switch)?.with("system.sips.count=4")?;
//! # let mut machine = Machine::new(spec, Options::default());
//! # for sip in 0..4 {
//! #     machine.launch(sip, "sum", &[PeId::first(sip)], sum);
//! # }
//! # machine.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::messages::{Receiver, Sender, pieces};
use super::program::Program;
use super::tile::{Scratch, TileType};
use super::{KernelError, Shape, Tile, Tl};
use crate::executor::Wait;
use crate::ipcq::{Backpressure, BufferKind, EdgeName, EdgeSpec, InSwitch, Message};
use crate::stall::Kind;
use crate::topology::PeId;
use crate::value::{Binary, DType, Value};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The sending end of a multicast.
pub struct Multicaster {
    program: Rc<Program>,
    group: u32,
    leader: u32,
    slot_size: u64,
}

/// The receiving end of a reduction; it holds the memory of its slots until it is dropped.
pub struct Reducer {
    program: Rc<Program>,
    edges: Rc<[u32]>,
    _slots: Scratch,
}

impl Tl {
    /// Opens the sending end of a multicast to PEs of other SIPs, one a SIP.
    ///
    /// # Errors
    ///
    /// [`KernelError::BadEdge`] if no switch between the SIPs copies messages, or if the edge cannot work.
    pub fn multicaster(
        &self,
        to: &[PeId],
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Multicaster, KernelError> {
        let name = |to: &PeId| edge_in_switch((self.pe(), *to), InSwitch::Multicast, channel);
        self.check_in_switch(&to.iter().map(name).collect::<Vec<_>>(), &spec)?;
        let channel = InSwitch::Multicast.channel(channel);
        let senders: Result<Vec<Sender>, KernelError> =
            to.iter().map(|to| self.sender_on(*to, channel, spec)).collect();
        let edges: Vec<u32> = senders?.iter().map(Sender::edge).collect();
        let program = self.program().clone();
        let group = program.world().group(&edges);
        Ok(Multicaster { program, group, leader: edges[0], slot_size: spec.slot_size })
    }

    /// Opens the receiving end of a multicast from `from`; [`Tl::recv`] receives.
    ///
    /// # Errors
    ///
    /// As [`Tl::multicaster`].
    pub fn multicast_receiver(
        &self,
        from: PeId,
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Receiver, KernelError> {
        let name = edge_in_switch((from, self.pe()), InSwitch::Multicast, channel);
        self.check_in_switch(&[name], &spec)?;
        self.receiver_on(from, name.channel, spec)
    }

    /// Opens the sending end of a reduction to `to`; [`Tl::send`] sends.
    ///
    /// # Errors
    ///
    /// [`KernelError::BadEdge`] if no switch between the SIPs combines messages, or if the edge cannot work.
    pub fn contributor(
        &self,
        to: PeId,
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Sender, KernelError> {
        let name = edge_in_switch((self.pe(), to), InSwitch::Reduction, channel);
        self.check_in_switch(&[name], &spec)?;
        self.sender_on(to, name.channel, spec)
    }

    /// Opens the receiving end of a reduction from PEs of other SIPs, one a SIP, in the order in which their values are
    /// combined.
    ///
    /// # Errors
    ///
    /// As [`Tl::contributor`].
    pub fn reducer(
        &self,
        from: &[PeId],
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Reducer, KernelError> {
        let name = |from: &PeId| edge_in_switch((*from, self.pe()), InSwitch::Reduction, channel);
        let names: Vec<EdgeName> = from.iter().map(name).collect();
        self.check_in_switch(&names, &spec)?;
        let bytes = spec.slot_size.saturating_mul(spec.n_slots.into());
        let slots = Scratch::take(self.program(), bytes, &format!("{spec} to reduce in"))?;
        let edges: Result<Vec<u32>, KernelError> =
            names.iter().map(|name| self.open_receiver(*name, spec)).collect();
        let (edges, program) = (edges?, self.program().clone());
        let group = program.world().group(&edges);
        // Contributions may have come before their receiver.
        program.world().combine_rounds(group);
        Ok(Reducer { program, edges: edges.into(), _slots: slots })
    }

    /// Sends a tile to all receivers of a multicast; await the result to wait until the message has left.
    pub fn multicast(&self, to: &Multicaster, tile: &Tile) -> Multicasting {
        let mut last = 0;
        for (body, following) in pieces(tile, to.slot_size) {
            let path = to.program.path_cell();
            last = to.program.world().post_multicast(to.group, &body, following, path);
        }
        Multicasting { program: to.program.clone(), edge: to.leader, last }
    }

    /// Receives a tile of `dtype` and `shape` from every sender of a reduction, combined by `op`.
    pub fn recv_reduced(
        &self,
        from: &Reducer,
        op: Binary,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Reducing {
        let (program, expected) = (from.program.clone(), TileType::new(dtype, shape.into()));
        Reducing { program, edges: from.edges.clone(), op, expected, parts: Vec::new(), bytes: 0 }
    }

    /// Checks that a switch does what the edges of a group want of it.
    fn check_in_switch(&self, names: &[EdgeName], spec: &EdgeSpec) -> Result<(), KernelError> {
        let world = self.program().world();
        let own = EdgeName { from: self.pe(), to: self.pe(), channel: 0 };
        let Some(first) = names.first().copied() else {
            return Err(KernelError::BadEdge { edge: own, reason: "it needs another end" });
        };
        let is_known = |sip: u32| sip < world.spec.devices();
        let mut sips = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for name in names {
            let EdgeName { from, to, .. } = *name;
            let far = if from == self.pe() { to.sip } else { from.sip };
            let hop = (is_known(from.sip) && is_known(to.sip) && from.sip != to.sip)
                .then(|| world.network.hop_in_switch(from.sip, to.sip, name.in_switch()))
                .flatten();
            let Some(hop) = hop else {
                let reason = match name.in_switch() {
                    InSwitch::Reduction => "no switch between its ends combines messages",
                    _ => "no switch between its ends copies messages",
                };
                return Err(KernelError::BadEdge { edge: *name, reason });
            };
            ports.insert(hop.port);
            if !sips.insert(far) {
                let reason = "a switch has one port for each SIP";
                return Err(KernelError::BadEdge { edge: *name, reason });
            }
        }
        let reason = if ports.len() > 1 {
            "one switch must have all its ends"
        } else if spec.buffer_kind != BufferKind::Tcm {
            "its slots must be in TCM"
        } else if spec.backpressure != Backpressure::Sleep {
            "its sender must sleep without a credit"
        } else {
            return Ok(());
        };
        Err(KernelError::BadEdge { edge: first, reason })
    }
}

fn edge_in_switch((from, to): (PeId, PeId), what: InSwitch, channel: u32) -> EdgeName {
    EdgeName { from, to, channel: what.channel(channel) }
}

/// A multicast in progress: await it to wait until the message has a slot at every receiver and has left.
pub struct Multicasting {
    program: Rc<Program>,
    edge: u32,
    last: u64,
}

impl Future for Multicasting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let program = &*self.program;
        let world = program.world();
        let edges = &mut *world.edges.borrow_mut();
        let leader = &mut edges.list[self.edge as usize];
        if leader.launched() >= self.last {
            program.waited(Kind::Credit, &leader.last_wait);
            return Poll::Ready(());
        }
        leader.sender = Some(program.sim().task());
        let group = leader.switch.group;
        program.sim().waiting(|| {
            let lacking = world.lacking(edges, group);
            let first = lacking.first().map_or_else(String::new, |edge| edge.name.to_string());
            let providers = lacking.iter().map(|edge| edge.receiver_process());
            let what = format!("a credit of each receiver of a multicast, first on {first}");
            Wait { what, providers: providers.collect() }
        });
        Poll::Pending
    }
}

/// A reduction in progress: await it for its tile.
#[must_use = "does nothing unless awaited"]
pub struct Reducing {
    program: Rc<Program>,
    edges: Rc<[u32]>,
    op: Binary,
    expected: TileType,
    /// The pieces of a message that takes several slots, and their bytes.
    parts: Vec<Option<Value>>,
    bytes: u64,
}

impl Unpin for Reducing {}

impl Future for Reducing {
    type Output = Result<Tile, KernelError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let round = match self.take_round() {
                Ok(Some(round)) => round,
                Ok(None) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            };
            self.bytes += round.bytes;
            if round.following == 0 && self.parts.is_empty() {
                return Poll::Ready(self.finish(round.value));
            }
            self.program.world().release(self.edges[0], &self.program.path());
            self.parts.push(round.value);
            if round.following == 0 {
                return Poll::Ready(self.assemble());
            }
        }
    }
}

/// The combined messages of one round.
struct Round {
    bytes: u64,
    following: u32,
    value: Option<Value>,
}

impl Reducing {
    /// Takes the next round from the slots of all senders, or registers to be resumed by it.
    fn take_round(&self) -> Result<Option<Round>, KernelError> {
        let now = self.program.sim().now();
        let edges = &mut *self.program.world().edges.borrow_mut();
        let leader = &mut edges.list[self.edges[0] as usize];
        let Some(message) = leader.front() else {
            leader.receiver = Some(self.program.sim().task());
            self.program.sim().waiting(|| self.describe(edges));
            return Ok(None);
        };
        self.note(message);
        let mut round = Round { bytes: message.bytes, following: message.following, value: None };
        for (position, number) in self.edges.iter().enumerate() {
            let edge = &mut edges.list[*number as usize];
            if position > 0 {
                edge.arrive(now);
            }
            let Some(message) = edge.front() else { unreachable!("ISW-2: a round is whole") };
            let (bytes, following) = (message.bytes, message.following);
            let value = message.value.take();
            edge.take();
            let is_alike = (bytes, following) == (round.bytes, round.following);
            if !edge.traits.agreed {
                let specs = Box::new((edge.spec, edge.ends.receiver_spec));
                return Err(KernelError::EdgeMismatch { edge: edge.name, specs });
            }
            if !is_alike || value.as_ref().is_some_and(|value| value.dtype() != self.expected.dtype)
            {
                let got = value.map_or_else(|| format!("{bytes} B"), |value| type_of(&value));
                return Err(self.wrong(edge.name, got));
            }
            round.value = match (round.value.take(), value) {
                (Some(sum), Some(value)) => Some(Value::binary(self.op, &sum, &value)),
                (None, value) => value,
                (sum, None) => sum,
            };
        }
        Ok(Some(round))
    }

    /// Accounts for the time of the wait, as a receive does.
    fn note(&self, message: &Message) {
        let parts = [
            (message.posted, Kind::Dependency),
            (message.granted, Kind::Credit),
            (message.arrived, Kind::Link),
        ];
        self.program.waited_for(&parts, &message.path);
    }

    fn describe(&self, edges: &crate::ipcq::Edges) -> Wait {
        let missing = |number: &&u32| {
            let edge = &edges.list[**number as usize];
            edge.in_flight + edge.arrived == 0
        };
        let missing: Vec<&u32> = self.edges.iter().filter(missing).collect();
        let (count, pe) = (self.edges.len(), self.program.pe());
        let providers =
            missing.iter().map(|number| edges.list[**number as usize].sender_process()).collect();
        let what =
            format!("a reduction of {count} messages at {pe}, {} of them not sent", missing.len());
        Wait { what, providers }
    }

    /// Gives the kernel a tile in the slot of the combined message.
    fn finish(&self, value: Option<Value>) -> Result<Tile, KernelError> {
        if let Err(error) = self.check(value.as_ref()) {
            self.program.world().release(self.edges[0], &self.program.path());
            return Err(error);
        }
        Ok(Tile::in_slot(&self.program, self.expected, value, self.edges[0]))
    }

    /// Joins the pieces of a message of several slots, in scratch.
    fn assemble(&mut self) -> Result<Tile, KernelError> {
        let parts: Option<Vec<Value>> = std::mem::take(&mut self.parts).into_iter().collect();
        let value = parts.map(|parts| Value::concat(&parts));
        self.check(value.as_ref())?;
        let TileType { dtype, shape, .. } = self.expected;
        Tile::in_scratch(&self.program, dtype, shape, value, "a reduction").map_err(|error| *error)
    }

    fn check(&self, value: Option<&Value>) -> Result<(), KernelError> {
        let is_whole = value.is_none_or(|value| value.len() == self.expected.shape.elements());
        if self.bytes == self.expected.bytes && is_whole {
            return Ok(());
        }
        let name = self.program.world().edges.borrow().list[self.edges[0] as usize].name;
        let got = value.map_or_else(|| format!("{} B", self.bytes), type_of);
        Err(self.wrong(name, got))
    }

    fn wrong(&self, edge: EdgeName, got: String) -> KernelError {
        let expected = format!("{}{}", self.expected.dtype, self.expected.shape);
        KernelError::WrongMessage { edge, expected, got }
    }
}

fn type_of(value: &Value) -> String {
    format!("{}[{}]", value.dtype(), value.len())
}
