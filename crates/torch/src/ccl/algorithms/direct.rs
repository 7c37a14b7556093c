//! `direct`: every rank sends to every other one.
//!
//! Segment `s` of a vector is combined by rank `s`, in the order of ranks, and sent to everybody. Ranks begin with
//! the one behind them, so that no link carries all first messages.

use super::super::algorithm::{Algorithm, Operation, Running, anywhere};
use super::super::part::{From, Part, To};
use phalanx_sim::kernel::{KernelError, Tile, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "direct",
    summary: "everybody to everybody; the fewest steps",
    operations: &[Operation::AllReduce],
    all_pes: false,
    fits: anywhere,
    run: |part, tl| -> Running { Box::pin(run(part, tl)) },
};

/// The queues to and from every other rank; none for itself.
struct Mesh {
    to: Vec<Option<To>>,
    from: Vec<Option<From>>,
}

impl Mesh {
    fn open(part: &Part, tl: &Tl) -> Result<Self, KernelError> {
        let others = part.ranks - 1;
        let mut mesh = Self { to: Vec::new(), from: Vec::new() };
        for rank in 0..part.ranks {
            let other = rank != part.rank;
            mesh.to.push(if other { Some(part.to(tl, rank, others)?) } else { None });
            mesh.from.push(if other { Some(part.from(tl, rank, others)?) } else { None });
        }
        Ok(mesh)
    }

    fn to(&self, rank: usize) -> &To {
        self.to[rank].as_ref().expect("nobody sends to itself")
    }

    fn from(&self, rank: usize) -> &From {
        self.from[rank].as_ref().expect("nobody receives from itself")
    }
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    let mesh = Mesh::open(&part, &tl)?;
    all_reduce(&part, &tl, &mesh).await
}

async fn all_reduce(part: &Part, tl: &Tl, mesh: &Mesh) -> Result<(), KernelError> {
    let (ranks, len) = (part.ranks, part.input.len);
    for step in 1..ranks {
        let peer = (part.rank + step) % ranks;
        for chunk in part.chunks(&part.segment(len, peer)) {
            let theirs = part.load(tl, &chunk).await?;
            part.send(tl, mesh.to(peer), &theirs);
        }
    }
    for chunk in part.chunks(&part.segment(len, part.rank)) {
        let mut sum: Option<Tile> = None;
        for rank in 0..ranks {
            let one = if rank == part.rank {
                part.load(tl, &chunk).await?
            } else {
                part.recv(tl, mesh.from(rank), chunk.len()).await?
            };
            sum = Some(match sum {
                None => one,
                Some(sum) => part.combine(tl, &sum, &one).await?,
            });
        }
        let whole = part.finish(tl, sum.expect("at least one rank")).await?;
        for step in 1..ranks {
            part.send(tl, mesh.to((part.rank + step) % ranks), &whole);
        }
        part.store(tl, &chunk, &whole);
    }
    for step in 1..ranks {
        let peer = (part.rank + ranks - step) % ranks;
        for chunk in part.chunks(&part.segment(len, peer)) {
            let whole = part.recv(tl, mesh.from(peer), chunk.len()).await?;
            part.store(tl, &chunk, &whole);
        }
    }
    Ok(())
}
