//! `ring`: every rank sends to the next one only.
//!
//! A reduction cuts the vector into one segment per rank. Each segment travels round the ring and is combined on its way,
//! from the rank after its owner to its owner: segment `s` is `((x[s+1] + x[s+2]) + ...) + x[s]`. A gather sends complete
//! segments round once more. A reduction to a root is combined in the same order, root last. A chunk is sent on as soon as
//! it arrives, so that steps overlap.
//!
//! In loops ([`Part::in_loops`]), a piece of every segment goes round before the next piece: what a rank sends first fits into the slots of
//! the next one, so that no rank waits for the receiver of a whole segment. The first chunks of a piece leave before the last ones of the
//! piece before arrive.
//!
//! An all-to-all passes every block on until it reaches its rank. That takes blocks of one size: no rank knows the splits
//! of others, so an all-to-all with splits runs like `direct`.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::{LoadFrom, Prefetch};
use super::direct;
use crate::placement::share;
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{Computing, KernelError, Tile, Tl};
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "ring",
    summary: "round the ranks, segment by segment; the least traffic",
    operations: &Operation::ALL,
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: alike,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// Ranks differ in the number of their first segment alone, if all segments are alike and nobody is the root.
pub(super) fn alike(shape: &Shape) -> Option<Symmetry> {
    let has_root = shape.operation.has_root();
    let is_even = shape.elements.is_multiple_of(shape.ranks) && !shape.has_splits;
    (is_even && !has_root).then_some(Symmetry::Cyclic)
}

/// A segment goes round once to be combined, and once more to be known to all. A rank sends as many segments as it has steps, and stores each segment of
/// its output; some rank sends as much as the mean.
pub(super) fn work(shape: &Shape) -> LeastWork {
    let Shape { operation, ranks, elements, slot, .. } = *shape;
    let (rounds, stored) = match operation {
        Operation::AllReduce => (2, ranks),
        Operation::ReduceScatter => (1, 1),
        _ => return LeastWork::default(),
    };
    if ranks < 2 || elements == 0 {
        return LeastWork::default();
    }
    let (segment, steps) = (elements / ranks, rounds * (ranks - 1));
    let chunks = segment.div_ceil(slot.max(1));
    LeastWork {
        messages: steps.saturating_mul(chunks),
        sent: steps.saturating_mul(segment),
        stores: stored.saturating_mul(chunks),
        stored: stored.saturating_mul(segment),
        steps,
    }
}

pub(super) async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    if part.operation == Operation::AllToAll && part.splits.is_some() {
        return direct::run(part, tl).await;
    }
    let ring = Ring::of_all(&part, &tl)?;
    let (ranks, rank) = (part.ranks, part.rank);
    match part.operation {
        Operation::AllReduce => ring.all_reduce(&(0..part.input.len), LoadFrom::Input).await,
        Operation::ReduceScatter => {
            let own = part.segment(part.input.len, rank).start;
            ring.reduce_scatter(&(0..part.input.len), own, true).await
        }
        Operation::AllGather => all_gather(&ring).await,
        Operation::Broadcast => broadcast(&ring).await,
        Operation::Reduce => reduce(&ring).await,
        Operation::Scatter => scatter(&ring, (rank + ranks - part.root) % ranks).await,
        Operation::Gather => gather(&ring, (part.root + ranks - rank) % ranks).await,
        Operation::AllToAll => all_to_all(&ring).await,
    }
}

/// A piece of every segment: piece `index` of `count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    index: usize,
    count: usize,
}

impl Piece {
    /// The whole of every segment.
    pub(super) const WHOLE: Self = Self { index: 0, count: 1 };

    /// The piece that goes round after this one.
    fn next(self) -> Option<Self> {
        let index = self.index + 1;
        (index < self.count).then_some(Self { index, ..self })
    }

    fn of(self, range: &Range<usize>) -> Range<usize> {
        share(range, self.index, self.count)
    }
}

/// A ring of ranks as one of them sees it: the whole group, or a row or column of it.
pub(super) struct Ring<'a> {
    part: &'a Part,
    tl: &'a Tl,
    next: SendQueue,
    previous: RecvQueue,
    /// The number of this rank in the ring, in the direction of the messages.
    index: usize,
    count: usize,
}

/// The position of a rank in a ring.
pub(super) struct RingPosition {
    /// The rank that this one sends to.
    pub(super) next: usize,
    /// The rank that this one receives from.
    pub(super) previous: usize,
    /// The number of this rank in the ring, in the direction of the messages.
    pub(super) index: usize,
    /// Ranks in the ring.
    pub(super) count: usize,
}

impl<'a> Ring<'a> {
    /// The ring of all ranks.
    fn of_all(part: &'a Part, tl: &'a Tl) -> Result<Self, KernelError> {
        let (rank, ranks) = (part.rank, part.ranks);
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        Self::open(part, tl, &RingPosition { next, previous, index: rank, count: ranks }, 1)
    }

    /// Opens the queues of a ring; see [`Part::to`] for `receivers`.
    pub(super) fn open(
        part: &'a Part,
        tl: &'a Tl,
        position: &RingPosition,
        receivers: usize,
    ) -> Result<Self, KernelError> {
        let next = part.to(tl, position.next, receivers)?;
        let previous = part.from(tl, position.previous, receivers)?;
        Ok(Self { part, tl, next, previous, index: position.index, count: position.count })
    }

    /// The first piece of the segments of `range`: what the slots hold, if the collective goes in loops.
    fn first_piece(&self, range: &Range<usize>) -> Piece {
        if !self.part.in_loops {
            return Piece::WHOLE;
        }
        let segment = range.len().div_ceil(self.count) * self.part.dtype.size();
        let edge = self.part.edge(self.tl, 1).0;
        let slots = edge.slot_size.saturating_mul(edge.n_slots.into()).max(1);
        let count = (segment as u64).div_ceil(slots).max(1);
        Piece { index: 0, count: usize::try_from(count).unwrap_or(usize::MAX) }
    }

    fn segment(&self, range: &Range<usize>, index: usize, piece: Piece) -> Range<usize> {
        piece.of(&share(range, index % self.count, self.count))
    }

    /// The chunks that arrive in a step of an all-reduce of `range`.
    fn coming(
        &self,
        range: &Range<usize>,
        step: usize,
        piece: Piece,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let from_start = self.index + 2 * self.count - step - 2;
        self.part.chunks(&self.segment(range, from_start, piece))
    }

    /// Prefetches the chunks that this rank adds while `range` is reduced; the key is the step.
    pub(super) fn own(
        &self,
        range: &Range<usize>,
        from: LoadFrom,
        piece: Piece,
    ) -> Prefetch<'_, usize, impl Iterator<Item = (usize, Range<usize>)>> {
        let steps = 0..self.count - 1;
        let wanted = steps
            .flat_map(move |step| self.coming(range, step, piece).map(move |chunk| (step, chunk)));
        self.part.prefetch(self.tl, from, wanted)
    }

    /// Sends the segment that the next rank combines first.
    pub(super) async fn begin(
        &self,
        range: &Range<usize>,
        from: LoadFrom,
        piece: Piece,
    ) -> Result<(), KernelError> {
        let first = self.segment(range, self.index + self.count - 1, piece);
        self.part.send_all(self.tl, &self.next, from, &first).await
    }

    fn receive(&self, len: usize) -> impl Future<Output = Result<Tile, KernelError>> {
        self.part.recv(self.tl, &self.previous, len)
    }

    /// Combines a received tile with `mine`.
    fn combine(&self, received: &Tile, mine: &Tile) -> Computing {
        self.part.combine(self.tl, received, mine)
    }

    fn send(&self, tile: &Tile) {
        self.part.send(self.tl, &self.next, tile);
    }

    /// Handles one chunk of a step that reduces.
    pub(super) async fn add(
        &self,
        step: usize,
        chunk: &Range<usize>,
        mine: Tile,
    ) -> Result<(), KernelError> {
        let received = self.receive(chunk.len()).await?;
        let current = self.combine(&received, &mine).await?;
        drop((received, mine));
        if step + 2 < self.count {
            self.send(&current);
            return Ok(());
        }
        let whole = self.part.finish(self.tl, current).await?;
        self.send(&whole);
        self.part.store(self.tl, chunk, &whole);
        Ok(())
    }

    /// Handles one chunk of a step that gathers; the `last` rank does not send it on.
    pub(super) async fn pass(&self, chunk: &Range<usize>, last: bool) -> Result<(), KernelError> {
        let received = self.receive(chunk.len()).await?;
        if !last {
            self.send(&received);
        }
        self.part.store(self.tl, chunk, &received);
        Ok(())
    }

    /// Reduces `range` and gathers the result, in the output.
    pub(super) async fn all_reduce(
        &self,
        range: &Range<usize>,
        from: LoadFrom,
    ) -> Result<(), KernelError> {
        let first = self.first_piece(range);
        self.begin(range, from, first).await?;
        let mut now = Some(first);
        while let Some(piece) = now {
            let mut own = self.own(range, from, piece);
            while let Some((step, chunk, mine)) = own.next().await? {
                self.add(step, &chunk, mine).await?;
            }
            now = piece.next();
            self.pass_on(range, piece).await?;
            if let Some(next) = now {
                self.begin(range, from, next).await?;
            }
            self.keep_last(range, piece).await?;
        }
        Ok(())
    }

    /// Reduces `range` of the input. The output gets this rank's segment, moved down by `base` elements.
    pub(super) async fn reduce_scatter(
        &self,
        range: &Range<usize>,
        base: usize,
        finish: bool,
    ) -> Result<(), KernelError> {
        let first = self.first_piece(range);
        self.begin(range, LoadFrom::Input, first).await?;
        let mut now = Some(first);
        while let Some(piece) = now {
            now = piece.next();
            let mut after = now;
            let mut own = self.own(range, LoadFrom::Input, piece);
            while let Some((step, chunk, mine)) = own.next().await? {
                // The last step sends nothing on: the next piece begins.
                if step + 2 == self.count
                    && let Some(next) = after.take()
                {
                    self.begin(range, LoadFrom::Input, next).await?;
                }
                let received = self.receive(chunk.len()).await?;
                let mut current = self.combine(&received, &mine).await?;
                drop(received);
                if step + 2 < self.count {
                    self.send(&current);
                    continue;
                }
                drop(mine);
                if finish {
                    current = self.part.finish(self.tl, current).await?;
                }
                self.part.store(self.tl, &(chunk.start - base..chunk.end - base), &current);
            }
        }
        Ok(())
    }

    /// Sends this rank's segment of `range` of the output round the ring, and receives those of the others.
    pub(super) async fn gather(&self, range: &Range<usize>) -> Result<(), KernelError> {
        let own = self.segment(range, self.index, Piece::WHOLE);
        self.part.send_all(self.tl, &self.next, LoadFrom::Output, &own).await?;
        self.pass_on(range, Piece::WHOLE).await?;
        self.keep_last(range, Piece::WHOLE).await
    }

    /// The chunks that arrive while `range` is gathered; true for those that are not sent on.
    pub(super) fn gathered(
        &self,
        range: &Range<usize>,
        piece: Piece,
    ) -> impl Iterator<Item = (bool, Range<usize>)> {
        (1..self.count).flat_map(move |step| {
            let segment = self.segment(range, self.index + self.count - step, piece);
            self.part.chunks(&segment).map(move |chunk| (step + 1 == self.count, chunk))
        })
    }

    /// Receives the segments of other ranks that go on, and sends them on.
    async fn pass_on(&self, range: &Range<usize>, piece: Piece) -> Result<(), KernelError> {
        for (last, chunk) in self.gathered(range, piece).filter(|(last, _)| !last) {
            self.pass(&chunk, last).await?;
        }
        Ok(())
    }

    /// Receives the last segment, which goes no further.
    async fn keep_last(&self, range: &Range<usize>, piece: Piece) -> Result<(), KernelError> {
        for (last, chunk) in self.gathered(range, piece).filter(|(last, _)| *last) {
            self.pass(&chunk, last).await?;
        }
        Ok(())
    }
}

async fn all_gather(ring: &Ring<'_>) -> Result<(), KernelError> {
    let whole = 0..ring.part.output.len;
    let first = ring.first_piece(&whole);
    begin_gather(ring, first).await?;
    let mut now = Some(first);
    while let Some(piece) = now {
        now = piece.next();
        ring.pass_on(&whole, piece).await?;
        if let Some(next) = now {
            begin_gather(ring, next).await?;
        }
        ring.keep_last(&whole, piece).await?;
    }
    Ok(())
}

/// Sends a piece of this rank's input, and stores it.
async fn begin_gather(ring: &Ring<'_>, piece: Piece) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    let own = piece.of(&part.segment(part.output.len, part.rank));
    let chunks = part.chunks(&own).zip(part.chunks(&piece.of(&(0..part.input.len))));
    let mut mine = part.prefetch(tl, LoadFrom::Input, chunks);
    while let Some((place, _, tile)) = mine.next().await? {
        ring.send(&tile);
        part.store(tl, &place, &tile);
    }
    Ok(())
}

async fn broadcast(ring: &Ring<'_>) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    if part.rank == part.root {
        part.send_all(tl, &ring.next, LoadFrom::Input, &(0..part.input.len)).await?;
        return part.copy_all(tl).await;
    }
    let last = (part.rank + 1) % part.ranks == part.root;
    for chunk in part.chunks(&(0..part.output.len)) {
        ring.pass(&chunk, last).await?;
    }
    Ok(())
}

async fn reduce(ring: &Ring<'_>) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    let whole = 0..part.input.len;
    if part.rank == (part.root + 1) % part.ranks {
        return part.send_all(tl, &ring.next, LoadFrom::Input, &whole).await;
    }
    let chunks = part.chunks(&whole).map(|chunk| ((), chunk));
    let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
    while let Some(((), chunk, mine)) = own.next().await? {
        let received = ring.receive(chunk.len()).await?;
        let current = ring.combine(&received, &mine).await?;
        drop(received);
        if part.rank == part.root {
            let whole = part.finish(tl, current).await?;
            part.store(tl, &chunk, &whole);
        } else {
            ring.send(&current);
        }
    }
    Ok(())
}

/// Scatters; the farthest segment is sent first. `distance` is the distance from the root.
async fn scatter(ring: &Ring<'_>, distance: usize) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    if distance == 0 {
        for other in (1..part.ranks).rev() {
            let theirs = part.segment(part.input.len, part.root + other);
            part.send_all(tl, &ring.next, LoadFrom::Input, &theirs).await?;
        }
        let own = part.segment(part.input.len, part.rank);
        return part.copy(tl, &own, &(0..part.output.len)).await;
    }
    for other in (distance..part.ranks).rev() {
        for chunk in part.chunks(&(0..part.output.len)) {
            let received = ring.receive(chunk.len()).await?;
            if other == distance {
                part.store(tl, &chunk, &received);
            } else {
                ring.send(&received);
            }
        }
    }
    Ok(())
}

/// Gathers; the closest segment arrives first. `distance` is the distance to the root.
async fn gather(ring: &Ring<'_>, distance: usize) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    if distance == 0 {
        for other in 1..part.ranks {
            let theirs = part.segment(part.output.len, part.root + part.ranks - other);
            for chunk in part.chunks(&theirs) {
                let received = ring.receive(chunk.len()).await?;
                part.store(tl, &chunk, &received);
            }
        }
        let own = part.segment(part.output.len, part.rank);
        return part.copy(tl, &(0..part.input.len), &own).await;
    }
    part.send_all(tl, &ring.next, LoadFrom::Input, &(0..part.input.len)).await?;
    for _ in distance + 1..part.ranks {
        for chunk in part.chunks(&(0..part.input.len)) {
            let received = ring.receive(chunk.len()).await?;
            ring.send(&received);
        }
    }
    Ok(())
}

/// Exchanges blocks. In step `k` the blocks of the `k`-th rank before this one arrive, the farthest first, this rank's last.
async fn all_to_all(ring: &Ring<'_>) -> Result<(), KernelError> {
    let (part, tl) = (ring.part, ring.tl);
    let (ranks, rank) = (part.ranks, part.rank);
    for distance in (1..ranks).rev() {
        let theirs = part.segment(part.input.len, rank + distance);
        part.send_all(tl, &ring.next, LoadFrom::Input, &theirs).await?;
    }
    for step in 1..ranks {
        let place = part.segment(part.output.len, rank + ranks - step);
        for distance in (step..ranks).rev() {
            for chunk in part.chunks(&place) {
                let received = ring.receive(chunk.len()).await?;
                if distance == step {
                    part.store(tl, &chunk, &received);
                } else {
                    ring.send(&received);
                }
            }
        }
    }
    let own = part.segment(part.input.len, rank);
    part.copy(tl, &own, &part.segment(part.output.len, rank)).await
}
