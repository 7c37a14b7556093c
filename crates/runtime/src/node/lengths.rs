//! Measured lengths of tasks, by callable.
//!
//! A worker is sent tasks ahead. A task that takes long is not to have others behind it while another worker has nothing
//! to do, so a long task has its worker to itself (ADR 23). The length of a task is not known before it ends; the lengths of
//! earlier tasks of the same callable are.
//!
//! - **LEN-1 (to itself).** A task of a pool has its worker to itself if tasks of its callable took a millisecond or more
//!   lately, or if nothing is known of its callable.

/// Tasks of this length have a worker to themselves.
const ALONE_NANOSECONDS: u64 = 1_000_000;
/// After a task of an unknown callable was submitted, the lengths of this many tasks are all noted.
const EAGER: u32 = 64;
/// Tasks of this length are always noted: long before they are to be alone, and too long for the note to matter.
const LONG_NANOSECONDS: u64 = 100_000;
/// One of this many shorter tasks is sampled.
const SAMPLE: u32 = 16;

/// The mean length of the last tasks of each callable, in nanoseconds.
pub(crate) struct Lengths {
    means: Vec<Option<u64>>,
    /// Tasks that ended since one was noted.
    unseen: u32,
    /// Tasks that are still noted whatever their length.
    eager: u32,
}

impl Lengths {
    /// Creates an empty table for `callables` callables.
    pub(super) fn new(callables: usize) -> Self {
        Self { means: vec![None; callables], unseen: 0, eager: 0 }
    }

    /// True if a task of `callable` is to have a worker to itself.
    #[inline]
    pub(crate) fn is_to_be_alone(&mut self, callable: u32) -> bool {
        let mean = self.means.get(callable as usize).copied().flatten();
        let is_alone = mean.is_none_or(|mean| mean >= ALONE_NANOSECONDS);
        if is_alone {
            self.eager = EAGER;
        }
        is_alone
    }

    /// True if the length of a task that has just ended is to be noted.
    #[inline]
    pub(super) fn is_sampled(&mut self, nanoseconds: u64) -> bool {
        self.unseen += 1;
        self.unseen >= SAMPLE || nanoseconds >= LONG_NANOSECONDS || self.eager > 0
    }

    /// Notes the length of a task; the last ones count most.
    pub(super) fn note(&mut self, callable: u32, nanoseconds: u64) {
        self.unseen = 0;
        self.eager = self.eager.saturating_sub(1);
        if let Some(mean) = self.means.get_mut(callable as usize) {
            let before = mean.unwrap_or(nanoseconds);
            *mean = Some((before / 4).saturating_mul(3).saturating_add(nanoseconds / 4));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn len_1_unknown_and_long_callables_have_a_worker_to_themselves() {
        let mut lengths = Lengths::new(2);
        assert!(lengths.is_to_be_alone(0) && lengths.is_to_be_alone(1), "LEN-1: unknown");
        assert!(lengths.is_to_be_alone(7), "LEN-1: not registered");
        lengths.note(0, 300);
        lengths.note(1, 5_000_000);
        assert!(!lengths.is_to_be_alone(0) && lengths.is_to_be_alone(1), "LEN-1");
        (0..8).for_each(|_| lengths.note(1, 300));
        (0..8).for_each(|_| lengths.note(0, 5_000_000));
        assert!(lengths.is_to_be_alone(0) && !lengths.is_to_be_alone(1), "LEN-1: the last count");
    }

    #[test]
    fn len_1_a_long_task_is_noted_immediately_and_short_ones_now_and_then() {
        let mut lengths = Lengths::new(1);
        assert!(lengths.is_sampled(LONG_NANOSECONDS), "LEN-1");
        lengths.note(0, 300);
        let sampled = (0..10 * SAMPLE).filter(|_| {
            lengths.is_sampled(300) && {
                lengths.note(0, 300);
                true
            }
        });
        assert_eq!(sampled.count(), 10, "LEN-1");
    }
}
