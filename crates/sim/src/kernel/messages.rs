//! Sending and receiving over inter-PE queues.
//!
//! A message that fits a slot is received in its slot, which is freed, and its credit sent home, when the tile is
//! dropped. A longer one travels in several slots and is put together in scratch, each slot freed as it comes.

use super::program::Program;
use super::tile::Scratch;
use super::{KernelError, Loading, Shape, Tile, Tl};
use crate::executor::Wait;
use crate::ipcq::{Backpressure, BufferKind, Edge, EdgeName, EdgeSpec, Message, Topic};
use crate::machine::World;
use crate::record::{Op, Resource};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::value::{DType, Value};
use std::num::NonZeroU64;
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

/// The receiving end of an edge; its slots take memory until it is dropped.
pub struct Receiver {
    program: Rc<Program>,
    edge: u32,
    in_hbm: bool,
    _slots: Slots,
}

impl Sender {
    /// Says what the messages are about that are sent from now on; see [`Topic`].
    pub fn about(&self, topic: &Topic) {
        self.program.world().edges.borrow_mut().list[self.edge as usize].set_topic(topic.clone());
    }
}

impl Receiver {
    /// What the message that was received last is about, if its sender says.
    pub fn topic(&self) -> Option<Topic> {
        self.program.world().edges.borrow_mut().list[self.edge as usize].topic().cloned()
    }
}

/// The memory that slots take.
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
    pub fn sender(&self, to: PeId, spec: EdgeSpec) -> Result<Sender, KernelError> {
        self.sender_on(to, 0, spec)
    }

    /// Opens the sending end of the edge to `to` with this channel number.
    pub fn sender_on(&self, to: PeId, channel: u32, spec: EdgeSpec) -> Result<Sender, KernelError> {
        let name = EdgeName { from: self.pe(), to, channel };
        let program = self.program().clone();
        check(name, &spec, program.world())?;
        let edge = program.world().open(name, spec);
        let state = &mut program.world().edges.borrow_mut().list[edge as usize];
        state.sender_name = Some(program.process());
        if state.spec != spec {
            program.world().take_credits(state);
            state
                .set_sender_spec(spec)
                .map_err(|reason| KernelError::BadEdge { edge: name, reason })?;
        }
        Ok(Sender { program: program.clone(), edge, slot_size: spec.slot_size })
    }

    /// Opens the receiving end of an edge from `from`.
    pub fn receiver(&self, from: PeId, spec: EdgeSpec) -> Result<Receiver, KernelError> {
        self.receiver_on(from, 0, spec)
    }

    /// Opens the receiving end of the edge from `from` with this channel number.
    pub fn receiver_on(
        &self,
        from: PeId,
        channel: u32,
        spec: EdgeSpec,
    ) -> Result<Receiver, KernelError> {
        let name = EdgeName { from, to: self.pe(), channel };
        let program = self.program().clone();
        check(name, &spec, program.world())?;
        let slots = self.take_slots(&spec)?;
        let edge = program.world().open(name, spec);
        let state = &mut program.world().edges.borrow_mut().list[edge as usize];
        state.set_receiver_spec(spec);
        state.receiver_name = Some(program.process());
        let in_hbm = spec.buffer_kind == BufferKind::Hbm;
        Ok(Receiver { program: program.clone(), edge, in_hbm, _slots: slots })
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

    /// Sends a tile. Issued by the call: it leaves when a slot is free at the receiver. Await it to wait for that.
    #[inline]
    pub fn send(&self, to: &Sender, tile: &Tile) -> Sending {
        let cargo = tile.cargo();
        let last =
            if cargo.0 <= to.slot_size { post(to, cargo, 0) } else { send_in_pieces(to, tile) };
        Sending { program: to.program.clone(), edge: to.edge, last }
    }

    /// Receives a tile of `dtype` and `shape`.
    #[inline]
    pub fn recv(&self, from: &Receiver, dtype: DType, shape: impl Into<Shape>) -> Receiving {
        let (program, shape) = (from.program.clone(), shape.into());
        let bytes = (shape.elements() * dtype.size()) as u64;
        Receiving { program, edge: from.edge, in_hbm: from.in_hbm, dtype, shape, bytes, rare: None }
    }
}

/// Posts a tile that takes several slots, whole elements in each.
fn send_in_pieces(to: &Sender, tile: &Tile) -> u64 {
    let size = tile.dtype().size() as u64;
    let per_slot = usize::try_from((to.slot_size / size).max(1)).unwrap_or(usize::MAX);
    let elements = tile.shape().elements();
    let pieces = elements.div_ceil(per_slot);
    let mut last = 0;
    for piece in 0..pieces {
        let (start, end) = (piece * per_slot, ((piece + 1) * per_slot).min(elements));
        let value = tile.value().map(|value| value.slice(start, end - start));
        let following = u32::try_from(pieces - piece - 1).expect("fewer than 2^32 slots");
        last = post(to, ((end - start) as u64 * size, value), following);
    }
    last
}

fn check(edge: EdgeName, spec: &EdgeSpec, world: &World) -> Result<(), KernelError> {
    let known = |pe: PeId| {
        pe.sip < world.spec.sips.count
            && u32::from(pe.cube) < world.spec.cubes.count()
            && u32::from(pe.pe) < world.spec.pes.count()
    };
    let reason = if !known(edge.from) || !known(edge.to) {
        "there is no such PE in this machine"
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

#[inline]
fn post(to: &Sender, cargo: (u64, Option<Value>), following: u32) -> u64 {
    to.program.world().post(to.edge, cargo, following, to.program.path_cell())
}

/// A send under way: await it to wait until the message has got its slot and left.
pub struct Sending {
    program: Rc<Program>,
    edge: u32,
    /// How many messages the edge has launched when this one has left.
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
            providers: vec![edge.receiver_name.clone().unwrap_or_else(|| edge.name.to.to_string())],
        };
        program.sim().waiting(describe);
        Poll::Pending
    }
}

/// A slot that a kernel holds; the credit goes home when it is dropped.
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

/// A receive under way: await it for its tile.
#[must_use = "does nothing unless awaited"]
pub struct Receiving {
    program: Rc<Program>,
    edge: u32,
    in_hbm: bool,
    dtype: DType,
    shape: Shape,
    bytes: u64,
    /// What most messages do not need.
    rare: Option<Box<Rare>>,
}

enum Rare {
    /// The pieces of a message that takes several slots, and their bytes.
    Parts(Vec<Option<Value>>, u64),
    /// Bringing a slot from HBM into scratch.
    Fetching(
        Loading<Tile>,
        #[expect(dead_code, reason = "held for its destructor")] Option<SlotGuard>,
    ),
}

impl Unpin for Receiving {}

impl Future for Receiving {
    type Output = Result<Tile, KernelError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.in_hbm || self.rare.is_some() {
            return self.poll_slowly(context);
        }
        let mut edges = self.program.world().edges.borrow_mut();
        let edge = &mut edges.list[self.edge as usize];
        let agreed = edge.agreed;
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
        edge.take(self.program.sim().now());
        let kind = (self.dtype, self.shape, self.bytes);
        Poll::Ready(Ok(Tile::in_slot(&self.program, kind, value, self.edge)))
    }
}

/// What is left of a message once it is out of the queue.
struct Arrived {
    bytes: u64,
    value: Option<Value>,
    following: u32,
}

impl Receiving {
    /// Whether a message is the one that was asked for, whole in its slot.
    #[inline]
    fn is_expected(&self, message: &Message) -> bool {
        message.following == 0
            && message.bytes == self.bytes
            && self.has_type(message.value.as_ref())
    }

    #[inline]
    fn has_type(&self, value: Option<&Value>) -> bool {
        value
            .is_none_or(|value| value.dtype() == self.dtype && value.len() == self.shape.elements())
    }

    /// Any message: of several slots, in HBM, or not the one that was asked for.
    #[inline(never)]
    fn poll_slowly(&mut self, context: &mut Context<'_>) -> Poll<Result<Tile, KernelError>> {
        loop {
            if let Some(Rare::Fetching(fetching, _)) = self.rare.as_deref_mut() {
                return Pin::new(fetching).poll(context);
            }
            let Some(arrived) = self.take() else { return Poll::Pending };
            let result = if arrived.following > 0 || self.rare.is_some() {
                self.collect(arrived)
            } else {
                self.finish(arrived)
            };
            if let Some(result) = result {
                return Poll::Ready(result.map_err(|error| *error));
            }
        }
    }

    /// The oldest message in a slot; otherwise waits for one.
    fn take(&self) -> Option<Arrived> {
        let edge = &mut self.program.world().edges.borrow_mut().list[self.edge as usize];
        let Some(message) = edge.front() else {
            self.wait(edge);
            return None;
        };
        self.note(message);
        let Message { bytes, following, .. } = *message;
        let value = message.value.take();
        edge.take(self.program.sim().now());
        Some(Arrived { bytes, value, following })
    }

    /// Has itself resumed by the next message.
    #[inline]
    fn wait(&self, edge: &mut Edge) {
        edge.receiver = Some(self.program.sim().task());
        self.program.sim().waiting(|| {
            let sender = edge.sender_name.clone();
            let what = format!("a message on {} ({})", edge.name, edge.spec);
            Wait { what, providers: vec![sender.unwrap_or_else(|| edge.name.from.to_string())] }
        });
    }

    /// Accounts for the time it took: unsent, then without credit, then on the way.
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

    /// A message in one slot: checks it, and fetches it if the slot is in HBM.
    fn finish(&mut self, message: Arrived) -> Option<Result<Tile, Box<KernelError>>> {
        let Arrived { bytes, value, .. } = message;
        if let Err(error) = self.check(bytes, value.as_ref()) {
            self.release();
            return Some(Err(error));
        }
        if !self.in_hbm {
            let kind = (self.dtype, self.shape, self.bytes);
            return Some(Ok(Tile::in_slot(&self.program, kind, value, self.edge)));
        }
        let slot = SlotGuard { program: self.program.clone(), edge: self.edge };
        self.move_in(bytes, value, Some(slot))
    }

    /// One slot of a message that takes several; the tile, if it was the last.
    fn collect(&mut self, arrived: Arrived) -> Option<Result<Tile, Box<KernelError>>> {
        self.release();
        let rare = self.rare.get_or_insert_with(|| Box::new(Rare::Parts(Vec::new(), 0)));
        let Rare::Parts(parts, bytes) = &mut **rare else {
            unreachable!("a fetch is waited for first")
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

    /// Puts what was received into scratch, which takes a load if it stood in HBM.
    fn move_in(
        &mut self,
        bytes: u64,
        value: Option<Value>,
        slot: Option<SlotGuard>,
    ) -> Option<Result<Tile, Box<KernelError>>> {
        let tile = Tile::in_scratch(&self.program, self.dtype, self.shape, value, "a message");
        if !self.in_hbm {
            return Some(tile);
        }
        let loading = Loading::moving(&self.program, self.program.pe().cube, bytes, tile);
        self.rare = Some(Box::new(Rare::Fetching(loading, slot)));
        None
    }

    /// Whether sender and receiver meant the same.
    fn check(&self, bytes: u64, value: Option<&Value>) -> Result<(), Box<KernelError>> {
        let edges = self.program.world().edges.borrow();
        let edge = &edges.list[self.edge as usize];
        if !edge.agreed {
            let specs = Box::new((edge.spec, edge.receiver_spec));
            return Err(Box::new(KernelError::EdgeMismatch { edge: edge.name, specs }));
        }
        if bytes == self.bytes && self.has_type(value) {
            return Ok(());
        }
        let got = value.map_or_else(
            || format!("{bytes} B"),
            |value| format!("{}[{}]", value.dtype(), value.len()),
        );
        let expected = format!("{}{}", self.dtype, self.shape);
        Err(Box::new(KernelError::WrongMessage { edge: edge.name, expected, got }))
    }
}
