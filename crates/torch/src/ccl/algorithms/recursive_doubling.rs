//! `recursive_doubling`: pairs of ranks exchange whole vectors, then pairs of pairs, and so on.
//!
//! All ranks combine in the same order: neighbours first, then pairs of neighbours, the lower ranks' operand always first:
//! `((x[0] + x[1]) + (x[2] + x[3])) + ...`. If the number of ranks is no power of two, the ranks beyond the largest one are
//! folded first: `x[i] + x[p+i]` stands for `x[i]`. A chunk is sent on as soon as it is combined.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use super::folded::Folded;
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{KernelError, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "recursive_doubling",
    summary: "whole vectors between ranks 1, 2, 4, ... apart; the fewest steps on few links",
    operations: &[Operation::AllReduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: alike,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// If no rank is folded, ranks differ in the numbers of their partners alone.
fn alike(shape: &Shape) -> Option<Symmetry> {
    shape.ranks.is_power_of_two().then_some(Symmetry::Hypercube)
}

/// One of the ranks that are not folded sends and stores everything in each step.
fn work(shape: &Shape) -> LeastWork {
    let Shape { ranks, elements, slot, .. } = *shape;
    if ranks < 2 || elements == 0 {
        return LeastWork::default();
    }
    let steps = ranks.ilog2() as usize;
    let sent = elements.saturating_mul(steps);
    let messages = elements.div_ceil(slot.max(1)).saturating_mul(steps);
    LeastWork { messages, sent, stores: messages, stored: sent, steps }
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    over(&part, &tl, Folded::receivers(part.ranks)).await
}

/// Runs a rank that receives from so many queues, these among them.
pub(super) async fn over(part: &Part, tl: &Tl, receivers: usize) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(tl).await;
    }
    match Folded::join(part, tl, receivers)? {
        None => Folded::sit_out(part, tl, receivers).await,
        Some(folded) => all_reduce(&folded).await,
    }
}

async fn all_reduce(folded: &Folded<'_>) -> Result<(), KernelError> {
    let (part, tl) = (folded.part, folded.tl);
    let others: Vec<usize> =
        (0..folded.power.ilog2()).map(|level| part.rank ^ (1 << level)).collect();
    let pairs: Vec<(SendQueue, RecvQueue)> =
        others.iter().map(|other| folded.pair(*other)).collect::<Result<_, _>>()?;
    folded.fold(|tile| part.send(tl, &pairs[0].0, tile)).await?;
    for (level, (other, (_, from))) in others.iter().zip(&pairs).enumerate() {
        let source = if level == 0 { folded.source() } else { LoadFrom::Output };
        let chunks = part.chunks(&(0..part.output.len)).map(|chunk| ((), chunk));
        let mut own = part.prefetch(tl, source, chunks);
        while let Some(((), chunk, mine)) = own.next().await? {
            let received = part.recv(tl, from, chunk.len()).await?;
            let mut both = folded.combine(&mine, &received, *other).await?;
            if let Some((to, _)) = pairs.get(level + 1) {
                part.send(tl, to, &both);
            } else {
                both = part.finish(tl, both).await?;
                folded.hand_back(&both);
            }
            part.store(tl, &chunk, &both);
        }
    }
    Ok(())
}
