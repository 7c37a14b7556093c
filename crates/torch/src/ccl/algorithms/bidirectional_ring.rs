//! `bidirectional_ring`: two rings in opposite directions, each with half of the vector.
//!
//! In the first half, segment `s` is combined like that of `ring`: `((x[s+1] + x[s+2]) + ...) + x[s]`. In the second
//! half ranks count the other way round: segment `s` is `((x[-s-1] + x[-s-2]) + ...) + x[-s]`. Two ranks have one
//! neighbour only and use a single ring.

use super::super::algorithm::{Algorithm, LeastWork, Operation, Running, Shape, anywhere};
use super::super::channels::Channels;
use super::super::part::Part;
use super::super::prefetch::LoadFrom;
use super::ring::{self, Piece, Ring, RingPosition};
use crate::placement::share;
use phalanx_sim::exchange::Symmetry;
use phalanx_sim::kernel::{KernelError, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bidirectional_ring",
    summary: "two rings in opposite directions, each with half of the vector; both directions of every link",
    operations: &[Operation::AllReduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits: anywhere,
    symmetry: alike,
    work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// As in `ring`, in both halves.
fn alike(shape: &Shape) -> Option<Symmetry> {
    let halves = if shape.ranks > 2 { 2 } else { 1 };
    let is_even = shape.elements.is_multiple_of(halves * shape.ranks);
    ring::alike(shape).filter(|_| is_even)
}

/// As in `ring`; both halves together send as much, in no fewer messages.
fn work(shape: &Shape) -> LeastWork {
    ring::work(shape)
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    let (rank, ranks) = (part.rank, part.ranks);
    if ranks <= 2 {
        return ring::run(part, tl).await;
    }
    let [right, left] = [(rank + 1) % ranks, (rank + ranks - 1) % ranks];
    let whole = 0..part.input.len;
    let open = |next, previous, index| {
        Ring::open(&part, &tl, &RingPosition { next, previous, index, count: ranks }, 2)
    };
    let ways = [
        (open(right, left, rank)?, share(&whole, 0, 2)),
        (open(left, right, (ranks - rank) % ranks)?, share(&whole, 1, 2)),
    ];
    for (ring, half) in &ways {
        ring.begin(half, LoadFrom::Input, Piece::WHOLE).await?;
    }
    // Chunks of the two rings arrive at the same time and are handled in turn.
    let mut own = ways.each_ref().map(|(ring, half)| ring.own(half, LoadFrom::Input, Piece::WHOLE));
    let mut more = true;
    while more {
        more = false;
        for ((ring, _), own) in ways.iter().zip(&mut own) {
            if let Some((step, chunk, mine)) = own.next().await? {
                ring.add(step, &chunk, mine).await?;
                more = true;
            }
        }
    }
    let mut coming = ways.each_ref().map(|(ring, half)| ring.gathered(half, Piece::WHOLE));
    loop {
        let chunks = coming.each_mut().map(Iterator::next);
        if chunks.iter().all(Option::is_none) {
            return Ok(());
        }
        for ((ring, _), (last, chunk)) in
            ways.iter().zip(chunks).filter_map(|(way, chunk)| Some((way, chunk?)))
        {
            ring.pass(&chunk, last).await?;
        }
    }
}
