//! Groups whose size is no power of two, for algorithms that pair ranks off.
//!
//! The ranks beyond the largest power of two `p` sit out: rank `p + i` gives its vector to rank `i`, which combines
//! `x[i] + x[p+i]`, and gets the result from it in the end.

use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use phalanx_sim::kernel::{KernelError, Tile, Tl};

/// One of the ranks that are paired off, and whoever it stands in for.
pub(super) struct Folded<'a> {
    pub(super) part: &'a Part,
    pub(super) tl: &'a Tl,
    /// How many are paired off: the largest power of two.
    pub(super) power: usize,
    beyond: Option<(SendQueue, RecvQueue)>,
}

impl<'a> Folded<'a> {
    /// How many queues a rank has open to receive from, at most; see [`Part::to`].
    fn receivers(ranks: usize) -> usize {
        ranks.ilog2() as usize + 1
    }

    /// This rank among those that are paired off; none if it sits out.
    pub(super) fn join(part: &'a Part, tl: &'a Tl) -> Result<Option<Self>, KernelError> {
        let power = 1 << part.ranks.ilog2();
        if part.rank >= power {
            return Ok(None);
        }
        let folded = Self { part, tl, power, beyond: None };
        let other = part.rank + power;
        let beyond = if other < part.ranks { Some(folded.pair(other)?) } else { None };
        Ok(Some(Self { beyond, ..folded }))
    }

    /// What a rank does that sits out: gives its vector to its partner, and waits for the result.
    pub(super) async fn sit_out(part: &Part, tl: &Tl) -> Result<(), KernelError> {
        let partner = part.rank - (1 << part.ranks.ilog2());
        let (to, from) = part.pair(tl, partner, Self::receivers(part.ranks))?;
        part.send_all(tl, &to, LoadFrom::Input, &(0..part.input.len)).await?;
        for chunk in part.chunks(&(0..part.output.len)) {
            let whole = part.recv(tl, &from, chunk.len()).await?;
            part.store(tl, &chunk, &whole);
        }
        Ok(())
    }

    /// The queues to and from another rank.
    pub(super) fn pair(&self, rank: usize) -> Result<(SendQueue, RecvQueue), KernelError> {
        self.part.pair(self.tl, rank, Self::receivers(self.part.ranks))
    }

    /// Where this rank's numbers are once they have been folded.
    pub(super) fn source(&self) -> LoadFrom {
        if self.stands_in() { LoadFrom::Output } else { LoadFrom::Input }
    }

    /// Combines this rank's vector with that of the rank it stands in for, in the output, and hands out each chunk.
    pub(super) async fn fold(&self, mut take: impl FnMut(&Tile)) -> Result<(), KernelError> {
        let (part, tl) = (self.part, self.tl);
        let chunks = part.chunks(&(0..part.input.len)).map(|chunk| ((), chunk));
        let mut own = part.prefetch(tl, LoadFrom::Input, chunks);
        while let Some(((), chunk, mut tile)) = own.next().await? {
            if let Some((_, from)) = &self.beyond {
                let received = part.recv(tl, from, chunk.len()).await?;
                tile = part.combine(tl, &tile, &received).await?;
                part.store(tl, &chunk, &tile);
            }
            take(&tile);
        }
        Ok(())
    }

    /// Sends a piece of the result to the rank it stands in for.
    pub(super) fn hand_back(&self, tile: &Tile) {
        if let Some((to, _)) = &self.beyond {
            self.part.send(self.tl, to, tile);
        }
    }

    /// Sends the whole result to the rank it stands in for.
    pub(super) async fn unfold(&self) -> Result<(), KernelError> {
        match &self.beyond {
            Some((to, _)) => {
                let whole = 0..self.part.output.len;
                self.part.send_all(self.tl, to, LoadFrom::Output, &whole).await
            }
            None => Ok(()),
        }
    }

    /// Whether it stands in for another rank.
    pub(super) fn stands_in(&self) -> bool {
        self.beyond.is_some()
    }

    /// Combines what is here with what came from `other`, the lower rank's first.
    pub(super) async fn combine(
        &self,
        mine: &Tile,
        received: &Tile,
        other: usize,
    ) -> Result<Tile, KernelError> {
        let [one, two] = if self.part.rank < other { [mine, received] } else { [received, mine] };
        self.part.combine(self.tl, one, two).await
    }
}
