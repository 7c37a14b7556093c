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
use crate::record::{Op, Path};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, StageUse, Waited};
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

/// The requests to a channel that have not started, and those that have.
#[derive(Clone, Default)]
pub(crate) struct ChannelQueue {
    /// True while the end of the request that holds the channel is unknown.
    is_held: bool,
    /// With several outstanding: the last requests that have started, oldest first.
    under_way: VecDeque<UnderWay>,
    waiting: VecDeque<ChannelRequest>,
}

/// A request that has started, of a channel with several outstanding.
#[derive(Clone)]
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

/// A request to a channel.
#[derive(Clone)]
pub(crate) struct ChannelRequest {
    pub(crate) pe: PeId,
    pub(crate) asked: Time,
    /// Position in the order of issue; a pair of loads takes the next one too.
    pub(crate) number: u64,
    pub(crate) path: Path,
    pub(crate) job: Job,
}

/// The work of a request.
#[derive(Clone)]
pub(crate) enum Job {
    Load { transfer: Rc<Transfer>, pieces: [Option<Piece>; 2] },
    Store { transfer: Rc<Transfer>, cube: u16, block: Option<BlockNumber> },
    Send { bytes: u64, route: Route, purpose: Purpose },
}

impl Job {
    fn engine(&self) -> Engine {
        match self {
            Self::Load { .. } => Engine::Load,
            Self::Store { .. } | Self::Send { .. } => Engine::Store,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Load { transfer, .. } | Self::Store { transfer, .. } => transfer.bytes(),
            Self::Send { bytes, .. } => *bytes,
        }
    }
}

impl ChannelQueue {
    /// Returns the paths of the requests that wait.
    pub(super) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let ended = self.under_way.iter().filter_map(UnderWay::end);
        self.waiting.iter().map(|request| request.path).chain(ended)
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
    /// Makes a request to a channel of a PE, from an action of the PE's SIP.
    #[inline]
    pub(crate) fn ask_channel(&self, sip: &mut Sip, request: ChannelRequest) {
        let queue = sip.pe(request.pe).queue(request.job.engine());
        if !queue.has_room(self.spec.dma.outstanding) {
            return queue.waiting.push_back(request);
        }
        self.start_request(sip, request);
        self.settle(sip);
    }

    /// Frees a channel at the end of a load or a store, and starts the requests that waited.
    #[inline]
    pub(super) fn free_channel(&self, sip: &mut Sip, engine: Engine, pe: usize) {
        sip.pes[pe].queue(engine).is_held = false;
        while let Some(request) = sip.pes[pe].queue(engine).next(self.spec.dma.outstanding) {
            self.start_request(sip, request);
        }
    }

    /// Starts a request: its channel is free, or its time of becoming free is known.
    #[inline]
    fn start_request(&self, sip: &mut Sip, request: ChannelRequest) {
        let ChannelRequest { pe, asked, number, mut path, job } = request;
        let (dma, bytes, engine) = (self.spec.dma, job.bytes(), job.engine());
        let channel = StageUse { resource: engine.resource(pe), kind: Kind::Dma };
        let is_overlapping = dma.outstanding > 1;
        let ((start, tail), waited) = if is_overlapping {
            (self.start_overlapping(sip, pe, asked, &job, &mut path), Waited::default())
        } else {
            let span = dma.latency + dma.bandwidth.time_for(bytes);
            let turn = sip.pe(pe).engine(engine).take(asked, span, bytes, &mut path);
            ((turn.start, turn.end), Waited::default())
        };
        let head = start + dma.latency;
        match job {
            Job::Load { transfer, pieces } => {
                transfer.start_at(start, head);
                sip.pe(pe).queue(engine).is_held = true;
                let (mut from, mut asked) = (head, 0);
                for (number, Piece { cube, bytes: piece, block }) in
                    (number..).zip(pieces.into_iter().flatten())
                {
                    asked += piece;
                    let is_last = asked == bytes;
                    let tail = if is_last { tail } else { head + dma.bandwidth.time_for(asked) };
                    let flight =
                        Flight { bytes: piece, head: from, tail, path, slowest: channel, waited };
                    from = tail;
                    let route = Route::of_load(&self.spec, (cube, block), pe);
                    let purpose = Purpose::Piece(engine, transfer.clone());
                    sip.flights.push(number, Journey { flight, route, purpose, label: "read" });
                }
            }
            Job::Store { transfer, cube, block } => {
                transfer.start_at(start, head);
                sip.pe(pe).queue(engine).is_held = true;
                let flight = Flight { bytes, head, tail, path, slowest: channel, waited };
                let route = Route::of_store(&self.spec, pe, (cube, block));
                let purpose = Purpose::Piece(engine, transfer);
                sip.flights.push(number, Journey { flight, route, purpose, label: "write" });
            }
            Job::Send { route, purpose, .. } => {
                let index = sip.index(pe);
                if is_overlapping {
                    let mut left = path;
                    left.advance(head, Kind::Latency);
                    sip.record.step(&mut left, tail, Kind::Dma, channel.resource);
                    sip.pes[index].queue(engine).under_way.push_back(UnderWay::Left(left));
                } else {
                    let left = sip.pes[index].store.leave_with(tail, &path);
                    left.advance(head, Kind::Latency);
                    sip.record.step(left, tail, Kind::Dma, channel.resource);
                }
                sip.record.op(|| Op::new((start, tail), channel.resource, "send", bytes));
                let flight = Flight { bytes, head, tail, path, slowest: channel, waited };
                sip.flights.push(number, Journey { flight, route, purpose, label: "write" });
            }
        }
    }
}

impl World {
    /// Starts a request of a channel with several outstanding; returns its start and the time of its last byte (DMA-1).
    fn start_overlapping(
        &self,
        sip: &mut Sip,
        pe: PeId,
        asked: Time,
        job: &Job,
        path: &mut Path,
    ) -> (Time, Time) {
        let (dma, engine) = (&self.spec.dma, job.engine());
        let index = sip.index(pe);
        let Sip { pes, record, .. } = sip;
        let mut ready = asked;
        if let Some(before) = pes[index].queue(engine).make_room(dma.outstanding)
            && before.at() > ready
        {
            (ready, *path) = (before.at(), before);
        }
        let wire = pes[index].engine(engine);
        let turn = wire.take(ready, dma.bandwidth.time_for(job.bytes()), job.bytes(), path);
        let left = wire.leave_with(turn.end, path);
        record.step(left, turn.end, Kind::Dma, engine.resource(pe));
        if let Job::Load { transfer, .. } | Job::Store { transfer, .. } = job {
            let transfer = UnderWay::Transfer(transfer.clone());
            pes[index].queue(engine).under_way.push_back(transfer);
        }
        (turn.start, turn.end + dma.latency)
    }
}

impl ChannelQueue {
    /// Takes the next request, if it can start.
    fn next(&mut self, outstanding: u32) -> Option<ChannelRequest> {
        if self.has_room(outstanding) { self.waiting.pop_front() } else { None }
    }
}
