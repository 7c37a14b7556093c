//! The lock around the core of a node, and the protocol by which threads learn what others did with it.
//!
//! `node/README.md` has the states, the counters and the races.
//!
//! - **PRG-1 (answered).** An ending that a worker thread published before [`ProgressLock::ask`] is taken in by that
//!   thread, or by the thread that held the lock meanwhile.

use super::progress_thread::{ProgressThread, ThreadState};
use crate::shm::bell::Look;
use crate::shm::{Bell, Memory, Region};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence};
use std::ops::{Deref, DerefMut};

/// Number of attempts to get the lock before a thread blocks on it. None in models: spinning has endless orders of events.
const TRIES: u32 = if cfg!(loom) { 0 } else { 64 };

/// The core of a node, as the lock sees it.
pub(crate) trait Pump {
    /// Takes in the events of all workers and acts on them; true if there was an event.
    fn pump(&mut self) -> bool;
    /// True if something happened since the last call that a waiter may wait for.
    fn take_news(&mut self) -> bool;
    /// True if any worker has a task.
    fn is_busy(&self) -> bool;
}

/// The lock around a core.
pub(crate) struct ProgressLock<C, M: Memory = Region> {
    core: Mutex<C>,
    /// Rung by workers after they publish an event, and by [`ProgressLock::announce`].
    pub(super) bell: Bell<M>,
    /// Number of announcements.
    news: AtomicU64,
    pub(super) thread: ProgressThread,
    is_closed: AtomicU64,
    /// 1 if a worker thread has published an event since the core was last pumped in [`ProgressLock::answer`].
    asked: AtomicU64,
    /// Number of threads that submit and do not wait.
    submitters: AtomicU64,
    /// Worker thread that looks for requests of others; 0 if there is none. A hint, it orders nothing.
    attendant: AtomicU64,
    /// True if workers are threads, which ask.
    pub(super) has_threads: bool,
}

impl<C: Pump, M: Memory> ProgressLock<C, M> {
    pub(super) fn new(core: C, bell: Bell<M>, has_threads: bool) -> Self {
        Self {
            core: Mutex::new(core),
            bell,
            news: AtomicU64::new(0),
            thread: ProgressThread::new(),
            is_closed: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            submitters: AtomicU64::new(0),
            attendant: AtomicU64::new(0),
            has_threads,
        }
    }

    /// Locks the core; nobody holds it for long.
    pub(super) fn lock(&self) -> ProgressGuard<'_, C, M> {
        for _ in 0..TRIES {
            if let Some(core) = self.try_lock() {
                return core;
            }
            std::hint::spin_loop();
        }
        self.guard(self.core.lock())
    }

    /// Locks the core, unless another thread holds it.
    fn try_lock(&self) -> Option<ProgressGuard<'_, C, M>> {
        self.core.try_lock().map(|core| self.guard(core))
    }

    fn guard<'l>(&'l self, core: MutexGuard<'l, C>) -> ProgressGuard<'l, C, M> {
        ProgressGuard { lock: self, core: Some(core) }
    }

    /// Pumps the core; true if there was an event. A passing look does nothing if another thread holds the lock; the last look
    /// waits for the lock, since its holder may leave without another look.
    pub(super) fn pump(&self, look: Look) -> bool {
        let core = match look {
            Look::Passing => self.try_lock(),
            Look::Last => Some(self.lock()),
        };
        core.is_some_and(|mut core| core.pump())
    }

    /// Takes in what the calling worker thread has published. If another thread holds the lock, that thread does it. The caller
    /// is the attendant from here on.
    pub(crate) fn ask(&self, worker: u64) {
        if self.attendant.load(Ordering::Relaxed) != worker {
            self.attendant.store(worker, Ordering::Relaxed);
        }
        // SYNC: PRG-1: publishes the caller's event; pairs with the swap in `answer`. A swap and no store, so that a thread
        // that sees a later request sees this event too.
        self.asked.swap(1, Ordering::Release);
        // SYNC: PRG-1: the request is before the look at the lock; pairs with the fence in `ProgressGuard::drop`.
        fence(Ordering::SeqCst);
        self.answer();
    }

    /// Asks, unless a thread submits, since submitters pump now and then. A worker thread that did not ask must ask before it
    /// sleeps: code of a graph may compute for long between two submissions.
    pub(crate) fn ask_in_passing(&self, worker: u64) -> Asked {
        if self.has_submitters() {
            return Asked::Not;
        }
        self.ask(worker);
        Asked::Now
    }

    /// Asks in passing, or leaves a request to the attendant: the core is in the cache of that thread's processor. A worker thread
    /// must ask before it sleeps if the request is not answered by then: the attendant may have no processor.
    pub(crate) fn ask_or_leave(&self, worker: u64) -> Asked {
        let attendant = self.attendant.load(Ordering::Relaxed);
        if attendant == 0 || attendant == worker || self.has_submitters() {
            return self.ask_in_passing(worker);
        }
        // SYNC: PRG-1: as in `ask`.
        self.asked.swap(1, Ordering::Release);
        Asked::Left
    }

    /// True if the requests that were left are answered, or a thread that holds the lock is about to answer them.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        self.asked.load(Ordering::Acquire) == 0
    }

    /// Answers requests if the calling worker thread is the attendant. While a thread submits, that thread does it.
    #[inline]
    pub(crate) fn attend(&self, worker: u64) {
        let is_due = !self.is_answered() && self.attendant.load(Ordering::Relaxed) == worker;
        if is_due && !self.has_submitters() {
            self.answer();
        }
    }

    /// The calling worker thread is not the attendant any more.
    pub(crate) fn resign(&self, worker: u64) {
        if self.attendant.load(Ordering::Relaxed) == worker {
            self.attendant.store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn has_submitters(&self) -> bool {
        self.submitters.load(Ordering::Relaxed) > 0
    }

    /// Counts the caller as a submitter until the guard is dropped.
    pub(super) fn start_submitting(&self) -> Submitting<'_, C, M> {
        self.submitters.fetch_add(1, Ordering::Relaxed);
        Submitting { lock: self }
    }

    /// Pumps while there is a request and no other thread holds the lock.
    #[inline]
    fn answer(&self) {
        while self.asked.load(Ordering::Relaxed) != 0 {
            let Some(mut core) = self.core.try_lock() else { return };
            // SYNC: PRG-1: pairs with the swap in `ask`.
            self.asked.swap(0, Ordering::Acquire);
            core.pump();
            let has_news = core.take_news();
            drop(core);
            if has_news {
                self.announce();
            }
            // SYNC: PRG-1: the lock is free before the next look for a request; pairs with the fence in `ask`.
            fence(Ordering::SeqCst);
        }
    }

    /// Makes all waiters look again.
    pub(super) fn announce(&self) {
        self.news.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    /// Makes all waiters look again for something that happened outside of the core. Without the lock, a waiter that has
    /// looked and still holds the lock would count this announcement among those that it has seen.
    pub(super) fn announce_outside(&self) {
        let _core = self.lock();
        self.announce();
    }

    /// True if a waiter has a reason to look: an announcement after `since`, or an event that it takes in itself. Worker
    /// threads take in their own events, so a waiter does so only in its last look.
    pub(super) fn has_reason(&self, since: NewsCount, look: Look) -> bool {
        self.news.load(Ordering::Acquire) != since.0
            || (look == Look::Last || !self.has_threads) && self.pump(look)
    }

    /// Closes the lock and stops the progress thread; true if it was open.
    pub(super) fn close(&self) -> bool {
        let is_first = self.is_closed.swap(1, Ordering::AcqRel) == 0;
        if is_first {
            self.announce();
            self.thread.stop();
        }
        is_first
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) != 0
    }

    /// Counts the caller as a driver of the node until the guard is dropped.
    pub(super) fn start_driving(&self) -> Driver<'_, C, M> {
        self.thread.add_driver();
        Driver { lock: self }
    }

    /// Returns the guard of a driver that was counted before and whose guard was forgotten.
    pub(super) fn resume_driving(&self) -> Driver<'_, C, M> {
        Driver { lock: self }
    }

    /// Hands work under way over to the progress thread.
    fn hand_over(&self) {
        // A dozing thread does not know of this work, nor of its deadlines.
        if self.thread.wake_if_parked() == ThreadState::Dozing {
            self.announce();
        }
    }

    /// Runs the progress thread: drives the node while there is no driver, until closed. `judge` returns what `sleep` needs.
    pub(super) fn run_thread<T>(
        &self,
        judge: impl Fn(&mut C) -> T,
        sleep: impl Fn(T, &dyn Fn(Look) -> bool),
    ) {
        while !self.is_closed() {
            if self.thread.has_drivers() {
                self.thread.park();
                continue;
            }
            let mut core = self.lock();
            core.pump();
            let verdict = judge(&mut core);
            if !core.is_busy() {
                self.thread.set_state(ThreadState::Dozing);
            }
            let seen = core.unlock();
            sleep(verdict, &|look| {
                self.is_closed() || self.thread.has_drivers() || self.has_reason(seen, look)
            });
            self.thread.set_state(ThreadState::Active);
        }
    }
}

/// Result of asking in passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The thread has asked.
    Now,
    /// The thread has left a request; it asks later if that is not answered soon.
    Left,
    /// The thread asks later.
    Not,
}

/// Number of announcements when a thread released the lock.
#[derive(Clone, Copy)]
pub(super) struct NewsCount(u64);

/// The core, locked. The lock is released after waiters are told of news.
pub(crate) struct ProgressGuard<'l, C: Pump, M: Memory = Region> {
    lock: &'l ProgressLock<C, M>,
    /// `None` only during `drop`.
    core: Option<MutexGuard<'l, C>>,
}

impl<C: Pump, M: Memory> ProgressGuard<'_, C, M> {
    /// Announces what has happened, if a waiter may wait for it.
    #[inline]
    pub(super) fn announce_news(&mut self) {
        if self.take_news() {
            self.lock.announce();
        }
    }

    /// Releases the lock; an announcement after the returned count is news to the caller.
    pub(super) fn unlock(mut self) -> NewsCount {
        self.announce_news();
        NewsCount(self.lock.news.load(Ordering::Acquire))
    }
}

impl<C: Pump, M: Memory> Deref for ProgressGuard<'_, C, M> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        self.core.as_ref().expect("locked")
    }
}

impl<C: Pump, M: Memory> DerefMut for ProgressGuard<'_, C, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut C {
        self.core.as_mut().expect("locked")
    }
}

impl<C: Pump, M: Memory> Drop for ProgressGuard<'_, C, M> {
    #[inline]
    fn drop(&mut self) {
        self.announce_news();
        self.core = None;
        if self.lock.has_threads {
            // SYNC: PRG-1: the lock is free before the look for a request; pairs with the fence in `ask`.
            fence(Ordering::SeqCst);
            self.lock.answer();
        }
    }
}

/// A thread that submits.
pub(crate) struct Submitting<'l, C: Pump, M: Memory = Region> {
    lock: &'l ProgressLock<C, M>,
}

impl<C: Pump, M: Memory> Submitting<'_, C, M> {
    /// Runs `wait`, during which the thread does not count as a submitter.
    pub(crate) fn pause<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.lock.submitters.fetch_sub(1, Ordering::Relaxed);
        let result = wait();
        self.lock.submitters.fetch_add(1, Ordering::Relaxed);
        result
    }
}

impl<C: Pump, M: Memory> Drop for Submitting<'_, C, M> {
    fn drop(&mut self) {
        self.lock.submitters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread that drives the node.
pub(crate) struct Driver<'l, C: Pump, M: Memory = Region> {
    lock: &'l ProgressLock<C, M>,
}

impl<C: Pump, M: Memory> Driver<'_, C, M> {
    /// Stops driving. The last driver hands work under way over to the progress thread.
    pub(crate) fn leave(self, core: &mut ProgressGuard<'_, C, M>) {
        if self.lock.thread.remove_driver() && core.is_busy() {
            self.lock.hand_over();
        }
        std::mem::forget(self);
    }
}

impl<C: Pump, M: Memory> Drop for Driver<'_, C, M> {
    fn drop(&mut self) {
        if self.lock.thread.remove_driver() {
            self.lock.hand_over();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
