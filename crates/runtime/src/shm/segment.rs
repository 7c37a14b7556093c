//! Memory that two processes map: an anonymous object, sealed so that it keeps its size.
//!
//! - **SEG-1 (bounds).** No call reaches outside the segment, whatever the offset and the length.
//! - **SEG-2 (size for life).** Neither side can shrink or grow the object, so touching it never raises a signal; an
//!   object that is smaller than said or not sealed is refused.
//! - **SEG-3 (copies).** `read` and `write` copy by atomic words: against a concurrent writer they give old bytes, new
//!   bytes or both, and leave the bytes around the range alone.
//! - **SEG-4 (zero).** A fresh segment is zero, and so is a range after `zero`.
//! - **SEG-5 (limited).** Memory beyond the limit of file sizes is refused with words, not with the signal that the kernel has
//!   for that.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::grant::Outstanding;
use crate::sync::Ordering;
use crate::sync::shared::{AtomicU32, AtomicU64};

/// Bytes of a word of the copies.
pub(crate) const WORD: usize = size_of::<u64>();
/// Seals of a segment: its size, and the seals themselves.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Shared memory; clones are the same memory.
#[derive(Clone, Debug)]
pub struct Segment(Arc<Mapping>);

/// A range that does not lie in the segment, or that the kernel could not clear.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The range leaves the segment.
    #[error("{bytes} bytes at {offset} do not lie in a segment of {len} bytes")]
    Bounds {
        /// Offset of the range.
        offset: usize,
        /// Bytes of the range.
        bytes: usize,
        /// Bytes of the segment.
        len: usize,
    },
    /// A word must stand at a multiple of its size.
    #[error("a word of {bytes} bytes cannot stand at {offset}")]
    Misaligned {
        /// Offset of the word.
        offset: usize,
        /// Its size.
        bytes: usize,
    },
    /// The kernel did not clear the pages.
    #[error("cannot clear a range of a segment")]
    Clear(#[source] io::Error),
}

#[derive(Debug)]
struct Mapping {
    fd: OwnedFd,
    base: NonNull<u64>,
    /// Bytes that callers may reach.
    bytes: usize,
    /// Bytes that are mapped: `bytes` in whole pages.
    mapped: usize,
    granted: Outstanding,
}

// SAFETY: the mapping is plain memory that no thread owns; it is reached through atomics, or through grants, which
// check that no other grant of this process overlaps (GRT-1).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Segment {
    /// Creates memory of zeros; `label` shows in `/proc`.
    pub fn create(label: &str, bytes: usize) -> io::Result<Self> {
        let mapped = whole_pages(bytes)?;
        check_file_size(mapped as u64)?;
        let fd = rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, mapped as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Self::map(fd, bytes, mapped)
    }

    /// Maps memory that another process made, of at least `bytes`.
    pub fn adopt(fd: OwnedFd, bytes: usize) -> io::Result<Self> {
        let mapped = whole_pages(bytes)?;
        let found = u64::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or(0);
        if found < mapped as u64 {
            let text =
                format!("the shared memory is too small: {found} bytes, needed are {mapped}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            let text = format!(
                "the shared memory is not sealed, so its size may change: {found} bytes, needed are {mapped}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Self::map(fd, bytes, mapped)
    }

    /// Maps all of the memory that another process made.
    pub(crate) fn adopt_whole(fd: OwnedFd) -> io::Result<Self> {
        let bytes = usize::try_from(rustix::fs::fstat(&fd)?.st_size).map_err(io::Error::other)?;
        Self::adopt(fd, bytes)
    }

    fn map(fd: OwnedFd, bytes: usize, mapped: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours; the object has at least
        // `mapped` bytes and is sealed (SEG-2), so every page of it can be touched for as long as it is mapped.
        let base = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), mapped, protection, MapFlags::SHARED, &fd, 0)?
        };
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self(Arc::new(Mapping { fd, base, bytes, mapped, granted: Outstanding::default() })))
    }

    /// Returns the descriptor to hand to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// Returns its size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Copies what stands at `offset` out.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), SegmentError> {
        self.check(offset, into.len())?;
        let (first, skip) = (offset / WORD, offset % WORD);
        let (edge, rest) = into.split_at_mut(into.len().min((WORD - skip) % WORD));
        let words = self.words();
        if !edge.is_empty() {
            let bytes = words[first].load(Ordering::Relaxed).to_ne_bytes();
            edge.copy_from_slice(&bytes[skip..skip + edge.len()]);
        }
        copy_out(&words[first + usize::from(skip > 0)..], rest);
        Ok(())
    }

    /// Copies `from` in at `offset`.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), SegmentError> {
        self.check(offset, from.len())?;
        let (first, skip) = (offset / WORD, offset % WORD);
        let (edge, rest) = from.split_at(from.len().min((WORD - skip) % WORD));
        let words = self.words();
        if !edge.is_empty() {
            merge(&words[first], skip, edge);
        }
        let words = &words[first + usize::from(skip > 0)..];
        let whole = rest.chunks_exact(WORD);
        let last = whole.remainder();
        let count = whole.len();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(word_of(bytes), Ordering::Relaxed);
        }
        if !last.is_empty() {
            merge(&words[count], 0, last);
        }
        Ok(())
    }

    /// Clears `range`: whole pages go back to the system, the rest is written.
    pub fn zero(&self, range: Range<usize>) -> Result<(), SegmentError> {
        let bytes = range.end.saturating_sub(range.start);
        self.check(range.start, bytes)?;
        let page = rustix::param::page_size();
        let first = range.start.next_multiple_of(page).min(range.start + bytes);
        let last = (range.end / page * page).max(first);
        if last > first {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.0.fd, flags, first as u64, (last - first) as u64)
                .map_err(|error| SegmentError::Clear(error.into()))?;
        }
        for (from, to) in [(range.start, first), (last, range.start + bytes)] {
            for at in (from..to).step_by(ZEROS.len()) {
                self.write(at, &ZEROS[..ZEROS.len().min(to - at)])?;
            }
        }
        Ok(())
    }

    /// Returns the 32-bit word at `offset`, for words that are never copied.
    pub fn word32(&self, offset: usize) -> Result<&AtomicU32, SegmentError> {
        self.check_word(offset, size_of::<u32>())?;
        // SAFETY: in bounds and aligned as just checked; the mapping lives as long as `self`; shared memory is reached
        // through atomics only.
        Ok(unsafe { self.0.base.cast::<AtomicU32>().add(offset / size_of::<u32>()).as_ref() })
    }

    /// Returns the 64-bit word at `offset`.
    pub(crate) fn word64(&self, offset: usize) -> Result<&AtomicU64, SegmentError> {
        self.check_word(offset, WORD)?;
        Ok(&self.words()[offset / WORD])
    }

    /// Returns the grants of this process in this memory.
    pub(crate) fn granted(&self) -> &Outstanding {
        &self.0.granted
    }

    /// Returns the address of `offset`, for the slices of a grant and the words of a region: in bounds, aligned to a page at 0.
    pub(super) fn address(&self, offset: usize, bytes: usize) -> Result<NonNull<u8>, SegmentError> {
        self.check(offset, bytes)?;
        // SAFETY: `check` keeps the result inside the mapping, or one past its end.
        Ok(unsafe { self.0.base.cast::<u8>().add(offset) })
    }

    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), SegmentError> {
        let len = self.0.bytes;
        match offset.checked_add(bytes) {
            Some(end) if end <= len => Ok(()),
            _ => Err(SegmentError::Bounds { offset, bytes, len }),
        }
    }

    fn check_word(&self, offset: usize, bytes: usize) -> Result<(), SegmentError> {
        if !offset.is_multiple_of(bytes) {
            return Err(SegmentError::Misaligned { offset, bytes });
        }
        self.check(offset, bytes)
    }

    fn words(&self) -> &[AtomicU64] {
        let mapping = &self.0;
        // SAFETY: `mapped` bytes from `base` are mapped for as long as `self` lives, aligned to a page; every bit
        // pattern is a word; others change them only through atomics or where a grant keeps us out (GRT-2).
        unsafe { std::slice::from_raw_parts(mapping.base.cast().as_ptr(), mapping.mapped / WORD) }
    }
}

static ZEROS: [u8; 512] = [0; 512];

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `Segment::map` with this length, and nothing borrows from it any more: every reference
        // into it borrows from a `Segment`, and this was the last.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok(), "SEG-1");
    }
}

/// Copies words out, from a whole word on.
#[inline]
pub(super) fn copy_out(words: &[AtomicU64], into: &mut [u8]) {
    let count = into.len() / WORD;
    let mut whole = into.chunks_exact_mut(WORD);
    for (bytes, word) in whole.by_ref().zip(words) {
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    let last = whole.into_remainder();
    if !last.is_empty() {
        last.copy_from_slice(&words[count].load(Ordering::Relaxed).to_ne_bytes()[..last.len()]);
    }
}

/// Returns the word of eight bytes.
#[inline]
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// Writes some bytes of a word and leaves the others to their writers.
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let (mut keep, mut new) = ([0xff; WORD], [0; WORD]);
    keep[skip..skip + bytes.len()].fill(0);
    new[skip..skip + bytes.len()].copy_from_slice(bytes);
    let (keep, new) = (u64::from_ne_bytes(keep), u64::from_ne_bytes(new));
    // SYNC: SEG-3: in one step, so that a reader sees old or new bytes, also if the writer is killed here.
    let _ =
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |found| Some(found & keep | new));
}

/// Refuses a file above the limit of file sizes: the kernel would end the process that makes it.
pub(crate) fn check_file_size(bytes: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit.filter(|limit| bytes > *limit) {
        None => Ok(()),
        Some(limit) => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "shared memory of {bytes} bytes is beyond the limit of file sizes, {limit} bytes; raise it (`ulimit -f`) or ask for less"
            ),
        )),
    }
}

fn whole_pages(bytes: usize) -> io::Result<usize> {
    let pages = bytes.checked_next_multiple_of(rustix::param::page_size());
    pages.filter(|&mapped| bytes > 0 && isize::try_from(mapped).is_ok()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("shared memory cannot have {bytes} bytes"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(bytes: usize) -> Segment {
        Segment::create("test", bytes).expect("a segment")
    }

    #[test]
    fn seg_3_parts_of_a_word_are_old_or_new_and_never_neither() {
        let segment = segment(64);
        let parts = [[0x55u8; 4], [0xaa; 4]];
        segment.write(0, &[parts[0], parts[0]].concat()).expect("inside");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..2_000_000 {
                    segment.write(0, &parts[round % 2]).expect("inside");
                }
            });
            while !writer.is_finished() {
                for _ in 0..1000 {
                    let mut word = [0; 8];
                    segment.read(0, &mut word).expect("inside");
                    let is_written = parts.iter().any(|part| *part == word[..4]);
                    assert!(is_written && word[4..] == parts[0], "SEG-3: {word:x?}");
                }
            }
        });
    }

    #[test]
    fn seg_1_nothing_reaches_outside() {
        let segment = segment(100);
        assert_eq!(segment.len(), 100);
        let mut byte = [0; 1];
        for offset in [100, 101, usize::MAX] {
            assert!(segment.read(offset, &mut byte).is_err(), "SEG-1");
            assert!(segment.write(offset, &byte).is_err(), "SEG-1");
            assert!(segment.word32(offset).is_err() && segment.word64(offset).is_err(), "SEG-1");
            assert!(segment.zero(offset..usize::MAX).is_err() || offset == usize::MAX, "SEG-1");
        }
        assert!(segment.read(100, &mut []).is_ok() && segment.write(99, &byte).is_ok());
        assert!(segment.word64(92).is_err() && segment.word32(2).is_err(), "aligned");
        assert!(segment.word64(96).is_err() && segment.word32(96).is_ok(), "inside");
        let error = segment.write(99, &[1, 2]).expect_err("too long").to_string();
        assert_eq!(error, "2 bytes at 99 do not lie in a segment of 100 bytes");
    }

    #[test]
    fn seg_1_impossible_lengths_are_refused() {
        for bytes in [0, usize::MAX, isize::MAX.unsigned_abs() + 1] {
            let error = Segment::create("test", bytes).expect_err("SEG-1").to_string();
            assert_eq!(error, format!("shared memory cannot have {bytes} bytes"));
        }
    }

    #[test]
    fn seg_2_the_size_is_for_life() {
        let segment = segment(4096);
        assert!(rustix::fs::ftruncate(segment.fd(), 0).is_err(), "SEG-2");
        assert!(rustix::fs::ftruncate(segment.fd(), 1 << 20).is_err(), "SEG-2");
        let flags = rustix::io::fcntl_getfd(segment.fd()).expect("open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "SEG-2");
    }

    #[test]
    fn seg_2_a_smaller_or_open_ended_object_is_refused() {
        let small = segment(4096).fd().try_clone_to_owned().expect("a copy");
        let error = Segment::adopt(small, 4097).expect_err("SEG-2").to_string();
        assert_eq!(error, "the shared memory is too small: 4096 bytes, needed are 8192");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("test", flags).expect("memory");
        rustix::fs::ftruncate(&open, 4096).expect("a size");
        let error = Segment::adopt(open, 10).expect_err("SEG-2").to_string();
        assert!(
            error.contains("not sealed") && error.contains("4096 bytes, needed are 4096"),
            "{error}"
        );
        let (pipe, _) = rustix::pipe::pipe().expect("a pipe");
        assert!(Segment::adopt(pipe, 1).is_err(), "SEG-2");
    }

    #[test]
    fn seg_3_copies_at_every_offset_leave_the_rest_alone() {
        let segment = segment(64);
        for offset in 0..24 {
            for bytes in 0..24_usize {
                segment.write(0, &[0xee; 64]).expect("inside");
                let from: Vec<u8> = (1..=24).take(bytes).collect();
                segment.write(offset, &from).expect("inside");
                let mut expected = [0xee; 64];
                expected[offset..offset + bytes].copy_from_slice(&from);
                let mut all = [0; 64];
                segment.read(0, &mut all).expect("inside");
                assert_eq!(all, expected, "SEG-3");
                let mut part = vec![0; bytes];
                segment.read(offset, &mut part).expect("inside");
                assert_eq!(part, from, "SEG-3");
            }
        }
    }

    #[test]
    fn seg_3_two_mappings_are_the_same_memory() {
        let ours = segment(100);
        let theirs =
            Segment::adopt(ours.fd().try_clone_to_owned().expect("a copy"), 100).expect("sealed");
        ours.write(7, b"phalanx").expect("inside");
        ours.word32(40).expect("a word").store(5, Ordering::Relaxed);
        let mut got = [0; 7];
        theirs.read(7, &mut got).expect("inside");
        assert_eq!(&got, b"phalanx", "SEG-3");
        assert_eq!(theirs.word32(40).expect("a word").load(Ordering::Relaxed), 5, "SEG-3");
    }

    #[test]
    fn seg_4_cleared_ranges_are_zero_and_the_rest_is_not() {
        let page = rustix::param::page_size();
        for range in
            [0..4 * page, 1..page, 3..2 * page + 5, page..2 * page, page - 1..page + 1, 9..9]
        {
            let segment = segment(4 * page);
            let mut all = vec![0xff; 4 * page];
            segment.read(0, &mut all).expect("inside");
            assert!(all.iter().all(|byte| *byte == 0), "SEG-4");
            all.fill(7);
            segment.write(0, &all).expect("inside");
            segment.zero(range.clone()).expect("inside");
            segment.read(0, &mut all).expect("inside");
            let expected = (0..4 * page).map(|at| if range.contains(&at) { 0 } else { 7 });
            assert!(all.iter().copied().eq(expected), "SEG-4: {range:?}");
        }
    }
}
