//! The two DMA channels of a PE: each serves one request at a time, in the order of requests.
//!
//! A load or a store holds its channel until its last byte has arrived. That time is known only when the flight reaches its
//! last stage; requests that are made earlier wait in the queue of the channel.

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
}

/// The requests to a channel that have not started.
#[derive(Clone, Default)]
pub(crate) struct ChannelQueue {
    /// True while the end of the request that holds the channel is unknown.
    is_held: bool,
    waiting: VecDeque<ChannelRequest>,
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
    Store { transfer: Rc<Transfer>, cube: u16 },
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
        self.waiting.iter().map(|request| request.path)
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
        if queue.is_held {
            return queue.waiting.push_back(request);
        }
        self.start_request(sip, request);
        self.settle(sip);
    }

    /// Frees a channel at the end of a load or a store, and starts the requests that waited.
    #[inline]
    pub(super) fn free_channel(&self, sip: &mut Sip, engine: Engine, pe: usize) {
        sip.pes[pe].queue(engine).is_held = false;
        while let Some(request) = sip.pes[pe].queue(engine).next() {
            self.start_request(sip, request);
        }
    }

    /// Starts a request: its channel is free, or its time of becoming free is known.
    #[inline]
    fn start_request(&self, sip: &mut Sip, request: ChannelRequest) {
        let ChannelRequest { pe, asked, number, mut path, job } = request;
        let (dma, bytes, engine) = (self.spec.dma, job.bytes(), job.engine());
        let channel = StageUse { resource: engine.resource(pe), kind: Kind::Dma };
        let span = dma.latency + dma.bandwidth.time_for(bytes);
        let turn = sip.pe(pe).engine(engine).take(asked, span, bytes, &mut path);
        let (head, tail) = (turn.start + dma.latency, turn.end);
        let (start, waited) = (turn.start, Waited::default());
        match job {
            Job::Load { transfer, pieces } => {
                transfer.start_at(start, head);
                sip.pe(pe).queue(engine).is_held = true;
                let (mut from, mut asked) = (head, 0);
                for (number, Piece { cube, bytes: piece }) in
                    (number..).zip(pieces.into_iter().flatten())
                {
                    asked += piece;
                    let is_last = asked == bytes;
                    let tail = if is_last { tail } else { head + dma.bandwidth.time_for(asked) };
                    let flight =
                        Flight { bytes: piece, head: from, tail, path, slowest: channel, waited };
                    from = tail;
                    let route = Route::of_load(&self.spec, cube, pe);
                    let purpose = Purpose::Piece(engine, transfer.clone());
                    sip.flights.push(number, Journey { flight, route, purpose, label: "read" });
                }
            }
            Job::Store { transfer, cube } => {
                transfer.start_at(start, head);
                sip.pe(pe).queue(engine).is_held = true;
                let flight = Flight { bytes, head, tail, path, slowest: channel, waited };
                let route = Route::of_store(&self.spec, pe, cube);
                let purpose = Purpose::Piece(engine, transfer);
                sip.flights.push(number, Journey { flight, route, purpose, label: "write" });
            }
            Job::Send { route, purpose, .. } => {
                let index = sip.index(pe);
                let left = sip.pes[index].store.leave_with(tail, &path);
                left.advance(head, Kind::Latency);
                sip.record.step(left, tail, Kind::Dma, channel.resource);
                sip.record.op(|| Op::new((start, tail), channel.resource, "send", bytes));
                let flight = Flight { bytes, head, tail, path, slowest: channel, waited };
                sip.flights.push(number, Journey { flight, route, purpose, label: "write" });
            }
        }
    }
}

impl ChannelQueue {
    /// Takes the next request, unless the channel is held.
    fn next(&mut self) -> Option<ChannelRequest> {
        if self.is_held { None } else { self.waiting.pop_front() }
    }
}
