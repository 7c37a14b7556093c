//! Bytes for slabs: best fit, coalescing, in units of 1 KiB.
//!
//! - **REG-1 (fits when empty).** A request of at most the capacity succeeds when nothing is allocated.
//! - **REG-2 (apart).** Live slabs never overlap.
//! - **REG-3 (any order).** Slabs return in any order, and what lies side by side is one piece again.

use std::collections::{BTreeMap, BTreeSet};

/// Slabs begin at multiples of this.
pub const ALIGNMENT: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Regions {
    capacity: u64,
    free: u64,
    /// Free pieces: where they begin, and how long they are.
    pieces: BTreeMap<u64, u64>,
    /// The same by length.
    lengths: BTreeSet<(u64, u64)>,
}

impl Regions {
    /// Room for `capacity` bytes, rounded up to whole units.
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = rounded(capacity).unwrap_or(u64::MAX - u64::MAX % ALIGNMENT);
        let mut regions =
            Self { capacity, free: 0, pieces: BTreeMap::new(), lengths: BTreeSet::new() };
        if capacity > 0 {
            regions.add(0, capacity);
        }
        regions
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// The longest piece.
    pub(crate) fn longest(&self) -> u64 {
        self.lengths.last().map_or(0, |(length, _)| *length)
    }

    /// Whether [`Regions::allocate`] would succeed.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        bytes == 0 || rounded(bytes).is_some_and(|bytes| bytes <= self.longest())
    }

    /// Where `bytes` bytes begin, from the shortest piece that is long enough.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let bytes = rounded(bytes)?;
        let (length, start) = *self.lengths.range((bytes, 0)..).next()?;
        self.remove(start, length);
        if length > bytes {
            self.add(start + bytes, length - bytes);
        }
        Some(start)
    }

    /// Gives back what [`Regions::allocate`] returned for `bytes`.
    pub(crate) fn release(&mut self, start: u64, bytes: u64) {
        let mut length = rounded(bytes).expect("REG-2: it was allocated");
        let mut start = start;
        if let Some((&before, &its_length)) = self.pieces.range(..start).next_back()
            && before + its_length == start
        {
            self.remove(before, its_length);
            (start, length) = (before, length + its_length);
        }
        if let Some(&its_length) = self.pieces.get(&(start + length)) {
            self.remove(start + length, its_length);
            length += its_length;
        }
        self.add(start, length);
    }

    fn add(&mut self, start: u64, length: u64) {
        self.pieces.insert(start, length);
        self.lengths.insert((length, start));
        self.free += length;
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.pieces.remove(&start);
        self.lengths.remove(&(length, start));
        self.free -= length;
    }
}

/// `bytes` in whole units; `None` if that is too much for 64 bits.
pub(crate) fn rounded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(ALIGNMENT)
}
