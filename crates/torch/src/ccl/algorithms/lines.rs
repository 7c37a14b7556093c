//! Rings along the lines of a grid: a row, then a column, and so on, in one pass.
//!
//! A rank has a place in each dimension, and a line of ranks through it. A reduction runs a ring along the first line for each
//! block of the vector; each result goes on along the second line as soon as it is combined, and so on, so that nothing is kept.
//! With one dimension, block `s` is combined as by `ring`: `((x[s+1] + x[s+2]) + ...) + x[s]`; with more, the sums of the first
//! lines are combined in the same way along the second ones. A gather goes the other way: a block goes round the last line, and
//! from each of its ranks round the line before.

use super::super::algorithm::Operation;
use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use phalanx_sim::kernel::{KernelError, Tile, Tl};
use std::ops::Range;

/// A dimension of a grid, and the direction of messages in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimension {
    /// The ranks from a place to the next.
    pub(super) stride: usize,
    /// The places.
    pub(super) count: usize,
    /// True if messages go to the next place, false if to the one before.
    pub(super) up: bool,
}

impl Dimension {
    /// The position of a rank, counted in the direction of messages.
    pub(super) fn position(self, rank: usize) -> usize {
        let place = rank / self.stride % self.count;
        if self.up { place } else { (self.count - place) % self.count }
    }

    /// The rank at another position of the line through `rank`, modulo the places.
    pub(super) fn at(self, rank: usize, position: usize) -> usize {
        let position = position % self.count;
        let place = if self.up { position } else { (self.count - position) % self.count };
        rank - rank / self.stride % self.count * self.stride + place * self.stride
    }
}

/// The line of a rank in one dimension, with its queues.
struct Line {
    dimension: Dimension,
    next: SendQueue,
    previous: RecvQueue,
}

/// The lines through a rank, in the order of a reduction. Their operations take the part of the vector: a stream may have several,
/// one after the other.
pub(super) struct Lines {
    tl: Tl,
    lines: Vec<Line>,
}

impl Lines {
    /// Opens the queues of all lines; `part` is a stream, and each dimension has at least two places.
    pub(super) fn open(
        part: &Part,
        tl: &Tl,
        dimensions: &[Dimension],
    ) -> Result<Self, KernelError> {
        let open = |dimension: &Dimension| {
            let position = dimension.position(part.rank);
            let next = part.to(tl, dimension.at(part.rank, position + 1), 1)?;
            let before = dimension.at(part.rank, position + dimension.count - 1);
            let previous = part.from(tl, before, 1)?;
            Ok(Line { dimension: *dimension, next, previous })
        };
        let lines = dimensions.iter().map(open).collect::<Result<_, KernelError>>()?;
        Ok(Self { tl: tl.clone(), lines })
    }

    /// The digits of `number`, one for each line, the first the fastest.
    fn digits(&self, number: usize) -> impl Iterator<Item = usize> {
        self.lines.iter().scan(number, |rest, line| {
            let digit = *rest % line.dimension.count;
            *rest /= line.dimension.count;
            Some(digit)
        })
    }

    /// The block of the rank that is `number` steps, by digits, before this one, and `more` steps in each dimension.
    fn block(&self, part: &Part, len: usize, number: usize, more: usize) -> Range<usize> {
        let mut rank = part.rank;
        for (line, digit) in self.lines.iter().zip(self.digits(number)) {
            let dimension = line.dimension;
            let position = dimension.position(rank) + 2 * dimension.count - digit - more;
            rank = dimension.at(rank, position);
        }
        part.segment(len, rank)
    }

    fn send(&self, part: &Part, line: &Line, tile: &Tile) {
        part.send(&self.tl, &line.next, tile);
    }

    /// Reduces the input; calls `take` with each chunk of this rank's block and its sum.
    async fn reduce(
        &self,
        part: &Part,
        take: impl Fn(Range<usize>, &Tile),
    ) -> Result<(), KernelError> {
        let (tl, len) = (&self.tl, part.input.len);
        let wanted = (0..part.ranks).flat_map(|number| {
            let chunks = part.chunks(&self.block(part, len, number, 1));
            chunks.map(move |chunk| (number, chunk))
        });
        let mut own = part.prefetch(tl, LoadFrom::Input, wanted);
        'chunks: while let Some((number, chunk, mut tile)) = own.next().await? {
            for (line, step) in self.lines.iter().zip(self.digits(number)) {
                if step > 0 {
                    let received = part.recv(tl, &line.previous, chunk.len()).await?;
                    tile = part.combine(tl, &received, &tile).await?;
                }
                if step + 1 < line.dimension.count {
                    self.send(part, line, &tile);
                    continue 'chunks;
                }
            }
            take(chunk, &part.finish(tl, tile).await?);
        }
        Ok(())
    }

    /// Sends a chunk of this rank's block along all lines, the last first.
    fn spread(&self, part: &Part, tile: &Tile) {
        for line in self.lines.iter().rev() {
            self.send(part, line, tile);
        }
    }

    /// Receives the blocks of the other ranks, sends them on, and stores them.
    async fn gather(&self, part: &Part) -> Result<(), KernelError> {
        let (tl, len) = (&self.tl, part.output.len);
        for number in 1..part.ranks {
            let mut digits = self.digits(number).enumerate();
            let (at, step) = digits.find(|(_, step)| *step > 0).unwrap_or_default();
            let (line, inner) = (&self.lines[at], &self.lines[..at]);
            for chunk in part.chunks(&self.block(part, len, number, 0)) {
                let received = part.recv(tl, &line.previous, chunk.len()).await?;
                if step + 1 < line.dimension.count {
                    self.send(part, line, &received);
                }
                for inner in inner.iter().rev() {
                    self.send(part, inner, &received);
                }
                part.store(tl, &chunk, &received);
            }
        }
        Ok(())
    }

    /// Runs the operation of `part`: an all-reduce, a reduce-scatter or an all-gather.
    pub(super) async fn run(&self, part: &Part) -> Result<(), KernelError> {
        match part.operation {
            Operation::ReduceScatter => self.reduce_scatter(part).await,
            Operation::AllGather => self.all_gather(part).await,
            _ => self.all_reduce(part).await,
        }
    }

    async fn all_reduce(&self, part: &Part) -> Result<(), KernelError> {
        self.reduce(part, |chunk, whole| {
            self.spread(part, whole);
            part.store(&self.tl, &chunk, whole);
        })
        .await?;
        self.gather(part).await
    }

    async fn reduce_scatter(&self, part: &Part) -> Result<(), KernelError> {
        let base = part.segment(part.input.len, part.rank).start;
        self.reduce(part, |chunk, whole| {
            part.store(&self.tl, &(chunk.start - base..chunk.end - base), whole);
        })
        .await
    }

    async fn all_gather(&self, part: &Part) -> Result<(), KernelError> {
        let tl = &self.tl;
        let place = part.segment(part.output.len, part.rank);
        let chunks = part.chunks(&place).zip(part.chunks(&(0..part.input.len)));
        let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
        while let Some((place, _, tile)) = own.next().await? {
            self.spread(part, &tile);
            part.store(tl, &place, &tile);
        }
        self.gather(part).await
    }
}
