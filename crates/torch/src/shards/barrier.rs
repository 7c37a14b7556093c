//! The meeting of threads, again and again: pause, yield, then sleep (ADR 19).
//!
//! - **BAR-1 (all).** A wait ends when every thread has come to the same round, and the earlier writes of each are
//!   visible to all.
//! - **BAR-2 (left).** Once a thread has left, the waits that can no longer end unwind.

use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, lock};

/// The payload of the panic of a thread or a process that waits for one that has left. It is no failure of its own.
#[derive(Clone, Copy, Debug)]
pub struct LeftBehind;

/// A barrier for a fixed number of threads.
pub(super) struct Barrier {
    threads: u64,
    /// Number of times that a thread has come, to any round.
    arrived: AtomicU64,
    /// True if a thread has left.
    is_left: AtomicBool,
    /// Number of threads that sleep.
    sleepers: Mutex<u64>,
    wake: Condvar,
    patience: Patience,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads: threads as u64,
            arrived: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
            patience: Patience::of(threads),
        }
    }

    /// Waits for all threads to come to `round`, which counts from 0.
    pub(super) fn wait(&self, round: u64) {
        let all = (round + 1) * self.threads;
        // SYNC POINT: the earlier writes of this thread are visible to every thread that sees the count (BAR-1).
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == all {
            return self.wake_all();
        }
        if self.patience.lasts(|| self.is_over(all)) {
            return self.check(all);
        }
        let mut sleepers = lock(&self.sleepers);
        *sleepers += 1;
        while !self.is_over(all) {
            sleepers = self.wake.wait(sleepers).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *sleepers -= 1;
        drop(sleepers);
        self.check(all);
    }

    /// Lets the others go: this thread comes no more.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
        self.wake_all();
    }

    /// True if nobody is waited for, or in vain.
    fn is_over(&self, all: u64) -> bool {
        self.arrived.load(Ordering::Acquire) >= all || self.is_left.load(Ordering::Acquire)
    }

    /// Unwinds if a thread has left before it came to the round (BAR-2).
    fn check(&self, all: u64) {
        if self.arrived.load(Ordering::Acquire) < all {
            std::panic::resume_unwind(Box::new(LeftBehind));
        }
    }

    /// Wakes the sleepers. A thread that is about to sleep has the lock, or sees the count or the leave after it.
    fn wake_all(&self) {
        if *lock(&self.sleepers) > 0 {
            self.wake.notify_all();
        }
    }
}

/// The time that a thread waits awake.
struct Patience {
    /// True if every thread has a core.
    has_cores: bool,
    /// Number of waits that do not pause, because an earlier one paused in vain.
    doubt: std::sync::atomic::AtomicU32,
}

impl Patience {
    /// Looks at the count while it pauses: about 10 microseconds.
    #[cfg(not(loom))]
    const PAUSES: u32 = 400;
    /// Looks at the count while it yields: about 60 microseconds, if nobody else wants the core.
    #[cfg(not(loom))]
    const YIELDS: u32 = 100;
    /// Waits without pauses after one that paused in vain.
    #[cfg(not(loom))]
    const DOUBT: u32 = 15;

    fn of(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { has_cores: cores >= threads, doubt: std::sync::atomic::AtomicU32::new(0) }
    }

    /// True if `is_over` became true while this thread was awake.
    #[cfg(not(loom))]
    fn lasts(&self, is_over: impl Fn() -> bool) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let doubt = self.doubt.load(Relaxed);
        if self.has_cores && doubt == 0 {
            for _ in 0..Self::PAUSES {
                if is_over() {
                    return true;
                }
                std::hint::spin_loop();
            }
            self.doubt.store(Self::DOUBT, Relaxed);
        } else {
            self.doubt.store(doubt.saturating_sub(1), Relaxed);
        }
        for _ in 0..Self::YIELDS {
            if is_over() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// In a model a thread sleeps at once: looking again and again adds no interleaving.
    #[cfg(loom)]
    fn lasts(&self, is_over: impl Fn() -> bool) -> bool {
        let _ = (self.has_cores, &self.doubt);
        is_over()
    }
}
