//! Moves things while nobody waits for them.
//!
//! The keeper is a thread. While somebody attends to the node it is out of the way, asleep on a lock of its own; while
//! nobody does it sleeps on the node's bell like any waiter, and moves what there is to move. Who leaves the node with work
//! under way, as the last one, makes sure that the keeper is not out of the way; where there is no keeper, workers are
//! threads, and each moves the node when it has something to say.
//!
//! - **KEEP-1 (takes over).** While work is under way and nobody attends, the keeper does.
//! - **KEEP-2 (out of the way).** While somebody attends, it does not touch the node.

use super::Node;
use super::parts::{Lock, Number, Parts, Std};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

/// Where the keeper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// There is none.
    Nowhere,
    /// It looks after the node, or is about to look who does.
    There,
    /// Asleep on the bell since there was no work, and nobody has told it of any.
    Dozing,
    /// Out of the way.
    Parked,
}

impl Where {
    fn of(number: u64) -> Self {
        let all = [Self::Nowhere, Self::There, Self::Dozing, Self::Parked];
        all.into_iter().find(|place| *place as u64 == number).expect("KEEP-1: it is somewhere")
    }
}

/// What is wanted of a keeper that is out of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    /// It is to look.
    Look,
    /// It is to go, and never to be out of the way again.
    Go,
}

/// What the keeper and those who attend know of each other.
pub(crate) struct Keeper<P: Parts = Std> {
    /// How many attend.
    attendants: P::Number,
    /// [`Where`] it is.
    place: P::Number,
    wish: P::Lock<Wish>,
    wished: <P::Lock<Wish> as Lock<Wish>>::Condition,
}

impl<P: Parts> Keeper<P> {
    pub(super) fn new() -> Self {
        let (attendants, place) = (P::Number::new(0), P::Number::new(Where::Nowhere as u64));
        Self { attendants, place, wish: P::Lock::new(Wish::Nothing), wished: Default::default() }
    }

    /// Says where it is, which only the keeper does; there is one as soon as it is somewhere.
    pub(super) fn be(&self, place: Where) {
        self.place.store(place as u64, Ordering::SeqCst);
    }

    /// Whether somebody attends.
    #[inline]
    pub(super) fn is_attended(&self) -> bool {
        self.attendants.load(Ordering::SeqCst) > 0
    }

    /// One more attends.
    #[inline]
    pub(super) fn arrive(&self) {
        self.attendants.fetch_add(1, Ordering::SeqCst);
    }

    /// One less attends; whether it was the last.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        // SYNC: KEEP-1: gone before the look where the keeper is; pairs with `park`.
        self.attendants.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Gets the keeper to look if it is parked; where it was.
    pub(super) fn call(&self) -> Where {
        let place = Where::of(self.place.load(Ordering::SeqCst));
        if place == Where::Parked {
            self.wish(Wish::Look);
        }
        place
    }

    /// Gets the keeper to go, wherever it is.
    pub(super) fn dismiss(&self) {
        self.wish(Wish::Go);
    }

    fn wish(&self, what: Wish) {
        let mut wish = self.wish.lock();
        if *wish != Wish::Go {
            *wish = what;
        }
        P::Lock::notify(&self.wished);
    }

    /// Gets out of the way until called; at once back if nobody attends any more.
    pub(super) fn park(&self) {
        let mut wish = self.wish.lock();
        // SYNC: KEEP-1: parked before the look at who attends; pairs with `leave`, which looks the other way round.
        self.be(Where::Parked);
        while *wish == Wish::Nothing && self.is_attended() {
            wish = P::Lock::wait(&self.wished, wish);
        }
        if *wish == Wish::Look {
            *wish = Wish::Nothing;
        }
        self.be(Where::There);
    }
}

impl Node {
    /// Wakes whoever looks after the node, the keeper too: something has happened that nobody will ring for again.
    pub(crate) fn alarm(&self) {
        self.announce();
        self.desk.keeper.call();
    }

    /// Starts the thread of the keeper.
    pub(crate) fn start_keeper(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let node = Arc::clone(self);
        let keeper = thread::Builder::new().name("phalanx-keeper".into());
        self.desk.keeper.be(Where::There);
        let spawned = keeper.spawn(move || {
            let sleep = |(until, words): (_, Vec<_>), is_there: &dyn Fn(_) -> bool| {
                node.sleep_until(until, &words, is_there);
            };
            node.desk.keep(|core| node.judge(core), sleep);
        });
        // Nobody relies on one that is not there.
        spawned.inspect_err(|_| self.desk.keeper.be(Where::Nowhere))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn keep_2_the_keeper_is_out_of_the_way_until_it_is_called() {
        let keeper = Keeper::<Std>::new();
        assert_eq!(keeper.call(), Where::Nowhere);
        keeper.be(Where::There);
        // Nobody attends: it does not stay out of the way.
        keeper.park();
        keeper.arrive();
        for _ in 0..200 {
            let is_back = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    keeper.park();
                    is_back.store(true, Ordering::SeqCst);
                });
                while keeper.place.load(Ordering::SeqCst) != Where::Parked as u64 {
                    thread::yield_now();
                }
                assert!(!is_back.load(Ordering::SeqCst), "somebody attends");
                assert_eq!(keeper.call(), Where::Parked);
            });
            assert!(is_back.load(Ordering::SeqCst));
        }
        // Dismissed, it is never out of the way again, whether or not it was when that was said.
        keeper.dismiss();
        keeper.call();
        keeper.park();
        keeper.park();
    }
}
