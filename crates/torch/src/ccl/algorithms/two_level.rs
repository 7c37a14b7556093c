//! `two_level`: rings inside each group of SIPs, and rings between the groups, by rails: a SIP talks to the SIPs at its own place in the
//! other groups.
//!
//! The vector goes through the dimensions of a group first and between groups then, as `lines.rs` says. It is cut into streams, and these
//! into slices, so that one stream is between groups while another is inside. A rank sends its own block of a slice before it receives:
//! a slice of a large vector has no more of a block than the slots of the next rank hold.
//!
//! Operations with a root follow trees, a rail each, as `rails.rs` says.
//!
//! A small vector on many groups goes in few steps instead, since a ring has as many as there are ranks: the SIPs of a group halve it as by
//! `halving_doubling`, those at the same place of all groups sum what each has by `recursive_doubling`, and the group doubles it again.

use super::super::algorithm::{Algorithm, Operation, Running, never, unknown_work};
use super::super::channels::Channels;
use super::super::part::{Part, Peers, ReduceOp};
use super::super::prefetch::LoadFrom;
use super::super::streams::{Stream, side_by_side};
use super::folded::Folded;
use super::lines::{Dimension, Lines};
use super::{halving_doubling, rails, recursive_doubling};
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "two_level",
    summary: "rings inside each group of SIPs, then between groups, by rails",
    operations: &[
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Scatter,
        Operation::Gather,
    ],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits,
    symmetry: never,
    work: unknown_work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// Streams of a PE: enough that some are inside a group while others are between groups.
const STREAMS: usize = 4;

/// Slices of a stream whose blocks are so many messages.
const SLICES: usize = 8;

/// The fewest groups whose rings take too many steps for a small vector.
const MANY: usize = 16;

/// Elements of a rank's block below which a vector is small.
const SMALL: usize = 64;

fn fits(machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
    if machine.level_count() < 2 {
        return Err("`two_level` needs a machine with `system.levels`".to_owned());
    }
    let group = machine.group_size(0);
    let first = members.first().copied().unwrap_or(0);
    let in_order = members.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    if !in_order || !first.is_multiple_of(group) || !count.is_multiple_of(group) {
        return Err(format!("`two_level` needs whole groups of {group} SIPs in their order"));
    }
    Ok(())
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    if part.operation.has_root() {
        return rails::run(&part, &tl, size_of_group(tl.machine())).await;
    }
    if is_short(tl.machine(), &part) {
        return by_halves(&part, &tl).await;
    }
    let dimensions = dimensions(tl.machine(), part.ranks);
    let receivers = STREAMS * dimensions.len();
    let mut running = Vec::new();
    for index in 0..STREAMS {
        let stream = Stream { index, streams: STREAMS, receivers };
        let up = index.is_multiple_of(2);
        let dimensions = dimensions.iter().map(|one| Dimension { up, ..*one }).collect();
        running.push(stream_of(part.clone(), tl.clone(), stream, dimensions));
    }
    side_by_side(running).await
}

/// One stream: its slices, one after the other.
fn stream_of(part: Part, tl: Tl, stream: Stream, dimensions: Vec<Dimension>) -> Running<'static> {
    Box::pin(async move {
        let own = part.stream(&tl, stream, &(stream.index..stream.index + 1), STREAMS);
        let lines = Lines::open(&own, &tl, &dimensions)?;
        let slices = slices(&own);
        for slice in 0..slices {
            lines.run(&own.slice(slice, slices)).await?;
        }
        Ok(())
    })
}

/// The slices of a stream: up to eight of a message a block, and more where the slots do not hold a block of an eighth.
fn slices(part: &Part) -> usize {
    let block = part.input.len.max(part.output.len) / part.ranks;
    let chunks = part.chunks(&(0..block)).count();
    let slots = (part.peers.edge.n_slots as usize).max(1);
    chunks.min(SLICES).max(chunks.div_ceil(slots)).max(1)
}

/// The dimensions of a group, and one between the groups.
fn dimensions(machine: &MachineSpec, ranks: usize) -> Vec<Dimension> {
    let (topology, count) = machine.topology_of(0);
    let sides = topology.sides(count).unwrap_or([count, 1, 1]);
    let mut stride = 1;
    let mut dimensions = Vec::new();
    let inside = sides.into_iter().map(|side| side as usize);
    let groups = ranks / count as usize;
    for count in inside.chain([groups]) {
        if count > 1 {
            dimensions.push(Dimension { stride, count, up: true });
        }
        stride *= count;
    }
    dimensions
}

/// True for a small vector on many groups; the same on all ranks.
fn is_short(machine: &MachineSpec, part: &Part) -> bool {
    let groups = part.ranks / size_of_group(machine);
    part.operation == Operation::AllReduce
        && groups >= MANY
        && part.input.len < SMALL.saturating_mul(part.ranks)
}

/// The SIPs of a group.
fn size_of_group(machine: &MachineSpec) -> usize {
    machine.group_size(0) as usize
}

/// An all-reduce in few steps: halves inside the group, whole segments between groups, and back.
async fn by_halves(part: &Part, tl: &Tl) -> Result<(), KernelError> {
    let (each, rank) = (size_of_group(tl.machine()), part.rank);
    let first = rank / each * each;
    let group: Vec<usize> = (first..first + each).collect();
    let inside = among(part, rank % each, &group);
    let rail: Vec<usize> = (rank % each..part.ranks).step_by(each).collect();
    let receivers = Folded::receivers(each) + Folded::receivers(rail.len());
    halving_doubling::around(&inside, tl, receivers, async |own| {
        let mut between = among(part, rank / each, &rail);
        between.output = part.output.part(&own);
        between.input = between.output.clone();
        recursive_doubling::over(&between, tl, receivers).await?;
        average(part, tl, &own).await
    })
    .await
}

/// The part of a rank in a sum over some ranks, among which it has this number.
fn among(part: &Part, rank: usize, ranks: &[usize]) -> Part {
    let sips = ranks.iter().map(|rank| part.peers.sips[*rank]).collect();
    let names = ranks.iter().map(|rank| part.peers.names[*rank]).collect();
    let peers = Peers { sips, names, ..part.peers.clone() };
    let combine = if part.combine == ReduceOp::Avg { ReduceOp::Sum } else { part.combine };
    Part { rank, ranks: ranks.len(), combine, peers, ..part.clone() }
}

/// Divides the sums of all ranks, if an average is wanted.
async fn average(part: &Part, tl: &Tl, own: &Range<usize>) -> Result<(), KernelError> {
    if part.combine != ReduceOp::Avg {
        return Ok(());
    }
    let chunks = part.chunks(own).map(|chunk| ((), chunk));
    let mut sums = part.prefetch(tl, LoadFrom::Output, chunks);
    while let Some(((), chunk, sum)) = sums.next().await? {
        part.store(tl, &chunk, &part.finish(tl, sum).await?);
    }
    Ok(())
}
