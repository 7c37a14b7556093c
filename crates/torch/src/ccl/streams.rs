//! Streams: several ways for parts of one vector, side by side on one PE.
//!
//! A stream has a part of the vector and queues of its own, and runs beside the others: while one waits for a message, the PE
//! works for another.

use super::algorithm::Running;
use super::part::{FITTED, Part, fitting};
use super::prefetch::TILES;
use phalanx_sim::ipcq::{BufferKind, EdgeSpec};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::{Bytes, Capacity};
use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;

/// The place of a stream among all streams of a PE.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The number of the stream.
    pub index: usize,
    /// The number of streams.
    pub streams: usize,
    /// The queues that all streams of a rank receive from.
    pub receivers: usize,
}

/// The units that a vector is divided into for streams of unequal parts.
pub(super) const UNITS: usize = 1 << 16;

/// The bit that tells the channel numbers of streams from those of [`Part::to`].
const STREAMS: u32 = 1 << 8;

/// The numbers of receivers of a stream that streams are told apart by.
const RECEIVERS: usize = 8;

impl Part {
    /// This rank's part in a collective on the elements `parts` of `count` of every segment, as a stream with queues of its own.
    /// All ranks must pass the same numbers. The queues of a stream count as one receiver.
    #[must_use]
    pub fn stream(&self, tl: &Tl, stream: Stream, parts: &Range<usize>, count: usize) -> Self {
        let [in_input, in_output] = self.operation.segments(self.ranks, self.rank == self.root);
        let mut part = self.over(stream, queues(self.peers.edge, tl.scratch_capacity(), stream));
        part.input = self.input.strip(in_input, parts, count);
        part.output = self.output.strip(in_output, parts, count);
        part
    }

    /// This whole part as the only stream of its PE, with queues as large as the scratch memory allows.
    #[must_use]
    pub(super) fn only_stream(&self, tl: &Tl, stream: Stream) -> Self {
        self.over(stream, filling(self.peers.edge, tl.scratch_capacity(), stream))
    }

    /// This part over the queues of a stream.
    fn over(&self, stream: Stream, edge: EdgeSpec) -> Self {
        let mut part = self.clone();
        part.peers.edge = edge;
        part.peers.channel ^= (STREAMS | (stream.number() % STREAMS)) << FITTED;
        part
    }

    /// Returns slice `index` of `count` of this part, over the same queues: slices of a part follow each other.
    #[must_use]
    pub fn slice(&self, index: usize, count: usize) -> Self {
        let [in_input, in_output] = self.operation.segments(self.ranks, self.rank == self.root);
        let own = index..index + 1;
        let (input, output) =
            (self.input.strip(in_input, &own, count), self.output.strip(in_output, &own, count));
        Self { input, output, ..self.clone() }
    }
}

impl Stream {
    /// A number that no other stream with other queues has: the streams of one, then those of two, and so on.
    fn number(self) -> u32 {
        let before = self.streams * self.streams.saturating_sub(1) / 2;
        let each = self.receivers_of_one().min(RECEIVERS - 1);
        u32::try_from((before + self.index) * RECEIVERS + each).unwrap_or(0)
    }

    /// The queues that a stream receives from, at most.
    fn receivers_of_one(self) -> usize {
        self.receivers.div_ceil(self.streams.max(1))
    }
}

/// The queues of a stream: those of all streams leave half of the scratch memory to the tiles of all streams.
fn queues(edge: EdgeSpec, scratch: Capacity, stream: Stream) -> EdgeSpec {
    let receivers = stream.receivers_of_one() * stream.streams;
    with_room_for(stream.streams, fitting(edge, scratch, receivers.max(2)), scratch)
}

/// The queues of the only stream of a PE: they leave the scratch memory that its tiles need.
fn filling(edge: EdgeSpec, scratch: Capacity, stream: Stream) -> EdgeSpec {
    let Capacity::Limited(Bytes(whole)) = scratch else { return edge };
    if edge.buffer_kind == BufferKind::Hbm {
        return queues(edge, scratch, stream);
    }
    let (receivers, tiles) = (stream.receivers.max(1) as u64, TILES as u64);
    // The size of a slot stays a multiple of every type's size.
    let slot_size = edge.slot_size.min((whole / (receivers + tiles) / 16 * 16).max(16));
    let slots = (whole - (slot_size * tiles).min(whole)) / receivers / slot_size;
    let n_slots = u32::try_from(slots).unwrap_or(u32::MAX).clamp(1, edge.n_slots);
    EdgeSpec { n_slots, slot_size, ..edge }
}

/// Queues with slots no larger than the tiles of so many streams in half of the scratch memory.
pub(super) fn with_room_for(streams: usize, edge: EdgeSpec, scratch: Capacity) -> EdgeSpec {
    let Capacity::Limited(Bytes(scratch)) = scratch else { return edge };
    let tiles = (streams * TILES) as u64;
    let slot_size = edge.slot_size.min((scratch / 2 / tiles / 16 * 16).max(16));
    EdgeSpec { slot_size, ..edge }
}

/// Runs streams side by side until all of them have ended, or one has failed.
pub async fn side_by_side(streams: Vec<Running<'_>>) -> Result<(), KernelError> {
    let mut running: Vec<Option<Running<'_>>> = streams.into_iter().map(Some).collect();
    poll_fn(move |context| {
        let mut is_over = true;
        for slot in &mut running {
            let Some(stream) = slot else { continue };
            match stream.as_mut().poll(context) {
                Poll::Ready(Ok(())) => *slot = None,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_of_the_only_stream_fill_the_scratch_memory_but_for_its_tiles() {
        let scratch = Capacity::Limited(Bytes(2 << 20));
        for (receivers, slot_size) in [(1, 16 << 10), (3, 1 << 20), (7, 48 << 10), (63, 48 << 10)] {
            let stream = Stream { index: 0, streams: 1, receivers };
            let edge = EdgeSpec { slot_size, ..EdgeSpec::default() };
            let [most, usual] = [filling, queues].map(|fit| fit(edge, scratch, stream));
            let slots = most.slot_size * u64::from(most.n_slots) * receivers as u64;
            assert!(slots + most.slot_size * TILES as u64 <= 2 << 20, "{receivers}: {most}");
            assert!(most.slot_size >= usual.slot_size, "{receivers}: {most}, {usual}");
            assert!(most.slot_size <= edge.slot_size && most.n_slots <= edge.n_slots);
        }
    }
}
