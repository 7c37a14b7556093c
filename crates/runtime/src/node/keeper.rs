//! Moves things while nobody waits for them.
//!
//! The keeper is a thread. While somebody attends to the node it is out of the way, asleep on a lock of its own; while
//! nobody does it sleeps on the node's bell like any waiter, and moves what there is to move. Who leaves the node with work
//! under way, as the last one, makes sure that the keeper is not out of the way.
//!
//! - **KEEP-1 (takes over).** While work is under way and nobody attends, the keeper does.
//! - **KEEP-2 (out of the way).** While somebody attends, it does not touch the node.

use super::{Core, Node};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// What the keeper and those who attend know of each other.
#[derive(Default)]
pub(crate) struct Keeper {
    /// How many attend.
    attendants: AtomicUsize,
    /// Whether the keeper is out of the way.
    is_parked: AtomicBool,
    /// Whether it is wanted.
    is_wanted: Mutex<bool>,
    wanted: Condvar,
}

impl Keeper {
    /// Gets the keeper to look.
    fn call(&self) {
        if self.is_parked.load(Ordering::SeqCst) {
            *self.is_wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.wanted.notify_one();
        }
    }

    /// Gets out of the way until called; at once back if nobody attends any more.
    fn park(&self) {
        let mut is_wanted = self.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        // SYNC: parked before the look at who attends; pairs with `Attendance::leave`, which looks the other way round.
        self.is_parked.store(true, Ordering::SeqCst);
        while !*is_wanted && self.attendants.load(Ordering::SeqCst) > 0 {
            is_wanted = self.wanted.wait(is_wanted).unwrap_or_else(PoisonError::into_inner);
        }
        *is_wanted = false;
        self.is_parked.store(false, Ordering::SeqCst);
    }
}

/// Somebody who attends to a node.
pub(crate) struct Attendance<'n> {
    node: &'n Node,
    /// Whether it may have left work under way.
    is_careless: bool,
}

impl Attendance<'_> {
    /// Goes, and calls the keeper if that leaves work to nobody.
    pub(crate) fn leave(mut self, core: &Core) {
        self.is_careless = core.is_busy();
    }
}

impl Attendance<'_> {
    /// Does something that may take long; others look after the node meanwhile.
    pub(crate) fn step_aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let keeper = &self.node.keeper;
        if keeper.attendants.fetch_sub(1, Ordering::SeqCst) == 1 {
            keeper.call();
        }
        let result = work();
        keeper.attendants.fetch_add(1, Ordering::SeqCst);
        result
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        let keeper = &self.node.keeper;
        // SYNC: pairs with `Keeper::park`.
        let is_last = keeper.attendants.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.is_careless {
            keeper.call();
        }
    }
}

impl Node {
    /// Whether somebody looks after the node.
    pub(crate) fn is_attended(&self) -> bool {
        self.keeper.attendants.load(Ordering::SeqCst) > 0
    }

    /// From now on the caller looks after the node, until the guard is gone.
    pub(crate) fn arrive(&self) -> Attendance<'_> {
        self.keeper.attendants.fetch_add(1, Ordering::SeqCst);
        Attendance { node: self, is_careless: true }
    }

    /// Wakes whoever looks after the node, the keeper too: something has happened that nobody will ring for again.
    pub(crate) fn alarm(&self) {
        self.announce();
        self.keeper.call();
    }

    /// Starts the thread of the keeper.
    pub(crate) fn start_keeper(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let node = Arc::clone(self);
        let keeper = thread::Builder::new().name("phalanx-keeper".into());
        keeper.spawn(move || node.keep())
    }

    /// Moves everything while nobody else does, until the node is closed.
    fn keep(&self) {
        let attendants = || self.keeper.attendants.load(Ordering::SeqCst) > 0;
        let is_closed = || self.is_closed.load(Ordering::Acquire);
        while !is_closed() {
            if attendants() {
                self.keeper.park();
                continue;
            }
            let mut core = self.enter();
            core.pump();
            self.tell(&mut core);
            if let Some(mut errand) = core.hand_over() {
                // Whoever was to run these has gone elsewhere.
                drop(core);
                let mut clock = errand.run(None);
                self.enter().take_back(errand, &mut clock);
                continue;
            }
            let (until, words) = self.judge(&mut core);
            drop(core);
            self.sleep_until(until, &words, || is_closed() || attendants() || self.lend_a_hand());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_2_the_keeper_is_out_of_the_way_until_it_is_called() {
        let keeper = Keeper::default();
        // Nobody attends: it does not stay out of the way.
        keeper.park();
        keeper.attendants.store(1, Ordering::SeqCst);
        for _ in 0..200 {
            let is_back = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    keeper.park();
                    is_back.store(true, Ordering::SeqCst);
                });
                while !keeper.is_parked.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                assert!(!is_back.load(Ordering::SeqCst), "somebody attends");
                keeper.call();
            });
            assert!(is_back.load(Ordering::SeqCst));
        }
    }
}
