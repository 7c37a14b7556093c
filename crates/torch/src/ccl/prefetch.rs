//! Prefetching: the next chunks are loaded while the kernel works on the current one.

use super::part::{Part, SendQueue};
use phalanx_sim::kernel::{KernelError, Loading, Tile, Tl};
use phalanx_sim::{Bytes, Capacity};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Poll, ready};

/// The buffer that a phase of an algorithm loads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFrom {
    /// The input.
    Input,
    /// The output, with the results of an earlier phase.
    Output,
}

/// A stream of prefetched chunks, each with a key. The memory of a chunk must not change before the chunk is returned.
pub struct Prefetch<'a, K, I> {
    part: &'a Part,
    tl: &'a Tl,
    from: LoadFrom,
    wanted: I,
    depth: usize,
    loading: VecDeque<(K, Range<usize>, Loading<Tile>)>,
}

/// Most loads in flight: the DMA of a PE serves one after the other, and more early loads would keep the HBM from other PEs.
const DEPTH: usize = 2;

/// Tiles that a kernel holds beside the loads in flight.
const OTHERS: usize = 2;

/// Tiles that a kernel holds at most, an average among them.
pub(super) const TILES: usize = DEPTH + OTHERS + 2;

/// The bytes of the scratch memory that slots leave to tiles of `tile` bytes: those of one stream, but at most half.
pub(super) fn room_for_tiles(scratch: u64, tile: u64) -> u64 {
    tile.saturating_mul((DEPTH + OTHERS) as u64).min(scratch / 2)
}

impl Part {
    /// Prefetches chunks in the order of `wanted`.
    pub fn prefetch<'a, K, I>(&'a self, tl: &'a Tl, from: LoadFrom, wanted: I) -> Prefetch<'a, K, I>
    where
        I: Iterator<Item = (K, Range<usize>)>,
    {
        let depth = self.depth(tl);
        Prefetch { part: self, tl, from, wanted, depth, loading: VecDeque::new() }
    }

    /// The number of loads in flight that fit into the scratch memory beside the slots and two more tiles. The slots of
    /// queues leave room for them, however many are configured.
    fn depth(&self, tl: &Tl) -> usize {
        let Capacity::Limited(Bytes(scratch)) = tl.scratch_capacity() else { return DEPTH };
        let tile = self.peers.edge.slot_size.max(1);
        let tiles = usize::try_from(room_for_tiles(scratch, tile) / tile).unwrap_or(DEPTH);
        tiles.saturating_sub(OTHERS).clamp(1, DEPTH)
    }

    /// Sends a range, chunk by chunk.
    pub async fn send_all(
        &self,
        tl: &Tl,
        to: &SendQueue,
        from: LoadFrom,
        range: &Range<usize>,
    ) -> Result<(), KernelError> {
        let mut mine = self.prefetch(tl, from, self.chunks(range).map(|chunk| ((), chunk)));
        while let Some(((), _, tile)) = mine.next().await? {
            self.send(tl, to, &tile);
        }
        Ok(())
    }
}

impl<K, I: Iterator<Item = (K, Range<usize>)>> Prefetch<'_, K, I> {
    /// Waits for the next chunk; `None` after the last.
    #[expect(clippy::should_implement_trait, reason = "a stream is waited for, not iterated over")]
    pub fn next(
        &mut self,
    ) -> impl Future<Output = Result<Option<(K, Range<usize>, Tile)>, KernelError>> {
        self.fill();
        poll_fn(|context| {
            let Some((.., loading)) = self.loading.front_mut() else {
                return Poll::Ready(Ok(None));
            };
            let tile = ready!(Pin::new(loading).poll(context));
            let next = self.loading.pop_front();
            Poll::Ready(tile.map(|tile| next.map(|(key, chunk, _)| (key, chunk, tile))))
        })
    }

    /// Issues loads until as many as wanted are in flight.
    fn fill(&mut self) {
        while self.loading.len() < self.depth
            && let Some((key, chunk)) = self.wanted.next()
        {
            let loading = match self.from {
                LoadFrom::Input => self.part.load(self.tl, &chunk),
                LoadFrom::Output => self.part.reload(self.tl, &chunk),
            };
            self.loading.push_back((key, chunk, loading));
        }
    }
}
