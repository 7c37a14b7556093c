//! A range of shared memory that a running task sees as a slice.
//!
//! The contract: the engine runs no two tasks at the same time if one of them writes bytes that the other touches.
//! Inside one process it is checked here. Between processes the engine's order guarantees it, and
//! `Worker::write_unordered` asks which tasks were sent. A submitter that gives up the order (`no_dep`, a manual scope,
//! peers of a domain) answers for its accesses: between processes the values would be mixed, since every bit pattern is
//! a value of the types allowed. Arguments without order get no grant, only copies by
//! [`Copying`](super::copying::Copying).
//!
//! ```text
//!   in place:  no grant in the way? one more grant      … look, change …      one grant less
//!   copies:    no grant in the way? copy some; look again before the next; no grant is given meanwhile
//! ```
//!
//! - **GRT-1 (no overlap).** A process has at no time two grants that overlap and of which one may write.
//! - **GRT-2 (bounds and alignment).** A slice lies in its grant, begins aligned and has whole elements, or is an error.
//! - **GRT-3 (copies look).** Bytes that a task of this process sees in place are not written by a copy, and bytes that a task
//!   changes in place are not read by a copy.
//! - **GRT-4 (given back).** When a task has ended its grants are gone, also those that it forgot.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::Pod;

use super::segment::{Segment, SegmentError};
use crate::sync::{Ordering, shared::AtomicU64};

/// The right of a running task to look at a range of a segment, or to change it.
#[derive(Debug)]
pub(crate) struct Grant<'t> {
    segment: &'t Segment,
    holder: &'t Holder,
    range: GrantedRange,
}

/// A holder of grants, which runs one task after the other.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Number that no other holder of this process has.
    number: u64,
    /// Number of its grants.
    grants: AtomicU64,
}

/// A refused grant, slice or copy.
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
        /// Offset of the range.
        offset: usize,
        /// Bytes of the range.
        bytes: usize,
        /// Offset of the other range.
        taken_offset: usize,
        /// Bytes of the other range.
        taken_bytes: usize,
    },
    /// The range cannot be seen as elements of this size.
    #[error("{bytes} bytes at {offset} are not elements of {element} bytes aligned to {alignment}")]
    Shape {
        /// Offset of the range.
        offset: usize,
        /// Bytes of the range.
        bytes: usize,
        /// The size of an element.
        element: usize,
        /// Alignment of an element.
        alignment: usize,
    },
    /// The grant is for reading.
    #[error("{bytes} bytes at {offset} are granted for reading only")]
    ReadOnly {
        /// Offset of the range.
        offset: usize,
        /// Bytes of the range.
        bytes: usize,
    },
}

/// One range that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantedRange {
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) writes: bool,
    /// Number of its holder; 0 for copies.
    pub(super) holder: u64,
}

/// The grants of one mapping.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(RwLock<Vec<GrantedRange>>);

impl Holder {
    /// Creates a holder without grants.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // SYNC: a number that no other has; nothing is published with it.
        Self { number: LAST.fetch_add(1, Ordering::Relaxed) + 1, grants: AtomicU64::new(0) }
    }

    /// Gives back what its task has forgotten to give back. It is borrowed alone, so nobody can use such a grant any more.
    #[inline]
    pub(crate) fn give_back_all(&mut self, segments: &[Segment]) {
        if std::mem::take(self.grants.get_mut()) > 0 {
            for segment in segments {
                segment.granted().lock().retain(|range| range.holder != self.number);
            }
        }
    }
}

impl<'t> Grant<'t> {
    /// Returns the right to read `bytes` at `offset`.
    pub(crate) fn reading(
        holder: &'t Holder,
        segment: &'t Segment,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, GrantError> {
        Self::new(
            holder,
            segment,
            GrantedRange { offset, bytes, writes: false, holder: holder.number },
        )
    }

    /// Returns the right to read and write `bytes` at `offset`.
    pub(crate) fn writing(
        holder: &'t Holder,
        segment: &'t Segment,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, GrantError> {
        Self::new(
            holder,
            segment,
            GrantedRange { offset, bytes, writes: true, holder: holder.number },
        )
    }

    fn new(
        holder: &'t Holder,
        segment: &'t Segment,
        range: GrantedRange,
    ) -> Result<Self, GrantError> {
        segment.check(range.offset, range.bytes)?;
        segment.granted().take(range)?;
        // SYNC: a count; its reader is alone (`Holder::give_back_all`).
        holder.grants.fetch_add(1, Ordering::Relaxed);
        Ok(Self { segment, holder, range })
    }

    /// Returns the bytes as a slice to read.
    pub(crate) fn slice<T: Pod>(&self) -> Result<&[T], GrantError> {
        let (address, count) = self.elements::<T>()?;
        // SAFETY: `count` elements from an aligned address inside the mapping, which `self.segment` keeps; any bytes
        // are a `T`. GRT-1 and GRT-3: nobody in this process writes there while `self` is borrowed, also if it is never
        // dropped: then the grant is given back when its holder is borrowed alone, which is after every borrow of
        // `self`. By the contract of the module no other process writes there.
        Ok(unsafe { std::slice::from_raw_parts(address, count) })
    }

    /// Returns the bytes as a slice to change.
    pub(crate) fn slice_mut<T: Pod>(&mut self) -> Result<&mut [T], GrantError> {
        if !self.range.writes {
            return Err(GrantError::ReadOnly {
                offset: self.range.offset,
                bytes: self.range.bytes,
            });
        }
        let (address, count) = self.elements::<T>()?;
        // SAFETY: as in `slice`; the grant writes, so by GRT-1 no other grant overlaps it and by GRT-3 nobody copies
        // from there, and `self` is borrowed mutably for as long as the slice lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(address, count) })
    }

    fn elements<T: Pod>(&self) -> Result<(*mut T, usize), GrantError> {
        let GrantedRange { offset, bytes, .. } = self.range;
        let (element, alignment) = (size_of::<T>(), align_of::<T>());
        let address = self.segment.address(offset, bytes)?.cast::<T>();
        if element == 0 || !bytes.is_multiple_of(element) || !address.is_aligned() {
            return Err(GrantError::Shape { offset, bytes, element, alignment });
        }
        Ok((address.as_ptr(), bytes / element))
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.segment.granted().give_back(self.range);
        // SYNC: a count; its reader is alone (`Holder::give_back_all`).
        self.holder.grants.fetch_sub(1, Ordering::Relaxed);
    }
}

impl GrantedRange {
    fn conflicts(self, other: Self) -> bool {
        // Both lie in the segment, so the sums do not overflow.
        let apart =
            self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        !apart && (self.writes || other.writes) && self.bytes > 0 && other.bytes > 0
    }
}

impl Outstanding {
    fn take(&self, range: GrantedRange) -> Result<(), GrantError> {
        let mut all = self.lock();
        check_overlap(range, &all)?;
        all.push(range);
        Ok(())
    }

    fn give_back(&self, range: GrantedRange) {
        let mut all = self.lock();
        let at = all.iter().position(|taken| *taken == range);
        debug_assert!(at.is_some(), "GRT-1");
        at.map(|at| all.swap_remove(at));
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Vec<GrantedRange>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the list of grants for reading; no grant is given meanwhile.
    pub(super) fn look(&self) -> RwLockReadGuard<'_, Vec<GrantedRange>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first grant that is in the way of another.
pub(super) fn check_overlap(range: GrantedRange, all: &[GrantedRange]) -> Result<(), GrantError> {
    let taken = all.iter().find(|taken| taken.conflicts(range));
    taken.map_or(Ok(()), |taken| {
        Err(GrantError::Overlap {
            offset: range.offset,
            bytes: range.bytes,
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

    fn reading<'t>(
        (holder, segment): (&'t Holder, &'t Segment),
        offset: usize,
        bytes: usize,
    ) -> Result<Grant<'t>, GrantError> {
        Grant::reading(holder, segment, offset, bytes)
    }

    fn writing<'t>(
        (holder, segment): (&'t Holder, &'t Segment),
        offset: usize,
        bytes: usize,
    ) -> Result<Grant<'t>, GrantError> {
        Grant::writing(holder, segment, offset, bytes)
    }

    #[test]
    fn grt_1_who_writes_is_alone() {
        let (holder, segment) = (Holder::new(), segment());
        let at = (&holder, &segment);
        let mut writer = writing(at, 64, 64).expect("free");
        writer.slice_mut::<u32>().expect("aligned").fill(7);
        for offset in [1, 64, 100, 127] {
            assert!(reading(at, offset, 64).is_err(), "GRT-1");
            assert!(writing(at, offset, 64).is_err(), "GRT-1");
        }
        let around = [writing(at, 0, 64), writing(at, 128, 64)];
        assert!(around.iter().all(Result::is_ok), "GRT-1");
        drop(writer);
        let readers = [reading(at, 64, 64), reading(at, 64, 8)];
        for reader in &readers {
            let slice = reader.as_ref().expect("shared").slice::<u32>().expect("aligned");
            assert!(slice.iter().all(|number| *number == 7), "GRT-1");
        }
        let error = writing(at, 64, 4).expect_err("GRT-1").to_string();
        assert!(error.starts_with("4 bytes at 64 overlap 64 bytes at 64 that another"), "{error}");
        drop(readers);
        assert!(writing(at, 64, 4).is_ok(), "GRT-1");
    }

    #[test]
    fn grt_1_grants_follow_the_memory_and_not_the_handle() {
        let (holder, segment) = (Holder::new(), segment());
        let at = (&holder, &segment);
        let writer = writing(at, 0, 8).expect("free");
        assert!(Grant::writing(&holder, &segment.clone(), 0, 8).is_err(), "GRT-1");
        assert_eq!(writer.slice::<u64>().expect("aligned"), [0], "GRT-1");
    }

    #[test]
    fn grt_2_slices_are_inside_aligned_and_whole() {
        let (holder, segment) = (Holder::new(), segment());
        let at = (&holder, &segment);
        for (offset, bytes) in [(0, 257), (256, 1), (usize::MAX, 2), (8, usize::MAX)] {
            assert!(matches!(reading(at, offset, bytes), Err(GrantError::Segment(_))), "GRT-2");
        }
        let mut odd = writing(at, 2, 10).expect("inside");
        assert_eq!(odd.range.bytes, 10);
        assert!(odd.slice::<u32>().is_err() && odd.slice::<u64>().is_err(), "GRT-2");
        assert_eq!(odd.slice_mut::<u16>().expect("fits").len(), 5, "GRT-2");
        assert!(odd.slice::<()>().is_err(), "GRT-2");
        drop(odd);
        let mut reader = reading(at, 0, 8).expect("inside");
        assert!(matches!(reader.slice_mut::<u8>(), Err(GrantError::ReadOnly { .. })), "GRT-2");
        let empty = writing(at, 256, 0).expect("empty");
        assert!(empty.slice::<u8>().expect("empty").is_empty());
    }

    #[test]
    fn grt_4_what_was_forgotten_is_given_back_and_what_others_have_is_not() {
        let (mut holder, other, segment) = (Holder::new(), Holder::new(), segment());
        let segments = [segment.clone(), self::segment()];
        let theirs = Grant::reading(&other, &segment, 0, 8).expect("free");
        for _ in 0..3 {
            let dropped = Grant::reading(&holder, &segment, 0, 8).expect("shared");
            std::mem::forget(Grant::reading(&holder, &segment, 0, 8).expect("shared"));
            std::mem::forget(Grant::writing(&holder, &segments[1], 0, 8).expect("free"));
            drop(dropped);
            assert!(Grant::reading(&other, &segments[1], 0, 8).is_err(), "GRT-4: not before");
            holder.give_back_all(&segments);
            assert_eq!(segment.granted().look().len(), 1, "GRT-4: theirs");
        }
        assert!(Grant::writing(&holder, &segment, 0, 8).is_err(), "GRT-1");
        drop(theirs);
        assert!(Grant::writing(&holder, &segment, 0, 8).is_ok(), "GRT-4");
    }
}
