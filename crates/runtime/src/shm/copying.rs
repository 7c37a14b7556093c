//! Copies of shared memory that respect grants (GRT-3).

use std::sync::RwLockReadGuard;

use super::grant::{GrantError, GrantedRange, check_overlap};
use super::segment::Segment;

/// Bytes that are copied before waiting grants get a chance.
const AT_ONCE: usize = 1 << 16;

/// Copies some ranges of a segment, one after the other. A range that a task has in place is refused.
///
/// A large range is copied in parts; if a task gets it in place between two parts, the first ones are copied.
pub(crate) struct Copying<'s> {
    segment: &'s Segment,
    /// While this is held, nobody gets anything in place.
    held: Option<RwLockReadGuard<'s, Vec<GrantedRange>>>,
    /// Bytes that may be copied before the list is released.
    left: usize,
}

impl<'s> Copying<'s> {
    pub(crate) fn new(segment: &'s Segment) -> Self {
        Self { segment, held: None, left: 0 }
    }

    /// True if a range can be copied now.
    pub(crate) fn check(
        &mut self,
        offset: usize,
        bytes: usize,
        writes: bool,
    ) -> Result<(), GrantError> {
        self.segment.check(offset, bytes)?;
        self.look(offset, bytes, writes, 0)
    }

    /// Copies what stands at `offset` out.
    pub(crate) fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<(), GrantError> {
        let bytes = into.len();
        self.segment.check(offset, bytes)?;
        for (number, part) in into.chunks_mut(AT_ONCE).enumerate() {
            self.look(offset, bytes, false, part.len())?;
            self.segment.read(offset + number * AT_ONCE, part)?;
        }
        Ok(())
    }

    /// Copies `from` in at `offset`.
    pub(crate) fn write(&mut self, offset: usize, from: &[u8]) -> Result<(), GrantError> {
        self.segment.check(offset, from.len())?;
        for (number, part) in from.chunks(AT_ONCE).enumerate() {
            self.look(offset, from.len(), true, part.len())?;
            self.segment.write(offset + number * AT_ONCE, part)?;
        }
        Ok(())
    }

    /// Looks for grants in the way of a range, of which `next` bytes are copied next.
    fn look(
        &mut self,
        offset: usize,
        bytes: usize,
        writes: bool,
        next: usize,
    ) -> Result<(), GrantError> {
        if self.left < next {
            self.held = None;
        }
        if self.held.is_none() {
            self.left = AT_ONCE;
        }
        self.left -= next;
        let all = self.held.get_or_insert_with(|| self.segment.granted().look());
        check_overlap(GrantedRange { offset, bytes, writes, holder: 0 }, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::grant::{Grant, Holder};

    #[test]
    fn grt_3_a_copy_does_not_change_what_somebody_sees_in_place() {
        let segment = Segment::create("test", 256).expect("a segment");
        let holder = Holder::new();
        let seen = Grant::reading(&holder, &segment, 64, 64).expect("free");
        for offset in [1, 64, 100, 127] {
            let mut copying = Copying::new(&segment);
            let error = copying.write(offset, &[7; 64]).expect_err("GRT-3").to_string();
            assert!(error.contains("overlap 64 bytes at 64 that another"), "{error}");
            assert!(copying.check(offset, 64, true).is_err(), "GRT-3");
            copying.read(offset, &mut [1; 64]).expect("GRT-3: both read");
            copying.write(0, &[7; 64]).expect("beside it");
        }
        assert_eq!(seen.slice::<u8>().expect("bytes"), [0; 64], "GRT-3");
        drop(seen);
        let mut changed = Grant::writing(&holder, &segment, 64, 64).expect("free");
        changed.slice_mut::<u8>().expect("bytes").fill(3);
        assert!(Copying::new(&segment).read(0, &mut [0; 65]).is_err(), "GRT-3");
        drop(changed);
        let mut bytes = [0; 65];
        Copying::new(&segment).read(0, &mut bytes).expect("nobody has it");
        assert_eq!((bytes[63], bytes[64]), (7, 3));
    }

    #[test]
    fn grt_3_a_copy_that_is_refused_has_copied_nothing() {
        let bytes = 3 * AT_ONCE;
        let segment = Segment::create("test", bytes).expect("a segment");
        let holder = Holder::new();
        let _last = Grant::reading(&holder, &segment, bytes - 8, 8).expect("free");
        let mut copying = Copying::new(&segment);
        assert!(copying.write(0, &vec![7; bytes]).is_err(), "GRT-3");
        let mut found = vec![1; bytes];
        copying.read(0, &mut found).expect("both read");
        assert!(found.iter().all(|byte| *byte == 0), "GRT-3");
        copying.write(0, &vec![7; bytes - 8]).expect("nobody has that");
        copying.read(0, &mut found).expect("both read");
        assert!(found[..bytes - 8].iter().all(|byte| *byte == 7), "SEG-3");
        let outside = copying.write(bytes - 1, &[1; 2]).expect_err("SEG-1");
        assert!(matches!(outside, GrantError::Segment(_)), "SEG-1");
    }

    #[test]
    fn grt_3_nobody_gets_in_place_what_is_being_copied() {
        let bytes = 4 * AT_ONCE;
        let segment = Segment::create("test", bytes).expect("a segment");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for value in 1..200u8 {
                    // Refused while somebody looks.
                    let _ = Copying::new(&segment).write(0, &vec![value; bytes]);
                }
            });
            let holder = Holder::new();
            while !writer.is_finished() {
                let seen = Grant::reading(&holder, &segment, 0, bytes).expect("GRT-3: it waits");
                let slice = std::hint::black_box(seen.slice::<u64>().expect("aligned"));
                let before = [slice[0], slice[slice.len() - 1]];
                std::thread::yield_now();
                let slice = std::hint::black_box(slice);
                assert_eq!([slice[0], slice[slice.len() - 1]], before, "GRT-3");
            }
        });
    }
}
