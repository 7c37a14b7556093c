//! One rank's part in a collective, as its kernel sees it: where its numbers are, and who the others are.
//!
//! - **CCL-1 (same on all).** Each element is combined by one rank in a stated order, or by all in the same order: the
//!   results are bitwise equal on all ranks.
//! - **CCL-2 (told by messages).** Every message says what it is about; a rank that receives one about something else
//!   fails, with both sides in the error.

use super::algorithm::Operation;
use super::prefetch::LoadFrom;
use crate::error::{Mismatch, MismatchSide};
use phalanx_sim::ipcq::{BufferKind, EdgeSpec, Topic};
use phalanx_sim::kernel::{KernelError, Loading, Receiver, Sender, Tile, Tl, View};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, DType};
use phalanx_sim::{Bytes, Capacity};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// How vectors are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Added.
    Sum,
    /// Multiplied.
    Product,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Added, then divided by the number of ranks.
    Avg,
}

impl ReduceOp {
    /// Every one, in the order of the manual.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Product, Self::Min, Self::Max, Self::Avg];

    /// `sum`, as nccl-tests calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }

    /// What happens to two elements.
    pub fn binary(self) -> Binary {
        match self {
            Self::Sum | Self::Avg => Binary::Add,
            Self::Product => Binary::Mul,
            Self::Min => Binary::Min,
            Self::Max => Binary::Max,
        }
    }
}

/// A dense vector in memory, in one or several copies.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Every copy; a write goes to all of them.
    pub copies: Rc<[Region]>,
    /// The first element.
    pub start: usize,
    /// How many elements.
    pub len: usize,
}

impl Buffer {
    /// A whole region.
    pub fn of(region: Region) -> Self {
        Self { copies: Rc::new([region]), start: 0, len: region.elements }
    }

    /// A part of it.
    #[must_use]
    pub fn part(&self, range: &Range<usize>) -> Self {
        Self { start: self.start + range.start, len: range.len(), ..self.clone() }
    }
}

/// Who takes part in a collective, and over which queues.
#[derive(Clone)]
pub struct Peers {
    /// The PE of each rank of the group, by its number in it.
    pub pes: Rc<[PeId]>,
    /// The numbers that users know them by.
    pub names: Rc<[usize]>,
    /// How queues between them are set up.
    pub edge: EdgeSpec,
    /// Tells these queues from others between the same PEs.
    pub channel: u32,
    /// What their messages are about.
    pub topic: Topic,
    /// Where a rank notes that a message was about something else.
    pub mismatch: Rc<RefCell<Option<Mismatch>>>,
}

/// One rank's part.
#[derive(Clone)]
pub struct Part {
    /// What is done.
    pub operation: Operation,
    /// How numbers are combined.
    pub combine: ReduceOp,
    /// Its number in the group.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// The special one, where there is one.
    pub root: usize,
    /// Their type.
    pub dtype: DType,
    /// What it has.
    pub input: Buffer,
    /// What it gets.
    pub output: Buffer,
    /// Split sizes of an all-to-all; `None` for equal parts.
    pub splits: Option<Rc<Splits>>,
    /// The others.
    pub peers: Peers,
}

/// The split sizes of an all-to-all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Elements sent to each rank.
    pub sent: Vec<usize>,
    /// Elements received from each rank.
    pub received: Vec<usize>,
}

/// The sending end of a queue to another rank.
pub struct SendQueue(Sender);

/// The receiving end of a queue from another rank.
pub struct RecvQueue {
    receiver: Receiver,
    rank: usize,
    checked: Cell<bool>,
}

impl Part {
    /// Opens a queue to another rank of the group. `receivers` is how many queues a rank has open to receive from, so
    /// that their slots fit; all ranks must say the same.
    pub fn to(&self, tl: &Tl, rank: usize, receivers: usize) -> Result<SendQueue, KernelError> {
        let (edge, channel) = self.edge(tl, receivers);
        let sender = tl.sender_on(self.peers.pes[rank], channel, edge)?;
        sender.about(&self.peers.topic);
        Ok(SendQueue(sender))
    }

    /// Opens a queue from another rank of the group.
    pub fn from(&self, tl: &Tl, rank: usize, receivers: usize) -> Result<RecvQueue, KernelError> {
        let (edge, channel) = self.edge(tl, receivers);
        let receiver = tl.receiver_on(self.peers.pes[rank], channel, edge)?;
        Ok(RecvQueue { receiver, rank, checked: Cell::new(false) })
    }

    /// The queue's settings, with fewer or smaller slots where `receivers` of them would take more than half of the
    /// scratch memory. A queue with other settings is another one, with a channel of its own: the one before may still
    /// be in use.
    fn edge(&self, tl: &Tl, receivers: usize) -> (EdgeSpec, u32) {
        let edge = fitting(self.peers.edge, tl.scratch_capacity(), receivers);
        if edge == self.peers.edge {
            return (edge, self.peers.channel);
        }
        let receivers = u32::try_from(receivers).unwrap_or(u32::MAX);
        (edge, self.peers.channel ^ (receivers << FITTED))
    }

    /// Sends a tile; it leaves when there is a slot for it.
    pub fn send(&self, tl: &Tl, to: &SendQueue, tile: &Tile) {
        drop(tl.send(&to.0, tile));
    }

    /// Receives `len` elements (CCL-2).
    pub async fn recv(&self, tl: &Tl, from: &RecvQueue, len: usize) -> Result<Tile, KernelError> {
        let received = tl.recv(&from.receiver, self.dtype, len).await;
        if from.checked.get() && received.is_ok() {
            return received;
        }
        self.check_topic(from)?;
        received
    }

    #[cold]
    fn check_topic(&self, from: &RecvQueue) -> Result<(), KernelError> {
        from.checked.set(true);
        let peers = &self.peers;
        let Some(topic) = from.receiver.topic().filter(|topic| *topic != peers.topic) else {
            return Ok(());
        };
        let side = |rank: usize, topic: &Topic| MismatchSide {
            rank: peers.names[rank],
            operation: topic.to_string(),
        };
        let mismatch =
            Mismatch { here: side(self.rank, &peers.topic), there: side(from.rank, &topic) };
        let text = mismatch.to_string();
        *peers.mismatch.borrow_mut() = Some(mismatch);
        Err(KernelError::Other(text))
    }

    /// Both queues between this rank and another one.
    pub(crate) fn pair(
        &self,
        tl: &Tl,
        rank: usize,
        receivers: usize,
    ) -> Result<(SendQueue, RecvQueue), KernelError> {
        Ok((self.to(tl, rank, receivers)?, self.from(tl, rank, receivers)?))
    }

    /// Combines two tiles; the order of the two is kept.
    pub async fn combine(&self, tl: &Tl, one: &Tile, other: &Tile) -> Result<Tile, KernelError> {
        tl.binary(self.combine.binary(), one, other).await
    }

    /// What is left to do when all have been combined: an average is divided.
    pub async fn finish(&self, tl: &Tl, tile: Tile) -> Result<Tile, KernelError> {
        if self.combine != ReduceOp::Avg {
            return Ok(tile);
        }
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let ranks = tl.full(self.dtype, tile.shape(), self.ranks as f64)?;
        tl.div(&tile, &ranks).await
    }

    /// Segment `index` of a vector of `len` elements, one for each rank; `index` counts round.
    pub(crate) fn segment(&self, len: usize, index: usize) -> Range<usize> {
        crate::placement::share(&(0..len), index % self.ranks, self.ranks)
    }

    /// A range cut into pieces that fit a slot.
    pub fn chunks(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let slot = self.peers.edge.slot_size / self.dtype.size() as u64;
        let slot = usize::try_from(slot).unwrap_or(usize::MAX).max(1);
        let end = range.end;
        range.clone().step_by(slot).map(move |at| at..at.saturating_add(slot).min(end))
    }

    /// Loads elements of its input.
    pub fn load(&self, tl: &Tl, range: &Range<usize>) -> Loading<Tile> {
        tl.load(&view(tl, &self.input, range))
    }

    /// Loads elements of its output.
    pub(crate) fn reload(&self, tl: &Tl, range: &Range<usize>) -> Loading<Tile> {
        tl.load(&view(tl, &self.output, range))
    }

    /// Stores elements of its output, in every copy; the store goes on while the kernel does.
    pub fn store(&self, tl: &Tl, range: &Range<usize>, tile: &Tile) {
        for region in self.output.copies.iter() {
            let view = View::dense(region, self.output.start + range.start, range.len());
            drop(tl.store(&view, tile));
        }
    }

    /// What a rank does that has nobody to talk to: keeps what it has.
    pub(crate) async fn copy_all(&self, tl: &Tl) -> Result<(), KernelError> {
        self.copy(tl, &(0..self.input.len), &(0..self.output.len)).await
    }

    /// What the root of a broadcast does with its own numbers: keeps them.
    pub(crate) async fn copy_on_root(&self, tl: &Tl) -> Result<(), KernelError> {
        if self.rank == self.root { self.copy_all(tl).await } else { Ok(()) }
    }

    /// Copies elements of its input to its output, unless they are in the same place.
    pub(crate) async fn copy(
        &self,
        tl: &Tl,
        input: &Range<usize>,
        output: &Range<usize>,
    ) -> Result<(), KernelError> {
        let same = self.input.copies == self.output.copies
            && self.input.start + input.start == self.output.start + output.start;
        if same {
            return Ok(());
        }
        let chunks = self.chunks(output).zip(self.chunks(input));
        let mut mine = self.prefetch(tl, LoadFrom::Input, chunks);
        while let Some((to, _, tile)) = mine.next().await? {
            self.store(tl, &to, &tile);
        }
        Ok(())
    }
}

/// The copy that is closest to the PE.
fn view(tl: &Tl, buffer: &Buffer, range: &Range<usize>) -> View {
    let near = buffer.copies.iter().find(|region| region.cube == tl.pe().cube);
    let region = near.unwrap_or(&buffer.copies[0]);
    View::dense(region, buffer.start + range.start, range.len())
}

/// The bits of a channel number above this one say for how many receivers a queue was fitted.
const FITTED: u32 = 20;

/// Fewer, then smaller slots, so that `receivers` queues take no more than half of the scratch memory.
fn fitting(edge: EdgeSpec, scratch: Capacity, receivers: usize) -> EdgeSpec {
    let Capacity::Limited(Bytes(scratch)) = scratch else { return edge };
    if edge.buffer_kind == BufferKind::Hbm || receivers <= 1 {
        return edge;
    }
    let each = scratch / 2 / receivers as u64;
    if edge.slot_size.saturating_mul(edge.n_slots.into()) <= each {
        return edge;
    }
    let slots = u32::try_from(each / edge.slot_size).unwrap_or(u32::MAX).clamp(1, edge.n_slots);
    // A slot is cut to a multiple of what every type's size divides.
    let slot_size = edge.slot_size.min((each / 16 * 16).max(16));
    EdgeSpec { n_slots: slots, slot_size, ..edge }
}
