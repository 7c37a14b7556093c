//! `two_hop`: each rank owns a part of the vector; an element goes to the owner of its part, and from there to all that want it.
//!
//! Every rank sends to every other one at the same time, so that all links of a full mesh are busy. Both hops, and the copy of what stays
//! on a rank, run side by side, chunk by chunk. An operation with a root has a part for each rank but the root: a broadcast sends each
//! byte from the root once, over all of its links, and the owners pass it on; a reduction goes the same way back.
//!
//! A reduction is combined by the owner in the order of ranks: `((x[0] + x[1]) + x[2]) + ...`. A reduction to a root leaves the root out;
//! the root adds its own numbers last.

use super::super::algorithm::{Algorithm, Operation, Running, never, unknown_work};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use super::super::streams::{Stream, side_by_side};
use super::are_in_one_group;
use super::direct::{self, rounds};
use crate::placement::share;
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tile, Tl};
use phalanx_sim::spec::Topology;
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "two_hop",
    summary: "by the owners of parts, over all links of a full mesh at once",
    operations: &[
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::AllToAll,
    ],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits,
    symmetry: never,
    work: unknown_work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

fn fits(machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
    let topology = machine.sips.topology;
    if topology != Topology::FullyConnected {
        let here = topology.name();
        return Err(format!("`two_hop` needs a link between any two SIPs, and this is {here}"));
    }
    if !are_in_one_group(machine, members) {
        return Err("`two_hop` needs all members in one group".to_owned());
    }
    Ok(())
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    if part.operation == Operation::AllToAll {
        // Every block has one owner: the rank that it is for.
        return direct::all_to_all(part, tl).await;
    }
    let hops = Hops::open(&part, &tl)?;
    side_by_side(vec![Box::pin(hops.contribute()), Box::pin(hops.own()), Box::pin(hops.receive())])
        .await
}

/// One hop: the queues to and from each rank; `None` where the operation has none.
struct Hop {
    part: Part,
    to: Vec<Option<SendQueue>>,
    from: Vec<Option<RecvQueue>>,
}

impl Hop {
    /// Opens the queues of hop `index` between the ranks that `sends` says.
    fn open(
        part: &Part,
        tl: &Tl,
        index: usize,
        sends: impl Fn(usize, usize) -> bool,
    ) -> Result<Self, KernelError> {
        let stream = Stream { index, streams: HOPS, receivers: HOPS * (part.ranks - 1) };
        let part = part.stream(tl, stream, &(0..1), 1);
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for other in 0..part.ranks {
            let goes = |one: usize, other: usize| one != other && sends(one, other);
            let sends = goes(part.rank, other).then(|| part.to(tl, other, 1));
            let receives = goes(other, part.rank).then(|| part.from(tl, other, 1));
            to.push(sends.transpose()?);
            from.push(receives.transpose()?);
        }
        Ok(Self { part, to, from })
    }

    /// The open queues to others, from the next rank on.
    fn receivers(&self) -> impl Iterator<Item = (usize, &SendQueue)> {
        let (rank, ranks) = (self.part.rank, self.part.ranks);
        let behind = (1..ranks).map(move |step| (rank + step) % ranks);
        behind.filter_map(|other| Some((other, self.to[other].as_ref()?)))
    }

    /// The open queues from others, from the rank before on.
    fn senders(&self) -> impl Iterator<Item = (usize, &RecvQueue)> {
        let (rank, ranks) = (self.part.rank, self.part.ranks);
        let before = (1..ranks).map(move |step| (rank + ranks - step) % ranks);
        before.filter_map(|other| Some((other, self.from[other].as_ref()?)))
    }
}

/// The hops of an element.
const HOPS: usize = 2;

/// A rank's part in both hops.
struct Hops<'a> {
    part: &'a Part,
    tl: &'a Tl,
    /// To the owner.
    first: Hop,
    /// From the owner.
    second: Hop,
}

impl<'a> Hops<'a> {
    fn open(part: &'a Part, tl: &'a Tl) -> Result<Self, KernelError> {
        let (operation, root) = (part.operation, part.root);
        let owns = |rank: usize| !operation.has_root() || rank != root;
        let to_owner = |from: usize, to: usize| {
            owns(to)
                && match operation {
                    Operation::Broadcast => from == root,
                    Operation::AllGather => false,
                    // The root adds its own numbers last.
                    _ => owns(from),
                }
        };
        let from_owner = |from: usize, to: usize| {
            owns(from)
                && match operation {
                    Operation::Reduce => to == root,
                    Operation::ReduceScatter => false,
                    _ => owns(to),
                }
        };
        let first = Hop::open(part, tl, 0, to_owner)?;
        let second = Hop::open(part, tl, 1, from_owner)?;
        Ok(Self { part, tl, first, second })
    }

    fn is_root(&self) -> bool {
        self.part.operation.has_root() && self.part.rank == self.part.root
    }

    /// The elements of a vector of `len` that a rank owns; all of a vector that is no longer than a part.
    fn owned(&self, owner: usize, len: usize) -> Range<usize> {
        let Part { ranks, root, operation, .. } = *self.part;
        if operation.has_root() {
            return share(&(0..len), (owner + ranks - root - 1) % ranks, ranks - 1);
        }
        let is_whole = len == self.part.input.len.max(self.part.output.len);
        if is_whole { self.part.segment(len, owner) } else { 0..len }
    }

    /// Sends this rank's numbers to the owner of each part; the root of a broadcast keeps a copy.
    async fn contribute(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.first.part, self.tl);
        let chunks = |owner| part.chunks(&self.owned(owner, part.input.len));
        let lists = self.first.receivers().map(|(owner, to)| (to, chunks(owner)));
        let mut own = part.prefetch(tl, LoadFrom::Input, rounds(lists.collect()));
        let keeps = self.is_root() && !part.is_in_place();
        while let Some((to, chunk, tile)) = own.next().await? {
            part.send(tl, to, &tile);
            if keeps {
                part.store(tl, &chunk, &tile);
            }
        }
        Ok(())
    }

    /// Makes the part that this rank owns, and sends it to all that want it.
    async fn own(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.first.part, self.tl);
        if self.is_root() {
            return Ok(());
        }
        let place = self.owned(part.rank, part.output.len);
        if part.operation == Operation::Broadcast {
            return self.pass_on(&place).await;
        }
        let input = self.owned(part.rank, part.input.len);
        let chunks = part.chunks(&place).zip(part.chunks(&input));
        let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
        let is_kept = part.operation != Operation::Reduce;
        while let Some((place, _, mine)) = own.next().await? {
            let whole = self.combined(mine).await?;
            self.spread(&whole);
            if is_kept {
                part.store(tl, &place, &whole);
            }
        }
        Ok(())
    }

    /// Passes the root's numbers on.
    async fn pass_on(&self, place: &Range<usize>) -> Result<(), KernelError> {
        let (part, tl) = (&self.first.part, self.tl);
        for (_, from) in self.first.senders() {
            for chunk in part.chunks(place) {
                let tile = part.recv(tl, from, chunk.len()).await?;
                self.spread(&tile);
                part.store(tl, &chunk, &tile);
            }
        }
        Ok(())
    }

    /// Combines a chunk of this rank's input with those of the others, in the order of ranks.
    async fn combined(&self, mine: Tile) -> Result<Tile, KernelError> {
        let (part, tl, len) = (&self.first.part, self.tl, mine.shape().elements());
        if !part.operation.combines() {
            return Ok(mine);
        }
        let (mut mine, mut sum) = (Some(mine), None);
        for (rank, from) in self.first.from.iter().enumerate() {
            let one = match from {
                Some(from) => part.recv(tl, from, len).await?,
                None if rank == part.rank => mine.take().expect("each rank comes once"),
                None => continue,
            };
            sum = Some(match sum {
                None => one,
                Some(sum) => part.combine(tl, &sum, &one).await?,
            });
        }
        let sum = sum.expect("at least this rank");
        if part.operation == Operation::Reduce { Ok(sum) } else { part.finish(tl, sum).await }
    }

    /// Sends a finished chunk to all that want it.
    fn spread(&self, tile: &Tile) {
        for (_, to) in self.second.receivers() {
            self.second.part.send(self.tl, to, tile);
        }
    }

    /// Receives the parts of other owners; the root of a reduction adds its own numbers.
    async fn receive(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.second.part, self.tl);
        let chunks = |owner| part.chunks(&self.owned(owner, part.output.len));
        let lists = self.second.senders().map(|(owner, from)| (from, chunks(owner)));
        let arriving = rounds(lists.collect());
        if !self.is_root() {
            for (from, chunk) in arriving {
                let tile = part.recv(tl, from, chunk.len()).await?;
                part.store(tl, &chunk, &tile);
            }
            return Ok(());
        }
        let mut own = part.prefetch(tl, LoadFrom::Input, arriving);
        while let Some((from, chunk, mine)) = own.next().await? {
            let received = part.recv(tl, from, chunk.len()).await?;
            let sum = part.combine(tl, &received, &mine).await?;
            let whole = part.finish(tl, sum).await?;
            part.store(tl, &chunk, &whole);
        }
        Ok(())
    }
}
