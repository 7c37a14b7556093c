//! The memory of a worker: one segment that all its workers share, divided into buffers, windows and the ring's slabs.
//!
//! - **MEM-1 (apart).** Live buffers never overlap, and none is used again while a handle, a task or a dying worker may
//!   touch it.
//! - **MEM-2 (zeroed).** New buffers are zero.
//! - **MEM-3 (says what is missing).** A request that does not fit says how much is free, in one piece and in all, and which
//!   knob to turn.

use crate::shm::Segment;
use crate::tensor::Released;
use phalanx_engine::Regions;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

/// The owner of the memory that a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// All workers.
    Host,
    /// One chip; other workers do not see it.
    Chip(u32),
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => write!(f, "on the host"),
            Self::Chip(chip) => write!(f, "on chip {chip}"),
        }
    }
}

/// A request for memory that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes do not fit: {free} are free, {longest} of them in one piece; drop buffers or raise `memory` ({capacity})"
)]
pub struct NoMemory {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes of the longest free piece.
    pub longest: u64,
    /// Bytes of all buffers together.
    pub capacity: u64,
}

/// Bytes of a page; slabs and buffers are whole pages.
const PAGE: usize = 4096;

/// The memory of a worker: slabs of the ring first, buffers behind them.
pub(crate) struct Arena {
    pub(crate) segment: Segment,
    /// Bytes of the ring's slabs.
    pub(crate) slabs: u64,
    regions: Regions,
    /// Buffers whose last handle was dropped.
    pub(crate) dropped: Arc<Mutex<Vec<Released>>>,
    /// Dropped buffers that tasks still use.
    pub(crate) released: Vec<Released>,
    /// Number of the last buffer.
    last_number: u64,
}

impl Arena {
    /// Creates memory with `slabs` bytes for slabs and `buffers` bytes for buffers.
    pub(crate) fn new(slabs: u64, buffers: u64) -> io::Result<Self> {
        let too_large = || io::Error::other("that is more than there are addresses");
        let round = |bytes: u64| bytes.checked_next_multiple_of(PAGE as u64).ok_or_else(too_large);
        let (slabs, buffers) = (round(slabs)?, round(buffers)?);
        let bytes = slabs.checked_add(buffers).and_then(|bytes| usize::try_from(bytes).ok());
        // A segment has at least one page.
        let bytes = bytes.ok_or_else(too_large)?.max(PAGE);
        let segment = Segment::create("phalanx-memory", bytes)?;
        Ok(Self {
            segment,
            slabs,
            regions: Regions::new(buffers),
            dropped: Arc::default(),
            released: Vec::new(),
            last_number: 0,
        })
    }

    /// Returns a number that no other buffer of this memory has.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the offset of `bytes` zeroed bytes.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, NoMemory> {
        let Some(start) = self.regions.allocate(bytes.max(1)) else {
            let (free, longest) = (self.regions.free(), self.regions.longest());
            return Err(NoMemory { bytes, free, longest, capacity: self.regions.capacity() });
        };
        Ok(self.slabs + start)
    }

    /// Zeroes and frees bytes that [`Arena::allocate`] returned.
    pub(crate) fn release(&mut self, offset: u64, bytes: u64) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let length = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        // A range that cannot be zeroed is not used again.
        if self.segment.zero(start..start.saturating_add(length)).is_ok() {
            self.regions.release(offset - self.slabs, bytes.max(1));
        }
    }

    /// Bytes of buffers that are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> u64 {
        self.regions.free()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Callable};
    use crate::{DType, Error, Failure, Program, Task, Worker};

    const MEMORY: u64 = 4 * PAGE as u64;

    #[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
    fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
        Ok(())
    }

    const NOTHING: Callable = Callable::new("nothing", nothing);
    static PROGRAM: Program = Program::new(&[NOTHING]);

    fn worker() -> Worker {
        let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).memory(MEMORY);
        worker.ring(16, 0).init().expect("a worker")
    }

    #[test]
    fn mem_1_live_buffers_never_overlap() {
        let mut arena = Arena::new(100, MEMORY).expect("memory");
        let mut live: Vec<(u64, u64)> = Vec::new();
        for round in 0..400u64 {
            let bytes = 1 + round * 97 % 700;
            match arena.allocate(bytes) {
                Ok(offset) => {
                    let is_apart = live
                        .iter()
                        .all(|(at, length)| offset >= at + length || offset + bytes <= *at);
                    assert!(is_apart && offset >= arena.slabs, "MEM-1: {bytes} at {offset}");
                    assert!(offset + bytes <= arena.segment.len() as u64, "MEM-1");
                    live.push((offset, bytes));
                }
                Err(_) => {
                    let (offset, bytes) = live.swap_remove((round % live.len() as u64) as usize);
                    arena.release(offset, bytes);
                }
            }
        }
        live.into_iter().for_each(|(offset, bytes)| arena.release(offset, bytes));
        assert_eq!(arena.free(), MEMORY, "MEM-1: all is free again");
    }

    #[test]
    fn mem_1_a_buffer_is_used_again_only_after_its_last_handle() {
        let worker = worker();
        let first = worker.buffer(MEMORY).expect("all of the memory");
        let tensor = first.whole();
        drop(first);
        assert!(worker.buffer(1).is_err(), "MEM-1: a tensor names it");
        let call = Call::new(&NOTHING).args([tensor.input()]);
        drop(tensor);
        assert!(worker.buffer(1).is_err(), "MEM-1: a call names it");
        worker.call(&call).expect("a run");
        drop(call);
        assert!(worker.buffer(MEMORY).is_ok(), "MEM-1: nobody names it");
    }

    #[test]
    fn mem_2_a_buffer_is_zero_also_if_its_memory_was_used_before() {
        let worker = worker();
        for round in 1..4u8 {
            // Not whole pages: pages and edges are cleared in different ways.
            let bytes = MEMORY - u64::from(round) * 77;
            let data = worker.tensor(DType::U8, &[bytes]).expect("memory");
            let found = worker.read::<u8>(&data).expect("idle");
            assert!(found.iter().all(|byte| *byte == 0), "MEM-2: round {round}");
            worker.write(&data, &vec![round; found.len()]).expect("idle");
        }
    }

    #[test]
    fn mem_3_a_request_that_does_not_fit_says_what_is_free_and_what_to_change() {
        let mut arena = Arena::new(0, MEMORY).expect("memory");
        let pieces: Vec<u64> =
            (0..4).map(|_| arena.allocate(PAGE as u64).expect("it fits")).collect();
        arena.release(pieces[0], PAGE as u64);
        arena.release(pieces[2], PAGE as u64);
        let refused = arena.allocate(PAGE as u64 + 1).expect_err("MEM-3");
        let (free, longest) = (2 * PAGE as u64, PAGE as u64);
        assert_eq!(refused, NoMemory { bytes: longest + 1, free, longest, capacity: MEMORY });
        let words = Error::from(refused).to_string();
        assert!(words.contains("raise `memory` (16384)"), "MEM-3: {words}");
    }
}
