//! Groups whose size is no power of two, for algorithms that pair ranks off.
//!
//! The ranks beyond the largest power of two `p` are folded: rank `p + i` sends its vector to rank `i`, which combines
//! `x[i] + x[p+i]` and sends the result back in the end.

use super::super::part::{Part, RecvQueue, SendQueue};
use super::super::prefetch::LoadFrom;
use phalanx_sim::kernel::{KernelError, Tile, Tl};

/// One of the first `power` ranks, with the rank that is folded onto it, if there is one.
pub(super) struct Folded<'a> {
    pub(super) part: &'a Part,
    pub(super) tl: &'a Tl,
    /// The largest power of two that is not above the number of ranks.
    pub(super) power: usize,
    receivers: usize,
    beyond: Option<(SendQueue, RecvQueue)>,
}

impl<'a> Folded<'a> {
    /// Most queues that a rank of so many receives from; see [`Part::to`].
    pub(super) fn receivers(ranks: usize) -> usize {
        ranks.ilog2() as usize + 1
    }

    /// This rank among the first `power` ranks; `None` if it is folded onto another. The rank receives from so many queues in all.
    pub(super) fn join(
        part: &'a Part,
        tl: &'a Tl,
        receivers: usize,
    ) -> Result<Option<Self>, KernelError> {
        let power = 1 << part.ranks.ilog2();
        if part.rank >= power {
            return Ok(None);
        }
        let folded = Self { part, tl, power, receivers, beyond: None };
        let other = part.rank + power;
        let beyond = if other < part.ranks { Some(folded.pair(other)?) } else { None };
        Ok(Some(Self { beyond, ..folded }))
    }

    /// Runs a folded rank: sends its vector to its partner and waits for the result.
    pub(super) async fn sit_out(part: &Part, tl: &Tl, receivers: usize) -> Result<(), KernelError> {
        let partner = part.rank - (1 << part.ranks.ilog2());
        let (to, from) = part.pair(tl, partner, receivers)?;
        part.send_all(tl, &to, LoadFrom::Input, &(0..part.input.len)).await?;
        for chunk in part.chunks(&(0..part.output.len)) {
            let whole = part.recv(tl, &from, chunk.len()).await?;
            part.store(tl, &chunk, &whole);
        }
        Ok(())
    }

    /// The queues to and from another rank.
    pub(super) fn pair(&self, rank: usize) -> Result<(SendQueue, RecvQueue), KernelError> {
        self.part.pair(self.tl, rank, self.receivers)
    }

    /// The buffer with this rank's numbers after folding.
    pub(super) fn source(&self) -> LoadFrom {
        if self.stands_in() { LoadFrom::Output } else { LoadFrom::Input }
    }

    /// Combines this rank's vector with that of the folded rank, in the output; calls `take` with each chunk.
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

    /// Sends a piece of the result to the folded rank.
    pub(super) fn hand_back(&self, tile: &Tile) {
        if let Some((to, _)) = &self.beyond {
            self.part.send(self.tl, to, tile);
        }
    }

    /// Sends the whole result to the folded rank.
    pub(super) async fn unfold(&self) -> Result<(), KernelError> {
        match &self.beyond {
            Some((to, _)) => {
                let whole = 0..self.part.output.len;
                self.part.send_all(self.tl, to, LoadFrom::Output, &whole).await
            }
            None => Ok(()),
        }
    }

    /// True if a rank is folded onto this one.
    pub(super) fn stands_in(&self) -> bool {
        self.beyond.is_some()
    }

    /// Combines this rank's tile with one from `other`, the operand of the lower rank first.
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
