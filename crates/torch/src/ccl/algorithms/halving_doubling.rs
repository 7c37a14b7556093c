//! `halving_doubling`: pairs of ranks exchange halves, then halves of these, until each rank has one segment of the result;
//! then they exchange results in the reverse order.
//!
//! The vector is cut into `p` segments, where `p` is the number of ranks, a power of two. Segment `s` ends at rank `s`, which
//! combines the ranks that are `p/2` apart first, then those `p/4` apart, the lower rank's operand always first. If the
//! number of ranks is no power of two, the ranks beyond the largest one are folded first: `x[i] + x[p+i]` stands for `x[i]`.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere};
use super::super::channels::Channels;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use super::folded::Folded;
use crate::placement::share;
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{KernelError, Tl};
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "halving_doubling",
    summary: "halves between ranks far apart, then halves of halves, and back; few steps and the least traffic",
    operations: &[Operation::AllReduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: alike,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// If no rank is folded and all segments are alike, ranks differ in the numbers of their partners alone.
fn alike(shape: &Shape) -> Option<Symmetry> {
    let is_even = shape.elements.is_multiple_of(shape.ranks);
    (is_even && shape.ranks.is_power_of_two()).then_some(Symmetry::Hypercube)
}

/// Of the ranks that are not folded, each sends its segments to others, and theirs; in each step it sends and stores something. Some rank
/// sends and stores as much as the mean.
fn work(shape: &Shape) -> LeastWork {
    let Shape { ranks, elements, .. } = *shape;
    let power = 1 << ranks.max(1).ilog2();
    if ranks < 2 || elements < power {
        return LeastWork::default();
    }
    let (steps, most) = (2 * ranks.ilog2() as usize, elements - elements.div_ceil(power));
    let both = most.saturating_mul(2);
    LeastWork { messages: steps, sent: both, stores: steps, stored: both, steps }
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    let receivers = Folded::receivers(part.ranks);
    around(&part, &tl, receivers, async |_| Ok(())).await
}

/// Halves, runs `middle` on the elements of the output that this rank has combined, and doubles. Folded ranks have no `middle`.
pub(super) async fn around(
    part: &Part,
    tl: &Tl,
    receivers: usize,
    middle: impl AsyncFnOnce(Range<usize>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    if part.ranks == 1 {
        part.copy_all(tl).await?;
        return middle(0..part.output.len).await;
    }
    let Some(folded) = Folded::join(part, tl, receivers)? else {
        return Folded::sit_out(part, tl, receivers).await;
    };
    let pairs: Vec<(SendQueue, RecvQueue)> = (0..folded.power.ilog2())
        .map(|level| folded.pair(part.rank ^ (1 << level)))
        .collect::<Result<_, _>>()?;
    if folded.stands_in() {
        folded.fold(|_| ()).await?;
    }
    halve(&folded, &pairs).await?;
    middle(window(&folded, part.rank, 1)).await?;
    double(&folded, &pairs).await?;
    folded.unfold().await
}

/// The range of elements of a rank that holds `count` segments.
fn window(folded: &Folded<'_>, rank: usize, count: usize) -> Range<usize> {
    let (whole, first) = (0..folded.part.input.len, rank / count * count);
    let start = share(&whole, first, folded.power).start;
    start..share(&whole, first + count - 1, folded.power).end
}

async fn halve(folded: &Folded<'_>, pairs: &[(SendQueue, RecvQueue)]) -> Result<(), KernelError> {
    let (part, tl) = (folded.part, folded.tl);
    let mut source = folded.source();
    for (level, (to, from)) in pairs.iter().enumerate().rev() {
        let (distance, other) = (1 << level, part.rank ^ (1 << level));
        part.send_all(tl, to, source, &window(folded, other, distance)).await?;
        let chunks = part.chunks(&window(folded, part.rank, distance)).map(|chunk| ((), chunk));
        let mut own = part.prefetch(tl, source, chunks);
        while let Some(((), chunk, mine)) = own.next().await? {
            let received = part.recv(tl, from, chunk.len()).await?;
            let mut both = folded.combine(&mine, &received, other).await?;
            if level == 0 {
                both = part.finish(tl, both).await?;
            }
            part.store(tl, &chunk, &both);
        }
        source = LoadFrom::Output;
    }
    Ok(())
}

async fn double(folded: &Folded<'_>, pairs: &[(SendQueue, RecvQueue)]) -> Result<(), KernelError> {
    let (part, tl) = (folded.part, folded.tl);
    for (level, (to, from)) in pairs.iter().enumerate() {
        let (distance, other) = (1 << level, part.rank ^ (1 << level));
        part.send_all(tl, to, LoadFrom::Output, &window(folded, part.rank, distance)).await?;
        for chunk in part.chunks(&window(folded, other, distance)) {
            let received = part.recv(tl, from, chunk.len()).await?;
            part.store(tl, &chunk, &received);
        }
    }
    Ok(())
}
