//! Notices of a node to the ranks of a domain: a rank that nobody should wait for, until when, and why.
//!
//! ```text
//!   run │ lost │ bytes of words, twice │ the words of `run` │ the words of `lost`
//! ```
//!
//! Notices stand in memory of their own that no tensor can name: only the node writes them, under its lock. `run` is the last
//! run for which the rank is not to be waited for; `lost` says that it never is. Both only go up, and the words stand before.
//!
//! Who waits for a cell sleeps on the bell of its own window, which the node rings after the notice. That is the protocol of
//! every bell: post, ring; lie down, look at the cell and the notice, sleep (BELL-1).

use super::roster::LINE;
use crate::shm::{Memory, Region, Segment, SegmentError};
use crate::sync::Ordering;

const RUN: usize = 0;
const LOST: usize = 1;
const RUN_BYTES: usize = 2;
const LOST_BYTES: usize = 3;
const RUN_WORDS: usize = 8;
const LOST_WORDS: usize = 68;

/// Bytes of a notice.
pub(crate) const NOTICE: u64 = 16 * LINE;
/// The most bytes of words; of longer ones the middle is left out.
const MAX_WORDS: usize = 60 * size_of::<u64>();
/// Bytes of the beginning that are kept of longer words.
const HEAD: usize = 80;
/// Mark of words that are left out.
const GAP: &str = " ... ";

/// End of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until this run is over.
    EndOf(u64),
    /// No end.
    Ever,
}

/// The notice of one rank.
pub(crate) struct Notice<M: Memory = Region>(M);

impl Notice {
    /// The notice that stands at `offset`.
    pub(crate) fn at(memory: &Segment, offset: u64) -> Result<Self, SegmentError> {
        let [offset, bytes] =
            [offset, NOTICE].map(|one| usize::try_from(one).unwrap_or(usize::MAX));
        Ok(Self(Region::new(memory, offset, bytes)?))
    }
}

impl<M: Memory> Notice<M> {
    /// Says that nobody waits for the rank any more, and why; the first words stay.
    pub(crate) fn post(&self, until: Until, words: &str) {
        let (value, at, bytes, place) = match until {
            Until::EndOf(run) => (run, RUN, RUN_BYTES, RUN_WORDS),
            Until::Ever => (1, LOST, LOST_BYTES, LOST_WORDS),
        };
        // SYNC: only the holder of the core writes here.
        if self.0.load(at, Ordering::Relaxed) >= value {
            return;
        }
        let words = shortened(words);
        self.0.write(place, words.as_bytes());
        self.0.store(bytes, words.len() as u64, Ordering::Relaxed);
        // SYNC: DOM-10: the words before the notice; pairs with the loads in `is_posted`.
        self.0.store(at, value, Ordering::Release);
    }

    /// True if nobody waits for the rank in this run.
    #[inline]
    pub(crate) fn is_posted(&self, run: u64) -> bool {
        self.is_lost() || self.is_out(run)
    }

    fn is_lost(&self) -> bool {
        // SYNC: DOM-10: pairs with the store in `post`.
        self.0.load(LOST, Ordering::Acquire) != 0
    }

    fn is_out(&self, run: u64) -> bool {
        // SYNC: DOM-10: pairs with the store in `post`.
        self.0.load(RUN, Ordering::Acquire) >= run.max(1)
    }

    /// Returns the words of the notice for this run, if it is posted.
    pub(crate) fn words(&self, run: u64) -> Option<String> {
        let (bytes, place) = if self.is_lost() {
            (LOST_BYTES, LOST_WORDS)
        } else if self.is_out(run) {
            (RUN_BYTES, RUN_WORDS)
        } else {
            return None;
        };
        // SYNC: written before what was seen above; a later run's words are written when no task of this run is left.
        let bytes = usize::try_from(self.0.load(bytes, Ordering::Relaxed)).unwrap_or(usize::MAX);
        let mut words = vec![0; bytes.min(MAX_WORDS)];
        self.0.read(place, &mut words);
        Some(String::from_utf8_lossy(&words).into_owned())
    }
}

/// Words that fit, with their end: the root of a chain of failures stands there.
fn shortened(words: &str) -> String {
    if words.len() <= MAX_WORDS {
        return words.to_owned();
    }
    let is_boundary = |at: &usize| words.is_char_boundary(*at);
    let head = (0..=HEAD).rev().find(is_boundary).unwrap_or(0);
    let from = words.len() - (MAX_WORDS - HEAD - GAP.len());
    let tail = (from..=words.len()).find(is_boundary).unwrap_or(words.len());
    format!("{}{GAP}{}", &words[..head], &words[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice() -> Notice {
        let memory = Segment::create("test", 4096).expect("memory");
        Notice::at(&memory, NOTICE).expect("inside")
    }

    #[test]
    fn dom_10_a_notice_is_for_its_run_and_those_before_or_for_ever() {
        let notice = notice();
        assert!(!notice.is_posted(1) && notice.words(1).is_none(), "DOM-10: nothing is posted");
        notice.post(Until::EndOf(3), "it failed");
        notice.post(Until::EndOf(3), "it failed again");
        assert_eq!(notice.words(3).as_deref(), Some("it failed"), "DOM-10: the first words stay");
        assert!(notice.is_posted(2) && !notice.is_posted(4), "DOM-10: the next run waits for it");
        notice.post(Until::EndOf(5), "another");
        assert_eq!(notice.words(5).as_deref(), Some("another"), "DOM-10");
        notice.post(Until::Ever, "it is lost");
        notice.post(Until::Ever, "it is lost twice");
        for run in [1, 5, 6, u64::MAX] {
            assert_eq!(notice.words(run).as_deref(), Some("it is lost"), "DOM-10: run {run}");
        }
    }

    #[test]
    fn dom_10_long_words_keep_their_beginning_and_their_end() {
        let notice = notice();
        for length in [MAX_WORDS, MAX_WORDS + 1, 3 * MAX_WORDS, 1 << 20] {
            let long = "é".repeat(length / 2);
            let words = format!("the task failed: {long}, killed by signal 9");
            notice.post(Until::EndOf(length as u64), &words);
            let found = notice.words(length as u64).expect("posted");
            assert!(found.len() <= MAX_WORDS, "DOM-10: {}", found.len());
            let is_whole =
                found.starts_with("the task failed: é") && found.ends_with("by signal 9");
            assert!(is_whole && !found.contains('\u{fffd}'), "DOM-10: {found}");
        }
    }

    #[test]
    fn dom_10_a_notice_beyond_the_memory_is_refused() {
        let memory = Segment::create("test", 4096).expect("memory");
        assert!(
            Notice::at(&memory, 4096 - NOTICE + 8).is_err()
                && Notice::at(&memory, u64::MAX).is_err()
        );
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
