//! `ring`: every rank sends to the next one only.
//!
//! A vector is cut into one segment per rank. Reducing, each segment goes round and is combined on its way, from the
//! rank behind its owner to its owner: segment `s` is `((x[s+1] + x[s+2]) + ...) + x[s]`. Gathering, what is complete
//! goes round once more. A chunk goes on as soon as it is there, so that steps overlap.

use super::super::algorithm::{Algorithm, Operation, Running, anywhere};
use super::super::part::{From, Part, To};
use phalanx_sim::kernel::{KernelError, Tl};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "ring",
    summary: "round the ranks, segment by segment; the least traffic",
    operations: &[Operation::AllReduce],
    all_pes: false,
    fits: anywhere,
    run: |part, tl| -> Running { Box::pin(run(part, tl)) },
};

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.keep(&tl, &(0..part.input.len), &(0..part.output.len)).await;
    }
    let next = part.to(&tl, (part.rank + 1) % part.ranks, 1)?;
    let previous = part.from(&tl, (part.rank + part.ranks - 1) % part.ranks, 1)?;
    all_reduce(&part, &tl, &next, &previous).await
}

async fn all_reduce(part: &Part, tl: &Tl, next: &To, previous: &From) -> Result<(), KernelError> {
    let (ranks, len) = (part.ranks, part.input.len);
    for chunk in part.chunks(&part.segment(len, part.rank)) {
        let mine = part.load(tl, &chunk).await?;
        part.send(tl, next, &mine);
    }
    let steps = 2 * (ranks - 1);
    for step in 0..steps {
        let reducing = step < ranks - 1;
        for chunk in part.chunks(&part.segment(len, part.rank + 2 * ranks - step - 1)) {
            let mine = reducing.then(|| part.load(tl, &chunk));
            let received = part.recv(tl, previous, chunk.len()).await?;
            let mut current = match mine {
                Some(mine) => part.combine(tl, &received, &mine.await?).await?,
                None => received,
            };
            if step + 2 == ranks {
                current = part.finish(tl, current).await?;
            }
            if step + 1 < steps {
                part.send(tl, next, &current);
            }
            if step + 2 >= ranks {
                part.store(tl, &chunk, &current);
            }
        }
    }
    Ok(())
}
