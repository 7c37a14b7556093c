//! The engine and its endpoints in one hand: who holds the node makes everything move.
//!
//! ```text
//!   Orchestrator ── submit ──►┌──────┐── send, flush ──►┌───────────┐
//!                             │ Core │                  │ Endpoints │──► threads, processes
//!   RunHandle ─── wait ──────►└──────┘◄──── poll ───────└───────────┘
//! ```
//!
//! Nobody is appointed to do this. Whoever waits holds the core for a moment, carries messages and judges; workers that
//! are threads do it when they have nothing to do, and a keeper does it when nobody else comes by. So a waiting caller is
//! never a core that only spins, and work goes on when the caller is elsewhere.
//!
//! - **NODE-1 (moves).** While a worker has something to say or a task can be sent, somebody does it, also when no caller
//!   waits.
//! - **NODE-2 (no lock while waiting).** Nobody holds the core while a task runs or while it sleeps.
//! - **NODE-3 (idle costs nothing).** Without tasks nobody looks at a clock or at a worker.

mod buffers;
mod core;
mod errands;
mod keeper;
mod local;
mod peers;

pub(crate) use self::core::Core;
pub use self::core::Finished;
pub(crate) use errands::{Caller, Errand, Errands};
use keeper::Keeper;
pub(crate) use local::Local;

use crate::endpoint::DeathWord;
use crate::program::Program;
use crate::shm::{Bell, Waiting};
use phalanx_engine::{Budgets, Time, Verdict, watch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;

/// How many rows of errands are run before somebody looks at other workers.
const ERRANDS: u32 = 16;

/// The engine and its endpoints, shared by all who may move them.
pub(crate) struct Node {
    core: Mutex<Core>,
    /// Rung by workers when they have something to say, and by whoever made news for a waiter.
    pub(crate) bell: Bell,
    pub(crate) waiting: Waiting,
    pub(crate) budgets: Budgets,
    /// The tasks that waiting callers run themselves.
    pub(crate) errands: Option<Arc<Errands>>,
    pub(crate) is_closed: AtomicBool,
    keeper: Keeper,
    /// How often something happened that somebody may wait for.
    news: AtomicU64,
    pub(crate) program: &'static Program,
    /// The first bytes of each callable's digest.
    pub(crate) prefixes: Vec<u32>,
    /// How many free slots a submitter waits for that found none.
    pub(crate) some_room: u32,
    /// What tells its buffers from those of others.
    pub(crate) nonce: u64,
}

impl Node {
    pub(crate) fn new(
        core: Core,
        bell: Bell,
        budgets: Budgets,
        errands: Option<Arc<Errands>>,
        program: &'static Program,
        waiting: Waiting,
    ) -> Self {
        let prefixes = program.callables().iter().map(|one| one.digest().prefix()).collect();
        let some_room = core.engine.free_slots() / 8;
        Self {
            core: Mutex::new(core),
            some_room,
            bell,
            waiting,
            budgets,
            errands,
            is_closed: AtomicBool::new(false),
            keeper: Keeper::default(),
            news: AtomicU64::new(0),
            program,
            prefixes,
            nonce: nonce(),
        }
    }

    /// The core, as soon as nobody else has it; it is never held for long.
    pub(crate) fn enter(&self) -> MutexGuard<'_, Core> {
        for _ in 0..64 {
            if let Some(core) = self.try_enter() {
                return core;
            }
            std::hint::spin_loop();
        }
        self.core.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The core, if nobody has it.
    pub(crate) fn try_enter(&self) -> Option<MutexGuard<'_, Core>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(core)) => Some(core.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Moves what can be moved, if nobody else does; whether something moved.
    pub(crate) fn lend_a_hand(&self) -> bool {
        let Some(mut core) = self.try_enter() else { return false };
        let is_moved = core.pump();
        self.tell(&mut core);
        is_moved
    }

    /// The same, unless somebody attends to the node anyway.
    pub(crate) fn lend_a_hand_if_wanted(&self) -> bool {
        !self.is_attended() && self.lend_a_hand()
    }

    /// Wakes those who wait for what has happened.
    fn tell(&self, core: &mut Core) {
        if std::mem::take(&mut core.has_news) {
            self.announce();
        } else if self.has_errands() {
            self.bell.ring();
        }
    }

    /// Makes all who wait look again.
    pub(crate) fn announce(&self) {
        self.news.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    /// Moves everything until `done` says so; `None` when `deadline` has passed.
    pub(crate) fn attend<T>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let here = self.arrive();
        let mut clock = None;
        let mut core = self.enter();
        core.caller_waits(1);
        loop {
            core.pump_at(&mut clock);
            let result = done(&mut core);
            self.tell(&mut core);
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if result.is_some() || is_late() {
                core.caller_waits(-1);
                here.leave(&core);
                return result;
            }
            if let Some(errand) = core.hand_over() {
                (core, clock) = self.run_errands(&here, core, errand, clock);
                continue;
            }
            clock = None;
            let (until, words) = self.judge(&mut core);
            let seen = self.news.load(Ordering::Acquire);
            drop(core);
            let until = until.into_iter().chain(deadline).min();
            self.sleep(seen, until, &words);
            core = self.enter();
        }
    }

    /// Runs what is ready for a caller, until nothing is.
    pub(crate) fn help(&self) {
        self.attend(None, |core| (core.row.len() == 0).then_some(()));
    }

    /// Runs what waits for a caller, and what that makes ready; now and then somebody must look at the others.
    #[inline]
    fn run_errands<'n>(
        &'n self,
        here: &keeper::Attendance<'_>,
        mut core: MutexGuard<'n, Core>,
        mut errand: Box<Errand>,
        mut clock: Option<u64>,
    ) -> (MutexGuard<'n, Core>, Option<u64>) {
        for left in (0..ERRANDS).rev() {
            drop(core);
            let are_long = self.errands.as_ref().is_some_and(|errands| errands.are_long());
            clock = if are_long {
                here.step_aside(|| errand.run(None))
            } else {
                errand.run(clock.take())
            };
            core = self.enter();
            core.take_back(errand, &mut clock);
            if left == 0 || are_long {
                break;
            }
            match core.hand_over() {
                Some(next) => errand = next,
                None => break,
            }
        }
        (core, clock)
    }

    fn has_errands(&self) -> bool {
        self.errands.as_ref().is_some_and(|errands| errands.has_some())
    }

    /// Waits for a sign, or until `until`; what others did after `seen` is one.
    fn sleep(&self, seen: u64, until: Option<Instant>, words: &[DeathWord]) {
        let is_there = || {
            self.has_errands() || self.news.load(Ordering::Acquire) != seen || self.lend_a_hand()
        };
        self.sleep_until(until, words, is_there);
    }

    /// Sleeps until `is_there`, a worker dies, or `until`.
    fn sleep_until(
        &self,
        until: Option<Instant>,
        words: &[DeathWord],
        is_there: impl FnMut() -> bool,
    ) {
        let living: Vec<_> = words.iter().filter_map(DeathWord::alive).collect();
        if words.iter().any(DeathWord::is_dead) {
            // It died since its endpoint was last asked.
            return;
        }
        self.waiting.wait(&self.bell, &living, until, is_there);
        if words.iter().any(DeathWord::is_dead) {
            // The kernel wakes only one of those who sleep on a word, and that may have been us.
            self.announce();
        }
    }

    /// Asks the watchdog; when to ask again, and which words change when a worker dies.
    fn judge(&self, core: &mut Core) -> (Option<Instant>, Vec<DeathWord>) {
        if !core.is_busy() {
            return (None, Vec::new());
        }
        let words = core.lanes.iter().filter_map(|lane| lane.endpoint.death_word()).collect();
        let again = core.lanes.iter().filter_map(|lane| lane.endpoint.look_again()).min();
        (self.watch(core).into_iter().chain(again).min(), words)
    }

    /// Lets the watchdog look, if it is time; when it wants to look again.
    fn watch(&self, core: &mut Core) -> Option<Instant> {
        let now = Time(crate::clock::now());
        if now >= core.next_look {
            core.look_for_progress();
            // Work may stop running at any time, and then the shorter budget counts.
            let soon = now.0.saturating_add(self.budgets.ladder().progress.0);
            core.next_look = match watch(&core.engine, now, &self.budgets) {
                Verdict::Idle => Time(soon),
                Verdict::Busy(Time(until)) => Time(until.clamp(now.0 + 1, soon)),
                Verdict::Stalled(stall) => {
                    core.stalled(&stall);
                    self.tell(core);
                    Time(soon)
                }
            };
        }
        crate::clock::instant(core.next_look.0)
    }
}

/// A number that no other worker has, on this machine or another; never 0.
fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The keys of the hasher are random.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}
