//! The policy of all waiters: time awake, then sleep.
//!
//! Some pauses, then the processor is offered to others for a while (about 60 µs, and never less than it takes to wake
//! somebody, or both sides of a conversation would sleep after every word), then sleep. Keeping the processor pays only
//! while the other side has another one. That is not known beforehand, since other programs run too, so a thread that kept it in
//! vain offers it at once the next times.
//!
//! - **WAIT-1 (result).** `wait` returns only when there is something, a watched word differs, or the deadline is over.
//! - **WAIT-2 (idle).** A thread that waits for long sleeps, and uses no processor.
//! - **WAIT-3 (busy).** If there is something already, `wait` does no system call.
//! - **WAIT-4 (patience).** The time awake is at least the time that a waking takes, but for a waiter that is sure to wait for long.
//! - **WAIT-5 (yields).** The processor is kept for a few microseconds at most, and not where that was in vain lately.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::bell::{Bell, Look};
use super::futex;
use crate::sync::{Ordering, shared::AtomicU32};

/// Looks before anything else is done: about a microsecond.
const PAUSES: u32 = 24;
/// Number of waits without those looks after they were in vain.
const MISSED: u32 = 15;
/// Longest time to keep the processor while every runner has one. Short, since other programs may want it.
const SPIN: Duration = Duration::from_micros(6);
/// Least time to offer the processor to others.
const PATIENCE: Duration = Duration::from_micros(60);
/// And at most, whatever was measured.
const MOST_PATIENCE: Duration = Duration::from_millis(1);
/// Assumed time of a wake-up, if it could not be measured in [`BUDGET`].
const USUAL_WAKING: Duration = Duration::from_micros(30);
/// Longest time of the measurement.
const BUDGET: Duration = Duration::from_millis(1);
const ROUNDS: u32 = 3;
/// Number of looks between two looks at the watched words and the clock.
const GLANCE: u32 = 8;

/// The policy of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Processors that this process may use.
    cores: usize,
    /// Time to wake a sleeping thread.
    waking: Duration,
    /// Time to keep the processor.
    spin: Duration,
    /// Time to offer the processor to others, after that.
    patience: Duration,
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is something.
    Ready,
    /// The watched word of this number differs from what was expected.
    Changed(usize),
    /// The deadline is over.
    Deadline,
}

impl Waiting {
    /// Returns the policy for this machine, measured once in the life of the process.
    pub fn calibrate() -> Self {
        static MEASURED: OnceLock<Duration> = OnceLock::new();
        Self::with_waking(*MEASURED.get_or_init(|| measure().unwrap_or(USUAL_WAKING)))
    }

    /// Returns the policy for a wake-up time that another process has measured.
    pub(crate) fn with_waking(waking: Duration) -> Self {
        let patience = (2 * waking.min(MOST_PATIENCE)).clamp(PATIENCE, MOST_PATIENCE);
        Self { cores: cores(), waking, spin: Duration::ZERO, patience }
    }

    /// Returns the policy when so many threads run at the same time, those that wait awake included: while each has a
    /// processor of its own, it is kept.
    #[must_use]
    pub fn among(self, runners: usize) -> Self {
        let spin = if runners <= self.cores { SPIN } else { Duration::ZERO };
        Self { spin, ..self }
    }

    /// Returns the policy of a thread that waits for long in any case: it sleeps without offering the processor first.
    #[must_use]
    pub fn asleep(self) -> Self {
        Self { spin: Duration::ZERO, patience: Duration::ZERO, ..self }
    }

    /// Returns the time to wake a sleeping thread.
    pub(crate) fn waking(&self) -> Duration {
        self.waking
    }

    /// Returns the time awake before a waiter sleeps.
    pub fn patience(&self) -> Duration {
        self.spin + self.patience
    }

    /// Returns the number of processors that this process may use.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Waits until `ready` says that there is something, one of the words `also` is no longer what stands beside it, or
    /// the deadline is over; `ready` is asked again after every ring of `bell`.
    pub fn wait(
        &self,
        bell: &Bell,
        also: &[(&AtomicU32, u32)],
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> Woken {
        self.wait_looking(bell, also, deadline, |_| ready())
    }

    /// Waits like [`Waiting::wait`]; `ready` is told the kind of look.
    pub(crate) fn wait_looking(
        &self,
        bell: &Bell,
        also: &[(&AtomicU32, u32)],
        deadline: Option<Instant>,
        mut ready: impl FnMut(Look) -> bool,
    ) -> Woken {
        if ready(Look::Passing) {
            return Woken::Ready;
        }
        let mut in_passing = || ready(Look::Passing);
        if let Some(woken) = self.stay_awake(also, deadline, &mut in_passing) {
            return woken;
        }
        bell.sleep_until(
            |which| look(also, deadline, &mut || ready(which)),
            |asleep| {
                if also.is_empty() {
                    asleep.sleep(deadline);
                } else {
                    futex::wait_any((bell.count(), asleep.count()), also, deadline);
                }
            },
        )
    }

    /// Looks repeatedly for a moment. Returns true if there is something.
    fn keep_the_processor(&self, ready: &mut impl FnMut() -> bool) -> bool {
        let mut is_ready = || {
            std::hint::spin_loop();
            ready()
        };
        if (0..PAUSES).any(|_| is_ready()) {
            return true;
        }
        let begun = (self.spin > Duration::ZERO).then(Instant::now);
        while begun.is_some_and(|begun| begun.elapsed() < self.spin) {
            if (0..GLANCE).any(|_| is_ready()) {
                return true;
            }
        }
        false
    }

    fn stay_awake(
        &self,
        also: &[(&AtomicU32, u32)],
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> bool,
    ) -> Option<Woken> {
        if SpinHistory::is_tried() {
            let is_ready = self.keep_the_processor(ready);
            SpinHistory::note(is_ready);
            if is_ready {
                return Some(Woken::Ready);
            }
        }
        let begun = Instant::now();
        let mut awake = Duration::ZERO;
        while awake < self.patience {
            for _ in 0..GLANCE {
                thread::yield_now();
                if ready() {
                    return Some(Woken::Ready);
                }
            }
            if let Some(woken) = look(also, deadline, ready) {
                return Some(woken);
            }
            awake = begun.elapsed();
        }
        None
    }
}

/// Decides by the last waits of this thread whether to keep the processor.
struct SpinHistory;

thread_local! {
    /// Number of waits before spinning is tried again.
    static WITHOUT: Cell<u32> = const { Cell::new(0) };
}

impl SpinHistory {
    /// True if to keep the processor for a moment this time.
    fn is_tried() -> bool {
        let left = WITHOUT.get();
        WITHOUT.set(left.saturating_sub(1));
        left == 0
    }

    /// Notes whether spinning paid. If not, the other side may need this very processor.
    fn note(has_paid: bool) {
        WITHOUT.set(if has_paid { 0 } else { MISSED });
    }
}

/// Looks at everything that can end a wait.
fn look(
    also: &[(&AtomicU32, u32)],
    deadline: Option<Instant>,
    ready: &mut impl FnMut() -> bool,
) -> Option<Woken> {
    if ready() {
        return Some(Woken::Ready);
    }
    // SYNC: pairs with the writer of the word; for a robust word that is the kernel.
    let changed =
        also.iter().position(|(word, expected)| word.load(Ordering::Acquire) != *expected);
    if let Some(number) = changed {
        return Some(Woken::Changed(number));
    }
    deadline.filter(|deadline| *deadline <= Instant::now()).map(|_| Woken::Deadline)
}

/// Returns the processors that this process may use.
fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

/// Measures the time to wake a sleeping thread; `None` if that takes longer than measuring may.
fn measure() -> Option<Duration> {
    let (call, reply) = (AtomicU32::new(0), AtomicU32::new(0));
    let deadline = Instant::now() + BUDGET;
    thread::scope(|scope| {
        let partner = || (1..=ROUNDS).all(|round| answer(&call, &reply, round, deadline));
        let partner =
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, partner).ok()?;
        let mut times: Vec<Duration> =
            (1..=ROUNDS).map_while(|round| ask(&call, &reply, round, deadline)).collect();
        partner.join().ok()?;
        times.sort_unstable();
        times.get(times.len() / 2).map(|time| *time / 2)
    })
}

/// Runs one round: wakes the partner and sleeps until it answers.
fn ask(call: &AtomicU32, reply: &AtomicU32, round: u32, deadline: Instant) -> Option<Duration> {
    // The partner needs a moment to fall asleep.
    thread::sleep(Duration::from_micros(20));
    let begun = Instant::now();
    call.store(round, Ordering::Release);
    futex::wake(call);
    sleep_until(reply, round, deadline).then(|| begun.elapsed())
}

fn answer(call: &AtomicU32, reply: &AtomicU32, round: u32, deadline: Instant) -> bool {
    let asked = sleep_until(call, round, deadline);
    reply.store(round, Ordering::Release);
    futex::wake(reply);
    asked
}

fn sleep_until(word: &AtomicU32, round: u32, deadline: Instant) -> bool {
    loop {
        let found = word.load(Ordering::Acquire);
        if found >= round {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        futex::wait(word, found, Some(deadline));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies() -> [Waiting; 3] {
        let measured = Waiting::calibrate();
        [measured, measured.among(1), measured.among(1000)]
    }

    #[test]
    fn wait_1_ends_for_a_reason() {
        let bell = Bell::create().expect("a bell");
        let word = AtomicU32::new(3);
        for waiting in policies() {
            let soon = Some(Instant::now() + Duration::from_millis(3));
            assert_eq!(
                waiting.wait(&bell, &[(&word, 3)], soon, || false),
                Woken::Deadline,
                "WAIT-1"
            );
            assert_eq!(
                waiting.wait(&bell, &[], Some(Instant::now()), || false),
                Woken::Deadline,
                "WAIT-1"
            );
            let also = [(&word, 3), (&word, 4)];
            assert_eq!(waiting.wait(&bell, &also, None, || false), Woken::Changed(1), "WAIT-1");
            let mut asked = 0;
            let third = || {
                asked += 1;
                asked == 3
            };
            assert_eq!(waiting.wait(&bell, &[(&word, 3)], None, third), Woken::Ready, "WAIT-1");
        }
    }

    #[test]
    fn wait_1_a_ring_and_a_watched_word_end_a_sleep() {
        let bell = Bell::create().expect("a bell");
        let (fact, watched) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait = || {
            let is_set = || fact.load(Ordering::Acquire) == 1;
            Waiting::calibrate().wait(&bell, &[(&watched, 0)], None, is_set)
        };
        thread::scope(|scope| {
            let sleeper = scope.spawn(wait);
            thread::sleep(Duration::from_millis(5));
            fact.store(1, Ordering::Release);
            bell.ring();
            assert_eq!(sleeper.join().expect("no panic"), Woken::Ready, "WAIT-1");
            fact.store(0, Ordering::Release);
            let sleeper = scope.spawn(wait);
            thread::sleep(Duration::from_millis(5));
            watched.store(1, Ordering::Release);
            futex::wake(&watched);
            assert_eq!(sleeper.join().expect("no panic"), Woken::Changed(0), "WAIT-1");
        });
    }

    #[test]
    fn wait_2_who_waits_for_long_uses_no_processor() {
        let used = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(
                time.tv_sec.unsigned_abs(),
                u32::try_from(time.tv_nsec).expect("below a second"),
            )
        };
        let bell = Bell::create().expect("a bell");
        let word = AtomicU32::new(0);
        for waiting in policies() {
            let before = used();
            let length = Duration::from_millis(200);
            waiting.wait(&bell, &[(&word, 0)], Some(Instant::now() + length), || false);
            let share = used().saturating_sub(before).as_secs_f64() / length.as_secs_f64();
            assert!(share < 0.25, "WAIT-2: {share}");
        }
    }

    #[test]
    fn wait_3_who_is_busy_does_not_lie_down() {
        let bell = Bell::create().expect("a bell");
        assert_eq!(Waiting::calibrate().wait(&bell, &[], None, || true), Woken::Ready);
        let ticket = bell.segment().word64(8).expect("the second word").load(Ordering::Relaxed);
        assert_eq!(ticket, 0, "WAIT-3");
    }

    #[test]
    fn wait_5_who_kept_the_processor_in_vain_offers_it_without_delay_the_next_times() {
        let bell = Bell::create().expect("a bell");
        let waiting = Waiting::calibrate().among(1000);
        let looks = || {
            let mut looks = 0;
            let nothing = || {
                looks += 1;
                false
            };
            let woken = waiting.wait(&bell, &[], Some(Instant::now()), nothing);
            assert_eq!(woken, Woken::Deadline, "WAIT-5");
            looks
        };
        // A thread of its own, which never waited before.
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = looks();
                let others: Vec<u32> = (0..MISSED).map(|_| looks()).collect();
                assert!(others.iter().all(|few| *few == first - PAUSES), "WAIT-5: {others:?}");
                assert_eq!(looks(), first, "WAIT-5: it is tried again");
                assert_eq!(waiting.wait(&bell, &[], None, || true), Woken::Ready);
            });
        });
    }

    #[test]
    fn wait_4_patience_is_longer_than_a_waking() {
        for micros in [0, 1, 25, 60, 200, 500] {
            let waiting = Waiting::with_waking(Duration::from_micros(micros));
            assert!(waiting.patience() >= waiting.waking(), "WAIT-4");
            assert!(
                waiting.patience() >= PATIENCE && waiting.among(1).patience() <= 2 * MOST_PATIENCE
            );
        }
        assert_eq!(Waiting::with_waking(Duration::MAX).patience(), MOST_PATIENCE);
        assert_eq!(Waiting::calibrate().among(1).asleep().patience(), Duration::ZERO, "WAIT-4");
        assert!(Waiting::calibrate().cores() >= 1);
        assert_eq!(Waiting::calibrate(), Waiting::calibrate(), "WAIT-4: measured once");
    }
}
