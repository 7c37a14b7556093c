//! The engine and its endpoints in one hand: who holds the node makes everything move.
//!
//! ```text
//!   Orchestrator ── submit ──►┌──────┐── send, flush ──►┌───────────┐
//!                             │ Core │                  │ Endpoints │──► threads, processes
//!   RunHandle ─── wait ──────►└──────┘◄──── poll ───────└───────────┘
//! ```
//!
//! Nobody is appointed to do this. Whoever waits holds the core for a moment, carries messages and judges; workers that
//! are threads do it when they have something to say, and a keeper does it when nobody else comes by. So a waiting caller is
//! never a core that only spins, and work goes on when the caller is elsewhere.
//!
//! - **NODE-1 (moves).** While a worker has something to say or a task can be sent, somebody does it, also when no caller
//!   waits.
//! - **NODE-2 (no lock while waiting).** Nobody holds the core while a task runs or while it sleeps.
//! - **NODE-3 (idle costs nothing).** Without tasks nobody looks at a clock or at a worker.

mod buffers;
mod core;
mod desk;
mod keeper;
mod lengths;
mod parts;
mod peers;
mod watch;

pub(crate) use self::core::Core;
pub use self::core::Finished;
pub(crate) use desk::Submitting;
use desk::{Attendance, Desk, Moves, Seen};

use crate::endpoint::DeathWord;
use crate::program::Program;
use crate::shm::bell::Look;
use crate::shm::{Bell, Waiting};
use phalanx_engine::Budgets;
use std::time::{Duration, Instant};

/// How long an ending may go unnoticed whose worker thought that it would tell of it at once.
const UNTOLD: Duration = Duration::from_millis(10);

/// The engine and its endpoints, shared by all who may move them.
pub(crate) struct Node {
    desk: Desk<Core>,
    pub(crate) waiting: Waiting,
    pub(crate) budgets: Budgets,
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
        program: &'static Program,
        (waiting, has_threads): (Waiting, bool),
    ) -> Self {
        let prefixes = program.callables().iter().map(|one| one.digest().prefix()).collect();
        let some_room = core.engine.free_slots() / 8;
        Self {
            desk: Desk::new(core, bell, has_threads),
            some_room,
            waiting,
            budgets,
            program,
            prefixes,
            nonce: nonce(),
        }
    }

    /// The core, as soon as nobody else has it; it is never held for long.
    pub(crate) fn enter(&self) -> Held<'_> {
        self.desk.enter()
    }

    /// Takes in what the thread of a worker has published.
    pub(crate) fn ask(&self) {
        self.desk.ask();
    }

    /// The same, unless somebody submits, who looks now and then; whether it was done.
    pub(crate) fn ask_in_passing(&self) -> bool {
        self.desk.ask_in_passing()
    }

    /// From now on the caller submits, and looks after the node with every submission, until the guard is gone.
    pub(crate) fn begin_submitting(&self) -> Submitting<'_, Core> {
        self.desk.begin_submitting()
    }

    /// Makes all who wait look again.
    pub(crate) fn announce(&self) {
        self.desk.announce();
    }

    /// The same, for what happened outside of the core and no worker reports.
    pub(crate) fn tell_all(&self) {
        self.desk.tell_all();
    }

    /// From now on the caller looks after the node, until the guard is gone.
    pub(crate) fn arrive(&self) -> Attendance<'_, Core> {
        self.desk.arrive()
    }

    /// Lets nothing new begin; whether it was open.
    pub(crate) fn close(&self) -> bool {
        self.desk.close()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.desk.is_closed()
    }

    /// What workers ring when they have something to say.
    pub(crate) fn bell(&self) -> &Bell {
        &self.desk.bell
    }

    /// Moves everything until `done` says so; `None` when `deadline` has passed.
    pub(crate) fn attend<T>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let here = self.arrive();
        let mut core = self.enter();
        loop {
            core.pump();
            let result = done(&mut core);
            core.tell();
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if result.is_some() || is_late() {
                here.leave(&mut core);
                return result;
            }
            let (until, words) = self.judge(&mut core);
            if core.has_news {
                // The watchdog's, and it may be what we wait for.
                continue;
            }
            let seen = core.let_go();
            let until = until.into_iter().chain(deadline).min();
            self.sleep(seen, until, &words);
            core = self.enter();
        }
    }

    /// Waits for a sign, or until `until`; what others did after `seen` is one.
    fn sleep(&self, seen: Seen, until: Option<Instant>, words: &[DeathWord]) {
        self.sleep_until(until, words, |look| self.desk.is_there(seen, look));
    }

    /// Sleeps until `is_there`, a worker dies, or `until`.
    fn sleep_until(
        &self,
        until: Option<Instant>,
        words: &[DeathWord],
        is_there: impl FnMut(Look) -> bool,
    ) {
        let living: Vec<_> = words.iter().filter_map(DeathWord::alive).collect();
        if words.iter().any(DeathWord::is_dead) {
            // It died since its endpoint was last asked.
            return;
        }
        self.waiting.wait_looking(&self.desk.bell, &living, until, is_there);
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
        // Only a worker that has something behind what it runs can have ended a task that nobody was told of (SRV-3).
        let may_be_untold = core.engine.workers().any(|worker| core.engine.in_flight(worker) > 1);
        let soon = may_be_untold.then(|| Instant::now() + UNTOLD);
        (self.watch(core).into_iter().chain(again).chain(soon).min(), words)
    }
}

impl Moves for Core {
    #[inline]
    fn pump(&mut self) -> bool {
        Self::pump(self)
    }

    #[inline]
    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn is_busy(&self) -> bool {
        Self::is_busy(self)
    }
}

/// The core of a node, held by one.
pub(crate) type Held<'n> = desk::Held<'n, Core>;

/// A number that no other worker has, on this machine or another; never 0.
fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The keys of the hasher are random.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}
