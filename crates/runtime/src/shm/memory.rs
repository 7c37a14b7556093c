//! Words that two sides share: the seam between the protocols and their memory.
//!
//! The product has [`Region`], words of a [`Segment`]; the models of the protocols have words of a checker that tries
//! every order of events and every value that a load may see.
//!
//! - **REGN-1 (own part).** A region is inside its segment, and no access leaves the region.

use std::ptr::NonNull;
use std::time::Instant;

use super::futex;
use super::segment::{Segment, SegmentError, WORD, copy_out, word_of};
use crate::sync::Ordering;
use crate::sync::shared::{AtomicU32, AtomicU64, fence};

/// Shared words, numbered from 0. A word is used with 32 or with 64 bits, never with both.
pub trait Memory: Clone {
    /// Returns the number of 64-bit words.
    fn words(&self) -> usize;
    /// Reads a word.
    fn load(&self, at: usize, ordering: Ordering) -> u64;
    /// Writes a word.
    fn store(&self, at: usize, value: u64, ordering: Ordering);
    /// Adds to a word; returns its value before.
    fn add(&self, at: usize, value: u64, ordering: Ordering) -> u64;
    /// Reads the 32 bits of a word that is slept on.
    fn load32(&self, at: usize, ordering: Ordering) -> u32;
    /// Adds to the 32 bits of a word that is slept on.
    fn add32(&self, at: usize, value: u32, ordering: Ordering) -> u32;
    /// A sequentially consistent fence: two sides that both use it agree on the order of the accesses around it.
    fn fence(&self);
    /// Copies words from `at` on out, relaxed.
    fn read(&self, at: usize, into: &mut [u8]);
    /// Copies bytes in from word `at` on, relaxed; the last word is filled up with zeros.
    fn write(&self, at: usize, from: &[u8]);
    /// Sleeps while the 32 bits are `expected`, at most until the deadline. May return early.
    fn sleep(&self, at: usize, expected: u32, deadline: Option<Instant>);
    /// Wakes all sleepers on the word.
    fn wake(&self, at: usize);
}

/// Words of a segment.
#[derive(Clone, Debug)]
pub struct Region {
    /// Keeps the memory mapped.
    segment: Segment,
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the pointer is to memory that `segment` keeps mapped and that is reached through atomics only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Creates a region of `segment`; `offset` and `bytes` are multiples of eight.
    pub fn new(segment: &Segment, offset: usize, bytes: usize) -> Result<Self, SegmentError> {
        for number in [offset, bytes] {
            if !number.is_multiple_of(WORD) {
                return Err(SegmentError::Misaligned { offset: number, bytes: WORD });
            }
        }
        let base = segment.address(offset, bytes)?.cast();
        Ok(Self { segment: segment.clone(), base, words: bytes / WORD })
    }

    /// Returns the memory it is part of.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the 32 bits of a word, to sleep on.
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = &raw const self.slice()[at];
        // SAFETY: in bounds by the index; four aligned bytes of eight; shared memory is reached through atomics, and
        // this word with 32 bits only, by the rule of `Memory`.
        unsafe { &*word.cast() }
    }

    #[inline]
    fn slice(&self) -> &[AtomicU64] {
        // SAFETY: REGN-1: `new` checked that these words lie in the segment, which `self` keeps mapped; all access is
        // through atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Memory for Region {
    #[inline]
    fn words(&self) -> usize {
        self.words
    }

    #[inline]
    fn load(&self, at: usize, ordering: Ordering) -> u64 {
        self.slice()[at].load(ordering)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, ordering: Ordering) {
        self.slice()[at].store(value, ordering);
    }

    #[inline]
    fn add(&self, at: usize, value: u64, ordering: Ordering) -> u64 {
        self.slice()[at].fetch_add(value, ordering)
    }

    #[inline]
    fn load32(&self, at: usize, ordering: Ordering) -> u32 {
        self.word32(at).load(ordering)
    }

    #[inline]
    fn add32(&self, at: usize, value: u32, ordering: Ordering) -> u32 {
        self.word32(at).fetch_add(value, ordering)
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) {
        copy_out(&self.slice()[at..at + into.len().div_ceil(WORD)], into);
    }

    #[inline]
    fn write(&self, at: usize, from: &[u8]) {
        let words = &self.slice()[at..at + from.len().div_ceil(WORD)];
        let whole = from.chunks_exact(WORD);
        let last = whole.remainder();
        if let (Some(word), false) = (words.last(), last.is_empty()) {
            word.store(word_of(last), Ordering::Relaxed);
        }
        for (word, bytes) in words.iter().zip(whole) {
            word.store(word_of(bytes), Ordering::Relaxed);
        }
    }

    fn sleep(&self, at: usize, expected: u32, deadline: Option<Instant>) {
        futex::wait(self.word32(at), expected, deadline);
    }

    fn wake(&self, at: usize) {
        futex::wake(self.word32(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regn_1_a_region_is_inside_its_segment() {
        let segment = Segment::create("test", 64).expect("a segment");
        assert!(
            Region::new(&segment, 4, 8).is_err() && Region::new(&segment, 0, 12).is_err(),
            "REGN-1"
        );
        assert!(
            Region::new(&segment, 8, 64).is_err()
                && Region::new(&segment, usize::MAX - 7, 8).is_err()
        );
        let region = Region::new(&segment, 8, 16).expect("inside");
        region.store(1, 9, Ordering::Relaxed);
        assert_eq!(segment.word64(16).expect("inside").load(Ordering::Relaxed), 9, "REGN-1");
        region.write(0, b"abcdefghij");
        let mut got = [0; 10];
        region.read(0, &mut got);
        assert_eq!(&got, b"abcdefghij", "REGN-1");
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn regn_1_no_access_leaves_the_region() {
        let segment = Segment::create("test", 64).expect("a segment");
        Region::new(&segment, 8, 16).expect("inside").load(2, Ordering::Relaxed);
    }
}
