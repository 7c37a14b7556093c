//! `nvls`: the switch between the SIPs combines and copies messages.
//!
//! Rank `s` owns segment `s` of the vector. The switch combines what the other ranks send to the owner, in the order of ranks, on its way;
//! the owner adds its own part last: `((x[0] + x[1]) + ...) + x[s]`. The switch then copies the result to all others. So a rank sends
//! each byte of its vector once, whatever the number of ranks.

use super::super::algorithm::{Algorithm, Operation, Running, never, unknown_work};
use super::super::channels::Channels;
use super::super::part::{Part, fitting};
use super::super::prefetch::LoadFrom;
use super::super::streams::{side_by_side, with_room_for};
use super::are_in_one_group;
use super::direct::rounds;
use phalanx_sim::MachineSpec;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::kernel::{KernelError, Multicaster, Receiver, Reducer, Sender, Tl};
use phalanx_sim::spec::Topology;
use phalanx_sim::topology::PeId;
use std::ops::Range;
use std::rc::Rc;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "nvls",
    summary: "the switch combines and copies messages; each byte leaves a rank once",
    operations: &[
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Broadcast,
        Operation::Reduce,
    ],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits,
    symmetry: never,
    work: unknown_work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

fn fits(machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
    let sips = &machine.sips;
    if sips.topology != Topology::Switch || sips.multicast.is_none() || sips.reduction.is_none() {
        return Err("`nvls` needs a switch with `multicast` and `reduction`".to_owned());
    }
    if !are_in_one_group(machine, members) {
        return Err("`nvls` needs all members behind one switch".to_owned());
    }
    Ok(())
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let ends = Rc::new(Ends::open(part, tl)?);
    let (own, give, take) = (ends.clone(), ends.clone(), ends);
    side_by_side(vec![
        Box::pin(async move { own.own().await }),
        Box::pin(async move { give.contribute().await }),
        Box::pin(async move { take.receive().await }),
    ])
    .await
}

/// A rank's queues through the switch.
struct Ends {
    part: Part,
    tl: Tl,
    /// To the owner of each segment that this rank contributes to, and from the owner of each segment that it gets.
    contributors: Vec<(usize, Sender)>,
    receivers: Vec<(usize, Receiver)>,
    /// From all others, and to all others; `None` where the operation has none for this rank.
    reducer: Option<Reducer>,
    multicaster: Option<Multicaster>,
}

impl Ends {
    fn open(mut part: Part, tl: Tl) -> Result<Self, KernelError> {
        let (operation, rank) = (part.operation, part.rank);
        // A chunk fills a slot: one that is cut once more would wait for a slot twice.
        part.peers.edge = edge(&part, &tl, if operation.has_root() { 2 } else { part.ranks });
        let edge = part.peers.edge;
        let combines = operation.combines();
        let spreads = !matches!(operation, Operation::ReduceScatter | Operation::Reduce);
        // An operation with a root has one segment, which the root owns.
        let owns = |owner: usize| !operation.has_root() || owner == part.root;
        let others: Vec<usize> = (0..part.ranks).filter(|other| *other != rank).collect();
        let owners: Vec<usize> = others.iter().copied().filter(|other| owns(*other)).collect();
        let pes: Vec<PeId> = others.iter().map(|other| part.peers.pe(*other)).collect();
        let channel = part.peers.channel;
        let (mut contributors, mut receivers) = (Vec::new(), Vec::new());
        for &owner in &owners {
            let pe = part.peers.pe(owner);
            if combines {
                contributors.push((owner, tl.contributor(pe, channel, edge)?));
            }
            if spreads {
                receivers.push((owner, tl.multicast_receiver(pe, channel, edge)?));
            }
        }
        let reducer = (combines && owns(rank)).then(|| tl.reducer(&pes, channel, edge));
        let multicaster = (spreads && owns(rank)).then(|| tl.multicaster(&pes, channel, edge));
        let (reducer, multicaster) = (reducer.transpose()?, multicaster.transpose()?);
        Ok(Self { part, tl, contributors, receivers, reducer, multicaster })
    }

    /// The elements of the longer vector that a rank owns.
    fn segment(&self, owner: usize) -> Range<usize> {
        let len = self.part.input.len.max(self.part.output.len);
        if self.part.operation.has_root() { 0..len } else { self.part.segment(len, owner) }
    }

    /// Combines this rank's segment with what the switch brings, and sends the result to all.
    async fn own(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.part, &self.tl);
        if self.reducer.is_none() && self.multicaster.is_none() {
            return Ok(());
        }
        let segment = self.segment(part.rank);
        // The shorter of input and output holds the segment alone.
        let within = |len: usize| if len == segment.len() { 0..len } else { segment.clone() };
        let chunks =
            part.chunks(&within(part.output.len)).zip(part.chunks(&within(part.input.len)));
        let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
        while let Some((place, _, mut tile)) = own.next().await? {
            if let Some(reducer) = &self.reducer {
                let binary = part.combine.binary();
                let sum = tl.recv_reduced(reducer, binary, part.dtype, place.len()).await?;
                tile = part.finish(tl, part.combine(tl, &sum, &tile).await?).await?;
            }
            if let Some(multicaster) = &self.multicaster {
                drop(tl.multicast(multicaster, &tile));
            }
            if self.reducer.is_some() || !part.is_in_place() {
                part.store(tl, &place, &tile);
            }
        }
        Ok(())
    }

    /// Sends this rank's part of each segment to its owner.
    async fn contribute(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.part, &self.tl);
        let lists = self.contributors.iter();
        let lists = lists.map(|(owner, to)| (to, part.chunks(&self.segment(*owner))));
        let mut own = part.prefetch(tl, LoadFrom::Input, rounds(lists.collect()));
        while let Some((to, _, tile)) = own.next().await? {
            drop(tl.send(to, &tile));
        }
        Ok(())
    }

    /// Receives each segment from its owner.
    async fn receive(&self) -> Result<(), KernelError> {
        let (part, tl) = (&self.part, &self.tl);
        let lists = self.receivers.iter();
        let lists = lists.map(|(owner, from)| (from, part.chunks(&self.segment(*owner))));
        for (from, chunk) in rounds(lists.collect()) {
            let tile = tl.recv(from, part.dtype, chunk.len()).await?;
            part.store(tl, &chunk, &tile);
        }
        Ok(())
    }
}

/// The streams of a rank: its own segment, the data that it sends, and the data that it receives.
const STREAMS: usize = 3;

/// The queues: in TCM, since a switch knows no others, with room for `receivers` of them and for the tiles of all streams.
fn edge(part: &Part, tl: &Tl, receivers: usize) -> EdgeSpec {
    let edge = EdgeSpec {
        buffer_kind: BufferKind::Tcm,
        backpressure: Backpressure::Sleep,
        ..part.peers.edge
    };
    with_room_for(STREAMS, fitting(edge, tl.scratch_capacity(), receivers), tl.scratch_capacity())
}
