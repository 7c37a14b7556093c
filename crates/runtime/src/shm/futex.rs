//! Sleeping on a word of memory that processes share, and waking its sleepers.
//!
//! - **FTX-1 (shared).** Sleeper and waker may be different processes.
//! - **FTX-2 (no lost wake).** A word that does not hold the expected value does not put anybody to sleep.
//! - **FTX-3 (several words).** `wait_any` ends when any of its words is woken or differs.
//! - **FTX-4 (deadline).** A deadline ends every sleep; a signal ends none for good: the caller looks and sleeps again.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec};

use crate::sync::shared::AtomicU32;

/// Most words that `wait_any` can watch.
pub const MOST: usize = 128;
/// Longest sleep of [`wait_any`] if the kernel cannot watch every word.
pub(crate) const SLICE: Duration = Duration::from_millis(10);

/// Sleeps while `word` is `expected`, at most until the deadline. May return early: look again.
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
    let left =
        deadline.map(|deadline| timespec(deadline.saturating_duration_since(Instant::now())));
    // The word differs, the time is over, a signal came: each is a reason to look again, and no error.
    match futex::wait(word, futex::Flags::empty(), expected, left.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {}
        Err(error) => debug_assert!(false, "FTX-2: {error}"),
    }
}

/// Wakes all sleepers on `word`.
pub fn wake(word: &AtomicU32) {
    let woken = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
    debug_assert!(woken.is_ok(), "FTX-1");
}

/// Sleeps while `first` and all of `rest` have the values beside them, at most until the deadline. May return early:
/// look again.
///
/// The kernel watches [`MOST`] words. If there are more, or if it cannot watch several (before Linux 5.16), the sleep
/// ends after a [`SLICE`], so that the caller looks at all of them.
pub(crate) fn wait_any(
    first: (&AtomicU32, u32),
    rest: &[(&AtomicU32, u32)],
    deadline: Option<Instant>,
) {
    if rest.is_empty() {
        return wait(first.0, first.1, deadline);
    }
    let mut waits = [futex::Wait::new(); MOST];
    for (wait, (word, expected)) in waits.iter_mut().zip(std::iter::once(&first).chain(rest)) {
        wait.val = u64::from(*expected);
        wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
        wait.flags = futex::WaitFlags::SIZE_U32;
    }
    let slice = Instant::now() + SLICE;
    let sliced = deadline.map_or(slice, |deadline| deadline.min(slice));
    let until = if rest.len() >= MOST { Some(sliced) } else { deadline }.map(absolute);
    let waits = &waits[..MOST.min(1 + rest.len())];
    match futex::waitv(waits, futex::WaitvFlags::empty(), until.as_ref(), ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {}
        // An older kernel watches the first word, and the caller looks at the others.
        Err(_) => wait(first.0, first.1, Some(sliced)),
    }
}

/// Returns the time of the kernel's clock at `deadline`.
fn absolute(deadline: Instant) -> Timespec {
    let left = timespec(deadline.saturating_duration_since(Instant::now()));
    rustix::time::clock_gettime(ClockId::Monotonic).checked_add(left).unwrap_or(FOREVER)
}

/// Beyond the life of any machine, and within what the kernel takes.
const FOREVER: Timespec = Timespec { tv_sec: i32::MAX as i64, tv_nsec: 0 };

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).ok().filter(|time| *time < FOREVER).unwrap_or(FOREVER)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::sync::Ordering;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(5)
    }

    #[test]
    fn ftx_2_a_word_that_differs_puts_nobody_to_sleep() {
        let (first, second) = (AtomicU32::new(1), AtomicU32::new(2));
        wait(&first, 0, None);
        wait_any((&first, 1), &[(&second, 3)], None);
        wait_any((&first, 0), &[(&second, 2)], None);
    }

    #[test]
    fn ftx_3_any_of_the_words_wakes() {
        for woken in 0..3 {
            let words = [(); 3].map(|()| AtomicU32::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while words.iter().all(|word| word.load(Ordering::Acquire) == 0) {
                        wait_any((&words[0], 0), &[(&words[1], 0), (&words[2], 0)], None);
                    }
                });
                thread::sleep(Duration::from_millis(2));
                words[woken].store(1, Ordering::Release);
                wake(&words[woken]);
            });
        }
    }

    #[test]
    fn ftx_3_more_words_than_the_kernel_watches_are_looked_at_in_slices() {
        let words: Vec<AtomicU32> = (0..2 * MOST).map(|_| AtomicU32::new(0)).collect();
        let rest: Vec<(&AtomicU32, u32)> = words[1..].iter().map(|word| (word, 0)).collect();
        wait_any((&words[0], 0), &rest, None);
        wait_any((&words[0], 0), &rest[..MOST - 1], Some(soon()));
    }

    #[test]
    fn ftx_4_a_deadline_ends_every_sleep() {
        let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
        for deadline in [soon(), Instant::now()].map(Some) {
            wait(&first, 0, deadline);
            wait_any((&first, 0), &[(&second, 0)], deadline);
        }
        assert_eq!(timespec(Duration::MAX), FOREVER, "FTX-4");
    }
}
