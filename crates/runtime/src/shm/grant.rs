//! A range of shared memory that a running task sees as a slice.
//!
//! The contract: the engine runs no two tasks at the same time if one of them writes what the other touches. Inside one
//! process it is checked here; between processes it is the engine's word, and if that were broken the values would be
//! mixed, since every bit pattern is a value of the types allowed. Arguments without order (those that ask for no
//! dependence) get no grant, only copies by [`Segment::read`] and [`Segment::write`].
//!
//! - **GRT-1 (no overlap).** A process has at no time two grants that overlap and of which one may write.
//! - **GRT-2 (bounds and alignment).** A slice lies in its grant, begins aligned and has whole elements, or is an error.

#![allow(dead_code, reason = "the endpoints are built on top of it")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;

use super::segment::{Segment, SegmentError};

/// The right of a running task to look at a range of a segment, or to change it.
#[derive(Debug)]
pub(crate) struct Grant {
    segment: Segment,
    held: Held,
}

/// Why a range is not granted, or not as a slice of that type.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GrantError {
    /// The range leaves the segment.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Another grant of this process is in the way.
    #[error(
        "{bytes} bytes at {offset} overlap {taken_bytes} bytes at {taken_offset} that another running task has, and one of them writes"
    )]
    Overlap {
        /// Where the range begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
        /// Where the other begins.
        taken_offset: usize,
        /// How long the other is.
        taken_bytes: usize,
    },
    /// The range cannot be seen as elements of this size.
    #[error("{bytes} bytes at {offset} are not elements of {element} bytes aligned to {alignment}")]
    Shape {
        /// Where the range begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
        /// The size of an element.
        element: usize,
        /// What an element is aligned to.
        alignment: usize,
    },
    /// The grant is for reading.
    #[error("{bytes} bytes at {offset} are granted for reading only")]
    ReadOnly {
        /// Where the range begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
    },
}

/// One range that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    offset: usize,
    bytes: usize,
    writes: bool,
}

/// The grants of one mapping.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<Vec<Held>>);

impl Grant {
    /// The right to read `bytes` at `offset`.
    pub(crate) fn reading(
        segment: &Segment,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, GrantError> {
        Self::new(segment, Held { offset, bytes, writes: false })
    }

    /// The right to read and write `bytes` at `offset`.
    pub(crate) fn writing(
        segment: &Segment,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, GrantError> {
        Self::new(segment, Held { offset, bytes, writes: true })
    }

    fn new(segment: &Segment, held: Held) -> Result<Self, GrantError> {
        segment.check(held.offset, held.bytes)?;
        segment.granted().take(held)?;
        Ok(Self { segment: segment.clone(), held })
    }

    /// How many bytes it covers.
    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes
    }

    /// What stands there.
    pub(crate) fn slice<T: Pod>(&self) -> Result<&[T], GrantError> {
        let (address, count) = self.elements::<T>()?;
        // SAFETY: `count` elements from an aligned address inside the mapping, which `self.segment` keeps; any bytes
        // are a `T`. GRT-1: nobody in this process writes there while `self` is borrowed, and by the contract of the
        // module no other process does.
        Ok(unsafe { std::slice::from_raw_parts(address, count) })
    }

    /// What stands there, to change.
    pub(crate) fn slice_mut<T: Pod>(&mut self) -> Result<&mut [T], GrantError> {
        if !self.held.writes {
            return Err(GrantError::ReadOnly { offset: self.held.offset, bytes: self.held.bytes });
        }
        let (address, count) = self.elements::<T>()?;
        // SAFETY: as in `slice`; the grant writes, so by GRT-1 no other grant overlaps it, and `self` is borrowed
        // mutably for as long as the slice lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(address, count) })
    }

    fn elements<T: Pod>(&self) -> Result<(*mut T, usize), GrantError> {
        let Held { offset, bytes, .. } = self.held;
        let (element, alignment) = (size_of::<T>(), align_of::<T>());
        let address = self.segment.address(offset, bytes)?.cast::<T>();
        if element == 0 || !bytes.is_multiple_of(element) || !address.is_aligned() {
            return Err(GrantError::Shape { offset, bytes, element, alignment });
        }
        Ok((address.as_ptr(), bytes / element))
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.segment.granted().give_back(self.held);
    }
}

impl Held {
    fn hinders(self, other: Self) -> bool {
        // Both lie in the segment, so the sums do not overflow.
        let apart =
            self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        !apart && (self.writes || other.writes) && self.bytes > 0 && other.bytes > 0
    }
}

impl Outstanding {
    fn take(&self, held: Held) -> Result<(), GrantError> {
        let mut all = self.lock();
        hindrance(held, &all)?;
        all.push(held);
        Ok(())
    }

    /// Refuses bytes that a running task of this process sees in place, if either writes.
    pub(crate) fn check(
        &self,
        offset: usize,
        bytes: usize,
        writes: bool,
    ) -> Result<(), GrantError> {
        hindrance(Held { offset, bytes, writes }, &self.lock())
    }

    fn give_back(&self, held: Held) {
        let mut all = self.lock();
        let at = all.iter().position(|taken| *taken == held);
        debug_assert!(at.is_some(), "GRT-1");
        at.map(|at| all.swap_remove(at));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first grant that is in the way of another.
fn hindrance(held: Held, all: &[Held]) -> Result<(), GrantError> {
    let taken = all.iter().find(|taken| taken.hinders(held));
    taken.map_or(Ok(()), |taken| {
        Err(GrantError::Overlap {
            offset: held.offset,
            bytes: held.bytes,
            taken_offset: taken.offset,
            taken_bytes: taken.bytes,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        Segment::create("test", 256).expect("a segment")
    }

    #[test]
    fn grt_1_who_writes_is_alone() {
        let segment = segment();
        let mut writer = Grant::writing(&segment, 64, 64).expect("free");
        writer.slice_mut::<u32>().expect("aligned").fill(7);
        for offset in [1, 64, 100, 127] {
            assert!(Grant::reading(&segment, offset, 64).is_err(), "GRT-1");
            assert!(Grant::writing(&segment, offset, 64).is_err(), "GRT-1");
        }
        let around = [Grant::writing(&segment, 0, 64), Grant::writing(&segment, 128, 64)];
        assert!(around.iter().all(Result::is_ok), "GRT-1");
        drop(writer);
        let readers = [Grant::reading(&segment, 64, 64), Grant::reading(&segment, 64, 8)];
        for reader in &readers {
            let slice = reader.as_ref().expect("shared").slice::<u32>().expect("aligned");
            assert!(slice.iter().all(|number| *number == 7), "GRT-1");
        }
        let error = Grant::writing(&segment, 64, 4).expect_err("GRT-1").to_string();
        assert!(error.starts_with("4 bytes at 64 overlap 64 bytes at 64 that another"), "{error}");
        drop(readers);
        assert!(Grant::writing(&segment, 64, 4).is_ok(), "GRT-1");
    }

    #[test]
    fn grt_1_grants_follow_the_memory_and_not_the_handle() {
        let segment = segment();
        let writer = Grant::writing(&segment, 0, 8).expect("free");
        assert!(Grant::writing(&segment.clone(), 0, 8).is_err(), "GRT-1");
        drop(segment);
        assert_eq!(writer.slice::<u64>().expect("aligned"), [0], "GRT-1");
    }

    #[test]
    fn grt_2_slices_are_inside_aligned_and_whole() {
        let segment = segment();
        for (offset, bytes) in [(0, 257), (256, 1), (usize::MAX, 2), (8, usize::MAX)] {
            assert!(
                matches!(Grant::reading(&segment, offset, bytes), Err(GrantError::Segment(_))),
                "GRT-2"
            );
        }
        let mut odd = Grant::writing(&segment, 2, 10).expect("inside");
        assert_eq!(odd.bytes(), 10);
        assert!(odd.slice::<u32>().is_err() && odd.slice::<u64>().is_err(), "GRT-2");
        assert_eq!(odd.slice_mut::<u16>().expect("fits").len(), 5, "GRT-2");
        assert!(odd.slice::<()>().is_err(), "GRT-2");
        drop(odd);
        let mut reader = Grant::reading(&segment, 0, 8).expect("inside");
        assert!(matches!(reader.slice_mut::<u8>(), Err(GrantError::ReadOnly { .. })), "GRT-2");
        let empty = Grant::writing(&segment, 256, 0).expect("empty");
        assert!(empty.slice::<u8>().expect("empty").is_empty());
    }
}
