//! Sending and receiving over inter-PE queues.
//!
//! The tile of a message that fits a slot stays in the slot; dropping the tile frees the slot and sends the credit home. A
//! longer message takes several slots; the receiver assembles it in scratch and frees each slot at its arrival.

use super::program::Program;
use super::tile::{Scratch, TileType};
use super::{KernelError, Loading, Shape, Tile, Tl};
use crate::executor::Wait;
use crate::ipcq::{
    Backpressure, BufferKind, Edge, EdgeName, EdgeSpec, InSwitch, Message, MessageBody, Topic,
};
use crate::machine::World;
use crate::record::{Op, Resource};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::value::{DType, Value};
use std::num::NonZeroU64;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The sending end of an edge.
#[derive(Clone)]
pub struct Sender {
    program: Rc<Program>,
    edge: u32,
    slot_size: u64,
}

/// The receiving end of an edge; it holds the memory of its slots until it is dropped.
pub struct Receiver {
    program: Rc<Program>,
    edge: u32,
    in_hbm: bool,
    _slots: Slots,
}

impl Sender {
    /// Sets the topic of the messages sent from now on; see [`Topic`].
    pub fn about(&self, topic: &Topic) {
        self.program.world().edges.borrow_mut().list[self.edge as usize].set_topic(topic.clone());
    }
}

impl Sender {
    /// Returns the number of the edge.
    pub(super) fn edge(&self) -> u32 {
        self.edge
    }
}

impl Receiver {
    /// Returns the topic of the message received last, if its sender has set one.
    pub fn topic(&self) -> Option<Topic> {
        self.program.world().edges.borrow_mut().list[self.edge as usize].topic().cloned()
    }
}

/// The memory of slots.
#[expect(dead_code, reason = "held for their destructors")]
enum Slots {
    Scratch(Scratch),
    Hbm(HbmSlots),
}

struct HbmSlots {
    world: Rc<World>,
    pe: PeId,
    physical: u64,
    bytes: u64,
}

impl Drop for HbmSlots {
    fn drop(&mut self) {
        let mut sip = self.world.sips[self.pe.sip as usize].borrow_mut();
        sip.cubes[self.pe.cube as usize].memory.release(self.physical, self.bytes);
    }
}

impl Tl {
    /// Opens the sending end of an edge to `to`.
    #[track_caller]
    pub fn sender(&self, to: PeId, spec: EdgeSpec) -> Result<Sender, KernelError> {
        self.sender_on(to, 0, spec)
    }

    /// Opens the sending end of the edge to `to` with this channel.
    #[track_caller]
    pub fn sender_on(&self, to: PeId, channel: u32, spec: EdgeSpec) -> Result<Sender, KernelError> {
        match self.open_sender(to, channel, spec) {
            Ok(sender) => Ok(sender),
            Err(error) => Err(*self.fault(Box::new(error))),
        }
    }

    fn open_sender(&self, to: PeId, channel: u32, spec: EdgeSpec) -> Result<Sender, KernelError> {
        let name = EdgeName { from: self.pe(), to, channel };
        let program = self.program().clone();
        check(name, &spec, program.world())?;
        let edge = program.world().open(name, spec);
        let state = &mut program.world().edges.borrow_mut().list[edge as usize];
        state.ends.sender_name = Some(program.process());
        if state.spec != spec {
            program.world().take_credits(state);
            state
                .set_sender_spec(spec)
                .map_err(|reason| KernelError::BadEdge { edge: name, reason })?;
            program.world().set_exit(state, edge);
        }
        program.world().tell_other_end(state, edge, true);
        Ok(Sender { program: program.clone(), edge, slot_size: spec.slot_size })
    }

    /// Opens the receiving end of an edge from `from`.
    #[track_caller]
    pub fn receiver(&self, from: PeId, spec: EdgeSpec) -> Result<Receiver, KernelError> {
        self.receiver_on(from, 0, spec)
    }

    /// Opens the receiving end of the edge from `from` with this channel.
    #[track_caller]
    pub fn receiver_on(
        &self,
        from: PeId,
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Receiver, KernelError> {
        match self.receive_from(from, channel, spec) {
            Ok(receiver) => Ok(receiver),
            Err(error) => Err(*self.fault(Box::new(error))),
        }
    }

    fn receive_from(
        &self,
        from: PeId,
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Receiver, KernelError> {
        let name = EdgeName { from, to: self.pe(), channel };
        let program = self.program().clone();
        check(name, &spec, program.world())?;
        let slots = self.take_slots(&spec)?;
        let edge = self.open_receiver(name, spec)?;
        let in_hbm = spec.buffer_kind == BufferKind::Hbm;
        Ok(Receiver { program, edge, in_hbm, _slots: slots })
    }

    /// Opens the receiving end of an edge, without memory for its slots; returns its number.
    pub(super) fn open_receiver(&self, name: EdgeName, spec: EdgeSpec) -> Result<u32, KernelError> {
        let program = self.program();
        check(name, &spec, program.world())?;
        let edge = program.world().open(name, spec);
        let state = &mut program.world().edges.borrow_mut().list[edge as usize];
        state.set_receiver_spec(spec);
        state.ends.receiver_name = Some(program.process());
        program.world().tell_other_end(state, edge, false);
        Ok(edge)
    }

    fn take_slots(&self, spec: &EdgeSpec) -> Result<Slots, KernelError> {
        let bytes = spec.slot_size.saturating_mul(spec.n_slots.into());
        if spec.buffer_kind == BufferKind::Tcm {
            let what = format!("{spec} to receive in");
            return Ok(Slots::Scratch(Scratch::take(self.program(), bytes, &what)?));
        }
        let (world, pe) = (self.program().shared_world(), self.pe());
        let taken =
            world.sips[pe.sip as usize].borrow_mut().cubes[pe.cube as usize].memory.take(pe, bytes);
        let physical = taken?;
        Ok(Slots::Hbm(HbmSlots { world, pe, physical, bytes }))
    }

    /// Sends a tile. The message leaves as soon as a slot is free at the receiver; await the result to wait for that.
    #[inline]
    pub fn send(&self, to: &Sender, tile: &Tile) -> Sending {
        let body = tile.message_body();
        let last =
            if body.bytes <= to.slot_size { post(to, body, 0) } else { send_in_pieces(to, tile) };
        Sending { program: to.program.clone(), edge: to.edge, last }
    }

    /// Receives a tile of `dtype` and `shape`.
    #[inline]
    #[track_caller]
    pub fn recv(&self, from: &Receiver, dtype: DType, shape: impl Into<Shape>) -> Receiving {
        let (program, expected) = (from.program.clone(), TileType::new(dtype, shape.into()));
        let (edge, in_hbm, line) = (from.edge, from.in_hbm, Location::caller());
        Receiving { program, edge, in_hbm, expected, slow: None, line }
    }
}

/// Posts a tile that takes several slots; returns as [`post`].
fn send_in_pieces(to: &Sender, tile: &Tile) -> u64 {
    let mut last = 0;
    for (body, following) in pieces(tile, to.slot_size) {
        last = post(to, body, following);
    }
    last
}

/// Returns the messages of a tile, one for each slot, with whole elements in each, and the number of slots after each.
pub(super) fn pieces(tile: &Tile, slot_size: u64) -> impl Iterator<Item = (MessageBody, u32)> {
    let size = tile.dtype().size() as u64;
    let per_slot = usize::try_from((slot_size / size).max(1)).unwrap_or(usize::MAX);
    let elements = tile.shape().elements();
    let pieces = elements.div_ceil(per_slot).max(1);
    (0..pieces).map(move |piece| {
        let (start, end) = (piece * per_slot, ((piece + 1) * per_slot).min(elements));
        let value = tile.value().map(|value| value.slice(start, end - start));
        let following = u32::try_from(pieces - piece - 1).expect("fewer than 2^32 slots");
        (MessageBody { bytes: (end - start) as u64 * size, value }, following)
    })
}

pub(super) fn check(edge: EdgeName, spec: &EdgeSpec, world: &World) -> Result<(), KernelError> {
    let known = |pe: PeId| {
        pe.sip < world.spec.devices()
            && u32::from(pe.cube) < world.spec.cubes.count()
            && u32::from(pe.pe) < world.spec.pes.count()
    };
    let reason = if !known(edge.from) || !known(edge.to) {
        "there is no such PE in this machine"
    } else if edge.channel > InSwitch::CHANNELS && edge.in_switch() == InSwitch::No {
        "there is no such channel"
    } else if edge.from == edge.to {
        "a PE cannot send to itself"
    } else if spec.n_slots == 0 {
        "it needs at least one slot"
    } else if spec.slot_size == 0 {
        "its slots need room for at least one byte"
    } else if spec.backpressure == Backpressure::Poll(Time::ZERO) {
        "a sender that polls needs a period"
    } else {
        return Ok(());
    };
    Err(KernelError::BadEdge { edge, reason })
}

/// Posts one slot of a message, with `following` slots after it; returns the number of messages the edge has launched
/// once this one has left.
#[inline]
fn post(to: &Sender, body: MessageBody, following: u32) -> u64 {
    to.program.world().post(to.edge, body, following, to.program.path_cell())
}

/// A send in progress: await it to wait until the message has a slot and has left.
pub struct Sending {
    program: Rc<Program>,
    edge: u32,
    /// Number of messages the edge has launched once this message has left.
    last: u64,
}

impl Future for Sending {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let program = &*self.program;
        let edges = &mut *program.world().edges.borrow_mut();
        let edge = &mut edges.list[self.edge as usize];
        if edge.launched() >= self.last {
            program.waited(Kind::Credit, &edge.last_wait);
            return Poll::Ready(());
        }
        edge.sender = Some(program.sim().task());
        let describe = || Wait {
            what: format!("a credit on {} ({}, all taken)", edge.name, edge.spec),
            providers: vec![edge.receiver_process()],
        };
        program.sim().waiting(describe);
        Poll::Pending
    }
}

/// A slot that a kernel holds; dropping the guard sends its credit home.
pub(super) struct SlotGuard {
    program: Rc<Program>,
    edge: u32,
}

impl Drop for SlotGuard {
    #[inline]
    fn drop(&mut self) {
        self.program.world().release(self.edge, &self.program.path());
    }
}

/// A receive in progress: await it for its tile.
#[must_use = "does nothing unless awaited"]
pub struct Receiving {
    program: Rc<Program>,
    edge: u32,
    in_hbm: bool,
    expected: TileType,
    /// The state of a receive that most messages do not need.
    slow: Option<Box<SlowReceive>>,
    /// The line of the kernel that asked for it.
    line: &'static Location<'static>,
}

enum SlowReceive {
    /// The pieces of a message that takes several slots, and their bytes.
    Parts(Vec<Option<Value>>, u64),
    /// A load of a slot from HBM into scratch.
    Loading(
        Loading<Tile>,
        #[expect(dead_code, reason = "held for its destructor")] Option<SlotGuard>,
    ),
}

impl Unpin for Receiving {}

impl Future for Receiving {
    type Output = Result<Tile, KernelError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.in_hbm || self.slow.is_some() {
            return self.poll_slowly(context);
        }
        let mut edges = self.program.world().edges.borrow_mut();
        let edge = &mut edges.list[self.edge as usize];
        let agreed = edge.traits.agreed;
        let Some(message) = edge.front() else {
            self.wait(edge);
            return Poll::Pending;
        };
        if !agreed || !self.is_expected(message) {
            drop(edges);
            return self.poll_slowly(context);
        }
        self.note(message);
        let value = message.value.take();
        edge.take();
        Poll::Ready(Ok(Tile::in_slot(&self.program, self.expected, value, self.edge)))
    }
}

/// A message that was removed from its queue.
struct Arrived {
    bytes: u64,
    value: Option<Value>,
    following: u32,
}

impl Receiving {
    /// True if a message is the expected one, whole in its slot.
    #[inline]
    fn is_expected(&self, message: &Message) -> bool {
        message.following == 0
            && message.bytes == self.expected.bytes
            && self.has_type(message.value.as_ref())
    }

    #[inline]
    fn has_type(&self, value: Option<&Value>) -> bool {
        let TileType { dtype, shape, .. } = &self.expected;
        value.is_none_or(|value| value.dtype() == *dtype && value.len() == shape.elements())
    }

    /// Receives any message: of several slots, in HBM, or not the expected one.
    #[inline(never)]
    fn poll_slowly(&mut self, context: &mut Context<'_>) -> Poll<Result<Tile, KernelError>> {
        loop {
            if let Some(SlowReceive::Loading(loading, _)) = self.slow.as_deref_mut() {
                return Pin::new(loading).poll(context);
            }
            let Some(arrived) = self.take() else { return Poll::Pending };
            let result = if arrived.following > 0 || self.slow.is_some() {
                self.collect(arrived)
            } else {
                self.finish(arrived)
            };
            if let Some(result) = result {
                return Poll::Ready(result.map_err(|error| {
                    self.program.note_fault(self.line, &error);
                    *error
                }));
            }
        }
    }

    /// Takes the oldest arrived message, or registers to be resumed by the next one.
    fn take(&self) -> Option<Arrived> {
        let edge = &mut self.program.world().edges.borrow_mut().list[self.edge as usize];
        let Some(message) = edge.front() else {
            self.wait(edge);
            return None;
        };
        self.note(message);
        let Message { bytes, following, .. } = *message;
        let value = message.value.take();
        edge.take();
        Some(Arrived { bytes, value, following })
    }

    /// Registers the program to be resumed by the next message.
    #[inline]
    fn wait(&self, edge: &mut Edge) {
        edge.receiver = Some(self.program.sim().task());
        self.program.sim().waiting(|| {
            let what = format!("a message on {} ({})", edge.name, edge.spec);
            Wait { what, providers: vec![edge.sender_process()] }
        });
    }

    /// Accounts for the time of the wait: before the send, then without credit, then in flight.
    #[inline]
    fn note(&self, message: &Message) {
        let parts = [
            (message.posted, Kind::Dependency),
            (message.granted, Kind::Credit),
            (message.arrived, Kind::Link),
        ];
        self.program.waited_for(&parts, &message.path);
        if self.program.world().options.record {
            self.log(message);
        }
    }

    #[cold]
    fn log(&self, message: &Message) {
        let (now, pe) = (self.program.sim().now(), self.program.pe());
        let op = Op {
            flow_in: NonZeroU64::new(message.flow),
            ..Op::new((now, now), Resource::Program(pe), "recv", message.bytes)
        };
        self.program.world().sips[pe.sip as usize].borrow_mut().record.op(|| op);
    }

    fn release(&self) {
        self.program.world().release(self.edge, &self.program.path());
    }

    /// Checks a message of one slot, and loads it if the slot is in HBM.
    fn finish(&mut self, message: Arrived) -> Option<Result<Tile, Box<KernelError>>> {
        let Arrived { bytes, value, .. } = message;
        if let Err(error) = self.check(bytes, value.as_ref()) {
            self.release();
            return Some(Err(error));
        }
        if !self.in_hbm {
            return Some(Ok(Tile::in_slot(&self.program, self.expected, value, self.edge)));
        }
        let slot = SlotGuard { program: self.program.clone(), edge: self.edge };
        self.move_in(bytes, value, Some(slot))
    }

    /// Adds one slot of a message that takes several; returns the tile after the last.
    fn collect(&mut self, arrived: Arrived) -> Option<Result<Tile, Box<KernelError>>> {
        self.release();
        let slow = self.slow.get_or_insert_with(|| Box::new(SlowReceive::Parts(Vec::new(), 0)));
        let SlowReceive::Parts(parts, bytes) = &mut **slow else {
            unreachable!("a load is waited for first")
        };
        parts.push(arrived.value);
        *bytes += arrived.bytes;
        if arrived.following > 0 {
            return None;
        }
        let (parts, bytes) = (std::mem::take(parts), *bytes);
        let whole: Option<Vec<Value>> = parts.into_iter().collect();
        let value = whole.map(|parts| Value::concat(&parts));
        if let Err(error) = self.check(bytes, value.as_ref()) {
            return Some(Err(error));
        }
        self.move_in(bytes, value, None)
    }

    /// Moves a received message into scratch, by a load if its slot is in HBM.
    fn move_in(
        &mut self,
        bytes: u64,
        value: Option<Value>,
        slot: Option<SlotGuard>,
    ) -> Option<Result<Tile, Box<KernelError>>> {
        let TileType { dtype, shape, .. } = self.expected;
        let tile = Tile::in_scratch(&self.program, dtype, shape, value, "a message");
        if !self.in_hbm {
            return Some(tile);
        }
        let loading = Loading::moving(&self.program, self.program.pe().cube, bytes, tile);
        self.slow = Some(Box::new(SlowReceive::Loading(loading, slot)));
        None
    }

    /// Checks that sender and receiver agree on the edge and the message.
    fn check(&self, bytes: u64, value: Option<&Value>) -> Result<(), Box<KernelError>> {
        let edges = self.program.world().edges.borrow();
        let edge = &edges.list[self.edge as usize];
        if !edge.traits.agreed {
            let specs = Box::new((edge.spec, edge.ends.receiver_spec));
            return Err(Box::new(KernelError::EdgeMismatch { edge: edge.name, specs }));
        }
        if bytes == self.expected.bytes && self.has_type(value) {
            return Ok(());
        }
        let got = value.map_or_else(
            || format!("{bytes} B"),
            |value| format!("{}[{}]", value.dtype(), value.len()),
        );
        let expected = format!("{}{}", self.expected.dtype, self.expected.shape);
        Err(Box::new(KernelError::WrongMessage { edge: edge.name, expected, got }))
    }
}
