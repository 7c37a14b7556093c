//! Wakes sleepers after something is published, and costs little while nobody sleeps. `shm/README.md` has the protocol.
//!
//! ```text
//!   word 0   count     the word that sleepers sleep on; grows with every wake
//!   word 1   asleep    low 16 bits: number of sleepers; above: number of sleeps so far (the ticket)
//!
//!   publisher:  publish; fence; any sleeper that this handle has not woken? count + 1, wake
//!   sleeper:    read count; register; fence; published? no: sleep while the count is what was read; unregister
//! ```
//!
//! The count is read before the registration, so a wake that saw the ticket has changed the count since, and a second wake by
//! the same handle for the same ticket can be left out. Nobody takes a flag that a killed ringer would keep.
//!
//! - **BELL-1 (no lost wake-up).** A sleeper wakes up if something was published before `ring`.
//! - **BELL-2 (quiet).** `ring` does no system call while nobody sleeps, and one for each sleep.
//! - **BELL-3 (many).** Several threads and processes may ring and sleep; the death of one does not harm the others.

use std::io;
use std::time::Instant;

use super::layout::layout;
use super::memory::{Memory, Region};
use super::segment::{Segment, SegmentError, WORD};
use crate::sync::shared::AtomicU32;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of shared memory of a bell: a line of its own.
pub(crate) const FOOTPRINT: usize = 64;

layout! {
    COUNT: usize = 0;
    ASLEEP: usize = 1;
    TICKET: u32 = 16;
}

/// One more sleeper, and one more ticket.
const ONE_SLEEPER: u64 = 1 + (1 << TICKET);

/// Kind of a look at what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Others follow, so it may miss something.
    Passing,
    /// Nobody looks after it until the bell rings: what it misses may never be seen.
    Last,
}

/// A bell in shared memory; clones are the same bell.
#[derive(Debug)]
pub struct Bell<M: Memory = Region> {
    memory: M,
    /// Offset in its segment.
    offset: usize,
    /// The last ticket whose holder, and all before, this handle has woken.
    woken: AtomicU64,
}

impl Bell {
    /// Returns a bell in a small segment of its own.
    pub fn create() -> io::Result<Self> {
        Ok(Self::create_many(1)?.remove(0))
    }

    /// Creates several bells in one segment.
    pub(crate) fn create_many(count: usize) -> io::Result<Vec<Self>> {
        let bytes = count.saturating_mul(FOOTPRINT);
        let segment = Segment::create("phalanx-bell", bytes)?;
        (0..count)
            .map(|number| Self::at(&segment, number * FOOTPRINT).map_err(io::Error::other))
            .collect()
    }

    /// Returns the bell that stands at `offset`, a multiple of eight.
    pub fn at(segment: &Segment, offset: usize) -> Result<Self, SegmentError> {
        Ok(Self::over(Region::new(segment, offset, FOOTPRINT)?, offset))
    }

    /// Returns the memory it stands in.
    pub fn segment(&self) -> &Segment {
        self.memory.segment()
    }

    /// Returns its offset in the segment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the word that sleepers sleep on.
    pub(crate) fn count(&self) -> &AtomicU32 {
        self.memory.word32(COUNT)
    }
}

impl<M: Memory> Bell<M> {
    pub(crate) fn over(memory: M, offset: usize) -> Self {
        assert!(memory.words() * WORD >= FOOTPRINT, "BELL-1");
        Self { memory, offset, woken: AtomicU64::new(u64::MAX) }
    }

    /// Wakes sleepers; to be called after publishing. True if there was one to wake.
    #[inline]
    pub fn ring(&self) -> bool {
        // SYNC: BELL-1: what was published before our look; pairs with the fence in `prepare_sleep`.
        self.memory.fence();
        let asleep = self.memory.load(ASLEEP, Ordering::Relaxed);
        asleep & ((1 << TICKET) - 1) != 0 && self.wake(asleep >> TICKET)
    }

    #[cold]
    fn wake(&self, ticket: u64) -> bool {
        // SYNC: pairs with the store below, which comes after the waking it speaks of.
        if self.woken.load(Ordering::Acquire) == ticket {
            return false;
        }
        // SYNC: what was published before the count; pairs with the load in `prepare_sleep`.
        self.memory.add32(COUNT, 1, Ordering::Release);
        self.memory.wake(COUNT);
        self.woken.store(ticket, Ordering::Release);
        true
    }

    /// Registers a sleeper: from here on `ring` wakes it. The caller looks once more for something published, and sleeps while
    /// the count is [`Sleeper::count`].
    pub(crate) fn prepare_sleep(&self) -> Sleeper<'_, M> {
        // SYNC: pairs with the addition in `wake`.
        let count = self.memory.load32(COUNT, Ordering::Acquire);
        self.memory.add(ASLEEP, ONE_SLEEPER, Ordering::Relaxed);
        // SYNC: BELL-1: the registration before the last look; pairs with the fence in `ring`.
        self.memory.fence();
        Sleeper { bell: self, count }
    }

    /// Sleeps as `sleep` says until `look` has seen something.
    pub(crate) fn sleep_until<T>(
        &self,
        mut look: impl FnMut(Look) -> Option<T>,
        sleep: impl Fn(&Sleeper<'_, M>),
    ) -> T {
        loop {
            let asleep = self.prepare_sleep();
            if let Some(seen) = look(Look::Last) {
                return seen;
            }
            sleep(&asleep);
            drop(asleep);
            if let Some(seen) = look(Look::Passing) {
                return seen;
            }
        }
    }
}

impl<M: Memory> Clone for Bell<M> {
    fn clone(&self) -> Self {
        Self::over(self.memory.clone(), self.offset)
    }
}

/// A registered sleeper; unregistered when dropped.
pub(crate) struct Sleeper<'a, M: Memory> {
    bell: &'a Bell<M>,
    count: u32,
}

impl<M: Memory> Sleeper<'_, M> {
    /// Returns the count before the registration.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Sleeps until rung for, at most until the deadline. May return early.
    pub(crate) fn sleep(&self, deadline: Option<Instant>) {
        self.bell.memory.sleep(COUNT, self.count, deadline);
    }
}

impl<M: Memory> Drop for Sleeper<'_, M> {
    fn drop(&mut self) {
        self.bell.memory.add(ASLEEP, u64::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn bell_1_who_lies_down_is_woken() {
        let bell = Bell::create().expect("a bell");
        let fact = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=200 {
                    while fact.load(Ordering::Relaxed) < round {
                        let asleep = bell.prepare_sleep();
                        if fact.load(Ordering::Relaxed) < round {
                            asleep.sleep(None);
                        }
                    }
                }
            });
            let ringer = bell.clone();
            for round in 1..=200 {
                fact.store(round, Ordering::Relaxed);
                ringer.ring();
                thread::yield_now();
            }
        });
    }

    #[test]
    fn bell_2_nobody_is_woken_twice_for_one_sleep() {
        let bell = Bell::create().expect("a bell");
        let (ringer, other) = (bell.clone(), bell.clone());
        assert!(!ringer.ring(), "BELL-2: nobody sleeps");
        let asleep = bell.prepare_sleep();
        assert!(ringer.ring() && !ringer.ring(), "BELL-2");
        assert!(other.ring(), "BELL-3: it cannot know that the first has got as far as waking");
        asleep.sleep(None);
        drop(asleep);
        assert!(!ringer.ring(), "BELL-2: it got up");
        let again = bell.prepare_sleep();
        assert!(ringer.ring(), "BELL-2: and lay down again");
        drop(again);
    }

    #[test]
    fn bell_3_who_dies_asleep_harms_nobody() {
        let mut bells = Bell::create_many(3).expect("bells");
        let bell = bells.remove(1);
        assert_eq!(bell.offset(), FOOTPRINT);
        std::mem::forget(bell.prepare_sleep());
        let ringer = Bell::at(bell.segment(), bell.offset()).expect("inside");
        assert!(ringer.ring() && !ringer.ring(), "BELL-3: one call in vain");
        let asleep = bell.prepare_sleep();
        assert!(ringer.ring(), "BELL-3");
        asleep.sleep(None);
        assert!(!bells[0].ring() && !bells[1].ring(), "BELL-3: the neighbours are other bells");
    }
}
