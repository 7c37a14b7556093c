//! Loads, stores and requests of the host under way: their ends become known when their last stage is reached.

use crate::executor::{Key, Sim, TaskId};
use crate::record::{LineMark, Path, Resource, Use};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::Flight;
use std::cell::Cell;
use std::rc::Rc;

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
    piece: Cell<Option<Box<Flight>>>,
    /// The instants at which the channel, and then the DMA, was ready.
    start: Cell<Time>,
    ready: Cell<Time>,
    /// The end, [`Time::MAX`] while it is unknown.
    end: Cell<Time>,
    path: Cell<Path>,
    progress: Cell<Progress>,
    /// The process that waits for the end, and the key of its resumption.
    waiter: Cell<Option<(Key, TaskId)>>,
    /// The line that asked for it, if its program has lines.
    line: Cell<LineMark>,
}

/// The transfers of one program, which are used again when nobody has them any more.
#[derive(Default)]
pub(crate) struct Transfers {
    list: Vec<Rc<Transfer>>,
    next: usize,
}

/// Most transfers that a program keeps.
const KEPT: usize = 16;

impl Transfers {
    /// Returns a transfer, in the memory of an old one if there is one that nobody has.
    #[inline]
    pub(crate) fn next(&mut self, pe: PeId, bytes: u64, pieces: u8) -> Rc<Transfer> {
        if self.next >= self.list.len() {
            self.next = 0;
        }
        if let Some(old) = self.list.get_mut(self.next)
            && let Some(free) = Rc::get_mut(old)
        {
            free.begin_again(pe, bytes, pieces);
            self.next += 1;
            return old.clone();
        }
        self.add(Transfer::new(pe, bytes, pieces))
    }

    #[cold]
    fn add(&mut self, transfer: Transfer) -> Rc<Transfer> {
        let transfer = Rc::new(transfer);
        if self.list.len() < KEPT {
            self.list.insert(self.next, transfer.clone());
        }
        self.next += 1;
        transfer
    }
}

/// The course of the piece that ended last.
#[derive(Clone, Copy)]
struct Progress {
    hbm_wait: Time,
    mesh_wait: Time,
    head: Time,
    slowest: Use,
}

impl Transfer {
    pub(crate) fn new(pe: PeId, bytes: u64, pieces: u8) -> Self {
        let (hbm_wait, mesh_wait, head) = (Time::ZERO, Time::ZERO, Time::ZERO);
        let slowest = Use::new(Resource::Load(pe), Kind::Dma);
        Self {
            pe,
            bytes,
            pieces_left: Cell::new(pieces),
            piece: Cell::new(None),
            start: Cell::new(Time::ZERO),
            ready: Cell::new(Time::ZERO),
            end: Cell::new(Time::MAX),
            path: Cell::default(),
            progress: Cell::new(Progress { hbm_wait, mesh_wait, head, slowest }),
            waiter: Cell::new(None),
            line: Cell::default(),
        }
    }

    /// Makes this a new transfer. The channel sets its course at the start and at the end.
    #[inline]
    fn begin_again(&mut self, pe: PeId, bytes: u64, pieces: u8) {
        (self.pe, self.bytes) = (pe, bytes);
        *self.pieces_left.get_mut() = pieces;
        *self.piece.get_mut() = None;
        *self.end.get_mut() = Time::MAX;
        *self.path.get_mut() = Path::default();
        *self.waiter.get_mut() = None;
    }

    pub(crate) fn pe(&self) -> PeId {
        self.pe
    }

    /// Returns the line that asked for it. It has a meaning only if the program has lines.
    pub(crate) fn line(&self) -> LineMark {
        self.line.get()
    }

    pub(crate) fn set_line(&self, line: LineMark) {
        self.line.set(line);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the instant at which the channel became the transfer's own.
    pub(super) fn start(&self) -> Time {
        self.start.get()
    }

    /// Returns the parts of the time of a load or a store that has ended.
    pub(crate) fn parts(&self) -> Parts {
        let (progress, ready) = (self.progress.get(), self.ready.get());
        let after_hbm = ready + progress.hbm_wait;
        [
            (self.start.get(), Kind::Dma),
            (ready, Kind::Latency),
            (after_hbm, Kind::Hbm),
            (after_hbm + progress.mesh_wait, Kind::Mesh),
            (progress.head, Kind::Latency),
            (self.end.get(), progress.slowest.kind()),
        ]
    }

    /// True if the end is known.
    pub(super) fn has_end(&self) -> bool {
        self.end.get() != Time::MAX
    }

    /// True if the end has come.
    pub(crate) fn has_ended(&self, sim: &Sim) -> bool {
        self.end.get() <= sim.now()
    }

    /// Returns the cell of the critical path to the end.
    pub(crate) fn path(&self) -> &Cell<Path> {
        &self.path
    }

    /// Returns the paths that lead on from here: the path to the end, and the path of a piece that has ended.
    pub(super) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let piece = self.piece.take();
        let path_of_piece = piece.as_ref().map(|piece| piece.path);
        self.piece.set(piece);
        [Some(self.path.get()), path_of_piece].into_iter().flatten()
    }

    /// Notes the instants at which the channel became free for the transfer, and at which its DMA is ready.
    pub(super) fn start_at(&self, start: Time, ready: Time) {
        self.start.set(start);
        self.ready.set(ready);
    }

    /// True if the transfer has ended; otherwise the running process is resumed at the end. `is_scheduled` is true after
    /// the first call.
    #[inline]
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

    /// Ends a piece; returns the flight of the piece that ended last, if no other piece is left.
    #[inline]
    pub(super) fn end_piece<'a>(
        &self,
        flight: &'a Flight,
        other: &'a mut Option<Box<Flight>>,
    ) -> Option<&'a Flight> {
        let left = self.pieces_left.get() - 1;
        self.pieces_left.set(left);
        if left > 0 {
            self.piece.set(Some(Box::new(*flight)));
            return None;
        }
        *other = self.piece.take();
        let last = match other {
            Some(other) if other.tail > flight.tail => &**other,
            _ => flight,
        };
        let (hbm_wait, mesh_wait) = (last.waited.hbm, last.waited.mesh);
        let (head, slowest) = (last.head, last.slowest);
        self.progress.set(Progress { hbm_wait, mesh_wait, head, slowest });
        Some(last)
    }
}
