//! Who holds the core, who looks after it, and how the others learn what happened.
//!
//! ```text
//!   who moves:     hold the core; pump; news up, if there are any; ring; let go
//!   who waits:     hold the core; pump; read news; let go; lie down; news? hold the core and pump; sleep
//!   who leaves:    one attendant less; the last one with work under way: where is the keeper?
//!                  parked: call it; dozing: news up, ring
//!   who may park:  parked; does anybody attend? sleep
//!   a thread that has published something:
//!                  asked; fence; is the core free? hold it; not asked any more; pump; let go; fence; asked? again
//!   who lets go of the core: let go; fence; asked? is the core free? ...
//! ```
//!
//! A look that finds the core held says nothing of what its holder has seen. Who looks in passing lets that be; who looks
//! for the last time before it sleeps waits for the core, since the holder may go without looking again. A thread that asks
//! does not wait: whoever holds the core looks again for it.
//!
//! - **DESK-1 (answered).** What a thread published before it asked is taken in by that thread, or by whoever held the core
//!   meanwhile.
//!
//! It is written over [`Parts`] and [`Memory`], so that the models in `desk/loom_tests.rs` try this very code.

use super::keeper::{Keeper, Where};
use super::parts::{Lock, Number, Parts, Std};
use crate::shm::bell::Look;
use crate::shm::{Bell, Memory, Region};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// What is moved.
pub(crate) trait Moves {
    /// Takes in what workers say and does what follows; whether anything was said.
    fn pump(&mut self) -> bool;
    /// Whether something has happened that somebody may wait for, since this was last asked.
    fn take_news(&mut self) -> bool;
    /// Whether any task is with a worker.
    fn is_busy(&self) -> bool;
}

/// The core, and what those who move it know of each other.
pub(crate) struct Desk<C, M: Memory = Region, P: Parts = Std> {
    core: P::Lock<C>,
    /// Rung by workers when they have something to say, and by whoever made news for a waiter.
    pub(super) bell: Bell<M>,
    /// How often something happened that somebody may wait for.
    news: P::Number,
    pub(super) keeper: Keeper<P>,
    is_closed: P::Number,
    /// Whether a thread has published something since the core was last pumped for those who ask.
    asked: P::Number,
    /// How many submit, and do not wait.
    submitters: P::Number,
    /// Whether workers are threads, which ask.
    has_threads: bool,
}

impl<C: Moves, M: Memory, P: Parts> Desk<C, M, P> {
    pub(super) fn new(core: C, bell: Bell<M>, has_threads: bool) -> Self {
        Self {
            core: P::Lock::new(core),
            bell,
            news: P::Number::new(0),
            keeper: Keeper::new(),
            is_closed: P::Number::new(0),
            asked: P::Number::new(0),
            submitters: P::Number::new(0),
            has_threads,
        }
    }

    /// The core, as soon as nobody else has it; it is never held for long.
    pub(super) fn enter(&self) -> Held<'_, C, M, P> {
        for _ in 0..P::TRIES {
            if let Some(core) = self.try_enter() {
                return core;
            }
            std::hint::spin_loop();
        }
        self.held(self.core.lock())
    }

    /// The core, if nobody has it.
    fn try_enter(&self) -> Option<Held<'_, C, M, P>> {
        self.core.try_lock().map(|core| self.held(core))
    }

    fn held<'d>(&'d self, core: <P::Lock<C> as Lock<C>>::Held<'d>) -> Held<'d, C, M, P> {
        Held { desk: self, core: Some(core) }
    }

    /// Moves what can be moved; whether something moved. Not if somebody else has the core, unless this is the last look.
    pub(super) fn lend_a_hand(&self, look: Look) -> bool {
        let core = match look {
            Look::Passing => self.try_enter(),
            Look::Last => Some(self.enter()),
        };
        core.is_some_and(|mut core| core.pump())
    }

    /// Takes in what the calling thread has published; whoever holds the core does it, if anybody does.
    pub(super) fn ask(&self) {
        // SYNC: DESK-1: what was published before; pairs with the swap in `answer`. A swap and no store, so that who sees what
        // another thread asked after us sees what we published too.
        self.asked.swap(1, Ordering::Release);
        // SYNC: DESK-1: our asking before our look whether the core is free; pairs with the fence in `Held::drop`.
        P::fence();
        self.answer();
    }

    /// The same, unless somebody submits, who looks now and then; whether it was done. The thread must ask before it sleeps,
    /// since code of a graph may compute.
    pub(super) fn ask_in_passing(&self) -> bool {
        let is_alone = self.submitters.load(Ordering::Relaxed) == 0;
        if is_alone {
            self.ask();
        }
        is_alone
    }

    /// From now on the caller submits, until the guard is gone.
    pub(super) fn begin_submitting(&self) -> Submitting<'_, C, M, P> {
        self.submitters.fetch_add(1, Ordering::Relaxed);
        Submitting { desk: self }
    }

    /// Pumps while somebody has asked and nobody else holds the core.
    #[inline]
    fn answer(&self) {
        while self.asked.load(Ordering::Relaxed) != 0 {
            let Some(mut core) = self.core.try_lock() else { return };
            // SYNC: DESK-1: pairs with the store in `ask`.
            self.asked.swap(0, Ordering::Acquire);
            core.pump();
            let has_news = core.take_news();
            drop(core);
            if has_news {
                self.announce();
            }
            // SYNC: DESK-1: the core is free before our look whether somebody asked; pairs with the fence in `ask`.
            P::fence();
        }
    }

    /// Makes all who wait look again.
    pub(super) fn announce(&self) {
        self.news.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    /// Makes all who wait look again for something that has happened outside of the core. Whoever has looked before and holds
    /// the core would take the sign for one it has seen.
    pub(super) fn tell_all(&self) {
        let _core = self.enter();
        self.announce();
    }

    /// Whether there is a sign for a waiter: what others did since, or what it moves itself. Threads move what they have to
    /// say, so a waiter leaves that to them.
    pub(super) fn is_there(&self, since: Seen, look: Look) -> bool {
        self.news.load(Ordering::Acquire) != since.0
            || (look == Look::Last || !self.has_threads) && self.lend_a_hand(look)
    }

    /// Closes it, and dismisses the keeper; whether it was open.
    pub(super) fn close(&self) -> bool {
        let is_first = self.is_closed.swap(1, Ordering::AcqRel) == 0;
        if is_first {
            self.announce();
            self.keeper.dismiss();
        }
        is_first
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) != 0
    }

    /// From now on the caller looks after the core, until the guard is gone.
    pub(super) fn arrive(&self) -> Attendance<'_, C, M, P> {
        self.keeper.arrive();
        Attendance { desk: self }
    }

    /// Leaves work to the keeper. Where there is none, workers are threads, and each looks before it sleeps.
    fn leave_to_keeper(&self) {
        // One that dozes does not know of this work, nor for how long it may take.
        if self.keeper.call() == Where::Dozing {
            self.announce();
        }
    }

    /// Moves everything while nobody else does, until closed; `judge` says how long to `sleep`.
    pub(super) fn keep<T>(
        &self,
        judge: impl Fn(&mut C) -> T,
        sleep: impl Fn(T, &dyn Fn(Look) -> bool),
    ) {
        while !self.is_closed() {
            if self.keeper.is_attended() {
                self.keeper.park();
                continue;
            }
            let mut core = self.enter();
            core.pump();
            let verdict = judge(&mut core);
            if !core.is_busy() {
                self.keeper.be(Where::Dozing);
            }
            let seen = core.let_go();
            sleep(verdict, &|look| {
                self.is_closed() || self.keeper.is_attended() || self.is_there(seen, look)
            });
            self.keeper.be(Where::There);
        }
    }
}

/// How much had happened when somebody let go of the core.
#[derive(Clone, Copy)]
pub(super) struct Seen(u64);

/// The core, held. Who lets go of it has told those who wait.
pub(crate) struct Held<'d, C: Moves, M: Memory = Region, P: Parts = Std> {
    desk: &'d Desk<C, M, P>,
    /// None only while it is dropped.
    core: Option<<P::Lock<C> as Lock<C>>::Held<'d>>,
}

impl<C: Moves, M: Memory, P: Parts> Held<'_, C, M, P> {
    /// Wakes those who wait for what has happened.
    #[inline]
    pub(super) fn tell(&mut self) {
        if self.take_news() {
            self.desk.announce();
        }
    }

    /// Lets go of it; what others do from here on is a sign.
    pub(super) fn let_go(mut self) -> Seen {
        self.tell();
        Seen(self.desk.news.load(Ordering::Acquire))
    }
}

impl<C: Moves, M: Memory, P: Parts> Deref for Held<'_, C, M, P> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        self.core.as_ref().expect("it is held")
    }
}

impl<C: Moves, M: Memory, P: Parts> DerefMut for Held<'_, C, M, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut C {
        self.core.as_mut().expect("it is held")
    }
}

impl<C: Moves, M: Memory, P: Parts> Drop for Held<'_, C, M, P> {
    #[inline]
    fn drop(&mut self) {
        self.tell();
        self.core = None;
        if self.desk.has_threads {
            // SYNC: DESK-1: the core is free before our look whether somebody asked; pairs with the fence in `ask`.
            P::fence();
            self.desk.answer();
        }
    }
}

/// Somebody who submits.
pub(crate) struct Submitting<'d, C: Moves, M: Memory = Region, P: Parts = Std> {
    desk: &'d Desk<C, M, P>,
}

impl<C: Moves, M: Memory, P: Parts> Submitting<'_, C, M, P> {
    /// Waits for something, and does not submit meanwhile.
    pub(crate) fn pause<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.desk.submitters.fetch_sub(1, Ordering::Relaxed);
        let result = wait();
        self.desk.submitters.fetch_add(1, Ordering::Relaxed);
        result
    }
}

impl<C: Moves, M: Memory, P: Parts> Drop for Submitting<'_, C, M, P> {
    fn drop(&mut self) {
        self.desk.submitters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Somebody who attends to the core.
pub(crate) struct Attendance<'d, C: Moves, M: Memory = Region, P: Parts = Std> {
    desk: &'d Desk<C, M, P>,
}

impl<C: Moves, M: Memory, P: Parts> Attendance<'_, C, M, P> {
    /// Goes, and sees to it that work under way is not left to nobody.
    pub(crate) fn leave(self, core: &mut Held<'_, C, M, P>) {
        if self.desk.keeper.leave() && core.is_busy() {
            self.desk.leave_to_keeper();
        }
        std::mem::forget(self);
    }

    /// Goes without the core.
    fn go(&self) {
        if self.desk.keeper.leave() {
            self.desk.leave_to_keeper();
        }
    }
}

impl<C: Moves, M: Memory, P: Parts> Drop for Attendance<'_, C, M, P> {
    fn drop(&mut self) {
        self.go();
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
