//! Bytes for slabs: best fit, coalescing, in units of 1 KiB.
//!
//! - **REG-1 (fits when empty).** A request of at most the capacity succeeds when nothing is allocated.
//! - **REG-2 (apart).** Live slabs never overlap.
//! - **REG-3 (any order).** Slabs return in any order, and free neighbours become one piece again.

use std::collections::{BTreeMap, BTreeSet};

/// Slabs begin at multiples of this.
pub(crate) const ALIGNMENT: u64 = 1024;

#[derive(Debug)]
/// The free bytes of a range.
pub struct Regions {
    capacity: u64,
    free: u64,
    /// Free pieces: their starts and lengths.
    pieces: BTreeMap<u64, u64>,
    /// The same by length.
    lengths: BTreeSet<(u64, u64)>,
}

impl Regions {
    /// Makes room for `capacity` bytes, rounded up to whole units.
    pub fn new(capacity: u64) -> Self {
        let capacity = rounded(capacity).unwrap_or(u64::MAX - u64::MAX % ALIGNMENT);
        let mut regions =
            Self { capacity, free: 0, pieces: BTreeMap::new(), lengths: BTreeSet::new() };
        if capacity > 0 {
            regions.add(0, capacity);
        }
        regions
    }

    /// Returns the number of all bytes, free or not.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of free bytes, in however many pieces.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Returns the length of the longest free piece.
    pub fn longest(&self) -> u64 {
        self.lengths.last().map_or(0, |(length, _)| *length)
    }

    /// True if [`Regions::allocate`] would succeed.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes == 0 || rounded(bytes).is_some_and(|bytes| bytes <= self.longest())
    }

    /// Takes `bytes` bytes of the shortest free piece that is long enough, and returns their start.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let bytes = rounded(bytes)?;
        let (length, start) = *self.lengths.range((bytes, 0)..).next()?;
        self.remove(start, length);
        if length > bytes {
            self.add(start + bytes, length - bytes);
        }
        Some(start)
    }

    /// Gives back what [`Regions::allocate`] returned for `bytes`.
    pub fn release(&mut self, start: u64, bytes: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without pattern.
    fn next(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn reg_1_whatever_fits_the_capacity_fits_when_nothing_is_allocated() {
        let mut regions = Regions::new(10 * ALIGNMENT);
        for bytes in (1..=10 * ALIGNMENT).step_by(333) {
            let start = regions.allocate(bytes).expect("REG-1");
            regions.release(start, bytes);
        }
        assert_eq!(regions.allocate(10 * ALIGNMENT + 1), None);
        assert_eq!(regions.allocate(u64::MAX), None);
    }

    #[test]
    fn reg_2_reg_3_random_requests_agree_with_a_set_of_units() {
        let mut seed = 1;
        for _ in 0..200 {
            let units = 1 + next(&mut seed) % 40;
            let mut regions = Regions::new(units * ALIGNMENT);
            let mut owners = vec![0u64; usize::try_from(units).expect("small")];
            let mut live: Vec<(u64, u64, u64)> = Vec::new();
            for id in 1..200 {
                if next(&mut seed).is_multiple_of(2) && !live.is_empty() {
                    let at = usize::try_from(next(&mut seed)).expect("small") % live.len();
                    let (id, start, bytes) = live.swap_remove(at);
                    regions.release(start, bytes);
                    owners.iter_mut().filter(|owner| **owner == id).for_each(|owner| *owner = 0);
                } else {
                    let bytes = 1 + next(&mut seed) % (5 * ALIGNMENT);
                    let needed = usize::try_from(bytes.div_ceil(ALIGNMENT)).expect("small");
                    let fits =
                        owners.windows(needed).any(|piece| piece.iter().all(|owner| *owner == 0));
                    assert_eq!(
                        regions.fits(bytes),
                        fits,
                        "REG-3: free pieces side by side are one"
                    );
                    let Some(start) = regions.allocate(bytes) else { continue };
                    let first = usize::try_from(start / ALIGNMENT).expect("small");
                    for owner in &mut owners[first..first + needed] {
                        assert_eq!(std::mem::replace(owner, id), 0, "REG-2");
                    }
                    live.push((id, start, bytes));
                }
                let free = owners.iter().filter(|owner| **owner == 0).count() as u64;
                assert_eq!(regions.free(), free * ALIGNMENT);
            }
        }
    }
}
