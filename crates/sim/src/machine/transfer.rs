//! Loads, stores and requests of the host under way: their ends become known when their last stage is reached.

use super::{Engine, Sip};
use crate::executor::{Key, Sim, TaskId};
use crate::record::{Op, Path, Resource};
use crate::spec::MachineSpec;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::Flight;
use std::cell::Cell;

/// The parts of a transfer's time, in order: each lasts until its instant.
pub(crate) type Parts = [(Time, Kind); 6];

/// A transfer under way.
pub(crate) struct Transfer {
    pe: PeId,
    /// Bytes of all pieces.
    bytes: u64,
    /// Number of pieces that have not ended.
    pieces_left: Cell<u8>,
    /// The piece of two that ended first.
    piece: Cell<Option<Flight>>,
    /// The instant at which its channel became its own.
    start: Cell<Time>,
    /// The end, [`Time::MAX`] while it is unknown.
    end: Cell<Time>,
    path: Cell<Path>,
    parts: Cell<Parts>,
    /// The process that waits for the end, and the key of its resumption.
    waiter: Cell<Option<(Key, TaskId)>>,
}

impl Transfer {
    pub(crate) fn new(pe: PeId, bytes: u64, pieces: u8) -> Self {
        Self {
            pe,
            bytes,
            pieces_left: Cell::new(pieces),
            piece: Cell::new(None),
            start: Cell::new(Time::ZERO),
            end: Cell::new(Time::MAX),
            path: Cell::default(),
            parts: Cell::new([(Time::ZERO, Kind::Dma); 6]),
            waiter: Cell::new(None),
        }
    }

    pub(crate) fn pe(&self) -> PeId {
        self.pe
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn parts(&self) -> Parts {
        self.parts.get()
    }

    /// Returns the critical path to the end.
    pub(crate) fn path(&self) -> Path {
        self.path.get()
    }

    /// Notes the instant at which the channel became free for the transfer.
    pub(super) fn start_at(&self, start: Time) {
        self.start.set(start);
    }

    /// True if the transfer has ended; otherwise the running process is resumed at the end. `is_scheduled` is true after
    /// the first call.
    pub(crate) fn is_over(&self, sim: &Sim, is_scheduled: &mut bool) -> bool {
        let end = self.end.get();
        if end <= sim.now() {
            return true;
        }
        if !std::mem::replace(is_scheduled, true) {
            if end == Time::MAX {
                self.waiter.set(Some((sim.reserve_key(), sim.task())));
            } else {
                sim.resume_at(end);
            }
        }
        false
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self, sim: &Sim) {
        let mut is_scheduled = false;
        std::future::poll_fn(|_| {
            let is_over = self.is_over(sim, &mut is_scheduled);
            if is_over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Sets the end, and takes who waits for it.
    pub(super) fn set_end(&self, end: Time) -> Option<(Key, TaskId)> {
        self.end.set(end);
        self.waiter.take()
    }

    /// Ends a piece of a load or a store; the last one gives the end of the transfer.
    pub(super) fn end_piece(
        &self,
        spec: &MachineSpec,
        sip: &mut Sip,
        flight: &Flight,
        engine: Engine,
    ) -> Option<Time> {
        let mut last = *flight;
        self.pieces_left.set(self.pieces_left.get() - 1);
        if self.pieces_left.get() > 0 {
            self.piece.set(Some(last));
            return None;
        }
        if let Some(other) = self.piece.take().filter(|other| other.tail > last.tail) {
            last = other;
        }
        Some(self.finish(sip, &last, engine, spec.dma.latency))
    }

    /// Ends a request of the host.
    pub(super) fn end_request(&self, sip: &mut Sip, flight: &Flight) -> Time {
        let path = flight.path_of_tail(&mut sip.record, flight.slowest.resource);
        self.path.set(path);
        flight.tail
    }

    fn finish(&self, sip: &mut Sip, flight: &Flight, engine: Engine, latency: Time) -> Time {
        let (start, end, bytes) = (self.start.get(), flight.tail, self.bytes);
        let (channel, label) = match engine {
            Engine::Load => (Resource::Load(self.pe), "load"),
            _ => (Resource::Store(self.pe), "store"),
        };
        self.path.set(flight.path_of_tail(&mut sip.record, channel));
        let ready = start + latency;
        let after_hbm = ready + flight.waited.hbm;
        self.parts.set([
            (start, Kind::Dma),
            (ready, Kind::Latency),
            (after_hbm, Kind::Hbm),
            (after_hbm + flight.waited.mesh, Kind::Mesh),
            (flight.head, Kind::Latency),
            (end, flight.slowest.kind),
        ]);
        sip.record.op(|| Op::new((start, end), channel, label, bytes));
        end
    }
}
