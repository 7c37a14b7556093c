//! One rank's part in a collective, as its kernel sees it: its buffers and its peers.
//!
//! - **CCL-1 (same on all).** Each element is combined by one rank in a stated order, or by all ranks in the same order: the
//!   results are bitwise equal on all ranks.
//! - **CCL-2 (told by messages).** Every message carries its topic. A rank that receives a message of another topic fails,
//!   with both sides in the error.

use super::algorithm::Operation;
use super::prefetch::{LoadFrom, room_for_tiles};
use crate::error::{Mismatch, MismatchSide};
use crate::placement::share;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec, Topic};
use phalanx_sim::kernel::{
    Computing, KernelError, Loading, Receiver, Sender, Storing, Tile, Tl, View,
};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, DType};
use phalanx_sim::{Bytes, Capacity};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};

/// The operation that combines vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The smallest number.
    Min,
    /// The largest number.
    Max,
    /// The sum divided by the number of ranks.
    Avg,
}

impl ReduceOp {
    /// Every operation, in the order of the manual.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Product, Self::Min, Self::Max, Self::Avg];

    /// Its name in nccl-tests: `sum`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }

    /// Returns the operation on two elements.
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
    /// Number of elements.
    pub len: usize,
    /// The runs of a buffer with gaps; `None` without gaps.
    pub runs: Option<Runs>,
}

/// The runs of a buffer with gaps: a channel's part of every segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Elements of a run.
    pub len: usize,
    /// Elements from the start of a run to the start of the next.
    pub step: usize,
}

impl Buffer {
    /// Makes a buffer of a whole region.
    pub fn of(region: Region) -> Self {
        Self { copies: Rc::new([region]), start: 0, len: region.elements, runs: None }
    }

    /// Parts `from..to` of `count` of each of the buffer's equal `segments` (CHN-1).
    #[must_use]
    pub fn strip(&self, segments: usize, parts: &Range<usize>, count: usize) -> Self {
        let whole = self.len / segments.max(1);
        let step = self.runs.map_or(whole, |runs| runs.step);
        let cut = |at: usize| share(&(0..whole), at, count).start;
        let own = cut(parts.start)..cut(parts.end);
        let runs = (segments > 1).then_some(Runs { len: own.len(), step });
        Self { start: self.start + own.start, len: own.len() * segments, runs, ..self.clone() }
    }

    /// Returns the position of an element in memory.
    pub fn place(&self, element: usize) -> usize {
        match self.runs {
            Some(Runs { len: len @ 1.., step }) => {
                self.start + element / len * step + element % len
            }
            _ => self.start + element,
        }
    }

    /// Returns a part of a buffer without gaps.
    #[must_use]
    pub fn part(&self, range: &Range<usize>) -> Self {
        Self { start: self.start + range.start, len: range.len(), ..self.clone() }
    }
}

/// The ranks of a collective and the queues between them.
#[derive(Clone)]
pub struct Peers {
    /// The SIP of each rank, by its number in the group.
    pub sips: Rc<[u32]>,
    /// The PE of this rank; every other rank uses the PE at the same place of its SIP.
    pub pe: PeId,
    /// The number of each rank in the world, for messages.
    pub names: Rc<[usize]>,
    /// The settings of the queues.
    pub edge: EdgeSpec,
    /// The channel: tells these queues from others between the same PEs.
    pub channel: u32,
    /// The topic of the messages.
    pub topic: Topic,
    /// The mismatch that a rank found in a message's topic.
    pub mismatch: Rc<RefCell<Option<Mismatch>>>,
}

impl Peers {
    /// Returns the PE of a rank, by its number in the group.
    pub fn pe(&self, rank: usize) -> PeId {
        PeId { sip: self.sips[rank], ..self.pe }
    }
}

/// One rank's part in a collective.
#[derive(Clone)]
pub struct Part {
    /// The operation.
    pub operation: Operation,
    /// The operation that combines numbers.
    pub combine: ReduceOp,
    /// Number of this rank in the group.
    pub rank: usize,
    /// Ranks in the group.
    pub ranks: usize,
    /// The root, for operations that have one.
    pub root: usize,
    /// The type of the elements.
    pub dtype: DType,
    /// The input of this rank.
    pub input: Buffer,
    /// The output of this rank.
    pub output: Buffer,
    /// Split sizes of an all-to-all; `None` for equal parts.
    pub splits: Option<Rc<Splits>>,
    /// True if a ring takes as much of a segment at a time as its slots hold.
    pub in_loops: bool,
    /// The number of this PE among those of the rank that carry the collective.
    pub lane: usize,
    /// The PEs of the rank that carry the collective, each with its part of the vector.
    pub lanes: usize,
    /// All ranks of the group.
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

impl SendQueue {
    /// Returns the queue itself, whose messages carry the topic.
    pub fn into_sender(self) -> Sender {
        self.0
    }
}

/// The receiving end of a queue from another rank.
pub struct RecvQueue {
    receiver: Receiver,
    rank: usize,
    checked: Cell<bool>,
}

impl Part {
    /// Opens a queue to another rank of the group. `receivers` is the number of queues that a rank receives from: their slots
    /// share the scratch memory. All ranks must pass the same number.
    pub fn to(&self, tl: &Tl, rank: usize, receivers: usize) -> Result<SendQueue, KernelError> {
        let (edge, channel) = self.edge(tl, receivers);
        let sender = tl.sender_on(self.peers.pe(rank), channel, edge)?;
        sender.about(&self.peers.topic);
        Ok(SendQueue(sender))
    }

    /// Opens a queue from another rank of the group.
    pub fn from(&self, tl: &Tl, rank: usize, receivers: usize) -> Result<RecvQueue, KernelError> {
        let (edge, channel) = self.edge(tl, receivers);
        let receiver = tl.receiver_on(self.peers.pe(rank), channel, edge)?;
        Ok(RecvQueue { receiver, rank, checked: Cell::new(false) })
    }

    /// The settings of a queue, with fewer or smaller slots where `receivers` queues would take too much of the scratch
    /// memory. A queue with other settings gets a channel of its own: the earlier queue may still be in use.
    pub(crate) fn edge(&self, tl: &Tl, receivers: usize) -> (EdgeSpec, u32) {
        let edge = fitting(self.peers.edge, tl.scratch_capacity(), receivers);
        if edge == self.peers.edge {
            return (edge, self.peers.channel);
        }
        let receivers = u32::try_from(receivers).map_or(MOST_TOLD, |number| number.min(MOST_TOLD));
        (edge, self.peers.channel ^ (receivers << FITTED))
    }

    /// Sends a tile without waiting; the tile leaves when a slot is free.
    pub fn send(&self, tl: &Tl, to: &SendQueue, tile: &Tile) {
        drop(tl.send(&to.0, tile));
    }

    /// Receives `len` elements (CCL-2).
    pub fn recv(
        &self,
        tl: &Tl,
        from: &RecvQueue,
        len: usize,
    ) -> impl Future<Output = Result<Tile, KernelError>> {
        let mut receiving = tl.recv(&from.receiver, self.dtype, len);
        poll_fn(move |context| match ready!(Pin::new(&mut receiving).poll(context)) {
            Ok(tile) if from.checked.get() => Poll::Ready(Ok(tile)),
            received => {
                self.check_topic(from)?;
                Poll::Ready(received)
            }
        })
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

    /// Opens both queues between this rank and another one.
    pub fn pair(
        &self,
        tl: &Tl,
        rank: usize,
        receivers: usize,
    ) -> Result<(SendQueue, RecvQueue), KernelError> {
        Ok((self.to(tl, rank, receivers)?, self.from(tl, rank, receivers)?))
    }

    /// Combines two tiles, `one` as the first operand.
    pub fn combine(&self, tl: &Tl, one: &Tile, other: &Tile) -> Computing {
        tl.binary(self.combine.binary(), one, other)
    }

    /// Finishes a combined tile: divides an average by the number of ranks.
    pub async fn finish(&self, tl: &Tl, tile: Tile) -> Result<Tile, KernelError> {
        if self.combine != ReduceOp::Avg {
            return Ok(tile);
        }
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let ranks = tl.full(self.dtype, tile.shape(), self.ranks as f64)?;
        tl.div(&tile, &ranks).await
    }

    /// Returns segment `index`, modulo the ranks, of a vector of `len` elements that is cut into one segment per rank.
    pub fn segment(&self, len: usize, index: usize) -> Range<usize> {
        share(&(0..len), index % self.ranks, self.ranks)
    }

    /// Returns the chunks of a range: each fits a slot and lies in one segment.
    pub fn chunks(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let slot = self.peers.edge.slot_size / self.dtype.size() as u64;
        let slot = usize::try_from(slot).unwrap_or(usize::MAX).max(1);
        let runs = self.input.runs.or(self.output.runs);
        let run = runs.map_or(usize::MAX, |runs| runs.len.max(1));
        let (mut at, end) = (range.start, range.end);
        std::iter::from_fn(move || {
            let start = at;
            let segment_end = (start / run + 1).saturating_mul(run);
            at = start.saturating_add(slot).min(end).min(segment_end);
            (start < end).then_some(start..at)
        })
    }

    /// Loads elements of the input.
    #[inline]
    pub fn load(&self, tl: &Tl, range: &Range<usize>) -> Loading<Tile> {
        tl.load(&view(tl, &self.input, range))
    }

    /// Loads elements of the output.
    #[inline]
    pub fn reload(&self, tl: &Tl, range: &Range<usize>) -> Loading<Tile> {
        tl.load(&view(tl, &self.output, range))
    }

    /// Stores elements of the output, in every copy, without waiting.
    pub fn store(&self, tl: &Tl, range: &Range<usize>, tile: &Tile) {
        for region in self.output.copies.iter() {
            let view = View::dense(region, self.output.place(range.start), range.len());
            drop(tl.store(&view, tile));
        }
    }

    /// Stores elements of the output, in every copy, once the stores `before` have ended, and leaves its own ones there. A PE that also
    /// sends keeps few stores waiting this way: a message waits for the stores that were asked for before it.
    pub async fn store_after(
        &self,
        tl: &Tl,
        range: &Range<usize>,
        tile: &Tile,
        before: &mut Vec<Storing>,
    ) -> Result<(), KernelError> {
        for storing in before.drain(..) {
            storing.await?;
        }
        for region in self.output.copies.iter() {
            let view = View::dense(region, self.output.place(range.start), range.len());
            before.push(tl.store(&view, tile));
        }
        Ok(())
    }

    /// True if input and output are the same memory.
    pub fn is_in_place(&self) -> bool {
        self.input.copies == self.output.copies && self.input.start == self.output.start
    }

    /// Copies the whole input to the output: the part of a rank without peers.
    pub async fn copy_all(&self, tl: &Tl) -> Result<(), KernelError> {
        self.copy(tl, &(0..self.input.len), &(0..self.output.len)).await
    }

    /// Copies the whole input to the output on the root.
    pub(crate) async fn copy_on_root(&self, tl: &Tl) -> Result<(), KernelError> {
        if self.rank == self.root { self.copy_all(tl).await } else { Ok(()) }
    }

    /// Copies elements of the input to the output, unless the two are the same memory.
    pub async fn copy(
        &self,
        tl: &Tl,
        input: &Range<usize>,
        output: &Range<usize>,
    ) -> Result<(), KernelError> {
        let same = self.input.copies == self.output.copies
            && self.input.place(input.start) == self.output.place(output.start);
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

/// A view of the copy in the PE's cube, or of the first copy.
#[inline]
fn view(tl: &Tl, buffer: &Buffer, range: &Range<usize>) -> View {
    let near = buffer.copies.iter().find(|region| region.cube == tl.pe().cube);
    let region = near.unwrap_or(&buffer.copies[0]);
    View::dense(region, buffer.place(range.start), range.len())
}

/// The bits of a channel number from this one on hold the number of receivers that a queue was fitted for.
pub(super) const FITTED: u32 = 20;

/// Numbers of receivers above this one share the bits; those above the bits have other meanings.
const MOST_TOLD: u32 = (1 << 8) - 1;

/// Reduces the slots in number, then in size, until `receivers` queues leave room for tiles: half of the scratch memory. One
/// queue may take more, as long as the tiles of a stream fit beside it.
pub(super) fn fitting(edge: EdgeSpec, scratch: Capacity, receivers: usize) -> EdgeSpec {
    let Capacity::Limited(Bytes(scratch)) = scratch else { return edge };
    if edge.buffer_kind == BufferKind::Hbm {
        return edge;
    }
    let each = match receivers {
        0 | 1 => scratch - room_for_tiles(scratch, edge.slot_size),
        _ => scratch / 2 / receivers as u64,
    };
    if edge.slot_size.saturating_mul(edge.n_slots.into()) <= each {
        return edge;
    }
    let slots = u32::try_from(each / edge.slot_size).unwrap_or(u32::MAX).clamp(1, edge.n_slots);
    // The size of a slot stays a multiple of every type's size.
    let slot_size = edge.slot_size.min((each / 16 * 16).max(16));
    EdgeSpec { n_slots: slots, slot_size, ..edge }
}
