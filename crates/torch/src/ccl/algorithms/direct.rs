//! `direct`: every rank sends to every other one.
//!
//! Ranks begin with the next rank, so that no link carries all first messages, and send chunk by chunk rather than rank by rank, so
//! that all links are busy. In a reduction, rank `s` combines segment `s` of the vector in the order in which the messages come:
//! `((x[s] + x[s - 1]) + x[s - 2]) + ...`, round to `x[s + 1]`. In a reduction to a root all messages come at once: the root combines
//! its own numbers with those of the others in the order of ranks. Behind a switch, an all-to-all of equal blocks sends, copies and
//! receives at the same time: all ranks share the one port of each.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::{LoadFrom, Prefetch};
use super::super::streams::{Stream, side_by_side};
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{KernelError, Tile, Tl};
use phalanx_sim::spec::Topology;
use std::collections::VecDeque;
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "direct",
    summary: "everybody to everybody; the fewest steps",
    operations: &Operation::ALL,
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: alike,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// Ranks send to the next one first, receive from the one before first, and so do the same; the root of an operation does not.
fn alike(shape: &Shape) -> Option<Symmetry> {
    let is_even = shape.elements.is_multiple_of(shape.ranks) && !shape.has_splits;
    let in_turn = matches!(
        shape.operation,
        Operation::AllReduce
            | Operation::ReduceScatter
            | Operation::AllGather
            | Operation::AllToAll
    );
    (is_even && in_turn).then_some(Symmetry::Cyclic)
}

/// Each rank sends every other rank its segment, and sends its combined segment to all others. It stores the whole
/// vector. The busiest rank sends at least the mean.
fn work(shape: &Shape) -> LeastWork {
    let Shape { operation, ranks, elements, slot, .. } = *shape;
    if ranks < 2 || elements < ranks {
        return LeastWork::default();
    }
    let sent = elements - elements.div_ceil(ranks);
    let chunks = (elements / ranks).div_ceil(slot.max(1));
    let messages = (ranks - 1).saturating_mul(chunks);
    match operation {
        Operation::AllReduce => LeastWork {
            messages: messages.saturating_mul(2),
            sent: sent.saturating_mul(2),
            stores: ranks.saturating_mul(chunks),
            stored: elements,
            steps: 2,
        },
        Operation::ReduceScatter => {
            LeastWork { messages, sent, stores: chunks, stored: elements / ranks, steps: 1 }
        }
        _ => LeastWork::default(),
    }
}

pub(super) async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let is_behind_switch = tl.machine().sips.topology == Topology::Switch;
    if part.operation == Operation::AllToAll && part.splits.is_none() && is_behind_switch {
        return exchange(part, tl).await;
    }
    let mesh = Mesh::open(&part, &tl)?;
    match part.operation {
        Operation::AllReduce => mesh.all_reduce().await,
        Operation::ReduceScatter => mesh.reduce_scatter().await,
        Operation::AllGather => mesh.all_gather().await,
        Operation::Broadcast => mesh.broadcast().await,
        Operation::Reduce => mesh.reduce().await,
        Operation::Scatter => mesh.scatter().await,
        Operation::Gather => mesh.gather().await,
        Operation::AllToAll => mesh.all_to_all().await,
    }
}

/// Sends every block to its rank, by the fastest way that the sizes of the blocks allow.
pub(super) async fn all_to_all(part: Part, tl: Tl) -> Result<(), KernelError> {
    let is_even = part.splits.is_none();
    if is_even { exchange(part, tl).await } else { run(part, tl).await }
}

/// Exchanges blocks of one size; sends, copies and receives at the same time.
async fn exchange(part: Part, tl: Tl) -> Result<(), KernelError> {
    let stream = Stream { index: 0, streams: 1, receivers: part.ranks - 1 };
    // A DMA that serves one request after the other takes its latency for each message: larger slots need fewer.
    let is_serial = tl.machine().dma.outstanding == 1;
    let part = if is_serial {
        part.only_stream(&tl, stream)
    } else {
        part.stream(&tl, stream, &(0..1), 1)
    };
    let mesh = Mesh::open_for(&part, &tl, 1)?;
    let sent = |rank| part.segment(part.input.len, rank);
    let got = |rank| part.segment(part.output.len, rank);
    let own = (sent(part.rank), got(part.rank));
    side_by_side(vec![
        Box::pin(mesh.deliver(sent)),
        Box::pin(part.copy(&tl, &own.0, &own.1)),
        Box::pin(mesh.collect(got)),
    ])
    .await
}

/// The queues to and from other ranks; `None` where the operation sends nothing.
struct Mesh<'a> {
    part: &'a Part,
    tl: &'a Tl,
    to: Vec<Option<SendQueue>>,
    from: Vec<Option<RecvQueue>>,
}

impl<'a> Mesh<'a> {
    /// Opens all queues that the operation needs.
    fn open(part: &'a Part, tl: &'a Tl) -> Result<Self, KernelError> {
        let spreads = matches!(part.operation, Operation::Broadcast | Operation::Scatter);
        Self::open_for(part, tl, if spreads { 1 } else { part.ranks - 1 })
    }

    /// As [`Self::open`], with so many receivers: those of a stream count as one.
    fn open_for(part: &'a Part, tl: &'a Tl, receivers: usize) -> Result<Self, KernelError> {
        let root = |rank: usize| rank == part.root;
        let sends = |from: usize, to: usize| match part.operation {
            Operation::Broadcast | Operation::Scatter => root(from),
            Operation::Reduce | Operation::Gather => root(to),
            _ => true,
        };
        let mut mesh = Self { part, tl, to: Vec::new(), from: Vec::new() };
        for rank in 0..part.ranks {
            let to = rank != part.rank && sends(part.rank, rank);
            let from = rank != part.rank && sends(rank, part.rank);
            mesh.to.push(if to { Some(part.to(tl, rank, receivers)?) } else { None });
            mesh.from.push(if from { Some(part.from(tl, rank, receivers)?) } else { None });
        }
        Ok(mesh)
    }

    /// The other ranks, from the next rank on.
    fn behind(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.part.rank, self.part.ranks);
        (1..ranks).map(move |step| (rank + step) % ranks)
    }

    /// The other ranks, from the rank before on: the order in which their messages come.
    fn before(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.part.rank, self.part.ranks);
        (1..ranks).map(move |step| (rank + ranks - step) % ranks)
    }

    /// Sends a tile into every open queue.
    fn send_to_all(&self, tile: &Tile) {
        for to in self.behind().filter_map(|rank| self.to[rank].as_ref()) {
            self.part.send(self.tl, to, tile);
        }
    }

    /// Sends each rank with an open queue its range of the input.
    async fn deliver(&self, range: impl Fn(usize) -> Range<usize>) -> Result<(), KernelError> {
        let peers = self.behind().filter_map(|rank| Some((self.to[rank].as_ref()?, rank)));
        let lists = peers.map(|(to, rank)| (to, self.part.chunks(&range(rank))));
        let mut own = self.part.prefetch(self.tl, LoadFrom::Input, rounds(lists.collect()));
        while let Some((to, _, theirs)) = own.next().await? {
            self.part.send(self.tl, to, &theirs);
        }
        Ok(())
    }

    /// Receives a range of the output from each rank with an open queue, in the order of sending.
    async fn collect(&self, range: impl Fn(usize) -> Range<usize>) -> Result<(), KernelError> {
        let peers = self.before().filter_map(|rank| Some((self.from[rank].as_ref()?, rank)));
        let lists = peers.map(|(from, rank)| (from, self.part.chunks(&range(rank))));
        for (from, chunk) in rounds(lists.collect()) {
            let received = self.part.recv(self.tl, from, chunk.len()).await?;
            self.part.store(self.tl, &chunk, &received);
        }
        Ok(())
    }

    /// Prefetches a range of this rank's input; the key of a chunk is its range in the output.
    fn own(
        &self,
        range: &Range<usize>,
        goes: &Range<usize>,
    ) -> Prefetch<'_, Range<usize>, impl Iterator<Item = (Range<usize>, Range<usize>)> + use<>>
    {
        let chunks = self.part.chunks(goes).zip(self.part.chunks(range));
        self.part.prefetch(self.tl, LoadFrom::Input, chunks)
    }

    /// Combines a chunk of this rank's input with those of other ranks, in this order.
    async fn combined(
        &self,
        mine: Tile,
        ranks: impl Iterator<Item = usize>,
    ) -> Result<Tile, KernelError> {
        let (part, tl, len) = (self.part, self.tl, mine.shape().elements());
        let mut sum = mine;
        for from in ranks.filter_map(|rank| self.from[rank].as_ref()) {
            let one = part.recv(tl, from, len).await?;
            sum = part.combine(tl, &sum, &one).await?;
        }
        part.finish(tl, sum).await
    }

    async fn all_reduce(&self) -> Result<(), KernelError> {
        let (part, len) = (self.part, self.part.input.len);
        self.deliver(|rank| part.segment(len, rank)).await?;
        let segment = part.segment(len, part.rank);
        let mut own = self.own(&segment, &segment);
        while let Some((chunk, _, mine)) = own.next().await? {
            let whole = self.combined(mine, self.before()).await?;
            self.send_to_all(&whole);
            part.store(self.tl, &chunk, &whole);
        }
        self.collect(|rank| part.segment(len, rank)).await
    }

    async fn reduce_scatter(&self) -> Result<(), KernelError> {
        let (part, len) = (self.part, self.part.input.len);
        self.deliver(|rank| part.segment(len, rank)).await?;
        let mut own = self.own(&part.segment(len, part.rank), &(0..part.output.len));
        while let Some((place, _, mine)) = own.next().await? {
            let whole = self.combined(mine, self.before()).await?;
            part.store(self.tl, &place, &whole);
        }
        Ok(())
    }

    async fn all_gather(&self) -> Result<(), KernelError> {
        let (part, tl, len) = (self.part, self.tl, self.part.output.len);
        let mut own = self.own(&(0..part.input.len), &part.segment(len, part.rank));
        while let Some((place, _, mine)) = own.next().await? {
            self.send_to_all(&mine);
            part.store(tl, &place, &mine);
        }
        self.collect(|rank| part.segment(len, rank)).await
    }

    async fn broadcast(&self) -> Result<(), KernelError> {
        let part = self.part;
        if part.rank != part.root {
            return self.collect(|_| 0..part.output.len).await;
        }
        let whole = 0..part.input.len;
        let mut own = self.own(&whole, &whole);
        while let Some((_, _, mine)) = own.next().await? {
            self.send_to_all(&mine);
        }
        part.copy_on_root(self.tl).await
    }

    async fn reduce(&self) -> Result<(), KernelError> {
        let part = self.part;
        if part.rank != part.root {
            return self.deliver(|_| 0..part.input.len).await;
        }
        let all = 0..part.input.len;
        let mut own = self.own(&all, &all);
        while let Some((chunk, _, mine)) = own.next().await? {
            let whole = self.combined(mine, 0..part.ranks).await?;
            part.store(self.tl, &chunk, &whole);
        }
        Ok(())
    }

    async fn scatter(&self) -> Result<(), KernelError> {
        let part = self.part;
        if part.rank != part.root {
            return self.collect(|_| 0..part.output.len).await;
        }
        self.deliver(|rank| part.segment(part.input.len, rank)).await?;
        let own = part.segment(part.input.len, part.rank);
        part.copy(self.tl, &own, &(0..part.output.len)).await
    }

    async fn gather(&self) -> Result<(), KernelError> {
        let part = self.part;
        if part.rank != part.root {
            return self.deliver(|_| 0..part.input.len).await;
        }
        let own = part.segment(part.output.len, part.rank);
        part.copy(self.tl, &(0..part.input.len), &own).await?;
        self.collect(|rank| part.segment(part.output.len, rank)).await
    }

    async fn all_to_all(&self) -> Result<(), KernelError> {
        let part = self.part;
        let block = |len: usize, splits: Option<&Vec<usize>>, rank: usize| match splits {
            None => part.segment(len, rank),
            Some(splits) => {
                let start = splits[..rank].iter().sum();
                start..start + splits[rank]
            }
        };
        let splits = part.splits.as_ref();
        let sent = |rank| block(part.input.len, splits.map(|splits| &splits.sent), rank);
        let got = |rank| block(part.output.len, splits.map(|splits| &splits.received), rank);
        self.deliver(sent).await?;
        part.copy(self.tl, &sent(part.rank), &got(part.rank)).await?;
        self.collect(got).await
    }
}

/// The first item of each list, then the second of each, and so on.
pub(super) fn rounds<K: Copy, I: Iterator>(
    mut lists: VecDeque<(K, I)>,
) -> impl Iterator<Item = (K, I::Item)> {
    std::iter::from_fn(move || {
        loop {
            let (key, mut list) = lists.pop_front()?;
            if let Some(item) = list.next() {
                lists.push_back((key, list));
                return Some((key, item));
            }
        }
    })
}
