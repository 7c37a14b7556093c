//! The engine and its endpoints behind one lock: the thread that holds the lock makes everything progress.
//!
//! ```text
//!   Orchestrator ── submit ──►┌──────┐── send, flush ──►┌───────────┐
//!                             │ Core │                  │ Endpoints │──► threads, processes
//!   RunHandle ─── wait ──────►└──────┘◄──── poll ───────└───────────┘
//! ```
//!
//! No thread is appointed to do this. A caller that waits locks the core for a moment, carries messages and asks the watchdog;
//! worker threads do so after they publish an event; a progress thread does so while no caller waits. So a
//! waiting caller does not only spin, and work goes on while the caller is elsewhere. `node/README.md` has the protocol.
//!
//! - **NODE-1 (moves).** While a worker has published an event or a task can be sent, some thread takes it in or sends it, also
//!   when no caller waits.
//! - **NODE-2 (no lock while waiting).** No thread holds the lock while a task runs or while the thread sleeps.
//! - **NODE-3 (idle costs nothing).** Without tasks no thread looks at a clock or at a worker.
//! - **NODE-4 (all leave).** A worker that is closed starts no process again: every endpoint is told to leave, also one whose process has
//!   died and whose death nobody has taken in.

mod buffers;
mod core;
mod lengths;
mod peers;
mod progress;
mod progress_thread;
mod watch;

pub use self::core::Finished;
pub(crate) use self::core::{Core, Remaining};
pub(crate) use progress::ProgressLock;
pub(crate) use progress::{Asked, Submitting};
use progress::{Driver, Pump};

use crate::endpoint::DeathWord;
use crate::program::Program;
use crate::shm::bell::Look;
use crate::shm::{Bell, Waiting};
use std::time::{Duration, Instant};

/// Room that is worth a sleep: workers have many times as many tasks until there is so much.
const MUCH_ROOM: u32 = 16;
/// Longest time in which an ending goes unnoticed whose worker left it to another thread (SRV-3).
const UNTOLD: Duration = Duration::from_millis(10);

/// The engine and its endpoints, shared by all threads that drive them.
pub(crate) struct Node {
    progress: ProgressLock<Core>,
    pub(crate) waiting: Waiting,
    pub(crate) budgets: phalanx_engine::Budgets,
    pub(crate) program: &'static Program,
    /// First bytes of each callable's digest.
    pub(crate) prefixes: Vec<u32>,
    /// Number of free slots that a submitter waits for after it found none.
    pub(crate) some_room: u32,
    /// Distinguishes buffers of this node from those of others.
    pub(crate) nonce: u64,
}

/// Parts of a node beside its core.
pub(crate) struct NodeSettings {
    pub(crate) bell: Bell,
    pub(crate) budgets: phalanx_engine::Budgets,
    pub(crate) program: &'static Program,
    pub(crate) waiting: Waiting,
    /// True if workers are threads of this process.
    pub(crate) has_threads: bool,
}

/// The core of a node, locked.
pub(crate) type ProgressGuard<'n> = progress::ProgressGuard<'n, Core>;

/// Reasons to wake up beside news.
#[derive(Default)]
struct Outlook {
    /// Time of the next look at clocks and workers.
    until: Option<Instant>,
    /// Words that change when a worker dies.
    death_words: Vec<DeathWord>,
}

impl Node {
    pub(crate) fn new(core: Core, settings: NodeSettings) -> Self {
        let NodeSettings { bell, budgets, program, waiting, has_threads } = settings;
        let prefixes = program.callables().iter().map(|one| one.digest().prefix()).collect();
        let some_room = core.engine.free_slots() / 8;
        let progress = ProgressLock::new(core, bell, has_threads);
        Self { progress, waiting, budgets, program, prefixes, some_room, nonce: nonce() }
    }

    /// Locks the core; no thread holds it for long.
    pub(crate) fn lock(&self) -> ProgressGuard<'_> {
        self.progress.lock()
    }

    /// Returns the lock, for a worker thread.
    pub(crate) fn progress(&self) -> &ProgressLock<Core> {
        &self.progress
    }

    /// Counts the caller as a submitter, which pumps with every submission, until the guard is dropped.
    pub(crate) fn start_submitting(&self) -> Submitting<'_, Core> {
        self.progress.start_submitting()
    }

    /// Makes all waiters look again.
    pub(crate) fn announce(&self) {
        self.progress.announce();
    }

    /// Makes all waiters look again for something that happened outside of the core and that no worker reports.
    pub(crate) fn announce_outside(&self) {
        self.progress.announce_outside();
    }

    /// Counts the caller as a driver of the node until the guard is dropped.
    pub(crate) fn start_driving(&self) -> Driver<'_, Core> {
        self.progress.start_driving()
    }

    /// Counts the caller as a driver until [`Node::resume_driving`] gives the guard.
    pub(crate) fn begin_driving(&self) {
        std::mem::forget(self.progress.start_driving());
    }

    /// Returns the guard of [`Node::begin_driving`].
    pub(crate) fn resume_driving(&self) -> Driver<'_, Core> {
        self.progress.resume_driving()
    }

    /// Refuses new runs from here on; true if the node was open.
    pub(crate) fn close(&self) -> bool {
        self.progress.close()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// Returns the bell that workers ring after they publish an event.
    pub(crate) fn bell(&self) -> &Bell {
        &self.progress.bell
    }

    /// Returns the wait policy of a submitter that waits for much room. Worker threads move the node themselves and have
    /// enough to do until then.
    pub(crate) fn room_policy(&self) -> Waiting {
        if self.some_room >= MUCH_ROOM { self.background_policy() } else { self.waiting }
    }

    /// Returns the wait policy of a thread that waits in the background: it leaves the processors to worker threads at once.
    fn background_policy(&self) -> Waiting {
        if self.progress.has_threads { self.waiting.asleep() } else { self.waiting }
    }

    /// Drives the node until `done` returns something; `None` when `deadline` has passed.
    pub(crate) fn drive_until<T>(
        &self,
        deadline: Option<Instant>,
        done: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        self.drive_as(self.waiting, deadline, done)
    }

    /// Drives the node as [`Node::drive_until`] does, and waits as `waiting` says.
    pub(crate) fn drive_as<T>(
        &self,
        waiting: Waiting,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let driver = self.start_driving();
        let mut core = self.lock();
        loop {
            core.pump();
            let result = done(&mut core);
            core.announce_news();
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if result.is_some() || is_late() {
                driver.leave(&mut core);
                return result;
            }
            let mut outlook = self.judge(&mut core);
            if core.news.is_pending {
                // News of the watchdog, which may be what the caller waits for.
                continue;
            }
            let seen = core.unlock();
            outlook.until = outlook.until.into_iter().chain(deadline).min();
            self.sleep_until(waiting, &outlook, |look| self.progress.has_reason(seen, look));
            core = self.lock();
        }
    }

    /// Sleeps as `waiting` says until `has_reason`, the death of a worker, or the next look.
    fn sleep_until(
        &self,
        waiting: Waiting,
        outlook: &Outlook,
        has_reason: impl FnMut(Look) -> bool,
    ) {
        let Outlook { until, death_words } = outlook;
        let living: Vec<_> = death_words.iter().filter_map(DeathWord::alive).collect();
        if death_words.iter().any(DeathWord::is_dead) {
            // It died since its endpoint was last polled.
            return;
        }
        waiting.wait_looking(&self.progress.bell, &living, *until, has_reason);
        if death_words.iter().any(DeathWord::is_dead) {
            // The kernel wakes only one of the sleepers on a word, and that may have been this thread.
            self.announce();
        }
    }

    /// Asks the watchdog; returns the reasons to wake up beside news.
    fn judge(&self, core: &mut Core) -> Outlook {
        if !core.is_busy() {
            return Outlook::default();
        }
        let death_words = core.links.iter().filter_map(|link| link.endpoint.death_word()).collect();
        let again = core.links.iter().filter_map(|link| link.endpoint.look_again()).min();
        // Only a worker that has a task behind the one it runs can have an ending that nobody was told of (SRV-3).
        let may_be_untold = core.engine.workers().any(|worker| core.engine.in_flight(worker) > 1);
        let soon = may_be_untold.then(|| Instant::now() + UNTOLD);
        let until = self.watch(core).into_iter().chain(again).chain(soon).min();
        Outlook { until, death_words }
    }
}

impl Pump for Core {
    #[inline]
    fn pump(&mut self) -> bool {
        Self::pump(self)
    }

    #[inline]
    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news.is_pending)
    }

    fn is_busy(&self) -> bool {
        Self::is_busy(self)
    }
}

/// Returns a number that no other worker has, on this machine or another; never 0.
fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The keys of the hasher are random.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests;
