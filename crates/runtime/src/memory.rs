//! The memory of a worker: one piece that all its workers share, cut into buffers, windows and the ring's slabs.
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

/// Whose memory a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Everybody's.
    Host,
    /// That of one chip; other workers do not see it.
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

/// Why memory is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes do not fit: {free} are free, {longest} of them in one piece; drop buffers or raise `memory` ({capacity})"
)]
pub struct NoMemory {
    /// What was asked for.
    pub bytes: u64,
    /// What is free.
    pub free: u64,
    /// The longest free piece.
    pub longest: u64,
    /// All there is.
    pub capacity: u64,
}

/// Both parts are whole pages.
const PAGE: usize = 4096;

/// The shared piece: slabs of the ring first, buffers behind them.
pub(crate) struct Memory {
    pub(crate) segment: Segment,
    /// How many bytes the ring's slabs have.
    pub(crate) slabs: u64,
    regions: Regions,
    pub(crate) dropped: Arc<Mutex<Vec<Released>>>,
}

impl Memory {
    /// A piece with so many bytes for slabs and so many for buffers.
    pub(crate) fn new(slabs: u64, buffers: u64) -> io::Result<Self> {
        let too_large = || io::Error::other("that is more than there are addresses");
        let round = |bytes: u64| bytes.checked_next_multiple_of(PAGE as u64).ok_or_else(too_large);
        let (slabs, buffers) = (round(slabs)?, round(buffers)?);
        let bytes = slabs.checked_add(buffers).and_then(|bytes| usize::try_from(bytes).ok());
        // Who needs no memory gets a page.
        let bytes = bytes.ok_or_else(too_large)?.max(PAGE);
        let segment = Segment::create("phalanx-memory", bytes)?;
        Ok(Self { segment, slabs, regions: Regions::new(buffers), dropped: Arc::default() })
    }

    /// Where `bytes` zeroed bytes begin.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, NoMemory> {
        let Some(start) = self.regions.allocate(bytes.max(1)) else {
            let (free, longest) = (self.regions.free(), self.regions.longest());
            return Err(NoMemory { bytes, free, longest, capacity: self.regions.capacity() });
        };
        Ok(self.slabs + start)
    }

    /// Zeroes and gives back what [`Memory::allocate`] gave.
    pub(crate) fn release(&mut self, offset: u64, bytes: u64) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let length = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        // A range that cannot be zeroed is not used again.
        if self.segment.zero(start..start.saturating_add(length)).is_ok() {
            self.regions.release(offset - self.slabs, bytes.max(1));
        }
    }

    /// How many bytes of buffers are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> u64 {
        self.regions.free()
    }
}
