//! The two DMA channels of a PE: each serves its requests in the order in which they were made.
//!
//! A load or a store holds its channel until its last byte has arrived. That time is known only when the flight reaches its
//! last stage; requests that are made earlier wait in the queue of the channel.
//!
//! - **DMA-1 (outstanding).** With `dma.outstanding` of `n > 1`, a request is under way until its last byte has arrived, and a
//!   request starts when the channel has moved the bytes of the request before and the request `n` before has ended; a message is
//!   under way until it has left its PE. The channel is busy for the bytes of a request, and latencies overlap.

use super::cache::BlockNumber;
use super::flights::{Journey, Purpose};
use super::noc::Route;
use super::transfer::Transfer;
use super::{Engine, Sip, World};
use crate::record::{Op, Path, Use};
use crate::ring_buffer::RingBuffer;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, UnnotedTurn, Waited};
use std::collections::VecDeque;
use std::rc::Rc;

/// The bytes of a transfer that one cube holds.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) cube: u16,
    pub(crate) bytes: u64,
    /// The block of the cache, if the SIP has a cache.
    pub(crate) block: Option<BlockNumber>,
}

impl Piece {
    /// True if the memory of the PE's own cube is the only stage after the DMA.
    #[inline]
    fn is_beside(&self, pe: PeId) -> bool {
        self.cube == pe.cube && self.block.is_none()
    }
}

/// The requests to a channel that have not started, and those that have.
#[derive(Default)]
pub(crate) struct ChannelQueue {
    /// True while the end of the request that holds the channel is unknown.
    is_held: bool,
    /// With several outstanding: the last requests that have started, oldest first.
    under_way: VecDeque<UnderWay>,
    waiting: RingBuffer<WaitingRequest>,
}

/// A request that has started, of a channel with several outstanding.
enum UnderWay {
    Transfer(Rc<Transfer>),
    /// A message that has left its PE at the end of this path.
    Left(Path),
}

impl UnderWay {
    /// Returns the path to the end, once the end is known.
    fn end(&self) -> Option<Path> {
        match self {
            Self::Transfer(transfer) => transfer.has_end().then(|| transfer.path().get()),
            Self::Left(path) => Some(*path),
        }
    }
}

/// The asker of a channel: a PE, the time, the position in the order of issue, and the critical path.
///
/// A load of two pieces takes the next position too.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) pe: PeId,
    pub(crate) at: Time,
    pub(crate) number: u64,
    pub(crate) path: Path,
}

/// A request that waits for its channel.
struct WaitingRequest {
    ask: Ask,
    job: Job,
}

impl Default for WaitingRequest {
    fn default() -> Self {
        let ask = Ask { pe: PeId::first(0), at: Time::ZERO, number: 0, path: Path::default() };
        Self { ask, job: Job::None }
    }
}

/// The work of a request.
enum Job {
    /// None: the place of a request that has started.
    None,
    Load {
        transfer: Rc<Transfer>,
        pieces: [Option<Piece>; 2],
    },
    Store {
        transfer: Rc<Transfer>,
        piece: Piece,
    },
    Send(Outgoing),
}

/// A message that a PE's store channel sends, and what its arrival means.
pub(super) struct Outgoing {
    pub(super) bytes: u64,
    pub(super) route: Route,
    pub(super) purpose: Purpose,
}

/// The use of a channel: its start, the instants at which its first and its last byte pass, and the path to the start.
struct Begun {
    start: Time,
    head: Time,
    tail: Time,
    path: Path,
}

impl Begun {
    /// Returns the flight of all bytes.
    #[inline]
    fn flight(&self, bytes: u64, channel: Use) -> Flight {
        let &Self { head, tail, path, .. } = self;
        Flight { bytes, head, tail, path, slowest: channel, waited: Waited::default() }
    }
}

impl ChannelQueue {
    /// Returns the paths of the requests that wait.
    pub(super) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let ended = self.under_way.iter().filter_map(UnderWay::end);
        (0..self.waiting.len()).map(|index| self.waiting[index].ask.path).chain(ended)
    }

    /// True if the next request can start: its time is known.
    #[inline]
    fn has_room(&self, outstanding: u32) -> bool {
        if outstanding == 1 {
            return !self.is_held;
        }
        self.under_way.len() < outstanding as usize
            || self.under_way.front().is_some_and(|first| first.end().is_some())
    }

    /// Returns the path to the end of the request that the next one waits for, if there is one.
    fn make_room(&mut self, outstanding: u32) -> Option<Path> {
        if self.under_way.len() < outstanding as usize {
            return None;
        }
        self.under_way.pop_front()?.end()
    }

    /// Drops all requests.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl World {
    /// Asks for the load channel of a PE, from an action of the PE's SIP.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(crate) fn ask_load(
        &self,
        sip: &mut Sip,
        ask: &Ask,
        transfer: &Rc<Transfer>,
        pieces: [Option<Piece>; 2],
    ) {
        let queue = sip.pe(ask.pe).queue(Engine::Load);
        if !queue.has_room(self.spec.dma.outstanding) {
            return queue.wait(*ask, Job::Load { transfer: transfer.clone(), pieces });
        }
        if !self.start_load(sip, ask, transfer, pieces) {
            self.settle(sip);
        }
    }

    /// Asks for the store channel of a PE; as [`World::ask_load`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(crate) fn ask_store(
        &self,
        sip: &mut Sip,
        ask: &Ask,
        transfer: &Rc<Transfer>,
        piece: Piece,
    ) {
        let queue = sip.pe(ask.pe).queue(Engine::Store);
        if !queue.has_room(self.spec.dma.outstanding) {
            return queue.wait(*ask, Job::Store { transfer: transfer.clone(), piece });
        }
        if !self.start_store(sip, ask, transfer, piece) {
            self.settle(sip);
        }
    }

    /// Asks for the store channel of a PE, for a message; as [`World::ask_load`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(super) fn ask_send(&self, sip: &mut Sip, ask: &Ask, mut message: Outgoing) {
        let queue = sip.pe(ask.pe).queue(Engine::Store);
        if !queue.has_room(self.spec.dma.outstanding) {
            return queue.wait(*ask, Job::Send(message));
        }
        if !self.start_send(sip, ask, &mut message) {
            self.settle(sip);
        }
    }

    /// Frees a channel at the end of a load or a store, and starts the requests that waited.
    #[inline]
    pub(super) fn free_channel(&self, sip: &mut Sip, engine: Engine, pe: usize) {
        let queue = sip.pes[pe].queue(engine);
        queue.is_held = false;
        if !queue.waiting.is_empty() {
            self.start_waiting(sip, engine, pe);
        }
    }

    /// Starts the requests that wait for a channel, as far as there is room. Requests are large: each is read where it is.
    #[inline(never)]
    fn start_waiting(&self, sip: &mut Sip, engine: Engine, pe: usize) {
        let mut waiting = std::mem::take(&mut sip.pes[pe].queue(engine).waiting);
        while sip.pes[pe].queue(engine).has_room(self.spec.dma.outstanding)
            && let Some(WaitingRequest { ask, job }) = waiting.pop()
        {
            match job {
                Job::None => {}
                Job::Load { transfer, pieces } => {
                    self.start_load(sip, ask, transfer, *pieces);
                }
                Job::Store { transfer, piece } => {
                    self.start_store(sip, ask, transfer, *piece);
                }
                Job::Send(message) => {
                    self.start_send(sip, ask, message);
                }
            }
            *job = Job::None;
        }
        sip.pes[pe].queue(engine).waiting = waiting;
    }

    /// Starts a load; true if it is served early (WIR-5).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    fn start_load(
        &self,
        sip: &mut Sip,
        ask: &Ask,
        transfer: &Rc<Transfer>,
        [first, second]: [Option<Piece>; 2],
    ) -> bool {
        let bytes = transfer.bytes();
        let begun = self.begin(sip, ask, Engine::Load, bytes, Some(transfer));
        let channel = Engine::Load.used(ask.pe);
        let (mut flight, spec) = (begun.flight(bytes, channel), &self.spec);
        let Some(first) = first else { return true };
        if let Some(second) = second {
            let tail = flight.tail;
            flight.bytes = first.bytes;
            if first.bytes != bytes {
                flight.tail = begun.head + spec.dma.bandwidth.time_for(first.bytes);
            }
            let later = Flight { bytes: second.bytes, head: flight.tail, tail, ..flight };
            let route = Route::of_load(spec, (second.cube, second.block), ask.pe);
            let purpose = Purpose::Piece(Engine::Load, transfer.clone());
            let journey = Journey { flight: later, route, purpose, label: "read" };
            sip.flights.push(ask.number + 1, journey);
        } else if first.is_beside(ask.pe) && self.is_next_at_memory(sip, begun.start, begun.head) {
            self.serve_early(sip, (Engine::Load, first.cube), flight, transfer);
            return true;
        }
        let route = Route::of_load(spec, (first.cube, first.block), ask.pe);
        let purpose = Purpose::Piece(Engine::Load, transfer.clone());
        sip.flights.push(ask.number, Journey { flight, route, purpose, label: "read" });
        false
    }

    /// Starts a store; true if it is served early (WIR-5).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    fn start_store(&self, sip: &mut Sip, ask: &Ask, transfer: &Rc<Transfer>, piece: Piece) -> bool {
        let Piece { cube, bytes, block } = piece;
        let begun = self.begin(sip, ask, Engine::Store, bytes, Some(transfer));
        let flight = begun.flight(bytes, Engine::Store.used(ask.pe));
        if piece.is_beside(ask.pe) && self.is_next_at_memory(sip, begun.start, begun.head) {
            self.serve_early(sip, (Engine::Store, cube), flight, transfer);
            return true;
        }
        let route = Route::of_store(&self.spec, ask.pe, (cube, block));
        let purpose = Purpose::Piece(Engine::Store, transfer.clone());
        sip.flights.push(ask.number, Journey { flight, route, purpose, label: "write" });
        false
    }

    /// Starts a message; true if it leaves the SIP early (WIR-5).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    fn start_send(&self, sip: &mut Sip, ask: &Ask, message: &mut Outgoing) -> bool {
        let Outgoing { bytes, route, purpose } = message;
        let bytes = *bytes;
        let begun = self.begin(sip, ask, Engine::Store, bytes, None);
        let Begun { start, head, tail, .. } = begun;
        let (index, channel) = (sip.index(ask.pe), Engine::Store.used(ask.pe));
        let Sip { pes, record, .. } = sip;
        if self.spec.dma.outstanding > 1 {
            let mut left = begun.path;
            if head > left.at() {
                record.step_of(&mut left, head, channel.for_kind(Kind::Latency));
            }
            record.step_of(&mut left, tail, channel);
            pes[index].queue(Engine::Store).under_way.push_back(UnderWay::Left(left));
        } else {
            let turn = UnnotedTurn { start: head, before: channel, what: channel };
            pes[index].store.leave_unnoted(&begun.path, turn);
        }
        record.op(|| Op::new((start, tail), channel.resource(), "send", bytes));
        if let Purpose::Depart(departure) = purpose
            && route.is_port()
            && self.leave_early(sip, start, &begun.flight(bytes, channel), departure)
        {
            return true;
        }
        // Made once more: a copy of what was just written in narrow parts would stall the processor.
        let flight = begun.flight(bytes, channel);
        let (route, purpose) = (*route, std::mem::replace(purpose, Purpose::None));
        sip.flights.push(ask.number, Journey { flight, route, purpose, label: "write" });
        false
    }

    /// Starts a request: its channel is free, or its time of becoming free is known. A load or a store holds the channel.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    fn begin(
        &self,
        sip: &mut Sip,
        ask: &Ask,
        engine: Engine,
        bytes: u64,
        transfer: Option<&Rc<Transfer>>,
    ) -> Begun {
        let dma = &self.spec.dma;
        let (start, tail, path) = if dma.outstanding > 1 {
            self.begin_overlapping(sip, *ask, (engine, bytes), transfer)
        } else {
            let mut path = ask.path;
            let span = dma.latency + dma.bandwidth.time_for(bytes);
            let index = sip.index(ask.pe);
            let Sip { pes, record, .. } = sip;
            let wire = pes[index].engine(engine);
            if wire.free() > ask.at {
                wire.note_turn(record);
            }
            let turn = wire.take(ask.at, span, bytes, &mut path);
            pes[index].queue(engine).is_held = transfer.is_some();
            (turn.start, turn.end, path)
        };
        let head = start + dma.latency;
        if let Some(transfer) = transfer {
            transfer.start_at(start, head);
        }
        Begun { start, head, tail, path }
    }

    /// Starts a request of a channel with several outstanding; returns its start, the time of its last byte, and the path to its
    /// start (DMA-1).
    fn begin_overlapping(
        &self,
        sip: &mut Sip,
        ask: Ask,
        (engine, bytes): (Engine, u64),
        transfer: Option<&Rc<Transfer>>,
    ) -> (Time, Time, Path) {
        let dma = &self.spec.dma;
        let index = sip.index(ask.pe);
        let Sip { pes, record, .. } = sip;
        let (mut ready, mut path) = (ask.at, ask.path);
        if let Some(before) = pes[index].queue(engine).make_room(dma.outstanding)
            && before.at() > ready
        {
            (ready, path) = (before.at(), before);
        }
        let (wire, what) = (pes[index].engine(engine), engine.used(ask.pe));
        if wire.free() > ready {
            wire.note_turn(record);
        }
        let turn = wire.take(ready, dma.bandwidth.time_for(bytes), bytes, &mut path);
        wire.leave_unnoted(&path, UnnotedTurn { start: path.at(), before: what, what });
        if let Some(transfer) = transfer {
            let transfer = UnderWay::Transfer(transfer.clone());
            pes[index].queue(engine).under_way.push_back(transfer);
        }
        (turn.start, turn.end + dma.latency, path)
    }
}

impl ChannelQueue {
    /// Adds a request that has to wait.
    #[cold]
    fn wait(&mut self, ask: Ask, job: Job) {
        let request = self.waiting.push();
        request.ask = ask;
        request.job = job;
    }
}
